"""Crash a SUT partway through an event, and check it after the restart.

The event may or may not have taken effect. After the restart, the SUT may show any state to which a restart can lead
from a state that the event passes through. The record of the SUT must be the same as before the event or after it.
"""

from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, NamedTuple

from fsm.conformance.plan import IDLE, Edge, Plan
from fsm.machine import Ignores, Refuses
from fsm.machine.table import Table
from fsm.sut import SUT, Crashing, Remembering, Response, Stimulus, arranger
from fsm.trace import shown_text

SCRIBBLE: Final = "scribbled over by the test"


@dataclass(slots=True)
class RecordSnapshot:
    """The record of a SUT before a step. ``sut`` is ``None`` if the SUT keeps no record."""

    sut: Remembering | None
    record: Any = None
    writing: str = ""

    def look(self) -> None:
        """Read the record, and then overwrite the copy that was read. This must not affect the SUT."""
        self.writing = ""
        if self.sut is None:
            return
        given = self.sut.record()
        self.record = deepcopy(given)
        if scribble(given) and self.sut.record() != self.record:
            what = "the method record returned the record itself, not a copy"
            self.writing = f"{what}: changing the result changes the record"

    def fault(self, table: Table, went: Edge | None, seen: Response) -> str:
        if self.sut is None:
            return ""
        before = self.record
        self.look()
        if self.writing or went is None or self.record == before:
            return self.writing
        why = _why_unchanged(table, went, seen)
        return f"{why}, but the record changed: {difference(before, self.record)}" if why else ""


def _why_unchanged(table: Table, went: Edge, seen: Response) -> str:
    row, state = went.cells[0]
    event, cell = table.rows[row].event, table.cell(state, row)
    if isinstance(cell, Ignores | Refuses):
        return f"{event.name} was {'ignored' if isinstance(cell, Ignores) else 'refused'}"
    if went.to is None:
        return ""
    same = went.to.state == went.source.state
    if event.kind == "call" and same and went.step.stage == "do" and seen.reply not in {None, "ok"}:
        return f"{event.name} failed"
    if event.interrupts and same:
        return f"the state of the SUT survived {event.name}"
    return ""


def difference(before: Any, after: Any, at: str = "") -> str:  # noqa: ANN401  (records are anything)
    """Describe the first difference between two records.

    >>> difference({"pid": 7, "limits": {"cpu": 1}}, {"pid": 7, "limits": {"cpu": 2}})
    'limits.cpu was 1, and is 2'
    """
    if isinstance(before, MutableMapping) and isinstance(after, MutableMapping):
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key) or (key in before) != (key in after):
                return difference(before.get(key), after.get(key), f"{at}.{key}" if at else str(key))
    return f"{at or 'it'} was {before!r}, and is {after!r}"


def scribble(given: Any) -> bool:  # noqa: ANN401  (records are anything)
    """Overwrite everything mutable in *given*, and return whether there was anything to overwrite.

    >>> record = {"names": ["a"], "pid": 7}
    >>> scribble(record), record["names"][0] == SCRIBBLE
    (True, True)
    """
    match given:
        case MutableMapping():
            for key, value in list(given.items()):
                if not scribble(value):
                    given[key] = SCRIBBLE
            given[SCRIBBLE] = SCRIBBLE
        case MutableSequence():
            for index, value in enumerate(given):
                if not isinstance(given, bytearray) and not scribble(value):
                    given[index] = SCRIBBLE
            given.append(0 if isinstance(given, bytearray) else SCRIBBLE)
        case MutableSet():
            given.add(SCRIBBLE)
        case _ if is_dataclass(given) and not isinstance(given, type):
            written = False
            for field in fields(given):
                written |= scribble(getattr(given, field.name)) or _set(given, field.name)
            return written
        case _:
            return False
    return True


def _set(given: Any, name: str) -> bool:  # noqa: ANN401  (a dataclass)
    with suppress(AttributeError):  # The object may be frozen.
        setattr(given, name, SCRIBBLE)
        return True
    return False


WHOLE: Final = 1_000_000  # crash point after the last effect of any event


def crashes(plan: Plan) -> Iterator[tuple[Edge, Stimulus]]:
    rows = _interrupting_rows(plan.table)
    for edge in plan.edges:
        if edge.step.stage != "do" or edge.source.call != IDLE or edge.cells[0][0] in rows:
            continue
        ways = [way for row in rows for state in through(edge) for way in plan.valued.step(state, row) or ()]
        for name in dict.fromkeys(way.name for way in ways):
            yield (
                edge,
                Stimulus(edge.step.event, "crash", (*(way.name for way in edge.ways), name), args=edge.step.args),
            )


def crashed_edge(edges: tuple[Edge, ...], step: Stimulus) -> Edge | None:
    key = (step.event, "do", step.args, step.expected[:-1])
    names = ((edge, tuple(way.name for way in edge.ways)) for edge in edges)
    return next((edge for edge, those in names if (*edge.step[:2], edge.step.args, those) == key), None)


class Ended(NamedTuple):
    shows: str
    record: Any


def crashed(
    plan: Plan, sut: Crashing, edge: Edge, step: Stimulus, again: Callable[[], None], whole: Ended | None
) -> tuple[bool, str, str, Ended]:
    """Crash *sut* partway through *edge*, and check its state after the restart.

    *sut* must be at the source of *edge*, and *again* brings it back there. *whole* is the state and record of the
    SUT if it restarts after the whole event, or ``None`` if that has not been tried yet. Return four results: whether
    the SUT crashed; the state that it shows; the fault, or an empty string; and *whole*, which is now known.
    """
    if whole is None:
        by_itself, whole, *_ = _crash_once(plan, sut, edge, step._replace(point=WHOLE))
        if by_itself:  # The event itself ends the process, so there is no crash to test.
            return False, whole.shows, "", whole
        again()
    before, source = _record(sut), edge.source.state
    died, (shows, record), goes, restarts = _crash_once(plan, sut, edge, step)
    edges = (edge,) if goes else plan.alternatives(edge.source, step.event, "do", step.args)
    way = {state for each in edges for state in through(each)}
    after = _states_after_restart(plan.valued, way, step.expected[-1] if restarts else "")
    allowed = [plan.valued.shows[state] for state in sorted(after)]
    unmoved, fault = plan.valued.matches(source, shows), ""
    right = [*([before] if unmoved else []), *([whole.record] if shows == whole.shows else [])]
    if shows and not any(plan.valued.matches(state, shows) for state in after):
        either = " or ".join(dict.fromkeys(allowed))
        fault = f"after a crash the SUT shows {shows}, but a restart may show only {either}"
    # If the restart changed the state, the records before and after cannot be compared.
    elif unmoved and record not in right and (shows != whole.shows or way == {source}):
        change = difference(right[0], record)
        neither = "neither the record before the event nor the one after it"
        fault = f"after a crash the record of the SUT is {neither}: {change}"
    return died, shows, fault, whole


def _crash_once(plan: Plan, sut: Crashing, edge: Edge, step: Stimulus) -> tuple[bool, Ended, bool, bool]:
    """Crash *sut* during *edge*. Return whether it crashed, and its state and record afterwards.

    The last two results say whether the SUT arranged the outcomes of *edge*, and whether it arranged the outcome of
    the restart.
    """
    arrange = arranger(sut)
    goes, restarts = arrange is not None or not any(edge.choice), False
    if arrange is not None:
        for number, (outcome, choice) in enumerate(zip(step.expected, edge.choice, strict=False)):
            goes &= not choice or arrange(step.event, outcome, plan.stage(step, number))
        for row in _interrupting_rows(plan.table):
            restarts |= arrange(plan.table.rows[row].event.name, step.expected[-1], "")
    died = sut.crash(step.event, step.point, **dict(step.args))
    return died, Ended(shown_text(sut.shows()), _record(sut)), goes, restarts


def _states_after_restart(table: Table, states: set[int], outcome: str) -> set[int]:
    cells = [table.step(state, row) for row in _interrupting_rows(table) for state in states]
    if None in cells:
        return set(table.anywhere)
    return {way.to for ways in filter(None, cells) for way in [way for way in ways if way.name == outcome] or ways}


def through(edge: Edge) -> list[int]:
    return list(dict.fromkeys([edge.source.state, *(way.to for way in edge.ways)]))


def _interrupting_rows(table: Table) -> list[int]:
    return [row.index for row in table.rows if row.event.interrupts and not row.ends]


def _record(sut: SUT) -> Any:  # noqa: ANN401  (records are anything)
    return deepcopy(sut.record()) if isinstance(sut, Remembering) else None
