"""What the checker concludes about a property, with its evidence, as data."""

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

    ``phase`` is the part of a call that is observed, where calls overlap: its ``request``, its ``reply``, or that it
    was ``lost``. An outcome without a reply has an empty ``reply``. Of a system, ``done`` is what its parts did.
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
    """The step of *row* of *table* from *state* to *to*, by *way* if that is specified."""
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

    In a run that has ``stopped`` no further step is taken, and fairness requires none.
    """

    initial: str
    steps: tuple[RunStep, ...] = ()
    cycle: tuple[RunStep, ...] = ()
    stopped: bool = False

    @property
    def length(self) -> int:
        """The number of its steps, those of the cycle counted once."""
        return len(self.steps) + len(self.cycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """No run goes through the sequence ``text``."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A run whose last step ``other`` does not allow in any of the ``states`` it may be in.

    ``shows`` is the state shown after that step, if that is what is not allowed.
    """

    run: Run
    other: str
    states: tuple[str, ...]
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnItem:
    """A move between drawn states; or a state, which has a ``target`` only.

    ``line`` and ``column`` are where it is drawn, or 0 if it is not.
    """

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
    """It holds of everything reachable, and of ``any_number`` of copies of a part; ``witnesses`` are the runs that it asks for."""

    witnesses: tuple[Run, ...] = ()
    any_number: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuous(Unknown):
    """It holds only because ``unmet`` is never true: nothing was tested."""

    unmet: str
    why: str = "nothing puts it to the test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Unknown):
    """It is about what is shown beside the state, which is no part of a run."""

    why: str = "no run shows fields: 'fsm judge' and 'fsm test', with --properties, decide it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Unknown):
    """It depends on how a call of ``event`` ends in ``state``, of ``copy`` in a system, for which no ``ends`` is written.

    ``run`` breaks a claim, or is a witness of one, only if the call ends there.
    """

    event: str
    state: str
    run: Run
    copy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted(Fails):
    """It does not hold; the evidence is the shortest there is."""

    evidence: Evidence

    @property
    def run(self) -> Run | None:
        """The counterexample, where that is a run."""
        run = self.evidence.run if isinstance(self.evidence, Unexplained) else self.evidence
        return run if isinstance(run, Run) else None

    @property
    def length(self) -> int:
        """Steps of the counterexample; 0 where there is no run to show."""
        return self.run.length if self.run else 0


Conclusion: TypeAlias = Proved | Refuted | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The conclusion on one property under one profile, the known failure, and the size of the search.

    It rests on no more than ``overlap`` begun calls of one event at a time, if that is not 0.
    """

    of: Property
    profile: str | None
    verdict: Conclusion
    expected: KnownFailure | None
    searched: Counts
    overlap: int = 0

    @property
    def unexpected(self) -> bool:
        """Whether it fails where it should hold, holds where it is known to fail, or fails by another length."""
        if self.expected is None or isinstance(self.verdict, Undecided):
            return isinstance(self.verdict, Refuted)
        return not isinstance(self.verdict, Refuted) or self.verdict.length != self.expected.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The conclusions on all properties of a machine, as it is under one profile.

    ``counts`` is the size of its reachable part, if that is within the limit, and ``expected`` the one stated for
    it.  So many claims about other ``copies`` were decided, too: those that came out otherwise than of the first are among
    the ``checked``.  ``washed_out`` are silent cells of a machine that may be met after hidden events alone: event, state, and
    what leads there.  ``counts`` are those of what simulates ``any_number`` of copies of a part.  The properties are in the
    file at ``path``.
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
        """Whether the reachable part has another size than is stated: the machine's meaning has changed.

        Sizes are compared only if every property was decided: of a system the size is that of the largest cone that was searched.
        """
        decided = all(type(each.verdict) is not Unknown for each in self.checked)
        return decided and self.counts is not None and self.expected not in {None, self.counts}
