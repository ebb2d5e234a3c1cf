"""The answer to a question, with its evidence: data, never sentences.

:mod:`fsm.report` finds the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.machine import Clause, Deviation, Machine
    from fsm.trace import Observation


class Cause(Enum):
    """In which respect a trace and its specification part."""

    REPLY = "reply"
    STATE = "state"
    EVENT = "event"
    OUTPUT = "output"


class Repair(Enum):
    """The single edit that makes a trace legal again, smallest first."""

    REPLY = "reply changed"
    REPEATED = "repeated"
    SWAPPED = "swapped"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """``repair`` applied: ``text`` is the reply or the event it puts there."""

    repair: Repair
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """What would have been legal in ``state``: a reply, a sight or an output."""

    state: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An observation that no behaviour of the machine explains.

    ``illegal`` is what of it is not legal: the reply, the event, the state that
    was shown or met, the outputs joined by blanks.
    ``before`` are the states possible just before it, ``permitted`` what each
    would have allowed, ``clause`` the weakest clause among those that it
    breaks: the strongest that certainly is broken.
    """

    machine: str
    cause: Cause
    observation: Observation
    file: str
    line: int
    before: tuple[str, ...]
    permitted: tuple[Permitted, ...]
    clause: Clause
    edits: tuple[Edit, ...]
    illegal: str = ""
    resembles: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A declared deviation of the chosen profile, met in the trace.

    Where ``others`` would explain the observation as well, it was one of them
    all, and nobody can tell which.
    """

    machine: str
    deviation: Deviation
    observation: Observation
    file: str
    line: int
    others: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """It does.  Where there is something to show for it, a subclass has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """It does not.  Each kind of question has a subclass with the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question could not be answered, and why."""

    why: str


Verdict: TypeAlias = Holds | Fails | Unknown
"""The answer to every question; the kinds of questions narrow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Fails):
    """Something in a trace is no behaviour of the machine; ``findings`` is never empty.

    ``incomplete`` says why there may be more, where a part of the trace could not be judged.
    """

    findings: tuple[Finding, ...]
    incomplete: str = ""


Legality: TypeAlias = Holds | Illegal | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Violations with one cause, folded: the first few, and how many there are.

    ``others`` says that it is not one cause: of causes beyond those that are
    told apart, all whose clauses have one level are counted together.
    """

    first: tuple[Violation, ...]
    count: int
    entities: int
    others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviated:
    """Tolerated deviations of one name, or of the same few, folded."""

    first: Tolerated
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How often each cell of a machine was met, by (event, state); 0 where never."""

    machine: str
    cells: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is to be said of one machine and one trace.

    ``notes`` count what the trace lacked: replies without a request, events
    that the machine does not know.
    """

    machine: Machine
    verdict: Legality
    tolerated: tuple[Deviated, ...]
    covered: Covered
    entities: int
    observations: int
    notes: Mapping[str, int]
