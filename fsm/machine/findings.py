"""Findings about a trace or a history, such as its violations and its coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from fsm.machine import Clause, Deviation, Machine
from fsm.trace import Line, Observation
from fsm.verdict import Fails, Holds, Unknown

T = TypeVar("T")

NOTHING_CONCERNS: Final = "nothing in the trace concerns this machine"

NOTHING_MET: Final = "no observation shows for certain both an event with its reply and the state in which it happened"


def no_entity_reason(kind: str) -> str:
    return f"the trace mentions no {kind}"


def idle(kind: str) -> frozenset[str]:
    return frozenset({NOTHING_CONCERNS, no_entity_reason(kind)})


class Cause(Enum):
    """The kind of a violation, which names the part of the trace that is illegal."""

    REPLY = "reply"
    STATE = "state"
    EVENT = "event"
    OUTPUT = "output"
    FIELDS = "fields"
    PROPERTY = "property"
    TIME = "time"


class Repair(Enum):
    """A kind of edit that is enough to make a trace legal.  Smaller edits come first."""

    REPLY = "reply changed"
    REPEATED = "repeated"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit that makes a trace legal.

    ``instead`` is the reply or event that the edit inserts, if any.
    """

    repair: Repair
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """The replies, shown states or outputs that would have been legal in ``state``."""

    state: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch(Generic[T]):
    """The shortest stretch of a history that is not linearizable on its own.

    ``operations`` are in the order of their calls, and the operation that returns last is the violation.  ``beside``
    lists other operations in progress when the stretch starts.  They may have taken effect before or may be
    irrelevant.  If such an operation never returns, it may have taken effect several times.  If ``begins`` is true,
    the history starts with the stretch, and only the initial state or the outputs make it illegal.  If ``least`` is
    false, a shorter stretch may exist.
    """

    operations: tuple[T, ...]
    beside: tuple[T, ...] = ()
    begins: bool = False
    least: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """The time that a timer allows, which began at ``at``, on ``line``.

    The event of ``timer`` should have happened until ``after`` nanoseconds had passed or, if it was ``early``, not
    before.  If ``timer`` is empty, the state should have been left until then, because ``event`` had set a time limit.
    """

    event: str
    after: int
    at: int
    line: Line
    timer: str = ""
    early: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An observation that no behaviour of the machine explains, with the weakest ``clause`` that it may break.

    ``illegal`` is the reply, the event, the outputs joined by spaces, or the state that was shown or that a call met.
    ``permitted`` lists the legal alternatives in each state that was possible ``before`` the observation.
    ``resembles`` lists deviations of other profiles that would allow the observation.  In a history of concurrent
    operations, ``stretch`` is the part that cannot be put in a legal order.

    If ``clause`` is a property, ``illegal`` is the sequence that breaks it, and ``lines`` are the lines of this
    sequence, which ends with the observation.  If fields are wrong, ``illegal`` names the fields and ``found`` contains
    their values.  If a time limit is exceeded, ``illegal`` is the state that the entity should have left in time,
    ``limit`` is the time limit, and the time began at the first of ``lines``.
    """

    machine: str
    cause: Cause
    observation: Observation
    file: str
    line: int
    clause: Clause
    before: tuple[str, ...] = ()
    permitted: tuple[Permitted, ...] = ()
    edits: tuple[Edit, ...] = ()
    illegal: str = ""
    found: str = ""
    resembles: tuple[Deviation, ...] = ()
    stretch: Stretch[Observation] | None = None
    lines: tuple[Line, ...] = ()
    limit: TimeLimit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A deviation in the trace that the chosen profile allows.

    Each of ``others`` would explain the observation just as well.
    """

    machine: str
    deviation: Deviation
    observation: Observation
    file: str
    line: int
    others: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """An unobserved event without which the trace would be illegal.

    The event happened at an unknown time during the interval of ``observation``.
    """

    observation: Observation
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Fails):
    """The trace contains observations that no behaviour of the machine explains.  ``findings`` is never empty.

    If part of the trace could not be checked, ``incomplete`` says why, and further violations may exist.
    """

    findings: tuple[Finding, ...]
    incomplete: str = ""


Legality: TypeAlias = Holds | Illegal | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Violations with the same cause.

    ``first`` contains the first few of them, ``count`` is their total number, and ``entities`` is the number of
    entities that they affect.  If ``others`` is true, these are the violations of one level whose causes are not
    listed separately.
    """

    first: tuple[Violation, ...]
    count: int
    entities: int
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated:
    """Tolerated observations that can be explained by the same deviation, or by any of the same few deviations.

    ``count`` is the number of observations.  ``whole`` lists all of them, unless only the ``first`` was kept.
    """

    first: Tolerated
    count: int
    whole: tuple[Tolerated, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The number of times that a trace covered each reachable (event, state) pair and each clause on fields."""

    machine: str
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedProperty:
    """The status of a property in a trace.  ``why`` explains any status but ``holds`` and ``violated``."""

    clause: Clause
    status: Literal["holds", "known", "violated", "unknown", "not exercised", "not watched"]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a trace for one machine, with the tolerated deviations and the coverage.

    ``notes`` counts defects of the trace, such as replies without a request or unknown events.
    """

    machine: Machine
    verdict: Legality
    tolerated: tuple[Deviated, ...]
    covered: Covered
    entities: int
    observations: int
    notes: Mapping[str, int]
    assumed: tuple[Assumed, ...] = ()
    properties: tuple[WatchedProperty, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.verdict.findings if isinstance(self.verdict, Illegal) else ()

    @property
    def why(self) -> str:
        """The reason for an unknown or incomplete verdict, or an empty string."""
        match self.verdict:
            case Unknown(why=why) | Illegal(incomplete=why):
                return why
            case Holds():
                return ""


def legality(found: tuple[Finding, ...], incomplete: str) -> Legality:
    """Return the verdict on a trace with the violations *found*.  *incomplete* says why a part was not checked."""
    if found:
        return Illegal(findings=found, incomplete=incomplete)
    return Unknown(why=incomplete) if incomplete else Holds()
