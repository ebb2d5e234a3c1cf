"""What a SUT shows and remembers after it has died in the middle of an event.

The event has then happened or not: the SUT shows what a restart of the machine may show from one of the states on the
way, and remembers what it did before, or what it would have after all of it.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final, NamedTuple

from fsm.conformance.plan import IDLE, Edge, Plan
from fsm.conformance.record_laws import difference
from fsm.machine.table import Table
from fsm.sut import SUT, Crashing, Remembering, Stimulus, arranger

WHOLE: Final = 1_000_000
"""No event has so many effects."""


def crashes(plan: Plan) -> Iterator[tuple[Edge, Stimulus]]:
    """Every edge in the middle of which a SUT may die, with each way for the restart to go."""
    rows = _interrupting(plan.table)
    for edge in plan.edges:
        if edge.step.stage != "do" or edge.source.call != IDLE or edge.cells[0][0] in rows:
            continue
        ways = [way for row in rows for state in through(edge) for way in plan.table.step(state, row) or ()]
        for name in dict.fromkeys(way.name for way in ways):
            yield edge, Stimulus(edge.step.event, "crash", (*(way.name for way in edge.ways), name))


def crashed_edge(edges: tuple[Edge, ...], step: Stimulus) -> Edge | None:
    """The edge among *edges* in the middle of which *step* crashes."""
    known = [each for each in edges if each.step.event == step.event and each.step.stage == "do"]
    return next((each for each in known if tuple(way.name for way in each.ways) == step.expected[:-1]), None)


class Ended(NamedTuple):
    """What a SUT shows and remembers."""

    shows: str
    record: Any


def crashed(
    plan: Plan, sut: Crashing, edge: Edge, step: Stimulus, again: Callable[[], None], whole: Ended | None
) -> tuple[bool, str, str, Ended]:
    """Whether *sut* comes to die in the *step*, what it shows then, what is wrong with that, and how the event ends.

    The step crashes in the middle of *edge*; *again* brings the SUT back to where that begins.  *whole* is how the
    event ends, if that is known.
    """
    if whole is None:
        by_itself, whole, *_ = _once(plan, sut, edge, step._replace(point=WHOLE))
        if by_itself:  # the event is to end the process: it is a crash without our help
            return False, whole.shows, "", whole
        again()
    before, source = _record(sut), edge.source.state
    died, (shows, record), goes, restarts = _once(plan, sut, edge, step)
    edges = (edge,) if goes else plan.alternatives(edge.source, step.event, "do")
    way = {state for each in edges for state in through(each)}
    after = _after(plan.table, way, step.expected[-1] if restarts else "")
    allowed = [plan.table.shows[state] for state in sorted(after)]
    unmoved, fault = shows == plan.table.shows[source], ""
    right = [*([before] if unmoved else []), *([whole.record] if shows == whole.shows else [])]
    if shows and shows not in allowed:
        either = " or ".join(dict.fromkeys(allowed))
        fault = f"after a crash it shows {shows}, where a restart may show {either}"
    # Where the restart moved it, what was before cannot be compared with what is now.
    elif unmoved and record not in right and (shows != whole.shows or way == {source}):
        change = difference(right[0], record)
        fault = f"after a crash its record is neither as before nor as after the event: {change}"
    return died, shows, fault, whole


def _once(plan: Plan, sut: Crashing, edge: Edge, step: Stimulus) -> tuple[bool, Ended, bool, bool]:
    """Die, or not; what is shown then and remembered; whether the SUT arranges how the event and the restart go."""
    goes, restarts = not any(edge.choice), False
    if (arrange := arranger(sut)) is not None:
        goes = True
        for number, (outcome, choice) in enumerate(zip(step.expected, edge.choice, strict=False)):
            goes &= not choice or arrange(step.event, outcome, plan.stage(step, number))
        for row in _interrupting(plan.table):
            restarts |= arrange(plan.table.rows[row].event.name, step.expected[-1], "")
    died = sut.crash(step.event, step.point)
    return died, Ended(sut.shows(), _record(sut)), goes, restarts


def _after(table: Table, way: set[int], outcome: str) -> set[int]:
    """Where a restart may lead from the states on the *way*, with the *outcome* that is arranged, if one is."""
    found: set[int] = set()
    for row in _interrupting(table):
        for state in way:
            ways = table.step(state, row)
            if ways is None:
                return set(range(len(table.states)))
            found |= {way.to for way in [way for way in ways if way.name == outcome] or ways}
    return found


def through(edge: Edge) -> list[int]:
    """The states through which *edge* leads."""
    return list(dict.fromkeys([*(state for _, state in edge.cells), *(way.to for way in edge.ways)]))


def _interrupting(table: Table) -> list[int]:
    return [row.index for row in table.rows if row.event.interrupts and not row.ends]


def _record(sut: SUT) -> Any:  # noqa: ANN401  (records are anything)
    return deepcopy(sut.record()) if isinstance(sut, Remembering) else None
