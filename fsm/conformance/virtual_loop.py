"""An event loop with a virtual clock.

The loop runs until nothing is ready, and then stops. Its clock advances only as far as a test allows, and only while
no socket, executor job or subprocess is outstanding. While one is, the loop waits in real time. The order of all
callbacks is the same in every run: tasks and futures are numbered, so that even a set of them has a fixed order.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from itertools import count
from time import monotonic
from typing import Any, Final

from fsm.conformance.failure import raised
from fsm.conformance.fake import CALL, Call

SPINS: Final = 10_000  # number of turns without a pause after which a loop counts as spinning
RESOLUTION: Final = 1e-6  # timers that differ by fewer seconds fire together
ENDING: Final = 10  # maximum number of times to cancel the tasks of a loop before it is closed
WAIT: Final = 5.0  # default for the number of seconds to wait in real time for each answer


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **options: Any) -> None:  # noqa: ANN401
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class _Selector(selectors.DefaultSelector):
    """Calls ``idle`` when nothing is ready, and ``turned`` with the time that each turn has waited."""

    def __init__(self, idle: Callable[[float | None], float | None], turned: Callable[[float], None]) -> None:
        super().__init__()
        self._idle, self._turned = idle, turned

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found, waited = super().select(0), 0.0
        if not found and timeout != 0 and (wait := self._idle(timeout)) is not None:
            before = monotonic()
            found = super().select(wait)
            waited = monotonic() - before
        self._turned(waited)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks until nothing is ready. *wait* is the number of seconds to wait in real time for each answer.

    ``faults`` describes what went wrong in callbacks. ``waited`` names what the loop has waited for in real time.

    >>> loop = VirtualLoop()
    >>> task = loop.create_task(asyncio.sleep(3600))
    >>> loop.settle(), task.done(), loop.next_timer()
    (None, False, 3600.0)
    >>> loop.settle(until=3600.0), task.done(), loop.time()
    (None, True, 3600.0)
    >>> loop.close()
    """

    def __init__(self, wait: float = WAIT) -> None:
        self.faults: list[str] = []
        self.waited = ""
        self.tasks: list[asyncio.Task[Any]] = []
        self._numbers = count()
        self._futures: list[asyncio.Future[Any]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._jobs: list[asyncio.Future[Any]] = []
        self._children: list[asyncio.SubprocessTransport] = []
        self._wait, self._now, self._until, self._turns, self._deadline = wait, 0.0, 0.0, 0, 0.0
        self._answered: Callable[[], bool] = lambda: False
        self._waiter = _Selector(self._idle, self._turned)
        super().__init__(self._waiter)
        self.__dict__["_clock_resolution"] = RESOLUTION  # of asyncio: a real clock's would be lost in large times
        self._own = len(self._waiter.get_map())  # the loop's own sockets, through which other threads wake it

    def settle(self, *, until: float | None = None, answered: Callable[[], bool] = lambda: False) -> None:
        """Run until nothing is ready. The clock may advance to *until*, unless *answered* becomes true.

        Wait in real time for whatever is outstanding, but for sockets only while *answered* is false.
        """
        self._until = self._now if until is None else until
        self._turns, self._deadline, self._answered = 0, monotonic() + self._wait, answered
        self.run_forever()
        self.tasks = [each for each in self.tasks if not each.done() or _is_unretrieved(each)]
        self._futures = [each for each in self._futures if not each.done() or _is_unretrieved(each)]
        self._timers = _live(self._timers, self._now)

    def next_timer(self, of: Call | None = None) -> float | None:
        """Return the time of the next timer, or ``None`` if there is none. If *of* is given, only its timers count."""
        timers = self._timers if of is None else of.timers
        timers[:] = _live(timers, self._now)
        return min((each.when() for each in timers), default=None)

    def unretrieved(self) -> list[BaseException]:
        """Return the exceptions that nobody has retrieved."""
        found = [each for each in (*self.tasks, *self._futures) if each.done() and _is_unretrieved(each)]
        return [error for each in found if (error := each.exception()) is not None]

    def outstanding(self, *, sockets: bool = True) -> str:
        """Return what the loop waits for in the real world, or an empty string."""
        if any(not each.done() for each in self._jobs):
            return "a job of an executor"
        if any(each.get_returncode() is None for each in self._children):
            return "a subprocess"
        return "a socket or pipe" if sockets and len(self._waiter.get_map()) > self._own else ""

    def close(self) -> None:
        """End all tasks and subprocesses, and close the loop."""
        if self.is_closed():
            return
        self._wait = 0.0
        for each in self._children:
            each.close()
        for _ in range(ENDING):  # A task may catch its cancellation.
            for task in self.tasks:
                task.cancel()
            self.settle()
            if all(each.done() for each in self.tasks):
                break
        self.create_task(self.shutdown_asyncgens())
        self.settle()
        self.unretrieved()
        super().close()

    def _turned(self, waited: float) -> None:
        self._now += waited  # While the loop waits in real time, the clock follows.
        self._turns = 0 if waited else self._turns + 1
        if self._turns > SPINS:
            self.faults.append(f"the loop spins: something was ready in each of {SPINS:,} turns")
            self.stop()

    def _idle(self, timeout: float | None) -> float | None:
        """Return how long to wait in real time, or ``None`` after advancing the clock or stopping the loop."""
        answered, left = self._answered(), self._deadline - monotonic()
        if left > 0 and (what := self.outstanding(sockets=not answered)):
            self.waited = what
            return left if timeout is None else min(left, timeout)
        when = self.next_timer()
        if when is not None and when <= self._until and not answered and not self.outstanding():
            self._now, self._turns = when, 0
        else:
            self.stop()
        return None

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]  # noqa: ANN401
        handle = super().call_at(when, callback, *args, **options)
        self._timers.append(handle)
        if (call := CALL.get()) is not None:
            call.timers.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        self._futures.append(_Future(next(self._numbers), loop=self))
        return self._futures[-1]

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401
        own = self.get_task_factory() is None
        task = _Task(next(self._numbers), coro, loop=self, **options) if own else super().create_task(coro, **options)
        self.tasks.append(task)
        return task

    def run_in_executor(self, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ANN401
        job: asyncio.Future[Any] = super().run_in_executor(*args)
        self._jobs = [*(each for each in self._jobs if not each.done()), job]
        return job

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return self._keep(await super().subprocess_exec(*args, **options))

    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return self._keep(await super().subprocess_shell(*args, **options))

    def _keep(self, made: tuple[asyncio.SubprocessTransport, Any]) -> tuple[asyncio.SubprocessTransport, Any]:
        self._children.append(made[0])
        return made

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.faults.append(f"a callback {raised(error)}" if error is not None else str(context["message"]))


def _live(timers: list[asyncio.TimerHandle], now: float) -> list[asyncio.TimerHandle]:
    return [each for each in timers if not each.cancelled() and each.when() > now]


def _is_unretrieved(future: asyncio.Future[Any]) -> bool:
    return bool(getattr(future, "_log_traceback", False))  # asyncio sets it until somebody asks for the exception
