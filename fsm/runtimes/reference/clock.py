"""Clocks: the machine's, and one that stands still until it is turned, so that tests need not sleep."""

import asyncio
import threading
import time
from collections.abc import Callable


class Clock:
    """The clock of this machine, for threads and for event loops.

    >>> clock, changed = Clock(), threading.Condition()
    >>> with changed:
    ...     clock.wait(changed, lambda: True, until=clock.now()), clock.wait(changed, lambda: False, until=clock.now())
    (True, False)
    """

    def now(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks of the event loop run for *seconds*."""
        await asyncio.sleep(seconds)

    def wait(self, changed: threading.Condition, ready: Callable[[], bool], *, until: float) -> bool:
        """Block the thread until *ready* or *until*; whether it is ready.

        *changed* is held, and notified when that may change.
        """
        return changed.wait_for(ready, max(0.0, until - self.now()))


class TurnedClock(Clock):
    """A clock that stands still at ``time`` until it is turned.  With ``hurried``, whatever waits turns it at once.

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
        """Let other tasks run until the clock is turned so far; if it is ``hurried``, turn it and let them run once."""
        until = self.time + seconds
        if self.hurried:
            self.turn(seconds)
            await asyncio.sleep(0)
        while self.time < until:
            self._turned.clear()
            await self._turned.wait()

    def turn(self, seconds: float) -> None:
        """Add *seconds*, on the event loop's thread if tasks may sleep, and wake whatever waits for a time."""
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
