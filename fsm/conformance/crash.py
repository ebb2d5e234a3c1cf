"""What a SUT shows and remembers after it has died in the middle of an event.

The event has then happened or not: the SUT shows what a restart of the machine may show from one of the states on the
way, and remembers what it did before, or what it would have after all of it.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashedEvent:
    """One event of *sut* that dies; *again* brings it back to where that begins; ``whole`` is how it ends, if known."""

    plan: Plan
    sut: SUT
    dying: Crashing
    edge: Edge
    step: Stimulus
    again: Callable[[], None]
    whole: Ended | None = None

    def died(self) -> Crashed:
        ended = self.whole
        if ended is None:
            by_itself, ended, _ = self._once(WHOLE)
            if by_itself:  # the event is to end the process: it is a crash without our help
                return Crashed(died=False, shows=ended.shows, fault="", whole=ended)
            self.again()
        last, whole = ended
        before = _record(self.sut)
        died, (shows, record), arranged = self._once(self.step.point)
        allowed = [self.plan.table.shows[state] for state in sorted(self._after(arranged=arranged))]
        if shows and shows not in allowed:
            either = " or ".join(dict.fromkeys(allowed))
            fault = f"after a crash it shows {shows}, where a restart may show {either}"
            return Crashed(died, shows, fault, ended)
        source = self.edge.source.state
        unmoved = shows == self.plan.table.shows[source]
        right = [*([before] if unmoved else []), *([whole] if shows == last else [])]
        # Where the restart moved it, what was before cannot be compared with what is now.
        if unmoved and record not in right and (shows != last or set(through(self.edge)) == {source}):
            change = difference(right[0], record)
            fault = f"after a crash its record is neither as before nor as after the event: {change}"
            return Crashed(died, shows, fault, ended)
        return Crashed(died, shows, "", ended)

    def _once(self, point: int) -> tuple[bool, Ended, bool]:
        """Die, or not; what is shown then and remembered, and whether the SUT arranges how the restart goes."""
        arranged = False
        if (arrange := arranger(self.sut)) is not None:
            for number, (outcome, choice) in enumerate(zip(self.step.expected, self.edge.choice, strict=False)):
                if choice:
                    arrange(self.step.event, outcome, self.plan.stage(self.step, number))
            for row in _interrupting(self.plan.table):
                arranged |= arrange(self.plan.table.rows[row].event.name, self.step.expected[-1], "")
        died = self.dying.crash(self.step.event, point)
        return died, Ended(self.sut.shows(), _record(self.sut)), arranged

    def _after(self, *, arranged: bool) -> set[int]:
        """Where a restart may lead from the states on the way, if it goes as is expected, where that is *arranged*."""
        table = self.plan.table
        found: set[int] = set()
        for row in _interrupting(table):
            for state in through(self.edge):
                ways = table.step(state, row)
                if ways is None:
                    return set(range(len(table.states)))
                expected = [way for way in ways if arranged and way.name == self.step.expected[-1]]
                found |= {way.to for way in expected or ways}
        return found


def through(edge: Edge) -> list[int]:
    """The states through which *edge* leads."""
    return list(dict.fromkeys([*(state for _, state in edge.cells), *(way.to for way in edge.ways)]))


def _interrupting(table: Table) -> list[int]:
    return [row.index for row in table.rows if row.event.interrupts and not row.ends]


def _record(sut: SUT) -> Any:  # noqa: ANN401  (records are anything)
    return deepcopy(sut.record()) if isinstance(sut, Remembering) else None
