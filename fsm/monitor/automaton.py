"""Run columns of observations through a monitor's beliefs with compiled code.

A table maps each belief and kind of observation to the next belief. Like the state table of RE2, it is filled lazily.
The monitor computes each missing step, and adds it to the table if it changes nothing but the belief.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Codes, Number, Numbers, lean, lean_inner
from fsm.monitor.beliefs import Belief, BeliefStep
from fsm.monitor.entities import (
    AFTER,
    ALIVE,
    ALL,
    AT_REST,
    LAST,
    LED,
    MET,
    NEW,
    NOBODY,
    NONE,
    PLACE,
    RESTED,
    RESTING,
    RESTS,
    SINCE,
    TAKEN,
    Entities,
    linked,
    remove_from_list,
)
from fsm.monitor.extra_rules import FreshIds
from fsm.monitor.grouping import Assumptions
from fsm.monitor.stepping import Beliefs
from fsm.trace import LATEST, Batch, Columns, Line, Observation, key

SKIPPED: Final = -1
SLOWLY: Final = -2
"""Marks a row on which compiled code stops, because the monitor must process it or it concerns another machine."""

link: Callable[[Numbers, Number, Number], None] = lean_inner(cast("Any", linked))
unlink: Callable[[Numbers, Number], None] = lean_inner(cast("Any", remove_from_list))


class KindRows(NamedTuple):
    """The columns of a batch, copied so that compiled code always gets arrays of the same types.

    ``numbers`` maps the batch's kinds to the monitor's kinds. Its last item is for rows without a kind. ``slots``
    maps each id to its slot. ``began`` maps each row to the slot of the entity whose time limit starts there, or to -1
    if no time limit starts.
    """

    kind: Codes
    entity: Codes
    numbers: Codes
    slots: Codes
    at: Numbers
    began: Codes


class StepTable(NamedTuple):
    """A table that maps each belief and kind of observation to the next belief, or to -1 if it is not yet known.

    ``taken`` counts how often each step was taken. ``rests`` marks beliefs at rest, and ``timed`` marks beliefs with
    a state that has a time limit. ``limits`` contains each belief's shortest running time limit in nanoseconds, or -1
    if no time limit is running. ``asks`` marks the kinds that are requests. ``leads`` marks the kinds that may move
    entities or show their state.
    """

    to: NDArray[np.int32]
    taken: NDArray[np.int64]
    rests: NDArray[np.bool_]
    timed: NDArray[np.bool_]
    limits: Numbers
    asks: NDArray[np.bool_]
    leads: NDArray[np.bool_]


@lean_inner
def mark_alive(cells: Numbers, slot: Number, belief: Number) -> None:
    if cells[slot + PLACE] == NEW:
        cells[MET] += 1
    else:
        cells[RESTS] -= 1
        unlink(cells, slot)
    link(cells, slot, ALIVE)
    cells[slot] = belief
    cells[slot + LAST] = cells[slot + LED] = cells[slot + SINCE] = NONE
    cells[slot + PLACE] = cells[slot + RESTED] = 0


@lean_inner
def mark_at_rest(cells: Numbers, slot: Number, most: Number) -> None:
    unlink(cells, slot)
    link(cells, slot, RESTING)
    cells[slot + PLACE] = AT_REST
    cells[RESTS] += 1
    while cells[RESTS] > most:
        oldest = cells[RESTING + AFTER]
        unlink(cells, oldest)
        cells[oldest + PLACE] = NEW
        cells[RESTS] -= 1


@lean_inner
def in_time(rows: KindRows, row: Number, slot: Number, to: Number, table: StepTable, cells: Numbers) -> bool:
    if cells[slot + PLACE] < 0 or not (table.timed[cells[slot]] or table.timed[to]):
        return True
    since, now = cells[slot + SINCE], rows.at[row]
    return since < 0 or now < 0 or now - since <= table.limits[cells[slot]]


@lean_inner
def moved(rows: KindRows, row: Number, slot: Number, to: Number, table: StepTable, cells: Numbers) -> None:
    before, cells[slot] = cells[slot], to
    if table.limits[to] < 0:
        cells[slot + SINCE] = NONE
    elif table.limits[before] < 0:
        cells[slot + SINCE], rows.began[row] = rows.at[row], slot


@lean
def run(rows: KindRows, first: Number, unseen: Number, most: Number, table: StepTable, cells: Numbers) -> Number:
    """Process the rows from *first* on, and return the number of the first row that the monitor must process.

    *unseen* is the belief about an entity that has not been seen yet. *most* limits the remembered entities at rest.
    """
    for row in range(first, rows.kind.shape[0]):
        kind = rows.numbers[rows.kind[row]]
        if kind == SKIPPED:
            continue
        if kind < 0:
            return row
        slot = np.int64(rows.slots[rows.entity[row]])
        before = unseen if cells[slot + PLACE] == NEW else cells[slot]
        to = np.int64(table.to[before, kind]) if before >= 0 else NONE
        if to < 0 or not in_time(rows, row, slot, to, table, cells):
            return row
        if cells[slot + PLACE] < 0:
            mark_alive(cells, slot, before)
        cells[TAKEN] += 1
        table.taken[before, kind] += 1
        moved(rows, row, slot, to, table, cells)
        if not table.asks[kind]:
            cells[slot + LAST] = kind
        if table.leads[kind]:
            cells[slot + LED] = kind
        if table.rests[to]:
            mark_at_rest(cells, slot, most)
    return np.int64(rows.kind.shape[0])


CELLS: Final = 1 << 22
"""Maximum number of table entries. Before a table grows beyond it, all unused beliefs are forgotten."""


@dataclass(slots=True, kw_only=True)
class BeliefAutomaton:
    """Runs the observations of one monitor through compiled code.

    Only entities whose kind is in ``of`` are processed. Lines without a file belong to ``file``. ``slowly(seen, line)``
    makes the monitor itself process an observation of an entity in ``kept``, or an observation that assigns an id,
    unless ``ids`` shows that the id is fresh. ``forget()`` makes the monitor drop unused beliefs and kinds. Processing
    ends as soon as ``assumptions`` contains an assumption.
    """

    entities: Entities
    beliefs: Beliefs
    ids: FreshIds
    assumptions: Assumptions
    of: Collection[str]
    file: str
    slowly: Callable[[Observation, int | Line], None]
    kept: Collection[str]
    forget: Callable[[], None]
    _waited: int = CELLS
    _generation: int = -1
    _known: Sequence[Observation] | None = None
    _numbers: list[int] = field(default_factory=list)
    _filled: tuple[int, int] = (0, 0)
    _table: StepTable = field(default_factory=lambda: _table(1, 1))

    def has_room(self) -> bool:
        """Return whether the table can grow. If it cannot, first forget unused beliefs and kinds.

        Forgotten steps must be computed again, so at least :data:`CELLS` rows are processed before this is repeated.
        """
        if self._exceeds_cells() and self._waited >= CELLS:
            self._waited = 0
            self.forget()
        return not self._exceeds_cells()

    def _exceeds_cells(self) -> bool:
        return _capacity(len(self.beliefs.listed)) * _capacity(len(self.beliefs.kinds)) > CELLS

    def feed(self, batch: Batch, columns: Columns, first: int, *, unseen: Belief) -> int:
        """Process *batch* from row *first* on, and return the number of the first row that was not processed.

        Processing stops early if the monitor has made an assumption or dropped unused beliefs, or if the table would
        become too large. *unseen* is the belief about an entity that has not been seen yet.
        """
        if self._generation != self.beliefs.generation:
            self.count()
            self._generation, self._known = self.beliefs.generation, None
            self._filled, self._table = (0, 0), _table(1, 1)
        self._translate(columns.kinds)
        entities, kind = self.entities, np.array(columns.kind, np.int32)
        numbers = np.array([*self._numbers, SLOWLY], np.int32)
        rows = KindRows(
            kind,
            np.array(columns.entity, np.int32),
            numbers,
            self._slots(columns, numbers),
            np.array(columns.at, np.int64),
            np.full(len(kind), NONE, np.int32),
        )
        fresh = self._fresh_rows(columns, kind, first)
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
            if self.assumptions.number or self._generation != self.beliefs.generation or self._exceeds_cells():
                break
            if seen.entity in self.kept:
                entities.set_apart(seen.entity)
            step = before.next.get(key(seen))
            if step is not None and number >= 0 and seen.phase != "assumed" and _only_changes_belief(before, step):
                self._fill()
                self._table.to[before.number, step.kind] = step.to.number
                self._numbers[number] = numbers[number] = step.kind
        self._give(fresh, at)
        self._waited += at - first
        return at

    def _translate(self, kinds: Sequence[Observation]) -> None:
        if self._known is not kinds:
            self._known, self._numbers = kinds, []
        self._numbers += [SLOWLY if kind.of in self.of else SKIPPED for kind in kinds[len(self._numbers) :]]

    def _slots(self, columns: Columns, numbers: Codes) -> Codes:
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
        taken = self._table.taken
        for belief, kind in np.argwhere(taken).tolist():
            self.beliefs.listed[belief].next[self.beliefs.kinds.listed[kind]].taken += int(taken[belief, kind])
        taken[:] = 0

    def _fresh_rows(self, columns: Columns, kinds: Codes, first: int) -> OrderedDict[str, int]:
        """Map each id that is certainly fresh to the row that assigns it, looking only at rows from *first* on.

        Set the kind of every other row that assigns an id to ``NONE``, so that the monitor processes the row.
        """
        found: OrderedDict[str, int] = OrderedDict()
        giving = np.array([*(kind.of in self.of and self.ids.gives(kind) for kind in columns.kinds), False])
        for row in np.flatnonzero(giving[kinds]).tolist() if giving.any() else ():
            identity = columns.ids[columns.entity[row]]
            if row >= first and (identity in self.ids.given or found.setdefault(identity, row) != row):
                kinds[row] = NONE
        return found

    def _give(self, fresh: OrderedDict[str, int], end: int) -> None:
        while fresh and next(iter(fresh.values())) < end:
            self.ids.give(fresh.popitem(last=False)[0])

    def _fill(self) -> None:
        beliefs, kinds = len(self.beliefs.listed), len(self.beliefs.kinds)
        known, seen = self._filled
        if beliefs > len(self._table.rests) or kinds > len(self._table.asks):
            self._table = _widen(self._table, _capacity(beliefs), _capacity(kinds))
        for belief in self.beliefs.listed[known:]:
            limit = NONE if belief.limit is None else min(belief.limit, LATEST)
            self._table.rests[belief.number], self._table.timed[belief.number] = belief.rests, belief.timed
            self._table.limits[belief.number] = limit
        for kind in range(seen, kinds):
            what = self.beliefs.kinds.listed[kind]
            self._table.asks[kind], self._table.leads[kind] = what.phase == "request", self.beliefs.leads(what)
        self._filled = beliefs, kinds


def _only_changes_belief(before: Belief, step: BeliefStep) -> bool:
    return step.quiet and (step.starts in {(), (0,)} or (not step.starts[1:] and before.limit is None))


def _capacity(size: int) -> int:
    return 1 << size.bit_length()


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


def _widen(table: StepTable, beliefs: int, kinds: int) -> StepTable:
    wider = _table(beliefs, kinds)
    pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(wider, table, strict=True)
    for new, old in pairs:
        new[tuple(map(slice, old.shape))] = old
    return wider
