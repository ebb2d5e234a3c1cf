"""The outcomes that a test may arrange: those of events that have several in a state."""

from collections.abc import Collection
from typing import NamedTuple

from fsm.machine.table import Table
from fsm.report.json_report import dumped


class Choice(NamedTuple):
    """An outcome of an event, or of a ``stage`` of it, where it is one of several."""

    event: str
    stage: str
    outcome: str


def text(table: Table, events: Collection[str], states: Collection[str]) -> str:
    """A line for each outcome of *events*, with the *states* in which it is one of several."""
    found = _choices(table, events, states)
    heads = {each: f"{each.stage} {each.event}={each.outcome}".strip() for each in found}
    width = max(map(len, heads.values()), default=0)
    return "".join(f"{heads[each]:<{width}}  in {', '.join(where)}\n" for each, where in found.items())


def json(table: Table, events: Collection[str], states: Collection[str]) -> str:
    """The same as one JSON document, ending in a newline."""
    found = _choices(table, events, states)
    return dumped([{**each._asdict(), "states": [*where]} for each, where in found.items()])


def _choices(table: Table, events: Collection[str], states: Collection[str]) -> dict[Choice, list[str]]:
    found: dict[Choice, list[str]] = {}
    for row in table.rows:
        stage = "end" if row.ends else "begin" if row.index in table.end else ""
        for number, state in enumerate(table.states):
            ways = table.step(number, row.index) or ()
            if row.event.name in events and state in states and len(ways) > 1:
                for way in ways:
                    found.setdefault(Choice(row.event.name, stage, way.name), []).append(state)
    return found
