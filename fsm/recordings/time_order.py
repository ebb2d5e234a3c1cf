"""Points in time, put in order while they stream by.

Lines that tell of whole calls stand in the order in which the calls ended; a
call that took long began before what the lines above it tell.  The order of
time is restored within a window: what is older than the newest by
:data:`WINDOW`, or overtaken by :data:`HELD` others, is settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

WINDOW: Final = 600 * 1_000_000_000
"""Nanoseconds; longer than the grace period of any stop in practice."""

HELD: Final = 65_536
"""Points held back at most."""


@dataclass(slots=True, kw_only=True)
class Ordering(Generic[T]):
    """Holds points back until nothing can come before them.

    >>> points = Ordering()
    >>> points.add(5, "reply"), points.add(2, "request"), tuple(points.rest())
    (None, None, ('request', 'reply'))
    """

    _points: list[tuple[int, T]] = field(default_factory=list)
    _latest: int = 0

    def add(self, at: int, point: T) -> None:
        """Take *point*; points of one time keep the order in which they came."""
        self._points.append((at, point))
        self._latest = max(self._latest, at)

    def settled(self) -> Iterator[T]:
        """Points before which nothing will come any more; few calls do any work."""
        if len(self._points) < 2 * HELD:
            return
        self._points.sort(key=itemgetter(0))
        old = sum(1 for at, _ in self._points if at < self._latest - WINDOW)
        count = max(old, len(self._points) - HELD)
        for _, point in self._points[:count]:
            yield point
        del self._points[:count]

    def rest(self) -> Iterator[T]:
        """All that is left."""
        self._points.sort(key=itemgetter(0))
        points, self._points = self._points, []
        for _, point in points:
            yield point
