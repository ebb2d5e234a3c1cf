"""What tells two machines apart, or that nothing does: data, never sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from fsm.property.evidence import Run
    from fsm.verdict import Unknown


class Side(Enum):
    """One of the two machines that are compared."""

    FIRST = 0
    SECOND = 1

    @property
    def other(self) -> Side:
        """The machine on the other side."""
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Observable(NamedTuple):
    """One thing that can be observed of a machine.

    A call replies, or ``begins`` and goes on later, which is an ``ends``;
    something happens; or, where there is no event, somebody looks at what the
    machine ``shows``.  ``silent`` says that nothing is specified of it.  The
    reply ``error`` is one that neither machine mentions.
    """

    event: str = ""
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False
    ends: bool = False
    silent: bool = False
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """Nobody can tell them apart; ``kinds`` are the situations that differ in what may follow."""

    kinds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinguished:
    """A shortest ``trace`` that ``owner`` has and the other has not.

    ``run`` is one of the owner's that shows it.  Just before its end the
    other may be in any of ``states``, and could do ``instead``, of the same
    event.
    """

    owner: Side
    trace: tuple[Observable, ...]
    run: Run
    states: tuple[str, ...]
    instead: tuple[Observable, ...]


class Round(NamedTuple):
    """Both do the same, as ``seen``, and are in these states then; nothing is seen of what is hidden."""

    seen: Observable | None
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching:
    """They have the same traces, and differ in when a choice is made.

    Both begin in ``start``.  In each of the ``rounds`` one takes a step that
    the other cannot match so that they stay alike, whichever way it goes; at
    the end ``owner`` has the ``option`` that the other has lost.
    ``every_trace`` is false if a limit stopped the search for a trace.
    """

    start: tuple[str, str]
    rounds: tuple[Round, ...]
    owner: Side
    option: Observable
    every_trace: bool = True


Comparison: TypeAlias = "Equivalent | Distinguished | Branching | Unknown"
