"""The loop of a :class:`~fsm.monitor.automaton.BeliefAutomaton`, as machine code."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Codes, Number, Numbers, lean, lean_inner
from fsm.monitor.entities import (
    AFTER,
    ALIVE,
    AT_REST,
    LAST,
    LED,
    MET,
    NEW,
    NONE,
    PLACE,
    RESTED,
    RESTING,
    RESTS,
    SINCE,
    TAKEN,
    linked,
    unlinked,
)

SKIPPED: Final = -1
SLOWLY: Final = -2
"""Stored instead of the number of a kind: it concerns another machine, or the monitor must process it."""

link: Callable[[Numbers, Number, Number], None] = lean_inner(cast("Any", linked))
unlink: Callable[[Numbers, Number], None] = lean_inner(cast("Any", unlinked))


class KindRows(NamedTuple):
    """The columns of a batch.

    ``numbers`` translates the kinds of the batch to those of the monitor.  Its last item is for rows without a kind.
    ``slots`` has the slot of each id.  ``began`` has the slot of the entity in rows where a time limit starts to run,
    and -1 in all others.
    """

    kind: Codes
    entity: Codes
    numbers: Codes
    slots: Codes
    at: Numbers
    began: Codes


class StepTable(NamedTuple):
    """The next belief for each belief and kind, or -1 if unknown, and the number of times each step was taken.

    ``rests`` marks beliefs at rest.  ``timed`` marks beliefs with a state that has a time limit.  ``limits`` has the
    number of nanoseconds after which the first such state is overdue, or -1 if no time limit is running.  ``asks``
    marks kinds that are requests.  ``leads`` marks kinds that may move entities or show their state.
    """

    to: NDArray[np.int32]
    taken: NDArray[np.int64]
    rests: NDArray[np.bool_]
    timed: NDArray[np.bool_]
    limits: Numbers
    asks: NDArray[np.bool_]
    leads: NDArray[np.bool_]


@lean_inner
def born(cells: Numbers, slot: Number, belief: Number) -> None:
    """Mark the entity in *slot* as alive with *belief*.  It was at rest or new."""
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
def rested(cells: Numbers, slot: Number, most: Number) -> None:
    """Mark the living entity in *slot* as at rest.  Forget the oldest at rest beyond *most*."""
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
    """Check that no time limit of the entity in *slot* is known to have expired by the time of *row*."""
    if cells[slot + PLACE] < 0 or not (table.timed[cells[slot]] or table.timed[to]):
        return True
    since, now = cells[slot + SINCE], rows.at[row]
    return since < 0 or now < 0 or now - since <= table.limits[cells[slot]]


@lean_inner
def moved(rows: KindRows, row: Number, slot: Number, to: Number, table: StepTable, cells: Numbers) -> None:
    """Set the belief about the entity in *slot* to number *to*.  Record the start of a time limit."""
    before, cells[slot] = cells[slot], to
    if table.limits[to] < 0:
        cells[slot + SINCE] = NONE
    elif table.limits[before] < 0:
        cells[slot + SINCE], rows.began[row] = rows.at[row], slot


@lean
def run(rows: KindRows, first: Number, unseen: Number, most: Number, table: StepTable, cells: Numbers) -> Number:
    """Process observations from row *first* on, and return the number of the first row that the monitor must process.

    *unseen* is the belief about an entity that has not been seen yet.  At most *most* entities at rest are remembered.
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
            born(cells, slot, before)
        cells[TAKEN] += 1
        table.taken[before, kind] += 1
        moved(rows, row, slot, to, table, cells)
        if not table.asks[kind]:
            cells[slot + LAST] = kind
        if table.leads[kind]:
            cells[slot + LED] = kind
        if table.rests[to]:
            rested(cells, slot, most)
    return np.int64(rows.kind.shape[0])
