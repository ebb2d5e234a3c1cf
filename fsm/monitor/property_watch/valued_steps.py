"""The steps of a machine with data along recordings and tests, which do not show all values."""

from dataclasses import replace
from functools import cached_property

from fsm.checker.instants import StepCache, machine_table
from fsm.machine.calls.valued import with_data
from fsm.machine.in_progress import in_progress
from fsm.machine.table import Table, tabulate


class ValuedSteps(StepCache):
    """The steps of *table*, which has data, with values that may be unknown.

    If *declared* is true, all values are known and within their ranges, as for the checker.
    """

    def __init__(self, table: Table, *, declared: bool = False) -> None:
        plain = tabulate(replace(table.machine, timers={}))
        super().__init__(replace(plain, data=None))
        self._unguarded = StepCache(replace(plain, data=None))
        self.table = in_progress(plain) if declared else with_data(table)

    @cached_property
    def bare(self) -> tuple[frozenset[int], frozenset[int]]:
        return self._unguarded.bare  # reaching only the possible values would take too long


def steps_of(table: Table) -> StepCache:
    return ValuedSteps(table) if table.data else StepCache(table)


def watched_table(stepping: StepCache) -> Table:
    """Return the table without calls in progress, which beliefs add, but with data."""
    table = stepping.table
    return table if isinstance(table, Table) and isinstance(stepping, ValuedSteps) else machine_table(table)
