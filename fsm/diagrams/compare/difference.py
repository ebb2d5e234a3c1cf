"""Similarities of two lifecycles and differences between them, as data."""

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
    """The machine has the state or move, but drawings may leave it out. It is therefore not a difference."""


class Why(Enum):
    """The known reason why a drawn state or arrow does not match the machine."""

    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """A state under its drawn name, the states of the machine that it denotes, and the place where it is drawn."""

    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Location | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """A move, which is an event that leads from one state to another.

    The moves of two machines may also differ in their reply or outputs, or because only one of them begins a call.
    """

    source: str  # empty for an arrow without a source
    event: str
    target: str
    where: Where
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False  # The move begins a call that has not ended in the target state.
    silent: bool = False  # the cell is unspecified
    label: str = ""  # the label, as it is drawn
    outcomes: tuple[str, ...] = ()  # outcomes of the machine if it has the move
    places: tuple[Location | None, Location | None] = (None, None)  # places in the first and in the second drawing
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All states and moves of two named lifecycles.

    ``initial`` is the initial state that both have, if it is known.
    """

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""

    def near(self, move: ComparedMove) -> Location | None:
        """Return the location of *move*.

        If the move is not drawn, return the location of its source or its target.
        """
        place = move.places[0] or move.places[1]
        if place is None:
            drawn = {state.name: state.place for state in self.states}
            place = drawn.get(move.source) or drawn.get(move.target)
        return place

    @property
    def equal(self) -> bool:
        """Whether both sides have the same parts. Parts that drawings may leave out do not count."""
        wheres = {state.where for state in self.states} | {move.where for move in self.moves}
        return wheres <= {Where.BOTH, Where.UNDRAWN}


def side_of(key: object, first: Container[object], second: Container[object]) -> Where:
    """Return the sides that contain *key*. At least one side must contain it."""
    if key in first:
        return Where.BOTH if key in second else Where.FIRST
    return Where.SECOND
