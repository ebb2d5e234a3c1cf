"""Clocks, and helpers for the tasks and threads of event loops.

Tests advance a :class:`TurnedClock` by hand, so that they need not sleep.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from inspect import isawaitable
from math import inf
from signal import SIG_BLOCK, SIGPIPE, pthread_sigmask
from threading import Thread
from typing import Any, TypeVar


class Clock:
    """The system's monotonic clock, for threads and for event loops.

    >>> clock, changed = Clock(), threading.Condition()
    >>> with changed:
    ...     clock.wait(changed, lambda: True, until=clock.now()), clock.wait(changed, lambda: False, until=clock.now())
    (True, False)
    """

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        """Block until *ready()* is true or the clock reaches *until*, and return the last result of *ready()*.

        The caller must hold *changed*, which must be notified whenever the result of *ready()* may have changed.
        """
        return changed.wait_for(ready, None if until == inf else max(0.0, until - self.now()))


class TurnedClock(Clock):
    """A clock for tests, which advances only when :meth:`turn` is called.

    If ``hurried`` is true, waiting does not block, but advances the clock to the end of the wait.

    >>> clock, changed = TurnedClock(), threading.Condition()
    >>> clock.turn(2)
    >>> with changed:
    ...     clock.now(), clock.wait(changed, lambda: False, until=2)
    (2.0, False)
    >>> clock.hurried = True
    >>> asyncio.run(clock.sleep(3))
    >>> clock.now()
    5.0
    """

    def __init__(self, *, hurried: bool = False) -> None:
        self.time = 0.0
        self.hurried = hurried
        self._turned = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        if self.hurried:
            self.turn(seconds)
            await asyncio.sleep(0)
        while self.time < until:
            self._turned.clear()
            await self._turned.wait()

    def turn(self, seconds: float) -> None:
        """Advance the clock and wake all sleepers. If tasks may be sleeping, call this on the event loop's thread."""
        self._turned.set()
        with self._lock:
            self.time += seconds
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        if self.hurried and until != inf and not ready():
            self.time = max(self.time, until)
        with self._lock:
            self._waiting.append(changed)
        try:
            changed.wait_for(lambda: ready() or self.time >= until)
            return ready()
        finally:
            with self._lock:
                self._waiting.remove(changed)


T = TypeVar("T")


class Tasks(set[asyncio.Task[Any]]):
    """A set of running tasks.

    >>> async def example() -> int:
    ...     tasks = Tasks()
    ...     first, second = tasks.start(asyncio.sleep(0, 7)), tasks.start(asyncio.sleep(3600))
    ...     result = await first
    ...     await tasks.cancel()
    ...     return result if second.cancelled() else 0
    >>> asyncio.run(example()), len(Tasks())
    (7, 0)
    """

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(coroutine)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def shielded(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine*, which continues even if the caller is cancelled."""
        return await asyncio.shield(self.start(coroutine))

    async def cancel(self) -> None:
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)


class LoopThread:
    """An event loop that runs in its own thread. Other threads can run coroutines on it.

    >>> thread = LoopThread("example")
    >>> thread.run(asyncio.sleep(0, 7))
    7
    >>> thread.close()
    >>> thread.closed
    True
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self.loop.is_closed()

    def _run(self) -> None:
        # Writing to a closed connection must raise an error instead of killing the process with SIGPIPE.
        pthread_sigmask(SIG_BLOCK, {SIGPIPE})
        self.loop.run_forever()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        return self.start(coroutine).result(seconds)

    def close(self) -> None:
        if not self.closed:
            self.run(cancel_others())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


async def cancel_others() -> None:
    await Tasks(asyncio.all_tasks() - {asyncio.current_task()}).cancel()


async def perform(act: Callable[[], object]) -> None:
    """Call *act*, and await the result if it is awaitable.

    >>> asyncio.run(perform(lambda: asyncio.sleep(0)))
    """
    result = act()
    if isawaitable(result):
        await result
