"""The event monitor of the CRI service: events of containerd are handled one after the other, and again where that fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from fsm.reference.criservice.components import Component
from fsm.reference.events.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from fsm.reference.clock import Clock


class SubscriptionError(Exception):
    """The stream of events has ended."""


class _Silent:
    """A stream without events."""

    def __aiter__(self) -> _Silent:
        return self

    async def __anext__(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


class EventMonitor(Component):
    """Handles what comes by the stream that *subscribe* gives: events, each with the key of what it is about.

    *handle* raises :class:`~fsm.reference.events.backoff.HandlerError` for what is
    to be tried again.
    """

    def __init__(
        self,
        subscribe: Callable[[], AsyncIterator[tuple[str, str]]],
        handle: Callable[[str], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.backoff: Backoff[str] = Backoff(self._handled, clock)
        self._handle = handle
        self._subscribe = subscribe
        self._stream: AsyncIterator[tuple[str, str]] | None = None
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        """Whether an event is at its handler."""
        return not self._idle.is_set()

    def subscribe(self) -> None:
        """Events are kept from now on, until it is started."""
        self._stream = self._subscribe()

    async def work(self) -> None:
        """Handle events as they come; what waits to be tried again is looked after meanwhile, or only that."""
        stream = self._stream or _Silent()
        ticking = asyncio.create_task(self.backoff.run())
        stopping = asyncio.create_task(self._stopping.wait())
        coming: asyncio.Future[tuple[str, str]] | None = None
        try:
            while not self._stopping.is_set():
                coming = asyncio.ensure_future(stream.__anext__())
                await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
                await self._idle.wait()  # what is tried again is handled in its turn, too
                if coming.done():
                    await self.backoff.handle(*coming.result())
        except StopAsyncIteration:
            message = "the subscription has ended"
            raise SubscriptionError(message) from None
        finally:
            ticking.cancel()
            stopping.cancel()
            if coming is not None:
                coming.cancel()

    def shut(self) -> None:
        """What waits to be tried again is dropped."""
        self._stopping.set()
        self.backoff.stop()

    async def _handled(self, event: str) -> None:
        self._idle.clear()
        try:
            await self._handle(event)
        finally:
            self._idle.set()
