"""The reference back-off under test: one key, a handler that ends when it is let, and a clock that is turned."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final

from fsm.reference.clock import TurnedClock
from fsm.reference.events.backoff import FIRST, MACHINE, Backlog, Backoff, HandlerError
from fsm.reference.events.upstream import UpstreamBackoff
from fsm.reference.harness import LoopSUT
from fsm.sut import UnsupportedError

KEY: Final = "key"
ALMOST: Final = 256.0
"""The delay before the longest."""


class BackoffSUT(LoopSUT[Backoff[int]]):
    """A :class:`~fsm.reference.events.backoff.Backoff` under test."""

    machine = MACHINE
    turns = 8
    kinds = (Backoff[int], UpstreamBackoff[int])

    def reset(self) -> None:
        super().reset()
        self._work: asyncio.Task[None] | None = None
        self._at_handler: asyncio.Future[None] | None = None
        self.clock = TurnedClock(hurried=True)
        self.backoff = self._kind(self._handle, self.clock)
        self._last_event = 0
        self._reported = 0
        self._due = False

    def shows(self) -> str:
        return self.backoff.shows(KEY)

    def outputs(self) -> list[str]:
        """Whether events were dropped, other than by the stop."""
        new = len(self.backoff.dropped) - self._reported
        self._reported += new
        return [] if self.shows() == "stopped" else ["dropped"] * bool(new)

    def arrange(self, event: str, outcome: str) -> bool:
        """Choose when the tick comes; add or remove events, or change the delay, as if more or less had happened before."""
        backlog = self._backlog()
        if backlog is None:
            return False
        if event == "failed" and backlog.incoming and backlog.delay and isinstance(self.backoff, UpstreamBackoff):
            return False  # which of the two losses it is depends on the delay
        match event, outcome:
            case "tick", ("due" | "early"):
                self._due = outcome == "due"
            case "handled", "next" if len(backlog.events) == 1:
                backlog.events.append(self._new())
            case "handled", "last":
                backlog.events = type(backlog.events)([backlog.events[0]])
            case "failed", "longest" if backlog.delay > FIRST:
                backlog.delay = max(backlog.delay, ALMOST)
            case "failed", "longer" if backlog.delay == ALMOST:
                backlog.delay = ALMOST / 2
            case _:
                pass
        return True

    def _actions(self) -> Mapping[str, Callable[[], object]]:
        return {
            "event": lambda: self._begin(self.backoff.handle(KEY, self._new())),
            "tick": self._tick,
            "backoff": lambda: self.backoff.defer(KEY, self._new()),
            "stop": self.backoff.stop,
            "handled": lambda: self._end_handler(None),
            "failed": lambda: self._end_handler(HandlerError()),
        }

    def _new(self) -> int:
        self._last_event += 1
        return self._last_event

    def _backlog(self) -> Backlog[int] | None:
        return self.backoff._keys.get(KEY)  # noqa: SLF001  (to change it)

    def _tick(self) -> None:
        if (backlog := self._backlog()) and self._due:
            self.clock.time = max(self.clock.time, backlog.due)
        self._due = False
        self._begin(self.backoff.tick())

    async def _handle(self, event: int) -> None:
        del event
        self._at_handler = asyncio.get_running_loop().create_future()
        await self._at_handler

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        if self._work is not None:
            work.close()
            raise UnsupportedError("an event is at the handler")
        self._work = asyncio.create_task(work)

    def _end_handler(self, error: HandlerError | None) -> None:
        ended, self._at_handler = self._at_handler, None
        if ended is None:  # after a stop, where the machine is silent
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    async def _settle(self, act: Callable[[], object]) -> None:
        await super()._settle(act)
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            await work
