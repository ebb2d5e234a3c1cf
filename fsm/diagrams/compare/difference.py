"""Common parts and differences of two lifecycles, as data."""

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from fsm.diagrams.read.drawing import Location


class Where(Enum):
    """The sides of a comparison that have a state or move."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"
    UNDRAWN = "not drawn"
    """The machine has it, and drawings may leave it out: no difference."""


class Why(Enum):
    """The fault of a drawn state or arrow, if more is known than that the machine lacks it."""

    STATE = "unknown state"
    EVENT = "unknown event"
    UNLABELLED = "no label"
    OUTCOME = "leads elsewhere"
    INITIAL = "begins elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedState:
    """A state by its drawn name, the machine's states that it stands for, and the place where it is drawn."""

    name: str
    where: Where
    stands_for: tuple[str, ...] = ()
    place: Location | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMove:
    """One move: an event that leads from one state to another.

    ``source`` is empty for an arrow without one.  Moves of two machines also differ if the reply or the outputs
    differ, or if only one ``begins`` a call that is then in progress; ``silent`` is an unspecified cell.  ``label`` is
    the drawn label, and ``places`` are its places in the first and in the second.  ``outcomes`` are the machine's, if
    it has the move.
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
    """All states and moves of two lifecycles with these names; ``initial`` is their common initial state, if known."""

    first: str
    second: str
    states: tuple[ComparedState, ...]
    moves: tuple[ComparedMove, ...]
    initial: str = ""

    def near(self, move: ComparedMove) -> Location | None:
        """Return the place where *move* is drawn; if it is not drawn, that of its source, or else of its target."""
        place = move.places[0] or move.places[1]
        if place is None:
            drawn = {state.name: state.place for state in self.states}
            place = drawn.get(move.source) or drawn.get(move.target)
        return place

    @property
    def equal(self) -> bool:
        """Whether neither has anything that the other lacks, except parts that may be left undrawn."""
        wheres = {state.where for state in self.states} | {move.where for move in self.moves}
        return wheres <= {Where.BOTH, Where.UNDRAWN}


def side_of(key: object, first: Container[object], second: Container[object]) -> Where:
    """Return which of the two contains *key*, which must be in at least one."""
    if key in first:
        return Where.BOTH if key in second else Where.FIRST
    return Where.SECOND
