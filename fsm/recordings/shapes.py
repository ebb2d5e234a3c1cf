"""JsonRows of JSON by their shape, which is all of a line but the id of its entity, its time and its number.

A trace has few shapes and many lines.  What the first line of a shape says is found out as ever, by decoding it; what
another one says differs in what is cut out of it alone.  Compiled code cuts, and looks the shape up, byte by byte.  A line
that is not of a simple form, or has a shape that was not seen, is decoded by itself.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.recordings.scanning import ALONE, AT, CUTS, ENTITY, LINE, UNKNOWN, JsonIds, JsonRows, KnownShapes, scan
from fsm.recordings.trace_lines import TIMES
from fsm.trace import Batch, Columns, Key, Line, Made, Observation, key

SHAPES: Final = 1 << 12
"""LineShapes that are known at once; when there are more, they are found out anew."""

TEXT: Final = 1 << 21
"""Bytes of shapes that are known at once."""

STRANGE: Final = 16
"""JsonRows that are decoded before it is looked whether their shapes are those of the lines that follow."""

_DROPPED: Final = -4
"""In place of a kind: the line is no observation."""


class ShapedLines(NamedTuple):
    """What was found in the lines of a piece: observations, unless one has an interval or no valid time; lines that are none; how many were decoded."""

    batch: Batch | None
    dropped: dict[int, bytes]
    decoded: int


class LineShapes:
    """The shapes of the lines of one trace; ``decode`` gives what one line says, or ``None`` if it is no observation.

    Whether a time that is a number is valid, the number decides, and not the shape, unless any ``numbers`` are.
    """

    def __init__(self, decode: Callable[[bytes], Observation | None], *, numbers: bool = False) -> None:
        self._decode = decode
        self._numeric = numbers
        self._kinds: list[Observation] = []
        self._numbers: dict[tuple[str, Key], int] = {}
        self._forget()

    def _forget(self) -> None:
        self._known = KnownShapes(
            np.zeros(TEXT, np.uint8),
            np.zeros(SHAPES, np.int64),
            np.zeros(SHAPES, np.int64),
            np.zeros(SHAPES, np.uint64),
            np.zeros(SHAPES, np.int32),
            np.zeros(4 * SHAPES, np.int32),
        )
        self._count = self._used = 0

    def found(self, data: bytes, first: int) -> ShapedLines:
        """What is in the lines of *data*, the first of which has the number *first*."""
        text = np.frombuffer(data, np.uint8)
        ends = np.append(np.flatnonzero(text == ord("\n")), len(text))
        size = len(ends)
        lines = JsonRows(
            np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]),
            ends,
            np.empty(size, np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.uint64),
            np.empty((size, CUTS), np.int64),
        )
        ids = JsonIds(
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.uint64),
            np.zeros(1 << (2 * size).bit_length(), np.int32),
        )
        counted, row, decoded = np.zeros(1, np.int64), 0, 0
        while row < size:
            end = int(scan(text, row, STRANGE, lines, ids, self._known, counted))
            for each in row + np.flatnonzero(lines.kind[row:end] < ALONE):
                decoded += 1
                if not self._found_out(data, lines, int(each)):
                    return ShapedLines(None, {}, decoded)
            row = end
        cuts = lines.cuts.reshape(-1, 3)
        times = cuts[cuts[:, 2] == AT, :2]
        quoted = times[text[times[:, 0] - 1] == ord('"')].tolist()
        if TIMES.fullmatch(b"".join(data[start:end] + b"\n" for start, end in quoted)) is None:
            return ShapedLines(None, {}, decoded)
        kept = np.flatnonzero(lines.kind != _DROPPED)
        dropped = {
            first + int(row): data[lines.begins[row] : ends[row]] for row in np.flatnonzero(lines.kind == _DROPPED)
        }
        begins, kind, entity = lines.begins, lines.kind, lines.entity
        if len(kept) < size:
            begins, ends, kind, entity = begins[kept], ends[kept], kind[kept], entity[kept]
        count = int(counted[0])
        columns = Columns(self._kinds, kind, entity, text, ids.starts[:count], ids.ends[:count])
        seen = Made(len(kept), lambda index: self._said(data[begins[index] : ends[index]]))

        def place(index: int) -> int | Line:
            said = seen[index] if placed else None
            return Line(said.file, said.line) if said and said.file else first + int(kept[index])

        placed = b'"file"' in data
        numbers = Made(len(kept), place) if dropped or placed else range(first, first + size)
        return ShapedLines(Batch(seen, numbers, columns), dropped, decoded)

    def _said(self, line: bytes) -> Observation:
        seen = self._decode(line)
        if seen is None:
            raise ValueError(f"{line!r} was an observation")
        return seen

    def _found_out(self, data: bytes, lines: JsonRows, row: int) -> bool:
        """Decode a line, and remember its shape if it is of a simple form; gives whether it has no interval."""
        line = data[lines.begins[row] : lines.ends[row]]
        simple, seen = lines.kind[row] == UNKNOWN, self._decode(line)
        if seen is None:
            lines.kind[row] = _DROPPED
            return True
        if seen.end is not None:
            return False
        cuts = lines.cuts[row]
        cuts[0::3] -= lines.begins[row]
        cuts[1::3] -= lines.begins[row]
        lines.kind[row] = kind = self._kind(seen)
        if simple and (self._numeric or not isinstance(seen.at, int)) and _is_cut(line, cuts, seen):
            self._remember(_shape(line, cuts), lines.shapes[row], kind)
        elif not simple:
            lines.kind[row] = ALONE
        return True

    def _kind(self, seen: Observation) -> int:
        if seen.fields:
            return ALONE
        what = key(seen)
        number = self._numbers.setdefault((seen.of, what), len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(Observation(of=seen.of, **what._asdict()))
        return number

    def _remember(self, shape: bytes, mixed: np.uint64, kind: int) -> None:
        if self._count == SHAPES or self._used + len(shape) > TEXT:
            self._forget()
        if len(shape) > TEXT:
            return
        text, begins, lengths, hashes, kinds, buckets = self._known
        at = int(mixed) & len(buckets) - 1
        while buckets[at]:
            if hashes[buckets[at] - 1] == mixed:
                return  # it was met twice before it was remembered
            at = at + 1 & len(buckets) - 1
        text[self._used : self._used + len(shape)] = np.frombuffer(shape, np.uint8)
        begins[self._count], lengths[self._count] = self._used, len(shape)
        hashes[self._count], kinds[self._count] = mixed, kind
        self._count += 1
        self._used += len(shape)
        buckets[at] = self._count


def _is_cut(line: bytes, cuts: NDArray[np.int64], seen: Observation) -> bool:
    """Whether what was cut out of *line* is what was *seen* in it."""
    found = {of: line[start:end].decode() for start, end, of in cuts.reshape(-1, 3).tolist() if of >= 0}
    same_time = seen.at is None if AT not in found else found[AT] == str(seen.at)
    return found.get(ENTITY, "") == seen.entity and same_time and int(found.get(LINE, 0)) == seen.line


def _shape(line: bytes, cuts: NDArray[np.int64]) -> bytes:
    """What is left of *line*."""
    parts, at = [], 0
    for start, end, of in cuts.reshape(-1, 3).tolist():
        if of >= 0:
            parts.append(line[at:start])
            at = end
    return b"".join([*parts, line[at:]])
