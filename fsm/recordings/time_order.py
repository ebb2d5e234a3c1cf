"""Sort a stream of points by time.

If each line describes a whole call, lines are in the order in which the calls ended, although a call may have begun
before calls on earlier lines. Points are therefore sorted within a window. A point is final once it is :data:`WINDOW`
older than the newest point, or once :data:`HELD` other points follow it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from fsm.trace import Observation

T = TypeVar("T")

WINDOW: Final = 600 * 1_000_000_000
"""Length of the window in nanoseconds. In practice, no stop has a grace period that is longer."""

HELD: Final = 65_536
"""Maximum number of points to hold back while sorting or interpreting them."""


@dataclass(slots=True, kw_only=True)
class Ordering(Generic[T]):
    """Holds back each point until no earlier point can arrive.

    >>> points = Ordering()
    >>> points.add(5, "reply"), points.add(2, "request"), points.rest()
    (None, None, ['request', 'reply'])
    """

    final: int = 0
    _points: list[tuple[int, T]] = field(default_factory=list)
    _latest: int = 0
    _earliest: int = 0

    def add(self, at: int, point: T) -> None:
        """Add *point*. Points with equal times keep their order."""
        self._earliest = min(at, self._earliest) if self._points else at
        self._points.append((at, point))
        self._latest = max(self._latest, at)

    def settled(self) -> list[T]:
        return self._take(self._latest - WINDOW) if len(self._points) >= 2 * HELD else []

    def due(self, settle: int, quiet: int) -> list[T]:
        """Return points older than *settle* nanoseconds, assuming that the latest point is *quiet* nanoseconds old.

        >>> points = Ordering()
        >>> points.add(5, "reply"), points.add(2, "request"), points.due(4, 0), points.due(4, 2)
        (None, None, [], ['request'])
        """
        final = self._latest + quiet - settle
        is_due = self._points and (self._earliest < final or len(self._points) >= 2 * HELD)
        return self._take(final) if is_due else []

    def rest(self) -> list[T]:
        points, self._points = sorted(self._points, key=itemgetter(0)), []
        return [point for _, point in points]

    def _take(self, final: int) -> list[T]:
        self._points.sort(key=itemgetter(0))
        count = max(bisect_left(self._points, final, key=itemgetter(0)), len(self._points) - HELD)
        points, self._points = self._points[:count], self._points[count:]
        self.final = max(self.final, points[-1][0])
        self._earliest = self._points[0][0] if self._points else 0
        return [point for _, point in points]


Assume: TypeAlias = Literal["none", "seen", "maybe"]
"""The rule for assuming restarts that no line shows.

With ``none``, no restarts are assumed. With ``seen``, they are assumed where calls found no runtime to answer them.
With ``maybe``, they are also assumed in every stretch of time that is long enough for a restart.
"""

SHORTEST: Final = 50_000_000
"""Minimum duration of a restart in nanoseconds. Servers have restarted within 72 ms between two answered calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    assume: Assume = "maybe"
    shortest: int = SHORTEST


@dataclass(slots=True, kw_only=True)
class Stretches(Generic[T]):
    """Yields points in chronological order, each with a restart that may have happened right before it, or ``None``.

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
    _held: list[tuple[int, T]] = field(default_factory=list)

    def take(self, at: int, point: T, *, change: int = 0, down: bool = False) -> Iterator[tuple[T, Observation | None]]:
        """Add *point* at time *at*. Yield the points for which it is now known whether to assume a restart.

        *change* is the change in the number of calls in progress that will be answered. *down* is true if a call
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

    def rest(self) -> Iterator[tuple[T, Observation | None]]:
        """Yield the points that were held back. Call this when no more points are expected for now."""
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
