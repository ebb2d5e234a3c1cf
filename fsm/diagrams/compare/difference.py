"""Similarities and differences between two lifecycles, as data."""

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from fsm.diagrams.drawing import Location


class Where(Enum):
    """The sides of a comparison that have a certain state or move."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    UNDRAWN = "not drawn"
    """The machine has it, but drawings may leave it out, so it is not a difference."""


class Why(Enum):
    """The reason why a drawn state or arrow does not match the machine, if the reason is known."""

    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """A state under its drawn name, the machine's states that it stands for, and where it is drawn."""

    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Location | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """One move: an event that leads from one state to another.

    Moves of two machines may also differ in their reply, their outputs, and whether they begin a call.
    """

    source: str  # empty for an arrow without a source
    event: str
    target: str
    where: Where
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False  # the move begins a call that has not ended in the target state
    silent: bool = False  # the cell is unspecified
    label: str = ""  # the label as drawn
    outcomes: tuple[str, ...] = ()  # outcomes of the machine, if it has the move
    places: tuple[Location | None, Location | None] = (None, None)  # locations in the first and in the second drawing
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All states and moves of two named lifecycles.  ``initial`` is their common initial state, if known."""

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""

    def near(self, move: ComparedMove) -> Location | None:
        """Return the location of *move* or, if it is not drawn, that of its source or its target."""
        place = move.places[0] or move.places[1]
        if place is None:
            drawn = {state.name: state.place for state in self.states}
            place = drawn.get(move.source) or drawn.get(move.target)
        return place

    @property
    def equal(self) -> bool:
        """Whether neither side has anything that the other lacks, except parts that may be left undrawn."""
        wheres = {state.where for state in self.states} | {move.where for move in self.moves}
        return wheres <= {Where.BOTH, Where.UNDRAWN}


def side_of(key: object, first: Container[object], second: Container[object]) -> Where:
    """Return which sides contain *key*, which must be in at least one of them."""
    if key in first:
        return Where.BOTH if key in second else Where.FIRST
    return Where.SECOND
