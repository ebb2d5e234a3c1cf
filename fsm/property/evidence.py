"""What the checker concludes of a property, with its evidence: data, never sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from fsm.verdict import Fails, Holds, Unknown

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.table import Done
    from fsm.product.system import System
    from fsm.property.claims import Counts, KnownFailure, Property
    from fsm.trace import Phase


class RunStep(Struct, gc=False, frozen=True, kw_only=True):
    """One step of a run: an event, or the ``ends`` of a call that takes time.

    ``phase`` is the part of a call that is seen, where calls overlap: its
    ``request``, its ``reply``, or that it was ``lost``.  An outcome with no
    reply has ``reply`` empty.  Of a system ``done`` says what its parts did.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Steps from the initial state; then ``cycle`` for ever, if it is a run without end.

    A run that has ``stopped`` does nothing more for ever, since nothing need happen.
    """

    initial: str
    steps: tuple[RunStep, ...] = ()
    cycle: tuple[RunStep, ...] = ()
    stopped: bool = False

    @property
    def length(self) -> int:
        """Its steps, those of the cycle once."""
        return len(self.steps) + len(self.cycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """No run goes through the sequence of this text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A run whose last step ``other`` does not allow, in whichever of the states it may be.

    ``shows`` is what is read after it, if that is what is not allowed.
    """

    run: Run
    other: str
    states: tuple[str, ...]
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnItem:
    """A move between drawn states, or a state alone: then there is a ``target`` only.

    ``line`` and ``column`` are where it is drawn; 0 if it is not.
    """

    target: str
    source: str = ""
    event: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Misdrawn:
    """The drawing at ``place`` lacks some of what the machine does, or adds to it."""

    place: str
    lacks: tuple[DrawnItem, ...]
    adds: tuple[DrawnItem, ...]


Evidence: TypeAlias = Run | Unreached | Unexplained | Misdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Holds):
    """It holds of everything that can be reached; ``witnesses`` are the runs it asks for."""

    witnesses: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuous(Unknown):
    """It holds, but only since ``unmet`` never does: nothing was put to the test."""

    unmet: str
    why: str = "nothing puts it to the test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted(Fails):
    """It does not hold; the evidence is as short as there is."""

    evidence: Evidence

    @property
    def length(self) -> int:
        """Steps of the counterexample; 0 where there is no run to show."""
        match self.evidence:
            case Run():
                return self.evidence.length
            case Unexplained(run=run):
                return run.length
            case _:
                return 0


Conclusion: TypeAlias = Proved | Refuted | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The conclusion on one property under one profile, what was expected, and what was searched for it."""

    of: Property
    profile: str | None
    verdict: Conclusion
    expected: KnownFailure | None
    searched: Counts

    @property
    def unexpected(self) -> bool:
        """Whether it fails and should not, or the other way round, or by another counterexample than is known."""
        if self.expected is None:
            return isinstance(self.verdict, Refuted)
        return not isinstance(self.verdict, Refuted) or self.verdict.length != self.expected.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """All that is claimed of a machine, as it is under one profile.

    ``expected`` is the size that its reachable part should have, where that is stated.
    """

    machine: Machine | System
    profile: str | None
    counts: Counts
    expected: Counts | None
    checked: tuple[Checked, ...]

    @property
    def resized(self) -> bool:
        """Whether the machine has another size than is stated: its meaning has changed."""
        return self.expected not in {None, self.counts}
