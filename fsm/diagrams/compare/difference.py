"""What two lifecycles have in common and what only one of them has, as data."""

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from fsm.diagrams.read.drawing import Location


class Where(Enum):
    """Which of the two has it."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    UNDRAWN = "not drawn"
    """The machine has it, and drawings may leave it out: no difference."""


class Why(Enum):
    """What is wrong with something drawn, if it is known more precisely than that the machine lacks it."""

    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """A state by its drawn name, the machine's states that it stands for, and where it is drawn."""

    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Location | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """One move: an event that leads from one state to another.

    ``source`` is empty for an arrow without one.  Of two machines, moves also differ by reply and outputs, and by
    whether the call ends with it; ``silent`` is a cell that is not specified.  ``label`` is what is drawn, and
    ``places`` are where, in the first and in the second.  ``outcomes`` are the machine's, if it has the move.
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
    places: tuple[Location | None, Location | None] = (None, None)
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All states and moves of two lifecycles with these names; ``initial`` is empty unless both begin in one state."""

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""

    def near(self, move: ComparedMove) -> Location | None:
        """Where *move* is drawn; if it is not, its source where that is drawn, or else its target."""
        place = move.places[0] or move.places[1]
        if place is None:
            drawn = {state.name: state.place for state in self.states}
            place = drawn.get(move.source) or drawn.get(move.target)
        return place

    @property
    def equal(self) -> bool:
        """Whether neither has anything that the other lacks, other than what may be left undrawn."""
        wheres = {state.where for state in self.states} | {move.where for move in self.moves}
        return wheres <= {Where.BOTH, Where.UNDRAWN}


def side_of(key: object, first: Container[object], second: Container[object]) -> Where:
    """Which of the two contains *key*, which one of them does."""
    if key in first:
        return Where.BOTH if key in second else Where.FIRST
    return Where.SECOND
