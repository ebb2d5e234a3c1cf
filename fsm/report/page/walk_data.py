"""Walks through a machine: the possible next steps in each state, for a page to look up.

A walk is in a state, with calls in progress.  A call that takes time is in progress from the outcome that begins it to
the one that ends it, and continues by the row of its ends (:mod:`fsm.machine.calls.rules`).
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from fsm.machine import Cell, Moves, Outcome
from fsm.machine.calls.rules import BEGUN, FREE, CallInstant, Rules
from fsm.machine.table import UNSPECIFIED, Table
from fsm.report.json_report import Json

AT_ONCE: Final = 2  # maximum number of calls in progress at once in the walks that lead to a chosen state
UNUSUAL: Final = 8  # cost of a step that interrupts everything or that nobody sees, as a number of usual steps


class Choice(NamedTuple):
    """One way in which an event or a call in progress may continue."""

    key: str  # unique within the cell
    instant: CallInstant
    call: str  # begins, on, ends or unspecified; interrupts: cuts off all calls; empty: the event takes no time

    def data(self, outcome: Outcome | None) -> Json:
        """Return the data for the page, without empty values."""
        way = self.instant.way
        found: dict[str, Json] = {
            "key": self.key,
            "to": self.instant.to,
            "call": self.call,
            "reply": [*way.reply] if way else [],
            "emits": [*self.instant.emits],
            "within": way.within if way else 0,
            "about": outcome.about if outcome else "",
            "deviation": way.deviation.name if way and way.deviation else "",
        }
        return {name: value for name, value in found.items() if name in {"key", "to"} or value}


def choices(rules: Rules, state: int, row: int) -> Iterator[Choice]:
    """Yield what an event, or a call that has begun, may do in *state* according to *row* of the table."""
    table = rules.table
    ends = table.rows[row].ends
    instants = rules.instants(state, row - 1, BEGUN) if ends else rules.instants(state, row)
    known: dict[str, int] = {}
    for instant in instants:
        name = instant.way.name if instant.way else f"{UNSPECIFIED}-{table.states[instant.to]}"
        known[name] = known.get(name, 0) + 1
        key = name if known[name] == 1 else f"{name}.{known[name]}"
        yield Choice(key, instant, _call(rules, instant, row, ends=ends))


def _call(rules: Rules, instant: CallInstant, row: int, *, ends: bool) -> str:
    if rules.interrupts(row):
        return "interrupts"
    if instant.stage == BEGUN:
        return "on" if ends else "begins"
    if instant.stage == FREE and ends:
        return "unspecified"
    return "ends" if ends else ""


def outcome_of(cell: Cell | None, way: int) -> Outcome | None:
    """Return outcome number *way* of *cell*, or ``None`` if the model does not state it."""
    return cell.outcomes[way] if isinstance(cell, Moves) and way < len(cell.outcomes) else None


class _Place(NamedTuple):
    """A place in a walk: the state, and the sorted rows of the calls in progress."""

    state: int
    calls: tuple[int, ...]


def walks(rules: Rules) -> Mapping[str, Json]:
    """Return a short walk to each reachable state.  Each of its steps has the form ``ROW/KEY``.

    No step is unspecified.  A step that is hidden or interrupts everything is avoided if a few usual steps lead to the
    same state.
    """
    table = rules.table
    shortest: dict[int, tuple[str, ...]] = {}
    seen: set[_Place] = set()
    order = count()  # breaks ties between equal costs: first come, first served
    going: list[tuple[int, int, _Place, tuple[str, ...]]] = [(0, next(order), _Place(table.initial, ()), ())]
    while going:
        cost, _, at, steps = heappop(going)
        if at in seen:
            continue
        seen.add(at)
        shortest.setdefault(at.state, steps)
        for row, each in _next(rules, at):
            to = _after(at, row, each)
            if to not in seen and len(to.calls) <= AT_ONCE:
                event = table.rows[row].event
                more = UNUSUAL if event.interrupts or event.kind == "hidden" else 1
                heappush(going, (cost + more, next(order), to, (*steps, f"{table.rows[row].name}/{each.key}")))
    return {table.states[state]: [*steps] for state, steps in shortest.items()}


def _next(rules: Rules, at: _Place) -> Iterator[tuple[int, Choice]]:
    table = rules.table
    own = [row.index for row in table.rows if not row.ends]
    own.sort(key=lambda row: table.rows[row].event.kind != "call")
    for row in (*(row + 1 for row in dict.fromkeys(at.calls)), *own):
        for choice in choices(rules, at.state, row):
            if choice.instant.way is not None:
                yield row, choice


def _after(at: _Place, row: int, taken: Choice) -> _Place:
    calls = [*at.calls]
    match taken.call:
        case "begins":
            calls = sorted([*calls, row])
        case "ends" | "unspecified":
            calls.remove(row - 1)
        case "interrupts":
            calls = []
    return _Place(taken.instant.to, tuple(calls))


def cell_data(table: Table, rules: Rules) -> list[Json]:
    """Return each cell by row and state: kind, clause and ways.  Kind and clause are empty if the table has no cell."""
    found: list[Json] = []
    for row in table.rows:
        for state in range(len(table.states)):
            cell = table.cell(state, row.index)
            ways = [each.data(outcome_of(cell, number)) for number, each in enumerate(choices(rules, state, row.index))]
            found.append(
                {
                    "is": type(cell).__name__.lower() if cell is not None else "",
                    "clause": cell.clause.name if cell is not None else "",
                    "ways": ways,
                }
            )
    return found
