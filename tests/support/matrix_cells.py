"""Summarize the tests of one version by clause.

Each clause holds, is violated, is broken only by tolerated deviations, or is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from fsm.conformance.plan import IDLE
from fsm.conformance.tested import Obstacle
from fsm.machine import Cannot
from fsm.machine.table import tabulate
from fsm.report.conformance_report import failure_lines
from fsm.report.layout import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.conformance.failure import Failure
    from fsm.conformance.plan import Edge, Plan
    from fsm.conformance.tested import LeftOut, Tested
    from fsm.machine import Cell as MachineCell
    from fsm.machine import Clause, Machine

Place: TypeAlias = tuple[str, str]
"""The names of a row and a state. A row is an event or the end of a call."""


UNASKED: Final = "no test asks for what is not to happen"
UNREACHED: Final = "no step of a test leads there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The result of a clause that no test violated.

    The clause has ``cells`` cells, and tests reached ``met`` of them.
    """

    met: int
    cells: int
    missed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violated:
    """The result of a clause that a test has violated, or that was broken only by the deviations in ``tolerated``.

    ``known`` is true if nothing fails under the profile of the version, and ``always`` if some test failed in every
    repetition. ``traces`` contains the failures as text, with the shortest first.
    """

    traces: tuple[str, ...]
    tolerated: tuple[str, ...]
    known: bool
    always: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    missed: tuple[str, ...]


Cell: TypeAlias = Holds | Violated | NotCovered


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    machine: str
    version: str
    cells: dict[str, Cell]
    differences: tuple[str, ...]
    steps: int
    seconds: float = 0.0


def clauses(machine: Machine) -> dict[str, Clause]:
    cells = (cell for event in machine.events.values() for cell in (*event.cells.values(), *event.ends.values()))
    found = [*(cell.clause for cell in cells), *(each.clause for each in machine.requires.values())]
    return {each.name: each for each in found}


def changed(machine: Machine, profile: str) -> frozenset[Place]:
    """Return the cells that *profile* changes.

    Only in these cells can behaviour be legal with the profile and illegal without it.
    """
    ours, theirs = cells_of(machine), cells_of(machine.under(profile))
    return frozenset(place for place in ours | theirs if ours.get(place) != theirs.get(place))


def meets(edge: Edge, machine: Machine, places: frozenset[Place]) -> bool:
    table = tabulate(machine)
    return any((table.rows[row].name, table.states[state]) in places for row, state in edge.cells)


def column(
    machine: Machine, version: str, plain: Tested, profiled: Tested, *, fields: bool, seconds: float = 0.0
) -> Column:
    """Summarize the results of *version* for each clause.

    *plain* contains the tests without a profile, and *profiled* the tests under the profile of the version. *fields*
    is true if the fields of statuses were observed.
    """
    places = {place: cell.clause.name for place, cell in cells_of(machine).items()}
    met = _met(plain) | _met(profiled)
    reasons = dict.fromkeys(_impossible(machine), UNASKED)
    reasons |= {place: why for tested in (plain, profiled) for place, why in _reasons(tested).items()}
    deviations = _deviations(profiled)
    broken = {_clause(each) for each in profiled.failures}
    cells: dict[str, Cell] = {}
    for name in clauses(machine):
        own = [place for place, clause in places.items() if clause == name]
        missed = tuple(dict.fromkeys(reasons.get(each, UNREACHED) for each in own if each not in met))
        failed = [each for each in (*plain.failures, *profiled.failures) if _clause(each) == name]
        tolerated = tuple(sorted(each for each, against in deviations.items() if against == name))
        if failed or tolerated:
            texts = dict.fromkeys(map(text_of, sorted(failed, key=lambda each: len(each.trace))))
            cells[name] = Violated(
                traces=tuple(texts),
                tolerated=tolerated,
                known=name not in broken,
                always=any(each.repeated is None for each in failed) or not failed,
            )
        elif name in machine.requires:
            cells[name] = _of_fields(machine, name, met, seen=fields)
        elif any(each in met for each in own):
            cells[name] = Holds(met=sum(each in met for each in own), cells=len(own), missed=missed)
        else:
            cells[name] = NotCovered(missed=missed)
    differences = [text_of(each) for each in profiled.failures if not _at_times(each)]
    differences += [text_of(each) for each in plain.failures if not _clause(each)]
    return Column(
        machine=machine.name,
        version=version,
        cells=cells,
        differences=tuple(differences),
        steps=plain.cover.steps + profiled.cover.steps,
        seconds=seconds,
    )


def _of_fields(machine: Machine, name: str, met: set[Place], *, seen: bool) -> Cell:
    """Return the result of a clause about fields.

    The cells of such a clause are states. A state counts as covered if some step started in it.
    """
    states = machine.requires[name].states
    been = {state for _, state in met} & states
    if not seen:
        return NotCovered(missed=("fields of the status are not seen",))
    missed = tuple(f"no test was in {state}" for state in machine.states if state in states - been)
    return Holds(met=len(been), cells=len(states), missed=missed) if been else NotCovered(missed=missed)


def cells_of(machine: Machine) -> dict[Place, MachineCell]:
    events = machine.events.values()
    begun = {(each.name, state): cell for each in events for state, cell in each.cells.items()}
    return begun | {(f"…{each.name}", state): cell for each in events for state, cell in each.ends.items()}


def _impossible(machine: Machine) -> Iterator[Place]:
    for event in machine.events.values():
        yield from ((event.name, state) for state, cell in event.cells.items() if isinstance(cell, Cannot))


def _place(plan: Plan, cell: tuple[int, int]) -> Place:
    return plan.table.rows[cell[0]].name, plan.table.states[cell[1]]


def _met(tested: Tested) -> set[Place]:
    """Return the cells that tests seem to have reached.

    This is a guess, because an unobserved event may have changed the state before.
    """
    plan = tested.oracle.plan
    return {_place(plan, cell) for edge in plan.edges if tested.cover.took(edge) for cell in edge.cells}


def _reasons(tested: Tested) -> dict[Place, str]:
    plan = tested.oracle.plan
    met = _met(tested)
    found: dict[Place, str] = {}
    for edge in plan.edges:
        for cell in edge.cells:
            if (place := _place(plan, cell)) not in met:
                found.setdefault(place, _reason(tested, edge))
    for cell in tested.unreached.get(Obstacle.OVERLAP, ()):
        found.setdefault(_place(plan, cell), "needs another call that is in progress")
    return found


def _reason(tested: Tested, edge: Edge) -> str:
    plan = tested.oracle.plan
    for each in (*(plan.path(plan.start, edge.source) or ()), edge):
        event, outcomes = each.step.event, each.step.expected
        if left := _left_out(tested.left_out, event, plan.table.states[each.source.state]):
            return f"{event} is not supported{f' ({left.why})' if left.why else ''}"
        if each.source.call != IDLE:
            return f"needs {plan.table.rows[each.source.call].event.name} to be in progress"
        for outcome in outcomes:
            if (event, outcome) in tested.unarranged:
                return f"the outcome '{outcome}' of {event} cannot be arranged"
    return f"{edge.step} was not met" if not tested.stopped else "the test stopped after too many failures"


def _left_out(left: Iterable[LeftOut], event: str, state: str) -> LeftOut | None:
    return next((each for each in left if each.event == event and (not each.states or state in each.states)), None)


def _deviations(tested: Tested) -> dict[str, str]:
    ways = tested.oracle.plan.table.ways
    known = {way.deviation.name: way.deviation.clause.name for way in ways if way.deviation is not None}
    return {name: known[name] for name, count in tested.cover.deviations.items() if count}


def _at_times(failure: Failure) -> bool:
    """Check for a flaky failure of a clause that no contract requires, for example about a side effect."""
    return (
        failure.repeated is not None and failure.violation is not None and failure.violation.clause.level == "observed"
    )


def _clause(failure: Failure) -> str:
    found = failure.violation.clause if failure.violation else failure.clause
    return found.name if found else ""


def text_of(failure: Failure) -> str:
    return "\n".join(_short(failure_lines(failure, PLAIN, "violation")))


def _short(lines: Iterator[str]) -> Iterator[str]:
    return (line.removeprefix("  ") for line in lines)
