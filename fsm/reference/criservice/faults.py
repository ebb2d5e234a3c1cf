"""Parts of a CRI service for tests: a stream that can break, a gate before each phase, a server that cannot be closed."""

from __future__ import annotations

import asyncio

from fsm.reference.criservice.components import Queue, Registration
from fsm.reference.criservice.streaming import StreamingServer
from fsm.reference.criservice.syncer import Watches
from fsm.reference.events.queue import EventQueue


class ProcessExitError(Exception):
    """The process would have exited."""


async def cancel_others() -> None:
    """Cancel all other tasks, and wait for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def empty_queue() -> Queue:
    """A queue of container events that drops what it discards."""
    return Queue(EventQueue(lambda _: None))


async def new_watches() -> Watches:
    """The watches of the event loop that awaits this."""
    return Watches()


class Feed:
    """A stream of events that can break."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, event: str | Exception) -> None:
        """Add *event*, or the error with which the stream breaks."""
        self._events.put_nowait(event)

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> tuple[str, str]:
        event = await self._events.get()
        if isinstance(event, Exception):
            raise event
        return "container", event


class Gate:
    """A gate at which Run waits; ``at`` is the phase before which it does."""

    def __init__(self) -> None:
        self.at = ""
        self._opened = asyncio.Event()

    async def pause(self, phase: str) -> None:
        self.at = phase
        await self._opened.wait()
        self._opened.clear()

    def open(self) -> None:
        """Let Run continue."""
        self.at = ""
        self._opened.set()


class StubbornServer(StreamingServer):
    """A server that cannot be closed while it ``refuses``, once."""

    refuses = False

    def close(self) -> None:
        if self.refuses:
            self.refuses = False
            raise OSError("use of closed network connection")
        super().close()


class ImmediateRegistration(Registration):
    """A registration without plugins, which needs no thread."""

    async def join(self) -> None:
        self._domains.register(self._domain)
        self.nri.start()


class FakeListener:
    """A socket of NRI to which plugins never connect."""

    def close(self) -> None: ...
