"""Find times at which the runtime may have restarted, in a recording that does not show restarts.

A restart cuts off the calls in progress, so the runtime did not restart during a call that it answered. A stretch
between such calls leaves room for a restart if it is long enough, or if a call in it found no runtime to answer it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from fsm.recordings.time_order import HELD
from fsm.trace import Observation

P = TypeVar("P")

Assume: TypeAlias = Literal["none", "seen", "maybe"]
"""The stretches in which to assume restarts that no line shows.

``none``: in none. ``seen``: where calls found no runtime to answer them. ``maybe``: also in every stretch that is long
enough for a restart.
"""

SHORTEST: Final = 50_000_000
"""Minimum duration of a restart in nanoseconds. Servers have restarted within 72 ms between two answered calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """The stretches in which to assume restarts, and the minimum duration of a restart in nanoseconds."""

    assume: Assume = "maybe"
    shortest: int = SHORTEST


@dataclass(slots=True, kw_only=True)
class Stretches(Generic[P]):
    """Points in order of time, each with the restart that may have happened just before it.

    >>> stretches = Stretches(restarts=Restarts(shortest=100))
    >>> [*stretches.take(1, "asked", change=1), *stretches.take(50, "answered", change=-1)]
    [('asked', None), ('answered', None)]
    >>> ((point, restart),) = stretches.take(200, "asked again", change=1)
    >>> restart.event, restart.start, restart.end
    ('restart', 50, 200)
    """

    restarts: Restarts
    _answered: int = 0
    _since: int | None = None
    _down: bool = False
    _held: list[tuple[int, P]] = field(default_factory=list)

    def take(self, at: int, point: P, *, change: int = 0, down: bool = False) -> Iterator[tuple[P, Observation | None]]:
        """Yield the points that are settled once *point* is reached.

        *change* is the change in the number of calls in progress that will be answered. *down* tells whether a call
        found no runtime.
        """
        self._since = at if self._since is None else self._since
        before, self._answered = self._answered, max(0, self._answered + change)
        if before:
            self._since = at
            yield point, None
            return
        self._down |= down
        self._held.append((at, point))
        if change or len(self._held) > HELD:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[P, Observation | None]]:
        """Yield the points that are held back, because no more points come for now."""
        if not self._held or self._since is None:
            return
        start, end = self._since, self._held[-1][0]
        long = self.restarts.assume == "maybe" and end - start >= self.restarts.shortest
        possible = long or (self._down and self.restarts.assume != "none")
        restart = Observation(event="restart", phase="assumed", at=end, start=start, end=end) if possible else None
        for _, point in self._held:
            yield point, restart
        self._held.clear()
        self._since, self._down = end, False
