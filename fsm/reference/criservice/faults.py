"""What the reference CRI service is tested in: a stream that can be broken off, gates, a server that refuses."""

from __future__ import annotations

import asyncio

from fsm.reference.criservice.components import Registration
from fsm.reference.criservice.streaming import StreamingServer


class ProcessExitError(Exception):
    """The process would have exited."""


async def cancelled() -> None:
    """All other tasks are, and have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Feed:
    """A stream of events that can be broken off."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, event: str | Exception) -> None:
        """*event* comes, or is why none does any more."""
        self._events.put_nowait(event)

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> tuple[str, str]:
        event = await self._events.get()
        if isinstance(event, Exception):
            raise event
        return "container", event


class Gates:
    """Where Run waits until it is let on; it sleeps there, too."""

    def __init__(self) -> None:
        self.at = ""
        self._open = asyncio.Event()

    async def pause(self, place: str) -> None:
        """Wait at *place*."""
        self.at = place
        await self._open.wait()
        self._open.clear()

    def let_on(self) -> None:
        """Go on."""
        self.at = ""
        self._open.set()


class ArrangedServer(StreamingServer):
    """One that ``refuses`` to be closed, once."""

    refuses = False

    def shut(self) -> None:
        """Unless it refuses."""
        if self.refuses:
            self.refuses = False
            message = "use of closed network connection"
            raise OSError(message)
        super().shut()


class ArrangedRegistration(Registration):
    """Without plugins it takes no time, and needs no thread."""

    async def join(self) -> None:
        """Register and start."""
        self._domains.register(self._domain)
        self.nri.start()


class Listener:
    """The socket of NRI, at which nobody comes."""

    def close(self) -> None:
        """Nothing."""
