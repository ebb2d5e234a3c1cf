"""Properties that must hold of a machine, and the claims they are made of.

Properties are made by :mod:`fsm.language.build` and decided by :mod:`fsm.checker`. They are about *instants*.  The
first instant of a run is its initial state; each step after it is one more: an event happens, or a call in progress
continues.  A step that emits several outputs has one instant for each output, in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeGuard, TypeVar, assert_never

from fsm.machine import Clause, Level, Machine
from fsm.machine.conditions import In, Sequence, WrittenCondition
from fsm.machine.fields import Requirement
from fsm.machine.product.system import System

ANY_PROFILE = "*"
"""Key of ``fails`` that stands for every profile, and for the machine without one."""

NO_PROFILE = "none"
"""Key of ``fails`` and ``expect`` for the machine without a profile."""

M = TypeVar("M", bound=Machine | System)
M_co = TypeVar("M_co", bound=Machine | System, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """A call of ``event`` right after one that replied ok replies ok too, changes nothing and emits nothing.

    Claimed for every reachable state without calls in progress; with ``once``, only if it holds at the first reply.
    """

    event: str
    once: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Each of ``conditions`` holds at every instant, or at every instant at which ``when`` holds."""

    conditions: tuple[WrittenCondition, ...]
    when: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """No run goes through any of ``sequences``; when ``until`` holds, a sequence starts again."""

    sequences: tuple[Sequence, ...]
    until: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """For each of ``sequences``, some run goes through it."""

    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """An event, its ends, or one outcome of either, that is not postponed for ever.

    A weakly fair one is taken if it stays enabled for ever, a strongly fair one if it is enabled infinitely often.
    """

    event: str
    ends: bool = False
    outcome: str = ""
    strongly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadsTo:
    """In every fair run, each instant at which ``source`` holds is followed by one at which ``target`` holds."""

    source: WrittenCondition
    target: WrittenCondition
    fair: tuple[Fair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows:
    """The outputs, in order, are events of a run of ``other``; outputs it does not know are left out.

    Signals that both machines have are synchronised.  No other event of ``other`` happens, except hidden ones.  In a
    system, the outputs are those of the copies ``of``.
    """

    other: Machine
    of: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refines:
    """``other`` allows everything observable in a run with up to ``overlap`` calls in progress simultaneously."""

    other: Machine
    overlap: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesDiagram:
    """The machine and the drawing in the file at ``path`` agree."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """The fields that are shown with a state meet the ``requirement``.  No run of the machine decides that."""

    requirement: Requirement

    @property
    def reached(self) -> Reachable:
        """The claim that the states of the requirement are reached."""
        each = (
            WrittenCondition(text=state, means=In(states=frozenset({state})))
            for state in sorted(self.requirement.states)
        )
        return Reachable(sequences=tuple((state,) for state in each))


Claim: TypeAlias = Idempotent | Always | Never | Reachable | LeadsTo | Follows | Refines | MatchesDiagram | Requires


def conditions_of(claim: Claim) -> tuple[WrittenCondition, ...]:
    """Return the conditions that *claim* is made of, in its order."""
    match claim:
        case Idempotent(once=once):
            found = [once]
        case Always(conditions=conditions, when=when):
            found = [*conditions, when]
        case Never(sequences=sequences, until=until):
            found = [*(each for sequence in sequences for each in sequence), until]
        case Reachable(sequences=sequences):
            found = [each for sequence in sequences for each in sequence]
        case LeadsTo(source=source, target=target):
            found = [source, target]
        case Follows() | Refines() | MatchesDiagram() | Requires():
            found = []
        case _:
            assert_never(claim)
    return tuple(each for each in found if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """A property is known to fail; ``length`` is the number of steps of its shortest counterexample."""

    about: str
    length: int
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A claim in words and meaning, with the mutants that it ``catches``, and its known failures by profile."""

    name: str
    says: str
    level: Level
    source: str
    claim: Claim
    link: str = ""
    catches: tuple[str, ...] = ()
    fails: Mapping[str, KnownFailure] = field(default_factory=dict)
    line: int = 0

    @property
    def clause(self) -> Clause:
        """The statement of the property as a clause, with its source."""
        return Clause(name=self.name, says=self.says, level=self.level, source=self.source, link=self.link)

    def expected(self, profile: str | None) -> KnownFailure | None:
        """Return the known failure under *profile*; ``None`` stands for the machine without one."""
        return self.fails.get(profile or NO_PROFILE) or self.fails.get(ANY_PROFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Size of the reachable part: states, outcomes of their cells, and steps to the farthest state.

    ``representatives`` is the number of states searched, if states that differ only by interchangeable copies were
    searched as one.  ``configurations`` is the number of states with their calls in progress.
    """

    states: int
    transitions: int
    depth: int
    representatives: int | None = field(default=None, compare=False)
    configurations: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification(Generic[M_co]):
    """A machine or a system with its properties; ``expect`` has its size by profile, ``none`` for no profile."""

    machine: M_co
    properties: tuple[Property, ...]
    expect: Mapping[str, Counts] = field(default_factory=dict)
    path: str = ""


def is_of(stated: Specification[Machine | System], kind: type[M]) -> TypeGuard[Specification[M]]:
    """Check whether *stated* specifies a thing of this *kind*, a machine or a system."""
    return isinstance(stated.machine, kind)
