"""Explain violations of time limits: states that were not left in time."""

from typing import NamedTuple

from fsm.machine.calls.configuration import Configurations
from fsm.machine.findings import Cause, TimeLimit
from fsm.machine.table import Table
from fsm.monitor.diagnosis import Explained, implied
from fsm.trace import Line


class Start(NamedTuple):
    """The start of a time limit: its time in nanoseconds, or ``None`` if unknown, and its line."""

    at: int | None
    line: int | Line


class Late(NamedTuple):
    """Configurations that are possible only if the time limit of ``way``, which began at ``start``, was broken."""

    way: int
    start: Start
    configurations: Configurations


def overdue(table: Table, late: Late, place: Line) -> Explained:
    """Explain the time limit that is broken because only *late* explains the observation at *place*."""
    way, start, left = late
    row, origin = table.origin[way]
    cell, state, line = table.cell(origin, row), table.states[table.ways[way].to], start.line
    return Explained(
        cause=Cause.TIME,
        illegal=state,
        before=(state,),
        clause=cell.clause if cell else implied(table),
        after=frozenset(each._replace(due=None) for each in left),
        limit=TimeLimit(
            event=table.rows[row].event.name,
            within=table.ways[way].within,
            at=start.at or 0,
            line=line if isinstance(line, Line) else Line(place.file, line),
        ),
    )
