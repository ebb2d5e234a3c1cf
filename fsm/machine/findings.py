"""What a trace or a history was found to be: legal, or which violations it has, and what it covers, as data."""

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
"""Why a trace cannot be judged of which nothing is of the machine's entities."""

NOTHING_MET: Final = "no event was certainly seen in any state: its reply, or the state, is not known"
"""The reason why a trace without a violation does not hold either."""


def tells_of_none(kind: str) -> str:
    """Why a trace cannot be judged in which no entity of this *kind* is named."""
    return f"the trace tells of no {kind}"


def idle(kind: str) -> frozenset[str]:
    """The reasons for which a machine of this *kind* of entity is not concerned by a recording."""
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
    """The kinds of single edit that make a trace legal again, smallest first."""

    REPLY = "reply changed"
    REPEATED = "repeated"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """``repair`` applied; ``instead`` is the reply or the event that it puts there."""

    repair: Repair
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """What would have been legal in ``state``: replies, shown states or outputs."""

    state: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch(Generic[T]):
    """The shortest stretch of a history that is not linearizable by itself.

    ``operations`` are in the order of their calls; the last to return is the violation.  ``beside`` are those in
    progress at its beginning, which may have acted before, or have no part in it; of those that never return, any
    number of times.  If it ``begins`` the history, it is illegal only because of the state in which the entity began,
    or of the outputs.  Unless it is ``least``, the search for a shorter one was given up.
    """

    operations: tuple[T, ...]
    beside: tuple[T, ...] = ()
    begins: bool = False
    least: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """A state is to be left ``within`` these seconds after ``event``, which happened at that time and on that line."""

    event: str
    within: int
    at: int
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An observation that no behaviour of the machine explains.

    ``illegal`` is the part of it that is not legal: the reply, the event, the state that was shown or met, or the
    outputs joined by blanks.  ``before`` are the states possible just before it, ``permitted`` what each would have
    allowed.  ``clause`` is the weakest of the clauses that may have been broken, hence the strongest that certainly
    is.  ``resembles`` are known deviations of other profiles that allow it.  In a history of concurrent operations
    ``stretch`` is where no order explains it.

    If it breaks a property, ``clause`` is the property, ``illegal`` what the entity
    went through, and ``lines`` where, the last line of which is the observation's.
    If it is of fields, these are ``illegal``, and ``found`` is what they were.
    If it is of time, the state ``illegal`` was to be left within ``limit``, and time runs since the first of ``lines``.
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

    Where ``others`` would explain the observation as well, the trace does not show which one it was.
    """

    machine: str
    deviation: Deviation
    observation: Observation
    file: str
    line: int
    others: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """An event without which the trace is not legal, and which nothing in it shows.

    It happened between the times ``start`` and ``end`` of the observation, if at all.
    """

    observation: Observation
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Fails):
    """An observation is no behaviour of the machine; ``findings`` is never empty.

    ``incomplete`` says why there may be more, if a part of the trace could not be judged.
    """

    findings: tuple[Finding, ...]
    incomplete: str = ""


Legality: TypeAlias = Holds | Illegal | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Violations with one cause, grouped: the first few, their number, and that of the entities.

    With ``others`` these are the violations of clauses of one level whose causes are not listed separately.
    """

    first: tuple[Violation, ...]
    count: int
    entities: int
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated:
    """Tolerated deviations of the same name, or of the same few names, grouped; ``whole`` are all, if all were kept."""

    first: Tolerated
    count: int
    whole: tuple[Tolerated, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How often each reachable (event, state) pair of a machine was exercised, and each of its clauses on fields; may be 0."""

    machine: str
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedProperty:
    """What a trace shows of a property, in a word; ``why`` it neither holds nor is violated, if so."""

    clause: Clause
    status: Literal["holds", "known", "violated", "unknown", "not exercised", "not watched"]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one trace by one machine, with what was tolerated and covered.

    ``notes`` count what the trace lacked: replies without a request, events that the machine does not know. ``assumed``
    is what must have happened for the rest to be legal. ``properties`` are those that the trace was also held to.
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
