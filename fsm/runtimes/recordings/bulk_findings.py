"""Observations found in log lines read in bulk, as columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.runtimes.recordings.line_forms import ERROR
from fsm.runtimes.recordings.line_templates import Scanned
from fsm.runtimes.recordings.log_entries import entry
from fsm.trace import Batch, Columns, Key, Line, Made, Observation, key

T = TypeVar("T")


class Variants:
    """Numbers recurring observations.

    A kind is an observation without its entity, time and detail, as in :class:`Columns`. A variant is a kind together
    with a time and a detail, or placeholders for them.
    """

    def __init__(self) -> None:
        self.kinds: list[Observation] = []
        self.variants: list[Observation] = []
        self.kind_of: list[int] = []
        self._kinds: dict[tuple[str, Key], int] = {}
        self._variants: dict[tuple[str, Key, object, str], int] = {}

    def number(self, seen: Observation) -> int:
        """Return the variant number of *seen*, ignoring its entity. Add the variant if it is new."""
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
    """Observations found in some lines, as parallel lists of variant numbers, id numbers and rows.

    Variant -1 marks an observation made by the log itself, which is in ``own``. Id number 0 is the empty id. The
    replies among the first ``replied`` observations have already been reported to the log.
    """

    ids: list[str]
    variants: list[int] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    own: dict[int, Observation] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    replied: int = 0

    def number(self, identity: str) -> int:
        """Return the number of *identity*, adding it if it is new."""
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
    """Scanned lines, with the effect, the entity number and the time of each.

    Entity numbers are indices into ``ids``. Each row of ``moments`` has a time in nanoseconds, and its start and end in
    ``text``.
    """

    cut: Scanned
    does: NDArray[np.int8]
    entities: NDArray[np.int32]
    moments: NDArray[np.int64]
    text: str
    ids: list[str]


class _Kept(Made[T]):
    __slots__ = ("_all",)
    _all: list[T]

    def __iter__(self) -> Iterator[T]:
        if not hasattr(self, "_all"):
            self._all = list(super().__iter__())
        return iter(self._all)


def batch_of(said: Variants, scanned: ScannedLines, first: int, file: str, seen: Found) -> Batch:
    """Return the observations *seen* in the *scanned* lines as a batch. *first* is the number of the first line."""
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
    entities = np.array(seen.entities, np.int32)
    timed = np.array([*(each.at is not None for each in all_said), False])
    at = np.where(timed[variants], moments[:, 0], -1)
    columns = Columns(said.kinds, kinds[variants], entities, seen.ids, at)
    return Batch(_Kept(len(variants), observation), Made(len(variants), line), columns)
