"""Run columns of observations through a monitor's beliefs with compiled code.

A table maps each belief and kind of observation to the next belief.  It is filled lazily, as in RE2.  If a step is
missing, the monitor takes it.  The step is then added to the table if all it does is lead to another belief.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Codes
from fsm.monitor.assumptions import Assumptions
from fsm.monitor.beliefs import Belief, Beliefs, BeliefStep
from fsm.monitor.entities import ALL, AT_REST, NOBODY, NONE, PLACE, Entities
from fsm.monitor.fresh_ids import FreshIds
from fsm.monitor.running import SKIPPED, SLOWLY, KindRows, StepTable, run
from fsm.trace import LATEST, Batch, Columns, Key, Line, Observation, key

CELLS: Final = 1 << 22
"""Maximum number of table entries.  If a table would be larger, all unused beliefs are forgotten."""


@dataclass(slots=True, kw_only=True)
class BeliefAutomaton:
    """Runs the observations of one monitor's ``entities`` through compiled code.

    Entities of other kinds than those in ``of`` are skipped.  Lines without a file belong to ``file``.
    ``slowly(seen, line)`` lets the monitor process an observation.  Compiled code stops at the first of
    ``assumptions``.  ``leads(kind)`` returns whether such an observation may move an entity or show its state.  The
    monitor must process each observation of an entity in ``kept``.  ``forget`` lets it forget unused beliefs and kinds.
    Compiled code processes an observation that gives one of ``ids`` only if the id is certainly fresh.
    """

    entities: Entities
    beliefs: Beliefs
    ids: FreshIds
    assumptions: Assumptions
    of: Collection[str]
    file: str
    slowly: Callable[[Observation, int | Line], None]
    leads: Callable[[Key], bool]
    kept: Collection[str]
    forget: Callable[[], None]
    _waited: int = CELLS
    _generation: int = field(init=False)
    _known: Sequence[Observation] | None = field(init=False)
    _numbers: list[int] = field(init=False)
    _giving: list[bool] = field(init=False)
    _filled: tuple[int, int] = field(init=False)
    _table: StepTable = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._generation = self.beliefs.generation
        self._known: Sequence[Observation] | None = None
        self._numbers, self._giving = [], []
        self._filled = (0, 0)
        self._table = _table(1, 1)

    def has_room(self) -> bool:
        """Check whether the table has room for all beliefs and kinds.  If not, forget those that are unused.

        That is done only once in a while, because their steps must be found again.
        """
        if _crowded(*self._sizes()) and self._waited >= CELLS:
            self._waited = 0
            self.forget()
        return not _crowded(*self._sizes())

    def _sizes(self) -> tuple[int, int]:
        return len(self.beliefs.listed), len(self.beliefs.kinds)

    def feed(self, batch: Batch, columns: Columns, first: int, *, unseen: Belief) -> int:
        """Process *batch* from row *first* on, and return the number of the first row that was not processed.

        This is the end of the batch unless the monitor has forgotten beliefs.  *unseen* is the belief about an entity
        that has not been seen before.
        """
        if self._generation != self.beliefs.generation:
            self.count()
            self._begin()
        self._translate(columns.kinds)
        entities, kind = self.entities, np.array(columns.kind, np.int32)
        numbers = np.array([*self._numbers, SLOWLY], np.int32)
        rows = KindRows(
            _given(kind, np.int32),
            _given(columns.entity, np.int32),
            numbers,
            self._slots(columns, numbers),
            _given(columns.at, np.int64),
            np.full(len(kind), NONE, np.int32),
        )
        fresh = self._fresh(columns, kind, first)
        at = first
        while True:
            self._fill()
            start, cells = at, np.frombuffer(entities.cells, np.int64)
            at = int(run(rows, at, unseen.number, entities.most, self._table, cells))
            began = (np.flatnonzero(rows.began[start:at] >= 0) + start).tolist()
            entities.lines.update((int(rows.began[row]), Line.of(batch.lines[row], self.file)) for row in began)
            if at == len(kind):
                break
            seen, line, number = batch.observations[at], batch.lines[at], int(columns.kind[at])
            at += 1
            if seen.of not in self.of:
                continue
            self._give(fresh, at - 1)
            if fresh and self.ids.gives(seen) and (later := fresh.pop(seen.entity, None)) is not None:
                kind[later] = NONE
            slot = entities.slots.get(seen.entity, NOBODY)
            before = entities.belief(slot) if entities.cells[slot + PLACE] >= AT_REST else unseen
            self.slowly(seen, line)
            if self.assumptions.number or self._generation != self.beliefs.generation or _crowded(*self._sizes()):
                break
            if seen.entity in self.kept:
                entities.set_apart(seen.entity)
            step = before.next.get(key(seen))
            if step is not None and number >= 0 and seen.phase != "assumed" and _leads_only(before, step):
                self._fill()
                self._table.to[before.number, step.kind] = step.to.number
                self._numbers[number] = numbers[number] = step.kind
        self._give(fresh, at)
        self._waited += at - first
        return at

    def _translate(self, kinds: Sequence[Observation]) -> None:
        if self._known is not kinds:
            self._known, self._numbers, self._giving = kinds, [], []
        for kind in kinds[len(self._numbers) :]:
            self._numbers.append(SLOWLY if kind.of in self.of else SKIPPED)
            self._giving.append(kind.of in self.of and self.ids.gives(kind))

    def _slots(self, columns: Columns, numbers: Codes) -> Codes:
        """Return the slot of each id of *columns*, or ``ALL`` if only skipped observations name it."""
        rows, ids = np.arange(len(columns.ids)), columns.ids
        if SKIPPED in self._numbers:
            mine = columns.kind >= 0
            mine &= numbers[columns.kind] != SKIPPED
            rows = np.flatnonzero(np.bincount(columns.entity[mine], minlength=len(ids)))
            ids = list(map(ids.__getitem__, rows.tolist()))
        slots = np.full(len(columns.ids), ALL, np.int32)
        slots[rows] = self.entities.slots_of(ids)
        for identity in self.kept and ids:
            if identity in self.kept:
                self.entities.set_apart(identity)
        return slots

    def count(self) -> None:
        """Count the steps that compiled code has taken since the last call."""
        taken = self._table.taken
        for belief, kind in np.argwhere(taken).tolist():
            self.beliefs.listed[belief].next[self.beliefs.kinds[kind]].taken += int(taken[belief, kind])
        taken[:] = 0

    def _fresh(self, columns: Columns, kinds: Codes, first: int) -> OrderedDict[str, int]:
        """Map each certainly fresh id to the row, from *first* on, that gives it.

        Other rows that give ids are set to ``NONE`` in *kinds*, so that the monitor processes them.
        """
        giving = np.array([*self._giving, False])
        found: OrderedDict[str, int] = OrderedDict()
        for row in np.flatnonzero(giving[kinds]).tolist() if giving.any() else ():
            identity = columns.ids[columns.entity[row]]
            if row >= first and (self.ids.known(identity) or found.setdefault(identity, row) != row):
                kinds[row] = NONE
        return found

    def _give(self, fresh: OrderedDict[str, int], end: int) -> None:
        while fresh and next(iter(fresh.values())) < end:
            self.ids.give(fresh.popitem(last=False)[0])

    def _fill(self) -> None:
        beliefs, kinds = self._sizes()
        known, seen = self._filled
        if beliefs > len(self._table.rests) or kinds > len(self._table.asks):
            self._table = _widened(self._table, _room(beliefs), _room(kinds))
        for belief in self.beliefs.listed[known:]:
            limit = NONE if belief.limit is None else min(belief.limit * 1_000_000_000, LATEST)
            self._table.rests[belief.number], self._table.timed[belief.number] = belief.rests, belief.timed
            self._table.limits[belief.number] = limit
        for kind in range(seen, kinds):
            what = self.beliefs.kinds[kind]
            self._table.asks[kind], self._table.leads[kind] = what.phase == "request", self.leads(what)
        self._filled = beliefs, kinds


def _leads_only(before: Belief, step: BeliefStep) -> bool:
    """Check whether all that *step* does is to lead to another belief, with one time limit at most."""
    return step.quiet and (step.starts in {(), (0,)} or (not step.starts[1:] and before.limit is None))


def _room(size: int) -> int:
    return 1 << size.bit_length()


def _crowded(beliefs: int, kinds: int) -> bool:
    return _room(beliefs) * _room(kinds) > CELLS


def _table(beliefs: int, kinds: int) -> StepTable:
    return StepTable(
        np.full((beliefs, kinds), NONE, np.int32),
        np.zeros((beliefs, kinds), np.int64),
        np.zeros(beliefs, np.bool_),
        np.zeros(beliefs, np.bool_),
        np.zeros(beliefs, np.int64),
        np.zeros(kinds, np.bool_),
        np.zeros(kinds, np.bool_),
    )


def _widened(table: StepTable, beliefs: int, kinds: int) -> StepTable:
    wider = _table(beliefs, kinds)
    for name in StepTable._fields:
        old = getattr(table, name)
        getattr(wider, name)[tuple(map(slice, old.shape))] = old
    return wider


def _given(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Return a contiguous, read-only view of *array*, so that functions are compiled for a single argument type."""
    given = np.ascontiguousarray(array, kind).view()
    given.flags.writeable = False
    return given
