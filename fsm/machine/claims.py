"""Properties of machines and systems, and the claims they make.

:mod:`fsm.language.build` builds properties, and :mod:`fsm.checker` decides them.  Properties are about *instants*.
The first instant of a run is its initial state.  Each step adds an instant: an event happens, or a call in progress
continues.  A step that emits several outputs has one instant for each of them, in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeAlias, TypeGuard, TypeVar, assert_never

from fsm.machine import Clause, Machine
from fsm.machine.conditions import In, Sequence, WrittenCondition
from fsm.machine.fields import Requirement
from fsm.machine.product.system import System

ANY_PROFILE = "*"  # key of ``fails`` that matches every profile, and also the machine without a profile
NO_PROFILE = "none"  # key of ``fails`` and ``expect`` that selects the machine without a profile

M = TypeVar("M", bound=Machine | System)
M_co = TypeVar("M_co", bound=Machine | System, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """A call of ``event`` can be repeated.  The second call also replies ``ok``, and it has no other effect.

    This must hold in every reachable state without calls in progress, if the first call succeeds and ``once`` is true
    at its reply.
    """

    event: str
    once: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Every condition holds at every instant or, if ``when`` is set, whenever ``when`` holds."""

    conditions: tuple[WrittenCondition, ...]
    when: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """No run contains any of ``sequences``.  Whenever ``until`` holds, every sequence has to start again."""

    sequences: tuple[Sequence, ...]
    until: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """Each of ``sequences`` appears in some run."""

    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """A fairness assumption about an event, about the end of a call, or about an outcome of either.

    A step is taken if it stays enabled forever (weak fairness) or is enabled infinitely often (strong fairness).
    """

    event: str
    ends: bool = False
    outcome: str = ""
    strongly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadsTo:
    """In every fair run, whenever ``source`` holds, ``target`` holds at the same or a later instant."""

    source: WrittenCondition
    target: WrittenCondition
    fair: tuple[Fair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows:
    """The outputs form a run of ``other``.

    If ``of`` is not empty, only outputs of these copies count.  Outputs that are not events of ``other`` are
    ignored.  A signal that both machines have happens in both at the same time.  Of the other events of ``other``,
    only hidden events happen.
    """

    other: Machine
    of: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refines:
    """``other`` allows all behaviour of the machine, with up to ``overlap`` calls in progress at the same time."""

    other: Machine
    overlap: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesDiagram:
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """The fields shown with a state meet ``requirement``.  The checker ignores fields, so it cannot decide this."""

    requirement: Requirement

    @property
    def reached(self) -> Reachable:
        states = sorted(self.requirement.states)
        return Reachable(
            sequences=tuple((WrittenCondition(text=each, means=In(states=frozenset({each}))),) for each in states)
        )


Claim: TypeAlias = Idempotent | Always | Never | Reachable | LeadsTo | Follows | Refines | MatchesDiagram | Requires


def conditions_of(claim: Claim) -> tuple[WrittenCondition, ...]:
    found: list[WrittenCondition | None] = []
    match claim:
        case Idempotent(once=once):
            found = [once]
        case Always(conditions=conditions, when=when):
            found = [*conditions, when]
        case Never(sequences=sequences, until=until):
            found = [*chain(*sequences), until]
        case Reachable(sequences=sequences):
            found = [*chain(*sequences)]
        case LeadsTo(source=source, target=target):
            found = [source, target]
        case Follows() | Refines() | MatchesDiagram() | Requires():
            pass
        case _:
            assert_never(claim)
    return tuple(each for each in found if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """A known failure of a property.  ``length`` is the number of steps in the shortest counterexample."""

    about: str
    length: int
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property(Clause):
    """A clause with a claim.

    The property must detect the mutants in ``catches``.  ``fails`` maps profiles to known failures.
    """

    claim: Claim
    catches: tuple[str, ...] = ()
    fails: Mapping[str, KnownFailure] = field(default_factory=dict)
    line: int = 0

    @property
    def clause(self) -> Clause:
        return Clause(name=self.name, says=self.says, level=self.level, source=self.source, link=self.link)

    def expected(self, profile: str | None) -> KnownFailure | None:
        return self.fails.get(profile or NO_PROFILE) or self.fails.get(ANY_PROFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The size of the reachable state space.

    ``depth`` is the largest distance of a state from the initial state.  ``configurations`` counts a state once for
    every combination of calls that may be in progress in it.  With symmetry reduction, only ``representatives`` were
    searched.
    """

    states: int
    transitions: int
    depth: int
    representatives: int | None = field(default=None, compare=False)
    configurations: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification(Generic[M_co]):
    """A machine or a system with its properties.

    ``expect`` maps profiles or :data:`NO_PROFILE` to the expected sizes of the state space.
    """

    machine: M_co
    properties: tuple[Property, ...]
    expect: Mapping[str, Counts] = field(default_factory=dict)
    path: str = ""


def is_of(stated: Specification[Machine | System], kind: type[M]) -> TypeGuard[Specification[M]]:
    return isinstance(stated.machine, kind)
