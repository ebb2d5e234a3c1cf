"""Parts of a CRI service for tests: a stream that can break, a gate before each phase, a server that cannot be closed."""

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

from fsm.reference.criservice.components import Component, Queue, Registration
from fsm.reference.criservice.streaming import StreamingServer
from fsm.reference.criservice.syncer import Watches
from fsm.reference.events.queue import EventQueue
from fsm.reference.harness import scratch_folder
from fsm.sut import drained


class ProcessExitError(Exception):
    """The process would have exited."""


async def cancel_others() -> None:
    """Cancel all other tasks, and wait for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class ServiceSUT:
    """A SUT with one event loop and one set of watches, since closing those takes the kernel milliseconds."""

    def __init__(self) -> None:
        self._scope = ExitStack()
        self._home = self._scope.enter_context(scratch_folder())
        self._loop = self._scope.enter_context(asyncio.Runner()).get_loop()
        self._loop.run_until_complete(self._open())

    def reset(self) -> None:
        self._loop.run_until_complete(self._end())
        self._loop.run_until_complete(self._begin())

    def close(self) -> None:
        self._loop.run_until_complete(self._end())
        self._scope.close()

    def outputs(self) -> list[str]:
        return drained(self._outputs)

    def _components(self) -> Iterable[Component]:
        """The components that were made since the last reset."""
        raise NotImplementedError

    async def _open(self) -> None:
        self._watches = Watches()
        self._scope.callback(self._watches.close)
        await self._begin()

    async def _begin(self) -> None:
        self._outputs: list[str] = []

    async def _end(self) -> None:
        """Release everything, as at the end of the process."""
        for each in self._components():
            each.release()
        await cancel_others()


def empty_queue() -> Queue:
    """A queue of container events that drops what it discards."""
    return Queue(EventQueue(lambda _: None))


class Feed:
    """A stream of events that can break."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, event: str | Exception) -> None:
        """Add *event*, or the error with which the stream breaks."""
        self._events.put_nowait(event)

    def __aiter__(self) -> Self:
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
