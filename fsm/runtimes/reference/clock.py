"""Clocks: the system clock, and one that advances only when told to, so that tests need not sleep."""

import asyncio
import threading
import time
from collections.abc import Callable


class Clock:
    """The system's monotonic clock, for threads and for event loops.

    >>> clock, changed = Clock(), threading.Condition()
    >>> with changed:
    ...     clock.wait(changed, lambda: True, until=clock.now()), clock.wait(changed, lambda: False, until=clock.now())
    (True, False)
    """

    def now(self) -> float:
        """Return the number of seconds since an arbitrary moment. The value never decreases."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks of the event loop run for *seconds*."""
        await asyncio.sleep(seconds)

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        """Block the thread until *ready()* is true or the time is *until*. Return the last result of *ready()*.

        The caller holds *changed*, which is notified whenever the result of *ready()* may have changed.
        """
        return changed.wait_for(ready, max(0.0, until - self.now()))


class TurnedClock(Clock):
    """A clock that stays at ``time`` until it is turned. If ``hurried``, every wait turns it immediately.

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
        """Let other tasks run until *seconds* have passed. A ``hurried`` clock advances itself immediately."""
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
        for changed in waiting:
            with changed:
                changed.notify_all()

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        if self.hurried and not ready():
            self.time = max(self.time, until)
        with self._lock:
            self._waiting.append(changed)
        try:
            changed.wait_for(lambda: ready() or self.time >= until)
            return ready()
        finally:
            with self._lock:
                self._waiting.remove(changed)
