"""Events that are handled one after the other, and tried again after a back-off where that fails.

The life of each key, such as the id of a container, is the machine
``event-backoff``.  Events of a key are handled in their order: while some
wait, later ones wait behind them.  A wait is a second at first, twice as long
each time that it was in vain, and five minutes at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from fsm.library import load as machine
from fsm.machine.driver import Driver
from fsm.reference.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fsm.machine.driver import Position

E = TypeVar("E")

FIRST: Final = 1.0
LONGEST: Final = 300.0
CHECK: Final = 1.0
"""The first wait, the longest, and how long it is between two looks at the clock, in seconds."""

STOPPED: Final = "stopped"


class HandlerError(Exception):
    """An event could not be handled, and is to be tried again."""


class Backlog(Generic[E]):
    """What is known of one key: its ``events``, the first of which may be at the handler, and ``meanwhile`` what came then.

    ``duration`` is that of its wait, 0 before the first; ``due`` the time at which the wait is over.
    """

    def __init__(self, position: Position) -> None:
        self.position = position
        self.events: deque[E] = deque()
        self.meanwhile: deque[E] = deque()
        self.at_handler = False
        self.duration = 0.0
        self.due = 0.0

    def wait(self, duration: float, now: float) -> None:
        """All events wait for *duration* seconds, those too that came meanwhile."""
        self.events += self.meanwhile
        self.meanwhile.clear()
        self.at_handler = False
        self.duration, self.due = duration, now + duration


class EventMonitor(Generic[E]):
    """Gives events to *handle*, which raises :class:`HandlerError` for those that are to be tried again.

    ``dropped`` are the events that were lost, with their keys: those that
    waited when the monitor was stopped.  For one event loop; :meth:`run` is
    its task there.

    >>> from fsm.reference.clock import TurnedClock
    >>> tried = []
    >>> async def handle(event: str) -> None:
    ...     tried.append((clock.time, event))
    ...     if len(tried) < 3:
    ...         raise HandlerError
    >>> async def exits() -> None:
    ...     await monitor.happened("c1", "exit")
    ...     while monitor.waits("c1"):
    ...         await clock.sleep(1)
    ...         await monitor.tick()
    >>> clock = TurnedClock(hurried=True)
    >>> monitor = EventMonitor(handle, clock)
    >>> asyncio.run(exits())
    >>> tried
    [(0.0, 'exit'), (1.0, 'exit'), (3.0, 'exit')]
    """

    def __init__(self, handle: Callable[[E], Awaitable[None]], clock: Clock | None = None) -> None:
        self.dropped: list[tuple[str, E]] = []
        self._handle = handle
        self._clock = clock or Clock()
        self._keys: dict[str, Backlog[E]] = {}
        self._stopped = False
        self._loop = asyncio.Lock()

    # -- what is seen ------------------------------------------------------

    def shows(self, key: str) -> str:
        """What *key* is at, in the words of the machine."""
        if self._stopped:
            return STOPPED
        kept = self._keys.get(key)
        if kept is None:
            return "idle"
        if kept.at_handler:
            return "retrying" if kept.duration else "handling"
        return {FIRST: "waits-1s", LONGEST: "waits-300s"}.get(kept.duration, "waits-longer")

    def waits(self, key: str) -> float:
        """For how many seconds *key* waits altogether, this time; 0 if it does not."""
        kept = self._keys.get(key)
        return kept.duration if kept and not kept.at_handler else 0.0

    def queue(self, key: str) -> list[E]:
        """The events of *key*, in the order in which they are handled."""
        kept = self._keys.get(key)
        return [*kept.events, *kept.meanwhile] if kept else []

    # -- what happens ------------------------------------------------------

    async def run(self) -> None:
        """Look at the clock every second, until the monitor is stopped."""
        while not self._stopped:
            await self._clock.sleep(CHECK)
            await self.tick()

    async def happened(self, key: str, event: E) -> None:
        """Handle *event* of *key*, or put it behind those that wait; returns when that is done."""
        async with self._loop:
            kept = self._of(key)
            before = kept.position.state
            moved = kept.position.take("event").to != before
            self._keys[key] = kept
            kept.events.append(event)
            if moved:
                await self._try(key, kept)

    def backoff(self, key: str, event: E) -> None:
        """Somebody else could not handle *event*: it waits, behind others of *key* if there are such.

        A monitor that was stopped drops it.
        """
        if self._stopped:
            self._drop(key, event)
            return
        kept = self._of(key)
        kept.position.take("backoff")
        self._keys[key] = kept
        if kept.at_handler:
            kept.meanwhile.append(event)
            return
        kept.events.append(event)
        if not kept.duration:
            kept.wait(FIRST, self._clock.now())

    async def tick(self) -> None:
        """Try again what has waited long enough."""
        async with self._loop:
            for key, kept in list(self._keys.items()):
                if self._stopped:
                    return
                due = self._clock.now() >= kept.due
                kept.position.take("tick", "due" if due else "early")
                if due:
                    await self._try(key, kept)

    def stop(self) -> None:
        """Stop for good; events that wait are dropped, one that is at the handler is let finish."""
        self._stopped = True
        for key, kept in self._keys.items():
            kept.position.take("stop")
            waiting = list(kept.events)[kept.at_handler :]
            self._drop(key, *waiting, *kept.meanwhile)
        self._keys.clear()

    # -- the loop ----------------------------------------------------------

    async def _try(self, key: str, kept: Backlog[E]) -> None:
        """Handle the events of *key* as far as that goes."""
        kept.at_handler = True
        while kept.at_handler:
            event = kept.events[0]
            try:
                await self._handle(event)
            except HandlerError:
                if self._stopped:
                    self._drop(key, event)
                    return
                self._failed(key, kept)
            else:
                if self._stopped:
                    return
                self._handled(key, kept)

    def _handled(self, key: str, kept: Backlog[E]) -> None:
        kept.position.take("handled", "next" if len(kept.events) > 1 else "last")
        kept.events.popleft()
        if kept.events:
            return
        if kept.meanwhile:
            kept.wait(FIRST, self._clock.now())
        else:
            kept.at_handler = False
            del self._keys[key]

    def _failed(self, key: str, kept: Backlog[E]) -> None:
        del key  # of a monitor that loses some
        longer = min(2 * kept.duration, LONGEST) or FIRST
        kept.position.take("failed", "longest" if longer == LONGEST else "longer")
        kept.wait(longer, self._clock.now())

    def _drop(self, key: str, *events: E) -> None:
        self.dropped += [(key, event) for event in events]

    def _of(self, key: str) -> Backlog[E]:
        return self._keys.get(key) or Backlog(_driver().position(STOPPED if self._stopped else ""))


class AsWritten(EventMonitor[E]):
    """The monitor as containerd has it: what others put there while a queue is tried is overwritten when that fails.

    And what failed at first goes behind what others put there meanwhile.
    """

    def _failed(self, key: str, kept: Backlog[E]) -> None:
        if kept.duration:
            self._drop(key, *kept.meanwhile)
            kept.meanwhile.clear()
        else:
            kept.meanwhile.append(kept.events.popleft())
        super()._failed(key, kept)


@cache
def _driver() -> Driver:
    return Driver(machine("event-backoff"))
