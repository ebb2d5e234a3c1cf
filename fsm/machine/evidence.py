"""Verdicts of the checker on properties and on equivalence, with their evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from fsm.machine import Clause, Deviation, Machine, Moves
from fsm.machine.claims import Counts, KnownFailure, Property
from fsm.machine.conditions import Condition
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable, TransitionSystem
from fsm.machine.product.system import System
from fsm.machine.table import UNSPECIFIED, Done, Way
from fsm.trace import Phase
from fsm.verdict import Fails, Holds, Unknown


class RunStep(Struct, gc=False, frozen=True, kw_only=True):
    """A step of a run, which is an event or the end of a call that takes time.

    If calls overlap, ``phase`` tells which part of a call is observed: ``request``, ``reply`` or ``lost``.  In a
    system, ``done`` lists the steps of the parts.  ``given`` are the arguments of the event, and ``data`` the values of
    the variables after it, as texts such as ``attempts = 2``.
    """

    event: str
    source: str
    target: str
    outcome: str = ""
    reply: str = ""
    emits: tuple[str, ...] = ()
    ends: bool = False
    phase: Phase = ""
    done: tuple[Done, ...] = ()
    given: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


def run_step(table: TransitionSystem, state: int, row: int, way: Way | None, to: int, reply: str = "") -> RunStep:
    data = table.data if isinstance(table, InProgress | SystemTable) else None
    return RunStep(
        event=table.rows[row].event.name,
        source=table.states[state],
        target=table.states[to],
        outcome=way.name if way else UNSPECIFIED,
        reply=reply,
        emits=way.emits if way else (),
        ends=table.rows[row].ends,
        done=way.done if way else (),
        given=data.given(row, way.given[0]) if data and way and way.given else (),
        data=data.texts(table.values(to)) if data and isinstance(table, InProgress | SystemTable) else (),
    )


Sight: TypeAlias = Literal["observed", "confirmed", "in progress", "unobserved"]
"""The evidence for a step of a run.

The step was observed, a later reply confirms it, its call is still in progress, or nothing shows it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedCell:
    """A step of a machine, a system or a part, and the cell that it used.

    ``clause`` is the clause of the cell, or ``None`` if the model has no such cell.  A step of the whole system has
    the clause and the ``conditions`` of the joint event.
    """

    step: RunStep | Done
    clause: Clause | None
    deviation: Deviation | None = None
    known: Sight = "observed"
    conditions: tuple[Condition, ...] = ()


def used_cell(machine: Machine, step: RunStep | Done, known: Sight = "observed") -> UsedCell:
    event = machine.events.get(step.event)
    if event is None:  # time passes
        return UsedCell(step=step, clause=None, known=known)
    cell = event.ends.get(step.source) if step.ends else event.cells[step.source]
    ways = cell.outcomes if isinstance(cell, Moves) else ()
    deviation = next((way.deviation for way in ways if way.name == step.outcome), None)
    return UsedCell(step=step, clause=cell.clause if cell else None, deviation=deviation, known=known)


def used_cells(model: Machine | System, step: RunStep) -> tuple[UsedCell, ...]:
    """Return the cells that *step* used.  In a system, the joint event comes first, and then the cells of the parts.

    >>> from fsm.language.library import load
    >>> stopped = RunStep(event="stop", source="exited", target="exited", outcome="ignored")
    >>> used_cells(load("container-status"), stopped)[0].clause.name
    'stop-is-idempotent'
    """
    if isinstance(model, Machine):
        return (used_cell(model, step),) if step.event in model.events else ()
    joint, done = model.events[step.event], {(each.copy, each.event, each.ends) for each in step.done}
    [way] = [way for way in joint.ways if way.name == step.outcome]
    steps = [(each.copy.name, each.event, each.ends) for each in way.steps]
    # If a part may take a step under several conditions, the run does not show which of them held.
    taken = [each.when for at, each in zip(steps, way.steps, strict=True) if at in done and steps.count(at) == 1]
    met = dict.fromkeys(each for each in (joint.when, way.when, *taken) if each is not None)
    machines = {copy.name: part.machine for part in model.parts.values() for copy in part.copies}
    cells = (used_cell(machines[each.copy], each) for each in step.done if each.event and each.copy in machines)
    return (UsedCell(step=step, clause=joint.clause, conditions=tuple(met)), *cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run from the initial state that takes ``steps`` and then repeats ``cycle`` forever.

    A run that ``stopped`` ends after its last step, and fairness does not require another step.
    """

    initial: str
    steps: tuple[RunStep, ...] = ()
    cycle: tuple[RunStep, ...] = ()
    stopped: bool = False

    @property
    def length(self) -> int:
        return len(self.steps) + len(self.cycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A run whose last step the machine ``other`` does not allow in any of the ``states`` that it may be in.

    If the step is wrong only because of the state that is shown after it, ``shows`` is this state.
    """

    run: Run
    other: str
    states: tuple[str, ...]
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnItem:
    """A transition of a drawing or, if only ``target`` is set, a state.  A missing item has no line or column."""

    target: str
    source: str = ""
    event: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Misdrawn:
    """The drawing at ``place`` differs from the machine.

    The drawing ``lacks`` items that the machine has, and ``adds`` items that the machine does not have.
    """

    place: str
    lacks: tuple[DrawnItem, ...]
    adds: tuple[DrawnItem, ...]


Evidence: TypeAlias = Run | Unreached | Unexplained | Misdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Holds):
    """The property holds in the whole reachable state space.

    ``witnesses`` are the runs whose existence the property claims.  If the property was proved for any number of
    copies of a part, ``any_number`` names the part.  In a comparison of machines, ``scope`` lists the ranges of both
    outside which values were not searched, and ``cut`` is the number of steps that lead outside.
    """

    witnesses: tuple[Run, ...] = ()
    any_number: str = ""
    scope: tuple[str, ...] = field(default=(), repr=False)
    cut: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuous(Unknown):
    """The property holds vacuously, because the condition ``unmet`` is never true."""

    unmet: str
    why: str = "nothing puts the property to the test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Unknown):
    why: str = (
        "a run of the model has no fields; 'fsm judge --properties' and 'fsm test --properties' can decide the property"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Unknown):
    """The verdict is open, because the model does not specify how a call in ``state`` ends.

    ``run`` is a counterexample or a witness only if the call of ``event`` by ``copy`` may end in that state.
    """

    event: str
    state: str
    run: Run
    copy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted(Fails):
    """The property does not hold.  ``evidence`` is a shortest counterexample."""

    evidence: Evidence

    @property
    def run(self) -> Run | None:
        run = self.evidence.run if isinstance(self.evidence, Unexplained) else self.evidence
        return run if isinstance(run, Run) else None

    @property
    def length(self) -> int:
        """The number of steps in the counterexample, or 0 if it is not a run."""
        return self.run.length if self.run else 0


Conclusion: TypeAlias = Proved | Refuted | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict on a property under a profile, with the known failure that was ``expected``.

    If ``overlap`` is not 0, the verdict assumes that at most this many calls of an event are in progress at a time.
    ``scope`` lists the ranges outside which values were not searched: ``attempts from 0 to 3``.  ``cut`` is the number
    of steps that lead outside.  If ``unbounded`` is true, a solver decided the property for all integers.
    """

    of: Property
    profile: str | None
    verdict: Conclusion
    expected: KnownFailure | None
    searched: Counts
    overlap: int = 0
    scope: tuple[str, ...] = ()
    cut: int = 0
    unbounded: bool = False

    @property
    def unexpected(self) -> bool:
        """True if an unexpected failure was found, or if the expected failure is missing or has a different length."""
        if self.expected is None or isinstance(self.verdict, Undecided):
            return isinstance(self.verdict, Refuted)
        return not isinstance(self.verdict, Refuted) or self.verdict.length != self.expected.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The verdicts on all properties of a machine or a system under one profile.

    ``counts`` is the size of the reachable state space, unless it exceeds the limit.  If ``any_number`` names a part,
    ``counts`` is the size of the system that simulates any number of its copies.  ``copies`` counts the claims that
    were also decided for copies other than the first.  If such a claim has a different result, it is in ``checked``,
    too.  ``washed_out`` lists silent cells that a hidden event can lead to, as (event, state, hidden event).
    ``uncovered`` lists cells whose guards do not cover all integers, as (event, state, values).
    """

    machine: Machine | System
    profile: str | None
    counts: Counts | None
    expected: Counts | None
    checked: tuple[Checked, ...]
    copies: int = 0
    washed_out: tuple[tuple[str, str, str], ...] = ()
    uncovered: tuple[tuple[str, str, str], ...] = ()
    any_number: str = ""
    path: str = ""

    @property
    def resized(self) -> bool:
        """Whether the state space has an unexpected size.

        The size is only known if every property was decided.
        """
        decided = all(type(each.verdict) is not Unknown for each in self.checked)
        return decided and self.counts is not None and self.expected not in {None, self.counts}


class Side(Enum):
    FIRST = 0
    SECOND = 1

    @property
    def other(self) -> Side:
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Observable(NamedTuple):
    """An observation of a machine.

    ``event`` is empty if the machine emits something or ``shows`` its state.  A call gets its reply at once, or it
    ``begins`` and later ``ends``.  If ``silent`` is true, the specification does not say what the event does.  When
    two machines are compared, the reply ``error`` means any error that neither of them mentions.
    """

    event: str = ""
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False
    ends: bool = False
    silent: bool = False
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Holds):
    """The two machines are weakly bisimilar, at least for arguments in ``scope``."""

    scope: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinguished(Fails):
    """A shortest ``trace`` that only the machine ``owner`` has, and a ``run`` with this trace.

    Before the last observation, the other machine may be in any of ``states``.  For the event of this observation, it
    only allows the observations in ``instead``.
    """

    owner: Side
    trace: tuple[Observable, ...]
    run: Run
    states: tuple[str, ...]
    instead: tuple[Observable, ...]


class Round(NamedTuple):
    """The states of both machines after a step with the same observation, or after a hidden step."""

    seen: Observable | None
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching(Fails):
    """The machines have the same traces, but are not equivalent because they make a choice at different times.

    In each of ``rounds``, one machine takes a step that the other can only match by moving to a state that is not
    equivalent.  In the end, ``owner`` has an ``option`` that the other machine has lost.  ``every_trace`` is false if
    the search for a distinguishing trace reached its limit.
    """

    start: tuple[str, str]
    rounds: tuple[Round, ...]
    owner: Side
    option: Observable
    every_trace: bool = True


EquivalenceResult: TypeAlias = "Equivalent | Distinguished | Branching | Unknown"
