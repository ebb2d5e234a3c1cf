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


class Crashed(NamedTuple):
    """Whether a SUT came to die, what it shows then, what is wrong with that, and what it is after the whole event."""

    died: bool
    shows: str
    fault: str
    whole: Ended


def crashed(
    plan: Plan, sut: Crashing, edge: Edge, step: Stimulus, again: Callable[[], None], whole: Ended | None
) -> Crashed:
    """What becomes of *sut* in the *step* that crashes in the middle of *edge*.

    *again* brings it back to where that begins; *whole* is how the event ends, if that is known.
    """
    if whole is None:
        by_itself, whole, _ = _once(plan, sut, edge, step._replace(point=WHOLE))
        if by_itself:  # the event is to end the process: it is a crash without our help
            return Crashed(died=False, shows=whole.shows, fault="", whole=whole)
        again()
    before, source = _record(sut), edge.source.state
    died, (shows, record), arranged = _once(plan, sut, edge, step)
    allowed = [
        plan.table.shows[state] for state in sorted(_after(plan.table, edge, step.expected[-1] if arranged else ""))
    ]
    unmoved, fault = shows == plan.table.shows[source], ""
    right = [*([before] if unmoved else []), *([whole.record] if shows == whole.shows else [])]
    if shows and shows not in allowed:
        either = " or ".join(dict.fromkeys(allowed))
        fault = f"after a crash it shows {shows}, where a restart may show {either}"
    # Where the restart moved it, what was before cannot be compared with what is now.
    elif unmoved and record not in right and (shows != whole.shows or set(through(edge)) == {source}):
        change = difference(right[0], record)
        fault = f"after a crash its record is neither as before nor as after the event: {change}"
    return Crashed(died, shows, fault, whole)


def _once(plan: Plan, sut: Crashing, edge: Edge, step: Stimulus) -> tuple[bool, Ended, bool]:
    """Die, or not; what is shown then and remembered, and whether the SUT arranges how the restart goes."""
    arranged = False
    if (arrange := arranger(sut)) is not None:
        for number, (outcome, choice) in enumerate(zip(step.expected, edge.choice, strict=False)):
            if choice:
                arrange(step.event, outcome, plan.stage(step, number))
        for row in _interrupting(plan.table):
            arranged |= arrange(plan.table.rows[row].event.name, step.expected[-1], "")
    died = sut.crash(step.event, step.point)
    return died, Ended(sut.shows(), _record(sut)), arranged


def _after(table: Table, edge: Edge, outcome: str) -> set[int]:
    """Where a restart may lead from the states on the way, with the *outcome* that is arranged, if one is."""
    found: set[int] = set()
    for row in _interrupting(table):
        for state in through(edge):
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
