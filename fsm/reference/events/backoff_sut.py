"""The reference back-off under test: one key, a handler that waits to be told how it ends, and a clock that is turned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fsm.machine.driver import NoWayError
from fsm.reference.clock import TurnedClock
from fsm.reference.events.backoff import FIRST, AsWritten, EventMonitor, HandlerError
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Coroutine

KEY: Final = "key"
ALMOST: Final = 256.0
"""The wait before the longest."""


class BackoffSUT:
    """An :class:`~fsm.reference.events.backoff.EventMonitor` under test; of another *kind* for those who try what is noticed.

    >>> sut = BackoffSUT()
    >>> [sut.do(event) for event in ("event", "failed", "event")], sut.shows()
    (['', '', ''], 'waits-1s')
    >>> sut.arrange("tick", "due"), sut.do("tick"), sut.shows()
    (True, '', 'retrying')
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[EventMonitor[int]] | None = None) -> None:
        self._kind = kind or (AsWritten if profile == "as-written" else EventMonitor)
        self._runner = asyncio.Runner()
        self._ended: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self.reset()

    def reset(self) -> None:
        """A new monitor, and a clock at zero."""
        self._rest()
        self.clock = TurnedClock(hurried=True)
        self.monitor = self._kind(self._handle, self.clock)
        self._next = 0
        self._told = 0
        self._due = False

    def close(self) -> None:
        """Nothing is left of the event loop."""
        self._rest()
        self._runner.close()

    def shows(self) -> str:
        """What is to be seen of the key."""
        return self.monitor.shows(KEY)

    def outputs(self) -> list[str]:
        """The events that were dropped by a monitor that runs."""
        new = len(self.monitor.dropped) - self._told
        self._told += new
        return [] if self.shows() == "stopped" else ["dropped"] * bool(new)

    def arrange(self, event: str, outcome: str) -> bool:
        """When a tick is to come, how many events there are to be, or how long the wait is to have been."""
        kept = self.monitor._keys.get(KEY)  # noqa: SLF001  (as if there had been more before, or less)
        if kept is None:
            return False
        if event == "failed" and kept.meanwhile and kept.duration and isinstance(self.monitor, AsWritten):
            return False  # which of them is lost has one name
        match event, outcome:
            case "tick", ("due" | "early"):
                self._due = outcome == "due"
            case "handled", "next" if len(kept.events) == 1:
                kept.events.append(self._new())
            case "handled", "last":
                kept.events = type(kept.events)([kept.events[0]])
            case "failed", "longest" if kept.duration > FIRST:
                kept.duration = max(kept.duration, ALMOST)
            case "failed", "longer" if kept.duration == ALMOST:
                kept.duration = ALMOST / 2
            case _:
                pass
        return True

    def do(self, event: str) -> str:
        """*event*, by which the loop comes as far as it can."""
        try:
            self._happens(event)
            self._runner.run(self._settle())
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        return "ok" if event in {"backoff", "stop"} else ""

    def _happens(self, event: str) -> None:
        match event:
            case "event":
                self._begin(self.monitor.happened(KEY, self._new()))
            case "tick":
                self._turn()
                self._begin(self.monitor.tick())
            case "backoff":
                self.monitor.backoff(KEY, self._new())
            case "stop":
                self.monitor.stop()
            case _:
                self._end(event)

    def _new(self) -> int:
        """An event that was never before."""
        self._next += 1
        return self._next

    def _turn(self) -> None:
        kept = self.monitor._keys.get(KEY)  # noqa: SLF001
        if kept and self._due:
            self.clock.time = max(self.clock.time, kept.due)
        self._due = False

    # -- the loop ----------------------------------------------------------

    async def _handle(self, event: int) -> None:
        del event
        self._ended = asyncio.get_running_loop().create_future()
        await self._ended

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        if self._work is not None:
            work.close()
            message = "the loop is at work"
            raise UnsupportedError(message)
        self._work = self._runner.get_loop().create_task(work)

    def _end(self, event: str) -> None:
        if self._ended is None:  # as after a stop, where nothing is said of it
            return
        ended, self._ended = self._ended, None
        if event == "handled":
            ended.set_result(None)
        else:
            ended.set_exception(HandlerError())

    async def _settle(self) -> None:
        """Let the loop run until it waits for somebody."""
        for _ in range(8):
            await asyncio.sleep(0)
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            await work

    def _rest(self) -> None:
        work, self._work, self._ended = self._work, None, None
        if work is not None:
            work.cancel()
            self._runner.run(asyncio.wait([work]))
