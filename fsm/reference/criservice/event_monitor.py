"""The event monitor of the CRI service: containerd's events, handled one after the other and retried when that fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from fsm.reference.clock import Clock
from fsm.reference.criservice.components import Component
from fsm.reference.events.backoff import Backoff


class SubscriptionError(Exception):
    """The stream of events has ended."""


class EventMonitor(Component):
    """Handles the events of the stream that *subscribe* returns, each with the key of its object.

    *handler* raises :class:`~fsm.reference.events.backoff.HandlerError` for those to be retried.
    """

    def __init__(
        self,
        subscribe: Callable[[], AsyncIterator[tuple[str, str]]],
        handler: Callable[[str], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.backoff: Backoff[str] = Backoff(self._handle, clock)
        self._handler = handler
        self._subscribe = subscribe
        self._stream: AsyncIterator[tuple[str, str]] | None = None
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    def subscribe(self) -> None:
        """Subscribe; events wait in the stream until the monitor is started."""
        self._stream = self._subscribe()

    async def work(self) -> None:
        """Handle events as they arrive, and retry deferred ones; only those if it has not subscribed."""
        ticking = asyncio.create_task(self.backoff.run())
        stopping = asyncio.create_task(self._stopping.wait())
        coming: asyncio.Future[tuple[str, str]] | None = None
        try:
            while not self._stopping.is_set():
                coming = asyncio.ensure_future(self._next())
                await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
                await self._idle.wait()  # a retry is at the handler
                if coming.done():
                    await self.backoff.handle(*coming.result())
        except StopAsyncIteration:
            raise SubscriptionError("the subscription has ended") from None
        finally:
            ticking.cancel()
            stopping.cancel()
            if coming is not None:
                coming.cancel()

    def close(self) -> None:
        self._stopping.set()
        self.backoff.stop()

    async def _next(self) -> tuple[str, str]:
        while self._stream is None:
            await asyncio.Event().wait()
        return await anext(self._stream)

    async def _handle(self, event: str) -> None:
        self._idle.clear()
        try:
            await self._handler(event)
        finally:
            self._idle.set()
