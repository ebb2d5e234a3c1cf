"""Relays that pass the events of a node to plugins.

The machines ``nri-pod`` and ``nri-container`` decide which requests are relayed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.nri.lifecycle import RelayedEntities, SendRequest
from fsm.runtimes.reference.nri.messages import NOTHING, Container, Fields, NRIError, Pod, Request


class Relays(RelayedEntities):
    """Relays the events of a node to plugins. It belongs to one event loop.

    If *send* is ``None``, there are no plugins.
    """

    def __init__(self, send: SendRequest | None, release: str) -> None:
        super().__init__(release)
        self._send = send
        self._one_by_one = asyncio.Lock()
        self._changed = asyncio.Event()
        self._blocks = 0
        self._joining = False

    @asynccontextmanager
    async def blocking(self) -> AsyncIterator[None]:
        """Keep plugins from joining within the context. If a plugin is already joining, wait for it first."""
        while self._joining:
            await self._changed.wait()
        self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1
            self._wake()

    @asynccontextmanager
    async def joining(self) -> AsyncIterator[None]:
        """Wait until a plugin may join. Calls that block joining cannot begin within the context."""
        while self._blocks or self._joining:
            await self._changed.wait()
        self._joining = True
        try:
            yield
        finally:
            self._joining = False
            self._wake()

    async def ask(self, event: str, pod: Pod, container: Container | None = None, fields: Fields = NOTHING) -> Fields:
        """Relay *event* to plugins, and return the changes that they request.

        The event happens to *container*, or to *pod* if *container* is ``None``. The changes are adjustments if the
        container is new, and otherwise resources that replace *fields*. Raise
        :class:`~fsm.runtimes.reference.driven.WorldError` if a plugin refuses.
        """
        if self._send is None:
            return {}
        request = Request(event=event, pod=pod, container=container, resources=fields)
        try:
            async with self._one_by_one:
                merged = await self.relay(request, self._send)
        except NRIError as error:
            raise WorldError(str(error)) from error
        if merged is None:
            return {}
        return dict(merged.adjust if event == "create-container" else merged.own or {})

    async def notify(self, event: str, pod: Pod, container: Container | None = None) -> None:
        with suppress(WorldError):
            await self.ask(event, pod, container)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
