"""The checker's conclusions and their evidence, as data: on properties, and on the equivalence of machines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from fsm.machine import Clause, Deviation, Machine, Moves
from fsm.machine.claims import Counts, KnownFailure, Property
from fsm.machine.conditions import Condition
from fsm.machine.product.system import System
from fsm.machine.table import UNSPECIFIED, Done, TransitionSystem, Way
from fsm.trace import Phase
from fsm.verdict import Fails, Holds, Unknown


class RunStep(Struct, gc=False, frozen=True, kw_only=True):
    """A step of a run: an event or, if ``ends`` is true, the end of a call that takes time.

    If calls overlap, ``phase`` is the part of a call that is observed: its ``request``, its ``reply``, or the fact
    that it was ``lost``.  ``reply`` is empty for an outcome without a reply.  In a system, ``done`` lists the steps
    of its parts.
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


def run_step(table: TransitionSystem, state: int, row: int, way: Way | None, to: int, reply: str = "") -> RunStep:
    """Return the step of *row* from *state* to *to*.  *way* is ``None`` if the step is unspecified."""
    return RunStep(
        event=table.rows[row].event.name,
        source=table.states[state],
        target=table.states[to],
        outcome=way.name if way else UNSPECIFIED,
        reply=reply,
        emits=way.emits if way else (),
        ends=table.rows[row].ends,
        done=way.done if way else (),
    )


Sight: TypeAlias = Literal["observed", "confirmed", "in progress", "unobserved"]
"""How a step is known: observed, confirmed by a later reply, part of a call in progress, or not observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedCell:
    """A step, and the ``clause`` of the cell that it used, if the model has that cell.

    ``step`` is a step of a machine, of a system, or of a part of a system.  A step of the whole system has the clause
    and the ``conditions`` of the joint event.
    """

    step: RunStep | Done
    clause: Clause | None
    deviation: Deviation | None = None
    known: Sight = "observed"
    conditions: tuple[Condition, ...] = ()


def used_cell(machine: Machine, step: RunStep | Done, known: Sight = "observed") -> UsedCell:
    """Return the cell of *machine* that *step* used."""
    event = machine.events[step.event]
    cell = event.ends.get(step.source) if step.ends else event.cells[step.source]
    ways = cell.outcomes if isinstance(cell, Moves) else ()
    deviation = next((way.deviation for way in ways if way.name == step.outcome), None)
    return UsedCell(step=step, clause=cell.clause if cell else None, deviation=deviation, known=known)


def used_cells(model: Machine | System, step: RunStep) -> tuple[UsedCell, ...]:
    """Return the cells that *step* of *model* used.

    If *model* is a system, the joint event comes first, followed by the cells of its parts.

    >>> from fsm.language.library import load
    >>> stopped = RunStep(event="stop", source="exited", target="exited", outcome="ignored")
    >>> used_cells(load("container-status"), stopped)[0].clause.name
    'stop-is-idempotent'
    """
    if isinstance(model, Machine):
        return (used_cell(model, step),) if step.event in model.events else ()
    joint, done = model.events[step.event], {(each.copy, each.event, each.ends) for each in step.done}
    [way] = [way for way in joint.ways if way.name == step.outcome]
    steps = [((each.copy.name, each.event, each.ends), each.when) for each in way.steps]
    # If a part may take a step under several conditions, the run does not show which of them held.
    taken = [when for at, when in steps if at in done and [other for other, _ in steps].count(at) == 1]
    met = dict.fromkeys(each for each in (joint.when, way.when, *taken) if each is not None)
    machines = {copy.name: part.machine for part in model.parts.values() for copy in part.copies}
    cells = (used_cell(machines[each.copy], each) for each in step.done if each.event and each.copy in machines)
    return (UsedCell(step=step, clause=joint.clause, conditions=tuple(met)), *cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Steps from the initial state, followed by an endlessly repeated ``cycle`` if the run is infinite.

    If ``stopped`` is true, the run ends after the last step, and fairness does not require another step.
    """

    initial: str
    steps: tuple[RunStep, ...] = ()
    cycle: tuple[RunStep, ...] = ()
    stopped: bool = False

    @property
    def length(self) -> int:
        """The number of steps, where the steps of the cycle are counted once."""
        return len(self.steps) + len(self.cycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """No run goes through the sequence ``text``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A run whose last step the machine ``other`` does not allow.

    ``states`` are the states that ``other`` may be in before this step.  If ``other`` does not allow the state that
    is shown after the step, ``shows`` is that state.
    """

    run: Run
    other: str
    states: tuple[str, ...]
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnItem:
    """A transition or state of a drawing.  If only ``target`` is set, the item is a state.

    ``line`` and ``column`` are 0 if the item is missing from the drawing.
    """

    target: str
    source: str = ""
    event: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Misdrawn:
    """The drawing at ``place`` does not agree with the machine.

    ``lacks`` lists items of the machine that the drawing does not have.  ``adds`` lists items of the drawing that the
    machine does not have.
    """

    place: str
    lacks: tuple[DrawnItem, ...]
    adds: tuple[DrawnItem, ...]


Evidence: TypeAlias = Run | Unreached | Unexplained | Misdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Holds):
    """The property holds in the whole reachable state space.

    ``witnesses`` are examples of the runs that the property claims to exist.  If the property was proved for any
    number of copies of a part, ``any_number`` is the name of the part.
    """

    witnesses: tuple[Run, ...] = ()
    any_number: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuous(Unknown):
    """The property holds vacuously, because the condition ``unmet`` is never true."""

    unmet: str
    why: str = "nothing puts the property to the test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Unknown):
    """The property is about fields of the status, which are not part of a run."""

    why: str = (
        "a run of the model has no fields; 'fsm judge --properties' and 'fsm test --properties' can decide the property"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Unknown):
    """The property depends on the end of a call of ``event`` in ``state``, for which the model has no ``ends``.

    ``run`` is a counterexample or a witness only if the call may end there.  In a system, ``copy`` makes the call.
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
        """The counterexample, if it is a run."""
        run = self.evidence.run if isinstance(self.evidence, Unexplained) else self.evidence
        return run if isinstance(run, Run) else None

    @property
    def length(self) -> int:
        """The number of steps in the counterexample, or 0 if it is not a run."""
        return self.run.length if self.run else 0


Conclusion: TypeAlias = Proved | Refuted | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The conclusion about a property under a profile, its known failure, and the size of the search.

    If ``overlap`` is not 0, the conclusion assumes that at most ``overlap`` calls of one event are in progress at the
    same time.
    """

    of: Property
    profile: str | None
    verdict: Conclusion
    expected: KnownFailure | None
    searched: Counts
    overlap: int = 0

    @property
    def unexpected(self) -> bool:
        """Whether the conclusion is not the expected one.

        The expected conclusion is the known failure or, if no failure is known, success.
        """
        if self.expected is None or isinstance(self.verdict, Undecided):
            return isinstance(self.verdict, Refuted)
        return not isinstance(self.verdict, Refuted) or self.verdict.length != self.expected.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The conclusions about all properties of a machine or a system under one profile.

    ``counts`` is the size of the reachable state space, if it is within the limit, and ``expected`` is the size
    stated in the file at ``path``.  If ``any_number`` names a part, ``counts`` is the size of the system that
    simulates any number of its copies.  ``copies`` counts the claims that were also decided for other copies than the
    first.  If the result for another copy differs from the result for the first copy, ``checked`` contains that
    claim, too.  ``washed_out`` lists silent cells to which a hidden event can lead, as (event, state, hidden event).
    """

    machine: Machine | System
    profile: str | None
    counts: Counts | None
    expected: Counts | None
    checked: tuple[Checked, ...]
    copies: int = 0
    washed_out: tuple[tuple[str, str, str], ...] = ()
    any_number: str = ""
    path: str = ""

    @property
    def resized(self) -> bool:
        """Whether the size of the state space is not the expected size.

        A different size means that the machine has changed.  The result is false unless every property was decided,
        because the size of a system is the size of the largest cone that was searched.
        """
        decided = all(type(each.verdict) is not Unknown for each in self.checked)
        return decided and self.counts is not None and self.expected not in {None, self.counts}


class Side(Enum):
    """One of the two machines that are compared."""

    FIRST = 0
    SECOND = 1

    @property
    def other(self) -> Side:
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Observable(NamedTuple):
    """An observation of a machine.

    A call either replies immediately, or it ``begins`` and later ``ends``.  Every other event happens at a single
    moment.  If ``event`` is empty, the machine emits something or ``shows`` its state.  If ``silent`` is true, the
    specification leaves the event undefined.  The reply ``error`` represents every error that neither machine
    mentions.
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
    """The two machines are weakly bisimilar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinguished(Fails):
    """A shortest ``trace`` that distinguishes the machines: ``owner`` has the trace and the other machine lacks it.

    ``run`` is a run of the owner with this trace.  Before the last observation of the trace, the other machine may be
    in any of ``states``.  ``instead`` lists the observations of the same event that are possible in these states.
    """

    owner: Side
    trace: tuple[Observable, ...]
    run: Run
    states: tuple[str, ...]
    instead: tuple[Observable, ...]


class Round(NamedTuple):
    """A step of both machines with the same observation, and the states after the step.

    ``seen`` is ``None`` for a hidden step.
    """

    seen: Observable | None
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching(Fails):
    """The two machines have the same traces, but they make a choice at different times.

    ``start`` holds the states in which the machines begin.  In each of the ``rounds``, one machine takes a step.  The
    other machine can take the same step, but the two machines are not equivalent afterwards.  In the end, ``owner``
    has an ``option`` that the other machine no longer has.  ``every_trace`` is false if the search for a
    distinguishing trace hit its limit.
    """

    start: tuple[str, str]
    rounds: tuple[Round, ...]
    owner: Side
    option: Observable
    every_trace: bool = True


EquivalenceResult: TypeAlias = "Equivalent | Distinguished | Branching | Unknown"
