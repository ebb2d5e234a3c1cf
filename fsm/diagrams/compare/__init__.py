"""Differences between lifecycles, as data: machine and drawing, two machines, two drawings."""

from dataclasses import replace

from fsm.diagrams.compare.choice import choose
from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, Why
from fsm.diagrams.compare.drawing_with_machine import compare_with_drawing
from fsm.diagrams.compare.two_drawings import compare_drawings
from fsm.diagrams.compare.two_machines import compare_machines
from fsm.diagrams.read import Drawing
from fsm.machine import Machine

__all__ = ["ComparedMove", "ComparedState", "Comparison", "Where", "Why", "choose", "compare"]

_OTHER = {Where.FIRST: Where.SECOND, Where.SECOND: Where.FIRST}


def compare(
    first: Machine | Drawing, second: Machine | Drawing, *, complete: bool = False, names: tuple[str, str] | None = None
) -> Comparison:
    """What *first* and *second* have in common, and what only one of them has.

    ``names`` replace their own names.  With *complete* a drawing must show all of a
    machine, even if the model does not mention drawings.

    >>> from fsm.library import load
    >>> compare(load("cri-pod"), load("cri-pod")).equal
    True
    """
    called = names or (_name(first), _name(second))
    match first, second:
        case Machine(), Machine():
            return compare_machines(first, second, names=called)
        case Machine(), Drawing():
            return replace(compare_with_drawing(first, second, complete=complete), first=called[0])
        case Drawing(), Machine():
            return replace(_swapped(compare_with_drawing(second, first, complete=complete)), second=called[1])
        case Drawing(), Drawing():
            return compare_drawings(first, second)
        case _:
            raise TypeError(f"compare machines or drawings, not {first!r} and {second!r}")


def _name(each: Machine | Drawing) -> str:
    return each.place if isinstance(each, Drawing) else str(getattr(each, "name", each))


def _swapped(found: Comparison) -> Comparison:
    """*found* with the drawing first."""
    return replace(
        found,
        first=found.second,
        second=found.first,
        states=tuple(replace(each, where=_OTHER.get(each.where, each.where)) for each in found.states),
        moves=tuple(
            replace(each, where=_OTHER.get(each.where, each.where), places=each.places[::-1]) for each in found.moves
        ),
    )
