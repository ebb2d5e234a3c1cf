"""Findings about a trace or a history, as data: whether it is legal, its violations, and what it covers."""

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
"""Reason why a trace that mentions none of the machine's entities cannot be judged."""

NOTHING_MET: Final = "no event was certainly seen in any state: its reply, or the state, is not known"
"""Reason why a trace without a violation does not hold either."""


def tells_of_none(kind: str) -> str:
    """Return the reason why a trace that names no entity of this *kind* cannot be judged."""
    return f"the trace tells of no {kind}"


def idle(kind: str) -> frozenset[str]:
    """Return the reasons for which a recording does not concern a machine of this *kind* of entity."""
    return frozenset({NOTHING_CONCERNS, tells_of_none(kind)})


class Cause(Enum):
    """The respect in which a trace departs from its specification."""

    REPLY = "reply"
    STATE = "state"
    EVENT = "event"
    OUTPUT = "output"
    FIELDS = "fields"
    PROPERTY = "property"
    TIME = "time"


class Repair(Enum):
    """Kinds of single edit that make a trace legal again, smallest first."""

    REPLY = "reply changed"
    REPEATED = "repeated"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A ``repair`` of a trace; ``instead`` is the reply or the event that it inserts."""

    repair: Repair
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """Replies, shown states or outputs that would have been legal in ``state``."""

    state: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch(Generic[T]):
    """The shortest stretch of a history that is not linearizable by itself.

    ``operations`` are in the order of their calls; the last to return is the violation.  ``beside`` are the operations
    in progress at its beginning: they may have acted before, or have no part in it, and those that never return may
    have acted any number of times.  If it ``begins`` the history, it is illegal only because of the state in which the
    entity began, or because of the outputs.  If ``least`` is false, the search for a shorter stretch was given up.
    """

    operations: tuple[T, ...]
    beside: tuple[T, ...] = ()
    begins: bool = False
    least: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """A state must be left ``within`` this many seconds after ``event``, which happened at ``at``, on ``line``."""

    event: str
    within: int
    at: int
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An observation that no behaviour of the machine explains.

    ``illegal`` is the part of it that is not legal: the reply, the event, the state that was shown or met, or the
    outputs joined by blanks.  ``before`` are the states possible just before it, ``permitted`` what each would have
    allowed.  ``clause`` is the weakest of the clauses that may have been broken, hence the strongest that certainly is.
    ``resembles`` are known deviations of other profiles that allow it.  In a history of concurrent operations,
    ``stretch`` is the part that no order explains.

    If the observation breaks a property, ``clause`` is the property, ``illegal`` what the entity went through, and
    ``lines`` the lines of that, the last of which is the observation's.
    If fields are wrong, ``illegal`` names them, and ``found`` has their values.
    If a time limit is exceeded, the state ``illegal`` should have been left within ``limit``; time runs from the first
    of ``lines``.
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
    """A declared deviation of the chosen profile that occurred in the trace.

    If ``others`` would explain the observation as well, the trace does not show which deviation it was.
    """

    machine: str
    deviation: Deviation
    observation: Observation
    file: str
    line: int
    others: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """An event that nothing in the trace shows, but without which the trace is not legal.

    If it happened at all, it happened between the times ``start`` and ``end`` of the observation.
    """

    observation: Observation
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Fails):
    """Observations that no behaviour of the machine explains; ``findings`` is never empty.

    ``incomplete`` says why there may be more, if a part of the trace could not be judged.
    """

    findings: tuple[Finding, ...]
    incomplete: str = ""


Legality: TypeAlias = Holds | Illegal | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Violations with one cause, grouped: the first few, their number, and the number of their entities.

    If ``others`` is true, these are the violations of clauses of one level whose causes are not listed separately.
    """

    first: tuple[Violation, ...]
    count: int
    entities: int
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated:
    """Tolerated deviations of the same name or names, grouped; ``whole`` has all of them, if they were kept."""

    first: Tolerated
    count: int
    whole: tuple[Tolerated, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Number of times that each reachable (event, state) pair and each clause on fields was exercised; may be 0."""

    machine: str
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedProperty:
    """The status of a property in a trace; ``why`` explains a status other than ``holds`` and ``violated``."""

    clause: Clause
    status: Literal["holds", "known", "violated", "unknown", "not exercised", "not watched"]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one trace by one machine, with tolerated deviations and coverage.

    ``notes`` counts defects of the trace: replies without a request, events that the machine does not know.
    ``assumed`` has the events that must have happened for the rest to be legal.  ``properties`` are those that the
    trace was also checked against.
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
