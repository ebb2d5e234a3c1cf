"""The (event, state) pairs of a machine that can be exercised.  Coverage is measured against these."""

from fsm.machine.graph import explore
from fsm.machine.table import Table


def reachable_pairs(table: Table) -> tuple[tuple[int, int], ...]:
    """Return the (row, state) pairs in which the event can happen in a reachable state, including silent cells."""
    reached = explore(table).depth
    return tuple((row, state) for row, state in table.defined() if state in reached and table.step(state, row) != ())
