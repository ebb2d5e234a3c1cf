"""Differences between lifecycles, as data: machine and drawing, two machines, two drawings."""

from dataclasses import replace

from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, Why
from fsm.diagrams.compare.drawing_with_machine import Matching
from fsm.diagrams.compare.same_kind import compare_drawings, compare_machines
from fsm.diagrams.read import Drawing
from fsm.errors import InputError, Problem
from fsm.machine import Machine

__all__ = ["ComparedMove", "ComparedState", "Comparison", "Where", "Why", "choose", "compare"]

_OTHER = {where: where for where in Where} | {Where.FIRST: Where.SECOND, Where.SECOND: Where.FIRST}


def compare(first: Machine | Drawing, second: Machine | Drawing, *, complete: bool = False) -> Comparison:
    """What *first* and *second* have in common, and what only one of them has.

    With *complete* a drawing must show all of a machine, even if the model does not mention drawings.

    >>> from fsm.library import load
    >>> compare(load("cri-pod"), load("cri-pod")).equal
    True
    """
    match first, second:
        case Machine(), Machine():
            return compare_machines(first, second)
        case Machine(), Drawing():
            return Matching(first, second, complete=complete).compared()
        case Drawing(), Machine():
            return _swapped(Matching(second, first, complete=complete).compared())
        case Drawing(), Drawing():
            return compare_drawings(first, second)
        case _:
            raise TypeError(f"compare machines or drawings, not {first!r} and {second!r}")


def _swapped(found: Comparison) -> Comparison:
    """*found* with the drawing first."""
    return replace(
        found,
        first=found.second,
        second=found.first,
        states=tuple(replace(each, where=_OTHER[each.where]) for each in found.states),
        moves=tuple(replace(each, where=_OTHER[each.where], places=each.places[::-1]) for each in found.moves),
    )


def choose(
    first: Machine | tuple[Drawing, ...], second: Machine | tuple[Drawing, ...], *, complete: bool = False
) -> Comparison:
    """As :func:`compare`, of two sides each of which is a machine or the drawings found in a file.

    Of several drawings it is one without differences, else the only one that has a state in common with the other side.
    Raises :class:`InputError` if several could be meant, or if one that could be meant cannot be read.
    """
    compared = [compare(one, other, complete=complete) for one in _readable(first) for other in _readable(second)]
    for comparison in compared:
        if comparison.equal:
            return comparison
    sides = [side for side in (first, second) if isinstance(side, tuple)]
    problems = [problem for side in sides for found in side for problem in found.problems]
    if problems:
        raise InputError(problems)
    likely = [each for each in compared if any(state.where is Where.BOTH for state in each.states)]
    if len(likely or compared) == 1:
        return (likely or compared)[0]
    raise InputError([_several(side) for side in sides if len(side) > 1])


def _readable(side: Machine | tuple[Drawing, ...]) -> list[Machine | Drawing]:
    return [found for found in side if not found.problems] if isinstance(side, tuple) else [side]


def _several(side: tuple[Drawing, ...]) -> Problem:
    lines = ", ".join(str(found.line) for found in side)
    what = f"has {len(side)} drawings, on lines {lines}, and none of them is the same as the other side"
    return Problem(path=side[0].path, line=0, code="FSM410", what=what, hint=f"say which one is meant: {side[0].place}")
