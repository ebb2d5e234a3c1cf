"""The (event, state) pairs of a machine that can be exercised: every count of coverage is a share of these."""

from fsm.machine.graph import explore
from fsm.machine.table import Table


def reachable_pairs(table: Table) -> tuple[tuple[int, int], ...]:
    """Return the (row, state) pairs of reachable states where the event can happen, silent cells included, in order."""
    reached = explore(table).depth
    return tuple((row, state) for row, state in table.defined() if state in reached and table.step(state, row) != ())
