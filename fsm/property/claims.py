"""What must hold of a machine: properties, well formed, and the conditions they are made of.

Properties are made by :mod:`fsm.language.build` and decided by :mod:`fsm.checker`.
They speak of *instants*.  The first instant of a run is its initial state;
after that each step is one: an event happens, or a call that takes time goes
on.  A step that emits several outputs is as many instants, one an output, in
their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.machine import Level, Machine
    from fsm.machine.conditions import Sequence, WrittenCondition
    from fsm.product.system import System

ANY_PROFILE = "*"
"""Where a property is expected to fail: everywhere."""

NO_PROFILE = "none"
"""Where a property is expected to fail: in the machine without a profile."""


# -- claims --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """A call of ``event`` right after one that replied ok replies ok too, changes nothing and emits nothing.

    From every state that can be reached and has no call in progress; with
    ``once``, only where that holds when the first call has replied.
    """

    event: str
    once: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """Each of ``conditions`` holds at every instant, or at those of which ``when`` holds."""

    conditions: tuple[WrittenCondition, ...]
    when: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """No run goes through any of ``sequences``; ``until`` makes it start anew."""

    sequences: tuple[Sequence, ...]
    until: WrittenCondition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """For each of ``sequences`` there is a run that goes through it."""

    sequences: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fair:
    """An event, its ends, or one outcome of either that does not wait for ever.

    Weakly: not while it can happen all the time.  Strongly: not while it can
    happen again and again.
    """

    event: str
    ends: bool = False
    outcome: str = ""
    strongly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadsTo:
    """After every instant of which ``source`` holds there comes one of which ``target`` holds, in every fair run."""

    source: WrittenCondition
    target: WrittenCondition
    fair: tuple[Fair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows:
    """The outputs, in order, are events of a run of ``other``; outputs it does not know are left out.

    Signals that both machines have are the same; what else ``other`` has, but
    for what is hidden, does not happen.  Of a system, those of the copies ``of`` which it is claimed.
    """

    other: Machine
    of: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refines:
    """All that can be seen of a run with ``overlap`` calls in progress at a time, ``other`` allows."""

    other: Machine
    overlap: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesDiagram:
    """The machine does what the drawing in the file at ``path`` shows."""

    path: str


Claim: TypeAlias = Idempotent | Always | Never | Reachable | LeadsTo | Follows | Refines | MatchesDiagram


# -- properties ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """That a property is known to fail, and the steps of its shortest counterexample."""

    about: str
    length: int
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A claim, in words and in meaning, with its level and source.

    ``catches`` names mutants of the machine that break it; ``fails`` says
    under which profiles it is known not to hold.
    """

    name: str
    says: str
    level: Level
    source: str
    claim: Claim
    link: str = ""
    catches: tuple[str, ...] = ()
    fails: Mapping[str, KnownFailure] = field(default_factory=dict)
    line: int = 0

    def expected(self, profile: str | None) -> KnownFailure | None:
        """The failure that is known under *profile*, ``None`` being the machine without one."""
        return self.fails.get(profile or NO_PROFILE) or self.fails.get(ANY_PROFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What can be reached: states, outcomes met in them, steps to the farthest."""

    states: int
    transitions: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """A machine and all that is claimed of it; ``expect`` by profile, ``none`` without one."""

    machine: Machine
    properties: tuple[Property, ...]
    expect: Mapping[str, Counts] = field(default_factory=dict)
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSpecification:
    """A system and all that is claimed of it; ``expect`` by profile, ``none`` without one."""

    machine: System
    properties: tuple[Property, ...]
    expect: Mapping[str, Counts] = field(default_factory=dict)
    path: str = ""
