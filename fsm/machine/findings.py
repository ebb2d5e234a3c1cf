"""The findings about a trace or a history: whether it is legal, its violations, and its coverage."""

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
"""Reason for an unknown verdict on a trace that does not mention any of the machine's entities."""

NOTHING_MET: Final = "no observation shows for certain both an event with its reply and the state in which it happened"
"""Reason for an unknown verdict on a trace in which no event was observed with certainty."""


def tells_of_none(kind: str) -> str:
    """Return the reason for an unknown verdict on a trace that mentions no entity of the kind *kind*."""
    return f"the trace mentions no {kind}"


def idle(kind: str) -> frozenset[str]:
    """Return the reasons that mean that a recording is irrelevant to machines for entities of the kind *kind*."""
    return frozenset({NOTHING_CONCERNS, tells_of_none(kind)})


class Cause(Enum):
    """The aspect in which a trace violates its specification."""

    REPLY = "reply"
    STATE = "state"
    EVENT = "event"
    OUTPUT = "output"
    FIELDS = "fields"
    PROPERTY = "property"
    TIME = "time"


class Repair(Enum):
    """Kinds of single edits that make a trace legal, from the smallest to the largest."""

    REPLY = "reply changed"
    REPEATED = "repeated"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit of the kind ``repair`` that makes a trace legal.

    ``instead`` is the reply or event that the edit inserts.
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

    ``operations`` are in the order of their calls.  The one that returns last is the violation.  ``beside`` lists
    other operations that are in progress when the stretch starts.  These operations may have taken effect earlier or
    may be irrelevant.  If such an operation never returns, it may have taken effect any number of times.  If
    ``begins`` is true, the stretch is the start of the history, and only the initial state or the outputs make it
    illegal.  If ``least`` is false, a shorter stretch may exist.
    """

    operations: tuple[T, ...]
    beside: tuple[T, ...] = ()
    begins: bool = False
    least: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """A limit on the time in a state.

    The state must be left within ``within`` seconds after ``event``, which is on ``line`` at the time ``at``.
    """

    event: str
    within: int
    at: int
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An observation that no behaviour of the machine explains.

    ``illegal`` is the part of the observation that is illegal: the reply, the event, the state that was shown or that
    a call met, or the outputs joined by spaces.  ``before`` lists the states that were possible just before the
    observation, and ``permitted`` lists the legal alternatives in each of these states.  ``clause`` is the weakest
    clause that may have been broken.  ``resembles`` lists known deviations of other profiles that would allow the
    observation.  In a history of concurrent operations, ``stretch`` is the part that no order explains.

    If a property is broken, ``clause`` is the property, ``illegal`` is the sequence that breaks it, and ``lines`` are
    the lines of that sequence, the last of which is the line of the observation.  If fields are wrong, ``illegal``
    names them and ``found`` holds their values.  If a time limit is exceeded, the state ``illegal`` should have been
    left within ``limit``, counted from the first line in ``lines``.
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
    """A deviation of the chosen profile that occurred in the trace.

    ``others`` lists further deviations, each of which would also explain the observation.
    """

    machine: str
    deviation: Deviation
    observation: Observation
    file: str
    line: int
    others: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """An assumed event.  The event was not observed, but the trace would be illegal without it.

    The event may have happened at any time between ``start`` and ``end`` of ``observation``.
    """

    observation: Observation
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Fails):
    """Some observations cannot be explained by any behaviour of the machine.  ``findings`` is never empty.

    If part of the trace could not be checked, ``incomplete`` is the reason, and there may be more findings.
    """

    findings: tuple[Finding, ...]
    incomplete: str = ""


Legality: TypeAlias = Holds | Illegal | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A group of violations with the same cause.

    The group holds the first few violations, their count, and the number of affected entities.  If ``others`` is
    true, the group collects violations of one level whose causes are not listed separately.
    """

    first: tuple[Violation, ...]
    count: int
    entities: int
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated:
    """A group of tolerated deviations with the same names.

    ``whole`` lists all deviations in the group, if they were kept.
    """

    first: Tolerated
    count: int
    whole: tuple[Tolerated, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The coverage of a trace.

    ``cells`` counts how often each reachable (event, state) pair was exercised.  Clauses on fields are counted, too.
    """

    machine: str
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fields: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedProperty:
    """The status of a property in a trace.  ``why`` explains any status other than ``holds`` and ``violated``."""

    clause: Clause
    status: Literal["holds", "known", "violated", "unknown", "not exercised", "not watched"]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a trace for one machine, with the tolerated deviations and the coverage.

    ``notes`` counts defects of the trace, such as replies without a request or unknown events.  ``assumed`` lists
    events that were not observed but must have happened, because the trace would otherwise be illegal.
    ``properties`` lists the properties that were checked as well.
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
