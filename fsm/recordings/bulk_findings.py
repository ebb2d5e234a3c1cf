"""What is found in lines that are read in bulk: kinds of observations, each with an id and a line, as columns and on demand."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.recordings.line_forms import ERROR
from fsm.recordings.line_templates import Scanned
from fsm.recordings.log_entries import entry
from fsm.trace import Batch, Columns, Key, Line, Made, Observation, key

T = TypeVar("T")


class Variants:
    """What is seen again and again: kinds of observations, as :class:`Columns` have them, and what each line adds to them."""

    def __init__(self) -> None:
        self.kinds: list[Observation] = []
        self.variants: list[Observation] = []
        self.kind_of: list[int] = []
        self._kinds: dict[tuple[str, Key], int] = {}
        self._variants: dict[tuple[str, Key, object, str], int] = {}

    def number(self, seen: Observation) -> int:
        """The number of the variant that *seen* is, but for its entity."""
        what = (seen.of, key(seen), seen.at, seen.detail)
        found = self._variants.get(what)
        if found is None:
            found = self._variants[what] = len(self.variants)
            kind = self._kinds.setdefault(what[:2], len(self.kinds))
            if kind == len(self.kinds):
                self.kinds.append(structs.replace(seen, entity="", at=None, detail=""))
            self.variants.append(structs.replace(seen, entity=""))
            self.kind_of.append(kind)
        return found


@dataclass(slots=True)
class Found:
    """What was found in some lines: of each observation its variant, the number of its id, and its line.

    A variant of -1 is an observation as the log made it, which is in ``own``.  The id with the number 0 is empty.
    """

    ids: list[str]
    variants: list[int] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    own: dict[int, Observation] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    replied: int = 0

    def number(self, identity: str) -> int:
        """The number of *identity*, a new one if it is not in these lines."""
        if not self.numbers:
            self.numbers.update(zip(self.ids, range(len(self.ids)), strict=True))
        found = self.numbers.setdefault(identity, len(self.ids))
        if found == len(self.ids):
            self.ids.append(identity)
        return found

    def add(self, variant: int, identity: str, row: int) -> None:
        self.variants.append(variant)
        self.entities.append(self.number(identity))
        self.rows.append(row)


class ScannedLines(NamedTuple):
    """Lines that were ``cut``: of each what it does, of which of the ``ids`` it says something, and its time.

    Of the time there are the nanoseconds, and where it stands in ``text``.
    """

    cut: Scanned
    does: NDArray[np.int8]
    entities: NDArray[np.int32]
    moments: NDArray[np.int64]
    text: str
    ids: list[str]


class _Kept(Made[T]):
    """Items that are kept once all of them were asked for."""

    __slots__ = ("_all",)
    _all: list[T]

    def __iter__(self) -> Iterator[T]:
        if not hasattr(self, "_all"):
            self._all = list(super().__iter__())
        return iter(self._all)


def batch_of(said: Variants, scanned: ScannedLines, first: int, file: str, seen: Found) -> Batch:
    """What was *seen* in the lines that were *scanned*, the first of which has the number *first*."""
    variants, numbers = np.array(seen.variants, np.int64), np.array(seen.rows, np.int64) + first
    moments, all_said = scanned.moments[seen.rows], said.variants

    def observation(index: int) -> Observation:
        what = seen.own.get(index)
        if what is not None:
            return what
        what, at = all_said[seen.variants[index]], None
        if what.at is not None:
            at = scanned.text[moments[index, 1] : moments[index, 2]]
        detail = what.detail
        if detail == ERROR:
            found = entry(scanned.cut.line(seen.rows[index]))
            detail = found.error if found else ""
        return structs.replace(what, entity=seen.ids[seen.entities[index]], at=at, detail=detail)

    def line(index: int) -> int | Line:
        number = int(numbers[index])
        return Line(file, number) if file else number

    kinds = np.array([*said.kind_of, -1], np.int32)
    texts = [each.encode("utf-8", errors="surrogatepass") for each in seen.ids]
    ends = np.cumsum([len(each) for each in texts])
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    entities = np.array(seen.entities, np.int32)
    text = np.frombuffer(b"".join(texts), np.uint8)
    timed = np.array([*(each.at is not None for each in all_said), False])
    at = np.where(timed[variants], moments[:, 0], -1)
    columns = Columns(said.kinds, kinds[variants], entities, text, starts, ends, at)
    return Batch(_Kept(len(variants), observation), Made(len(variants), line), columns)
