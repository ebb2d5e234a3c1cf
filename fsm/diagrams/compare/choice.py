"""Which drawing of a file is meant, where there are several: the one that matches, or the only candidate."""

from collections.abc import Callable

from fsm.diagrams.compare.difference import Comparison, Where
from fsm.diagrams.read import Drawing, FoundDrawing
from fsm.errors import InputError, Problem
from fsm.machine import Machine


def choose(
    first: Machine | tuple[FoundDrawing, ...],
    second: Machine | tuple[FoundDrawing, ...],
    compare: Callable[[Machine | Drawing, Machine | Drawing], Comparison],
) -> Comparison:
    """The comparison of two sides, each of which is a machine or the drawings found in a file.

    Of several drawings it is one without differences, else the only one that has a
    state in common with the other side.  Raises :class:`InputError` if several could be
    meant, or if one that could be meant cannot be read.
    """
    pairs = [(one, other) for one in _drawn(first) for other in _drawn(second)]
    compared = [compare(*pair) for pair in pairs]
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


def _drawn(side: Machine | tuple[FoundDrawing, ...]) -> list[Machine | Drawing]:
    if not isinstance(side, tuple):
        return [side]
    return [found.drawing for found in side if found.drawing is not None]


def _several(side: tuple[FoundDrawing, ...]) -> Problem:
    (path,) = {found.drawing.path for found in side if found.drawing is not None}
    lines = ", ".join(str(found.line) for found in side)
    what = f"has {len(side)} drawings, on lines {lines}, and none of them is the same as the other side"
    return Problem(path=path, line=0, code="FSM410", what=what, hint=f"say which one is meant: {path}:{side[0].line}")
