"""A machine: states, events, and what each event does in each state.

A machine is a total table.  Every event has a cell for every state, and a
cell is one of five things; a call may besides say how it *ends* in the states
that it passes through while it is in progress.  Machines are made by
:mod:`fsm.language.build`, which checks all that these classes take for granted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Kind: TypeAlias = Literal["call", "signal", "hidden"]
Level: TypeAlias = Literal["MUST", "SHOULD", "MAY", "observed"]

LEVELS: tuple[Level, ...] = ("observed", "MAY", "SHOULD", "MUST")
"""Weakest first.  ``observed`` is a habit that no contract promises."""

ANY_ERROR = "error"
"""Stands for every error reply."""


def fits(reply: str, allowed: Collection[str]) -> bool:
    """Whether *reply* is among *allowed*, ``error`` standing for every error.

    >>> fits("JAMMED", ("ok", "error")), fits("ok", ("error",))
    (True, False)
    """
    return reply in allowed or (ANY_ERROR in allowed and reply != "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A normative sentence, in our words, with the place it comes from."""

    name: str
    says: str
    level: Level
    source: str
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state, and what an outside observer reads in it."""

    name: str
    about: str
    shows: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One way in which an event may end in a state.

    ``reply`` lists the replies that fit, ``error`` standing for every error;
    it is empty where there is none: for signals, and where the call has only
    *begun* and others may meet the state ``to`` before it ends.
    """

    name: str
    to: str
    reply: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    begins: bool = False
    about: str = ""
    aliases: tuple[str, ...] = ()
    deviation: Deviation | None = None

    def replies(self, reply: str) -> bool:
        """Whether *reply* fits this outcome.

        >>> Outcome(name="cut-short", to="open", reply=("error",)).replies("JAMMED")
        True
        """
        return fits(reply, self.reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The event acts: the environment chooses among the outcomes."""

    outcomes: tuple[Outcome, ...]
    clause: Clause
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignores:
    """A call replies ok; nothing changes and nothing is emitted."""

    clause: Clause
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuses:
    """A call replies one of ``codes``; nothing changes and nothing is emitted."""

    codes: tuple[str, ...]
    clause: Clause
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cannot:
    """The event does not happen in this state."""

    clause: Clause
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """The specification says nothing about the event in this state."""

    clause: Clause
    line: int = 0


Cell: TypeAlias = Moves | Ignores | Refuses | Cannot | Silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one event does in every state.

    ``ends`` has a row of outcomes for each state in which a call that has
    begun may be; for every other state it has none.
    """

    name: str
    kind: Kind
    about: str
    cells: Mapping[str, Cell]
    ends: Mapping[str, Moves] = field(default_factory=dict)
    rpc: str = ""
    aliases: tuple[str, ...] = ()
    interrupts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What a profile allows beyond the machine, and the clause that breaks."""

    name: str
    event: str
    clause: Clause
    about: str
    profile: str
    since: str = ""
    until: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """The cells of one event that a profile replaces or, deviating, extends."""

    name: str
    event: str
    cells: Mapping[str, Cell]
    ends: Mapping[str, Moves]
    about: str
    deviation: Deviation | None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a real implementation does otherwise."""

    name: str
    about: str
    overrides: tuple[Override, ...]
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """What drawings leave out of one event: its arrows from some states, and some of its outcomes."""

    states: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A lifecycle: a total table of states and events, with its sources.

    ``omits`` says by event what drawings leave out; ``None`` where nothing is
    said of drawings.
    """

    name: str
    title: str
    about: str
    source: str
    initial: str
    entity: str
    states: Mapping[str, State]
    events: Mapping[str, Event]
    clauses: Mapping[str, Clause]
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    indefinite: tuple[str, ...] = ()
    omits: Mapping[str, Omission] | None = None
    path: str = ""


def outcomes(cell: Cell, state: str, kind: Kind) -> tuple[Outcome, ...] | None:
    """Every way in which *cell*, at *state*, may end; ``None`` where it is silent.

    >>> clause = Clause(name="c", says="", level="MUST", source="")
    >>> [way.reply for way in outcomes(Refuses(codes=("NOT_FOUND",), clause=clause), "gone", "call")]
    [('NOT_FOUND',)]
    """
    match cell:
        case Moves(outcomes=ways):
            return ways
        case Ignores():
            return (Outcome(name="ignored", to=state, reply=("ok",) if kind == "call" else ()),)
        case Refuses(codes=codes):
            return (Outcome(name="refused", to=state, reply=codes),)
        case Cannot():
            return ()
        case Silent():
            return None
        case _:
            assert_never(cell)
