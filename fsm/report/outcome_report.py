"""The outcomes that a test may arrange: those of events that have several in a state."""

from collections.abc import Collection

from fsm.machine.table import Table
from fsm.report.json_report import dumped


def text(table: Table, events: Collection[str], states: Collection[str]) -> str:
    """A line for each outcome of *events*, with the *states* in which it is one of several."""
    found = _choices(table, events, states).items()
    heads = [f"{stage} {event}={outcome}".strip() for (event, stage, outcome), _ in found]
    width = max(map(len, heads), default=0)
    return "".join(f"{head:<{width}}  in {', '.join(where)}\n" for head, (_, where) in zip(heads, found, strict=True))


def json(table: Table, events: Collection[str], states: Collection[str]) -> str:
    """The same as one JSON document, ending in a newline."""
    return dumped(
        [
            {"event": event, "stage": stage, "outcome": outcome, "states": [*where]}
            for (event, stage, outcome), where in _choices(table, events, states).items()
        ]
    )


def _choices(table: Table, events: Collection[str], states: Collection[str]) -> dict[tuple[str, str, str], list[str]]:
    """The states by event, stage and outcome."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in table.rows:
        stage = "end" if row.ends else "begin" if row.index in table.end else ""
        for number, state in enumerate(table.states):
            ways = table.step(number, row.index) or ()
            for way in ways if row.event.name in events and state in states and len(ways) > 1 else ():
                found.setdefault((row.event.name, stage, way.name), []).append(state)
    return found
