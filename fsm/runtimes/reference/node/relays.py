"""What plugins are told of a node: the machines ``nri-pod`` and ``nri-container`` decide it, a sender tells them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.nri.lifecycle import EntityStates
from fsm.runtimes.reference.nri.messages import Container, Fields, Pod, Request
from fsm.runtimes.reference.nri.nri_errors import NRIError
from fsm.runtimes.reference.nri.plugins import Relayed, relay_outcome
from fsm.runtimes.reference.tasks import Tasks


class PluginSender(Protocol):
    """Whoever has the connections to plugins."""

    async def send(self, request: Request) -> Relayed:
        """Send *request* to all plugins that have subscribed to it, up to the first error; what they want."""


class Relays:
    """Tells the plugins of *sender* what happens, on one event loop; nobody if there is none.

    *release* is that of the machines, empty for the newest.  ``pods`` and ``containers`` are what it remembers of each.
    """

    def __init__(self, sender: PluginSender | None = None, release: str = "") -> None:
        self.sender = sender
        self.release = release
        self.pods = EntityStates("nri-pod", release)
        self.containers = EntityStates("nri-container", release)
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._blocks = 0
        self._joining = False
        self._exits = Tasks()

    @asynccontextmanager
    async def blocking(self) -> AsyncIterator[None]:
        """Keep plugins from joining meanwhile; waits for one that is joining."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._joining)
            self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1
            self._exits.start(self._wake())

    @asynccontextmanager
    async def joining(self) -> AsyncIterator[None]:
        """Wait until nothing blocks, and keep calls waiting while a plugin joins."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._blocks and not self._joining)
            self._joining = True
        try:
            yield
        finally:
            self._joining = False
            await self._wake()

    async def tell(
        self, event: str, pod: Pod, container: Container | None = None, fields: Fields | None = None
    ) -> Fields:
        """Let *event* of one of the machines happen; raises :class:`~fsm.runtimes.reference.driven.WorldError` if a plugin refuses.

        What plugins want of the container that it is about: its adjustment, or other resources than *fields*.
        """
        if self.sender is None:
            return {}
        entities, entity = (self.containers, container.id) if container else (self.pods, pod.id)
        request = Request(event=event, pod=pod, container=container, resources=fields or {})
        async with self._one_at_a_time:
            ways = entities.outcomes(entity, event)
            outputs = max((way.emits for way in ways), key=len, default=())  # other ways end where a plugin is lost
            relayed = [await self.sender.send(replace(request, event=name)) for name in outputs]
            way = entities.take(entity, event, relay_outcome(ways, outputs, relayed))
        if way.reply and "ok" not in way.reply:
            error = relayed[-1].error if relayed else None
            raise WorldError(str(error or NRIError(f"{event}: {way.about}", code=way.reply[0])))
        if not relayed:
            return {}
        merged = relayed[-1].merged
        return dict(merged.adjust if event == "create-container" else merged.own or {})

    async def mention(self, event: str, pod: Pod, container: Container | None = None) -> None:
        """Let *event* happen; that a plugin refuses has no effect."""
        try:
            await self.tell(event, pod, container)
        except WorldError:
            return

    def exited(self, pod: Pod, container: Container) -> None:
        """The process of *container* has ended: that is relayed by itself, in no order with other calls."""
        self._exits.start(self.mention("notify-exit", pod, container))

    def synchronise(self, containers: Iterable[Container]) -> None:
        """A plugin that joins is told of *containers*: what is remembered of them is what is listed."""
        self.containers.synchronise(containers)

    async def close(self) -> None:
        await self._exits.cancel()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
