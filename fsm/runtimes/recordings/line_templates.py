"""Number the templates of log lines in order of occurrence, and locate the variable parts of each line."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.runtimes.recordings.log_scanner import IDS, LONGEST, MOMENTS, SPANS, scan


class Scanned(NamedTuple):
    """The result of scanning lines: the template, ids and timestamps of each.

    A row of ``ids`` has the numbers of a line's ids, padded with 0. A timestamp is its nanoseconds, its start and its
    end. ``begins`` has the start of each line and, at the end, that of the next line. ``places`` has the start of each
    id, beginning with number 1. ``spans`` has the kind, start and end of each part cut out of the last line. ``known``
    is the number of templates, and ``anew`` is how often they have been renumbered.
    """

    data: bytes
    begins: NDArray[np.int64]
    templates: NDArray[np.int32]
    ids: NDArray[np.int32]
    times: NDArray[np.int64]
    places: list[int]
    spans: NDArray[np.int64]
    known: int
    anew: int

    def line(self, row: int) -> bytes:
        return self.data[self.begins[row] : self.begins[row + 1] - 1]


class Templates:
    """The templates of all lines so far. They are renumbered before there can be more than *most*, a power of two."""

    def __init__(self, most: int) -> None:
        self.most, self._words = most, 64 * most
        self._anew = -1
        self._begin()

    def _begin(self) -> None:
        self._table = np.zeros(4 * self.most, np.uint64)
        self._pool = np.zeros(self._words + LONGEST, np.uint64)
        self._line = np.zeros(LONGEST // 8 + 8, np.uint64)
        self._pool[0] = 2  # the first two words are the number of words in use and the number of templates
        self._anew += 1

    @property
    def count(self) -> int:
        return int(self._pool[1])

    @property
    def full(self) -> bool:
        """Whether room for new templates may soon run out."""
        return 2 * self.count > self.most or 2 * int(self._pool[0]) > self._words

    def scan(self, data: bytes, count: int) -> Scanned:
        """Scan *data*, which consists of *count* lines."""
        if self.full:
            self._begin()
        found = np.zeros((count, 1 + IDS), np.int32)
        times = np.zeros((count, MOMENTS, 3), np.int64)
        places = np.zeros(IDS * count + 1, np.int64)
        places[0] = 1
        known = np.empty((len(places), 4), np.uint64)
        table = np.zeros(2 << len(places).bit_length(), np.int64)
        spans = np.zeros((SPANS, 4), np.int64)
        begins = np.zeros(count + 1, np.int64)
        lines = np.frombuffer(data, np.uint8)
        room = (self._line, self._line.view(np.uint8), np.zeros(4, np.uint64))
        scan(lines, self._table, self._pool, table, known, places, begins, found, times, spans, *room)
        ids = places[1 : int(places[0])].tolist()
        return Scanned(data, begins, found[:, 0], found[:, 1:], times, ids, spans, self.count, self._anew)
