"""Conclusions of the checker about a property, with their evidence, as data."""

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.claims import Counts, KnownFailure, Property
from fsm.machine.table import UNSPECIFIED, Done, TransitionSystem, Way
from fsm.trace import Phase
from fsm.verdict import Fails, Holds, Unknown


class RunStep(Struct, gc=False, frozen=True, kw_only=True):
    """One step of a run: an event, or the ``ends`` of a call that takes time.

    If calls overlap, ``phase`` is the part of a call that is observed: its ``request``, its ``reply``, or that it was
    ``lost``.  ``reply`` is empty for an outcome without a reply.  In a system, ``done`` is what its parts did.
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
    """Return the step of *row* of *table* from *state* to *to*, by *way* if that is specified."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Steps from the initial state, followed by ``cycle`` for ever if the run is infinite.

    If the run has ``stopped``, no further step is taken, and fairness requires none.
    """

    initial: str
    steps: tuple[RunStep, ...] = ()
    cycle: tuple[RunStep, ...] = ()
    stopped: bool = False

    @property
    def length(self) -> int:
        """Number of steps; those of the cycle count once."""
        return len(self.steps) + len(self.cycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """No run goes through the sequence ``text``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A run whose last step ``other`` does not allow in any of the ``states`` it may be in.

    ``shows`` is the state shown after that step, if this is not allowed.
    """

    run: Run
    other: str
    states: tuple[str, ...]
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnItem:
    """A move between drawn states, or a state (only a ``target``); its line and column are 0 if it is not drawn."""

    target: str
    source: str = ""
    event: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Misdrawn:
    """The drawing at ``place`` lacks parts of the machine, or has parts that the machine lacks."""

    place: str
    lacks: tuple[DrawnItem, ...]
    adds: tuple[DrawnItem, ...]


Evidence: TypeAlias = Run | Unreached | Unexplained | Misdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Holds):
    """The property holds for everything reachable; ``witnesses`` are the runs that it asks for.

    ``any_number`` names a part, if it was proved for any number of copies of that part.
    """

    witnesses: tuple[Run, ...] = ()
    any_number: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuous(Unknown):
    """The property holds only because ``unmet`` is never true: nothing was tested."""

    unmet: str
    why: str = "nothing puts it to the test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Unknown):
    """The property is about fields shown beside the state, which are not part of a run."""

    why: str = "no run shows fields: 'fsm judge' and 'fsm test', with --properties, decide it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Unknown):
    """The property depends on how a call of ``event`` ends in ``state``, for which no ``ends`` are written.

    ``run`` breaks a claim, or is a witness of one, only if the call ends there.  In a system, ``copy`` makes the call.
    """

    event: str
    state: str
    run: Run
    copy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted(Fails):
    """The property does not hold; the evidence is the shortest possible."""

    evidence: Evidence

    @property
    def run(self) -> Run | None:
        """The counterexample, if it is a run."""
        run = self.evidence.run if isinstance(self.evidence, Unexplained) else self.evidence
        return run if isinstance(run, Run) else None

    @property
    def length(self) -> int:
        """Steps of the counterexample; 0 if there is no run."""
        return self.run.length if self.run else 0


Conclusion: TypeAlias = Proved | Refuted | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The conclusion on one property under one profile, the known failure, and the size of the search.

    If ``overlap`` is not 0, the conclusion assumes at most this many begun calls of one event at any time.
    """

    of: Property
    profile: str | None
    verdict: Conclusion
    expected: KnownFailure | None
    searched: Counts
    overlap: int = 0

    @property
    def unexpected(self) -> bool:
        """Whether it fails unexpectedly, holds although it is known to fail, or fails with another length."""
        if self.expected is None or isinstance(self.verdict, Undecided):
            return isinstance(self.verdict, Refuted)
        return not isinstance(self.verdict, Refuted) or self.verdict.length != self.expected.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The conclusions on all properties of a machine under one profile.

    ``counts`` is the size of its reachable part, if that is within the limit, and ``expected`` the size stated for it.
    With ``any_number``, ``counts`` is the size of the system that simulates any number of copies of that part.
    ``copies`` is the number of claims about other copies that were decided, too; those decided differently from the
    first copy's are among the ``checked``.  ``washed_out`` has the silent cells of a machine that may be met after
    hidden events only: event, state, and what leads there.  The properties are in the file at ``path``.
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
        """Whether the size of the reachable part differs from the one stated: the machine's meaning has changed.

        It is compared only if every property was decided: a system's size is that of the largest cone searched.
        """
        decided = all(type(each.verdict) is not Unknown for each in self.checked)
        return decided and self.counts is not None and self.expected not in {None, self.counts}
