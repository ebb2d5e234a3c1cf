"""Two machines, or one under two profiles, and two drawings: what they have of the same names.

Of machines it is every outcome of every cell, with its reply and outputs; of drawings the states and arrows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fsm.diagrams.abstraction import Move
from fsm.diagrams.abstraction.drawn_names import parts
from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, side_of
from fsm.diagrams.read.drawing import Drawing, Location
from fsm.machine import Event, Machine, State
from fsm.machine.table import tabulate


def compare_machines(first: Machine, second: Machine) -> Comparison:
    """What the tables of two machines have in common.

    States and events are the same if they share a name: their own, that on the wire, or an alias.

    >>> from fsm.library import load
    >>> pod = load("cri-pod")
    >>> compare_machines(pod, pod).equal
    True
    """
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
    """For each of *theirs*, its name among *mine*, by any of its names; else its own."""
    taken = list(mine)
    called = {name: each.name for each in reversed(taken) for name in _names(each)}
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
    """Every outcome of every cell, one for each reply, by the names of the first machine, with the outcomes' names."""
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


def compare_drawings(first: Drawing, second: Drawing) -> Comparison:
    """What two drawings have in common; names must be equal."""
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
    """The drawn moves, one for each event of a label, with the first place of each."""
    found: dict[Move, Location] = {}
    for arrow in drawing.arrows:
        for label in arrow.labels or [""]:
            for part in parts(label):
                found.setdefault(Move(arrow.source or "", part, arrow.target), arrow.place)
    return found
