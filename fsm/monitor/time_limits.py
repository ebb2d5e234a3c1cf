"""States that are not left in time."""

from typing import NamedTuple

from fsm.machine.calls.configuration import Configurations
from fsm.machine.table import Table
from fsm.monitor.diagnosis import Explained, implied
from fsm.trace import Line
from fsm.verdict import Cause, TimeLimit


class Start(NamedTuple):
    """Since when a time limit runs, in nanoseconds if that is known, and the line where that stands."""

    at: int | None
    line: int | Line


class Late(NamedTuple):
    """What was possible until a time limit of the ``way`` was over, which had run since ``start``; it still is if that is broken."""

    way: int
    start: Start
    configurations: Configurations


def overdue(table: Table, late: Late, place: Line) -> Explained:
    """What is wrong at this *place* if what was seen is explained only by what is *late*."""
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
