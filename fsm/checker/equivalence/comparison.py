"""Results of comparing two machines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from fsm.machine.property.evidence import Run
from fsm.verdict import Fails, Holds, Unknown


class Side(Enum):
    """One of the two machines compared."""

    FIRST = 0
    SECOND = 1

    @property
    def other(self) -> Side:
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Observable(NamedTuple):
    """An observation of a machine.

    A call either replies immediately, or it ``begins`` and later ``ends``.  Other events happen at one moment.  If
    ``event`` is empty, the machine emits something or ``shows`` its state.  If ``silent`` is true, the specification
    leaves the event undefined.  The reply ``error`` stands for every error that neither machine mentions.
    """

    event: str = ""
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False
    ends: bool = False
    silent: bool = False
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Holds):
    """The two machines are weakly bisimilar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinguished(Fails):
    """A shortest ``trace`` that ``owner`` has and the other machine lacks.

    ``run`` is a run of the owner with this trace.  Before the last observation of the trace, the other machine may be
    in any of ``states``.  From there, the event can lead only to one of ``instead``.
    """

    owner: Side
    trace: tuple[Observable, ...]
    run: Run
    states: tuple[str, ...]
    instead: tuple[Observable, ...]


class Round(NamedTuple):
    """A matching step of both machines, and their states after it.  ``seen`` is ``None`` for a hidden step."""

    seen: Observable | None
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching(Fails):
    """The two machines have the same traces, but make a choice at different times.

    Both begin in ``start``.  In each of the ``rounds``, one machine takes a step that the other cannot match while
    staying equivalent.  In the end, ``owner`` has an ``option`` that the other machine has lost.  ``every_trace`` is
    false if the search for a distinguishing trace hit its limit.
    """

    start: tuple[str, str]
    rounds: tuple[Round, ...]
    owner: Side
    option: Observable
    every_trace: bool = True


EquivalenceResult: TypeAlias = "Equivalent | Distinguished | Branching | Unknown"
