"""The result of comparing two lifecycles, as data."""

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from fsm.diagrams.drawing import Location


class Where(Enum):
    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    UNDRAWN = "not drawn"  # a move of the machine that drawings may omit, so its absence is not a difference


class Why(Enum):
    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Location | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """An event that leads from one state to another.

    Moves of two machines also differ if their replies or outputs differ, or if only one of the moves begins a call.
    """

    source: str  # empty for an arrow without a source
    event: str
    target: str
    where: Where
    reply: str = ""
    emits: tuple[str, ...] = ()
    begins: bool = False  # whether the move begins a call that is still in progress in the target state
    silent: bool = False  # whether the cell is unspecified
    label: str = ""  # the label, as it is drawn
    outcomes: tuple[str, ...] = ()  # outcomes of the machine if it has the move
    places: tuple[Location | None, Location | None] = (None, None)  # places in the first and in the second drawing
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All states and moves of two lifecycles."""

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""  # the initial state of the machine, or the one that two machines have in common

    def near(self, move: ComparedMove) -> Location | None:
        place = move.places[0] or move.places[1]
        if place is None:
            drawn = {state.name: state.place for state in self.states}
            place = drawn.get(move.source) or drawn.get(move.target)
        return place

    @property
    def equal(self) -> bool:
        wheres = {state.where for state in self.states} | {move.where for move in self.moves}
        return wheres <= {Where.BOTH, Where.UNDRAWN}


def side_of(key: object, first: Container[object], second: Container[object]) -> Where:
    if key in first:
        return Where.BOTH if key in second else Where.FIRST
    return Where.SECOND
