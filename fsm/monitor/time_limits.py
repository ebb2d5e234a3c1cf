"""States that are not left in time."""

from typing import NamedTuple

from fsm.machine.calls.configuration import Configurations
from fsm.machine.findings import Cause, TimeLimit
from fsm.machine.table import Table
from fsm.monitor.diagnosis import Explained, implied
from fsm.trace import Line


class Start(NamedTuple):
    """The start of a time limit: its time in nanoseconds, if known, and its line."""

    at: int | None
    line: int | Line


class Late(NamedTuple):
    """Configurations that are possible only if the time limit of ``way``, which began at ``start``, was broken."""

    way: int
    start: Start
    configurations: Configurations


def overdue(table: Table, late: Late, place: Line) -> Explained:
    """Return the explanation of a broken time limit at *place*, if only *late* explains the observation."""
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
