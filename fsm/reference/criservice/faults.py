"""Parts of a CRI service for tests: a stream that can break, a gate before each phase, a server that cannot be closed."""

import asyncio
from collections.abc import Iterable
from functools import cached_property
from typing import Self

from fsm.reference.criservice.components import Component, Registration, StreamingServer
from fsm.reference.criservice.syncer import Watches
from fsm.reference.harness import K, LoopSUT, scratch_folder
from fsm.reference.tasks import cancel_others


class ProcessExitError(Exception):
    """The process would have exited."""


class ServiceSUT(LoopSUT[K]):
    """A SUT made of components, all of which are released at each reset."""

    def reset(self) -> None:
        super().reset()
        self._home = self._scope.enter_context(scratch_folder())
        self._runner.run(self._begin())
        self._scope.callback(lambda: self._runner.run(self._end()))

    @cached_property
    def _watches(self) -> Watches:
        """One set for all tests, since closing it takes the kernel milliseconds."""
        watches = Watches(self._runner.get_loop())
        self._lasting.callback(watches.close)
        return watches

    async def _begin(self) -> None:
        raise NotImplementedError

    def _components(self) -> Iterable[Component]:
        """The components that were made since the last reset."""
        raise NotImplementedError

    async def _end(self) -> None:
        """Release everything, as at the end of the process."""
        for each in self._components():
            each.release()
        await cancel_others()


class Feed:
    """A stream of events that can break."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[str | Exception] = asyncio.Queue()

    def put(self, event: str | Exception) -> None:
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
