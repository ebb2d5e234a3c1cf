"""Two drawings: the same states and the same arrows, by the names that are drawn."""

from fsm.diagrams.abstraction import Move
from fsm.diagrams.abstraction.drawn_names import parts
from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, side_of
from fsm.diagrams.read.drawing import Drawing, Location


def compare_drawings(first: Drawing, second: Drawing) -> Comparison:
    """What two drawings have in common; names must be equal."""
    mine, theirs = _moves(first), _moves(second)
    states = {**first.states, **second.states}
    return Comparison(
        first=first.place,
        second=second.place,
        states=tuple(
            ComparedState(name=name, where=side_of(name, first.states, second.states), place=place)
            for name, place in states.items()
        ),
        moves=tuple(
            ComparedMove(
                **key._asdict(),
                where=side_of(key, mine, theirs),
                label=key.event,
                places=(mine.get(key), theirs.get(key)),
            )
            for key in {**mine, **theirs}
        ),
    )


def _moves(drawing: Drawing) -> dict[Move, Location]:
    """The drawn moves, one for each event of a label, with the first place of each."""
    found: dict[Move, Location] = {}
    for arrow in drawing.arrows:
        for label in arrow.labels or [""]:
            for part in parts(label):
                found.setdefault(Move(arrow.source or "", part, arrow.target), arrow.place)
    return found
