"""Differences between two machines, two drawings, or a machine and a drawing, as data.

Two machines are compared by every outcome of every cell, including replies and outputs.  Drawings are compared by their
states and arrows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fsm.diagrams.abstraction import Move
from fsm.diagrams.abstraction.drawn_names import parts
from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, Why, side_of
from fsm.diagrams.compare.drawing_with_machine import Matching
from fsm.diagrams.read import Location
from fsm.diagrams.read.drawing import Drawing
from fsm.errors import InputError, Problem
from fsm.machine import Event, Machine, State
from fsm.machine.table import tabulate

__all__ = ["ComparedMove", "ComparedState", "Comparison", "Where", "Why", "choose", "compare"]

_OTHER = {where: where for where in Where} | {Where.FIRST: Where.SECOND, Where.SECOND: Where.FIRST}


def compare(first: Machine | Drawing, second: Machine | Drawing, *, complete: bool = False) -> Comparison:
    """Return what *first* and *second* have in common, and what only one of them has.

    If *complete* is true, a drawing must show all of a machine, even if the model does not mention drawings.

    >>> from fsm.language.library import load
    >>> compare(load("examples/models/door.toml"), load("examples/models/door.toml")).equal
    True
    """
    match first, second:
        case Machine(), Machine():
            return _compare_machines(first, second)
        case Machine(), Drawing():
            return Matching(first, second, complete=complete).compared()
        case Drawing(), Machine():
            found = Matching(second, first, complete=complete).compared()
            return replace(
                found,
                first=found.second,
                second=found.first,
                states=tuple(replace(state, where=_OTHER[state.where]) for state in found.states),
                moves=tuple(replace(move, where=_OTHER[move.where], places=move.places[::-1]) for move in found.moves),
            )
        case Drawing(), Drawing():
            return _compare_drawings(first, second)
        case _:
            raise TypeError(f"compare machines or drawings, not {first!r} and {second!r}")


def choose(
    first: Machine | tuple[Drawing, ...], second: Machine | tuple[Drawing, ...], *, complete: bool = False
) -> Comparison:
    """Compare two sides, each of which is a machine or the drawings found in a file, as :func:`compare` does.

    If there are several drawings, choose one without differences.  If there is none, choose the only one that shares a
    state with the other side.  Raise :class:`InputError` if the choice is ambiguous, or if a candidate drawing cannot
    be read.
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


def _compare_machines(first: Machine, second: Machine) -> Comparison:
    """Compare two machines.  States and events are the same if they share a name, an RPC name or an alias."""
    states = _common(first.states.values(), second.states.values())
    events = _common(first.events.values(), second.events.values())
    mine = _moves(first, {name: name for name in first.states}, {name: name for name in first.events})
    theirs = _moves(second, states, events)
    shared = set(states.values())
    return Comparison(
        first=first.name,
        second=second.name,
        states=tuple(
            ComparedState(name=name, where=side_of(name, first.states, shared))
            for name in dict.fromkeys((*first.states, *states.values()))
        ),
        moves=tuple(
            replace(move, where=side_of(move, mine, theirs), outcomes=mine.get(move, theirs.get(move, ())))
            for move in {**mine, **theirs}
        ),
        initial=first.initial if states[second.initial] == first.initial else "",
    )


def _common(mine: Iterable[State | Event], theirs: Iterable[State | Event]) -> dict[str, str]:
    """For each name in *theirs*, return the name of its counterpart in *mine*, or that name if there is none."""
    taken = list(mine)
    called = {name: step.name for step in reversed(taken) for name in _names(step)}
    called |= {each.name: each.name for each in taken}
    found: dict[str, str] = {}
    for each in theirs:
        known = next((called[name] for name in _names(each) if name in called), each.name)
        found[each.name] = known if known not in found.values() else each.name
    return found


def _names(each: State | Event) -> tuple[str, ...]:
    rpc = (each.rpc,) if isinstance(each, Event) and each.rpc else ()
    return (each.name, *rpc, *each.aliases)


def _moves(one: Machine, states: Mapping[str, str], events: Mapping[str, str]) -> dict[ComparedMove, tuple[str, ...]]:
    """Map each move of *one* (one per cell, outcome and reply) to the names of its outcomes.

    States and events are translated to the first machine's names.
    """
    table = tabulate(one)
    found: dict[ComparedMove, tuple[str, ...]] = {}
    for row, number in table.defined():
        name = table.rows[row].name.replace(table.rows[row].event.name, events[table.rows[row].event.name])
        source, ways = states[table.states[number]], table.step(number, row)
        move = ComparedMove(source=source, event=name, target=source, where=Where.BOTH, silent=ways is None)
        if ways is None:
            found[move] = ()
        for way in ways or ():
            to = replace(move, target=states[table.states[way.to]], emits=way.emits, begins=way.begins)
            for reply in way.reply or ("",):
                each = replace(to, reply=reply)
                found[each] = (*found.get(each, ()), way.name)
    return found


def _compare_drawings(first: Drawing, second: Drawing) -> Comparison:
    mine, theirs = _drawn(first), _drawn(second)
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


def _drawn(drawing: Drawing) -> dict[Move, Location]:
    found: dict[Move, Location] = {}
    for arrow in drawing.arrows:
        for label in arrow.labels or [""]:
            for part in parts(label):
                found.setdefault(Move(arrow.source or "", part, arrow.target), arrow.place)
    return found
