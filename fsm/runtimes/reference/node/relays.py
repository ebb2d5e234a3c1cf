"""Relaying of a node's events to plugins, through a :class:`PluginSender`.

The machines ``nri-pod`` and ``nri-container`` decide which requests are relayed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.nri.lifecycle import Relayed, RelayedEntities
from fsm.runtimes.reference.nri.messages import NOTHING, Container, Fields, NRIError, Pod, Request


class PluginSender(Protocol):
    """Sends requests to the plugins whose connections it owns."""

    async def send(self, request: Request) -> Relayed:
        """Send *request* to the plugins that subscribe to it, up to the first error. Return the merged answers."""


class Relays(RelayedEntities):
    """Relays events to the plugins of *sender*, or to nobody if it is ``None``. Belongs to one event loop."""

    def __init__(self, sender: PluginSender | None = None, release: str = "") -> None:
        super().__init__(release)
        self.sender = sender
        self._one_by_one = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._blocks = 0
        self._joining = False
        self._exits = Tasks()

    @asynccontextmanager
    async def blocking(self) -> AsyncIterator[None]:
        """Keep plugins from joining within the context. If a plugin is already joining, wait for it first."""
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
        """Wait until no call blocks joining. Within the context, a plugin may join, and new calls have to wait."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._blocks and not self._joining)
            self._joining = True
        try:
            yield
        finally:
            self._joining = False
            await self._wake()

    async def ask(self, event: str, pod: Pod, container: Container | None = None, fields: Fields = NOTHING) -> Fields:
        """Let *event* happen to *container*, or to *pod* if *container* is ``None``, and relay it to plugins.

        Return what the plugins want for the container, which is adjustments if it is new, and otherwise resources that
        replace *fields*. Raise :class:`~fsm.runtimes.reference.driven.WorldError` if a plugin refuses.
        """
        if self.sender is None:
            return {}
        request = Request(event=event, pod=pod, container=container, resources=fields)
        try:
            async with self._one_by_one:
                merged = await self.relay(request, self.sender.send)
        except NRIError as error:
            raise WorldError(str(error)) from error
        if merged is None:
            return {}
        return dict(merged.adjust if event == "create-container" else merged.own or {})

    async def notify(self, event: str, pod: Pod, container: Container | None = None) -> None:
        with suppress(WorldError):
            await self.ask(event, pod, container)

    def exited(self, pod: Pod, container: Container) -> None:
        """Relay the end of *container* in a separate task, in no fixed order relative to other calls."""
        self._exits.start(self.notify("notify-exit", pod, container))

    def synchronise(self, containers: Iterable[Container]) -> None:
        self.containers.synchronise(containers)

    async def close(self) -> None:
        await self._exits.cancel()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
