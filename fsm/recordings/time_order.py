"""Sort a stream of points by time.

Lines that describe whole calls are in the order in which the calls ended, so a long call began before calls on earlier
lines. Points are sorted within a window. A point is final once it is older than the newest point by :data:`WINDOW`, or
once :data:`HELD` other points follow it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Generic, TypeVar

T = TypeVar("T")

WINDOW: Final = 600 * 1_000_000_000
"""Window in nanoseconds, longer than the grace period of any stop in practice."""

HELD: Final = 65_536
"""Maximum number of points to hold back until it is known what precedes them, or what they mean."""


@dataclass(slots=True, kw_only=True)
class Ordering(Generic[T]):
    """Holds back points until no earlier point can come.

    >>> points = Ordering()
    >>> points.add(5, "reply"), points.add(2, "request"), tuple(points.rest())
    (None, None, ('request', 'reply'))
    """

    final: int = 0
    """Time of the latest point that :meth:`due` has yielded."""
    _points: list[tuple[int, T]] = field(default_factory=list)
    _latest: int = 0
    _earliest: int = 0

    def add(self, at: int, point: T) -> None:
        """Add *point*. Points with equal times keep their order."""
        self._earliest = min(at, self._earliest) if self._points else at
        self._points.append((at, point))
        self._latest = max(self._latest, at)

    def settled(self) -> Iterator[T]:
        """Yield the points that are final. Most calls return immediately without doing any work."""
        if len(self._points) < 2 * HELD:
            return
        self._points.sort(key=itemgetter(0))
        old = sum(1 for at, _ in self._points if at < self._latest - WINDOW)
        count = max(old, len(self._points) - HELD)
        yield from self._first(count)

    def due(self, settle: int, quiet: int) -> Iterator[T]:
        """Yield the points more than *settle* nanoseconds old. The current time is the latest time plus *quiet*.

        >>> points = Ordering()
        >>> points.add(5, "reply"), points.add(2, "request"), tuple(points.due(4, 0)), tuple(points.due(4, 2))
        (None, None, (), ('request',))
        """
        final = self._latest + quiet - settle
        if self._points and (self._earliest < final or len(self._points) >= 2 * HELD):
            self._points.sort(key=itemgetter(0))
            count = max(bisect_left(self._points, final, key=itemgetter(0)), len(self._points) - HELD)
            self.final = max(self.final, self._points[count - 1][0])
            settled = self._first(count)
            self._earliest = self._points[0][0] if self._points else 0
            yield from settled

    def rest(self) -> Iterator[T]:
        self._points.sort(key=itemgetter(0))
        yield from self._first(len(self._points))

    def _first(self, count: int) -> list[T]:
        points, self._points = self._points[:count], self._points[count:]
        return [point for _, point in points]
