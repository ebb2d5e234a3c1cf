"""What two lifecycles have in common and what only one of them has, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm.diagrams.read.drawing import Position


class Where(Enum):
    """Which of the two has it."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    UNDRAWN = "not drawn"
    """The machine has it, and drawings may leave it out: no difference."""


class Why(Enum):
    """What is wrong with something that is drawn, where more can be said than that the machine lacks it."""

    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """A state by the name it is shown under, the machine's states it stands for, and where it is drawn."""

    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Position | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """One move: an event that leads from a state to one.

    ``source`` is empty for "from nowhere".  Of two machines, moves differ also
    by reply and outputs, and by whether the call ends with it; ``silent`` is a
    cell of which nothing is said.  ``label`` is what is drawn, and ``places``
    where, in the first and in the second.  ``outcomes`` are the machine's,
    where it has the move.
    """

    source: str
    event: str
    target: str
    where: Where
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False
    silent: bool = False
    label: str = ""
    outcomes: tuple[str, ...] = ()
    places: tuple[Position | None, Position | None] = (None, None)
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All states and moves of two lifecycles; ``first`` and ``second`` are their names.

    ``initial`` is the state in which lives begin, if both have the same one.
    """

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""

    @property
    def differing_states(self) -> tuple[ComparedState, ...]:
        """The states that only one has."""
        return tuple(state for state in self.states if state.where in {Where.FIRST, Where.SECOND})

    @property
    def differing_moves(self) -> tuple[ComparedMove, ...]:
        """The moves that only one has."""
        return tuple(move for move in self.moves if move.where in {Where.FIRST, Where.SECOND})

    @property
    def equal(self) -> bool:
        """Whether neither has anything that the other lacks, what may be left undrawn apart."""
        return not self.differing_states and not self.differing_moves
