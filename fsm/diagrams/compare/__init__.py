"""Find the differences between two machines, between two drawings, or between a machine and a drawing.

Two machines are compared by their cells, including the replies and outputs of every outcome. Drawings are compared by
their states and arrows.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fsm.diagrams.compare.difference import ComparedMove, ComparedState, Comparison, Where, Why, side_of
from fsm.diagrams.drawing import (
    Abstraction,
    Act,
    Arrow,
    Drawing,
    LabelMeanings,
    Meaning,
    Move,
    groups,
    parts,
    proposed,
    single_label,
)
from fsm.diagrams.read import Location
from fsm.errors import InputError, Problem
from fsm.machine import Event, Machine, State
from fsm.machine.table import tabulate

ANY: Final = "any state"  # the name that `fsm draw` uses for the source of an arrow from any state


def _without_label_sources(drawing: Drawing, found: Mapping[str, tuple[str, ...]], known: LabelMeanings) -> Drawing:
    """Remove the source of each arrow that starts at its own label, as ``fsm draw`` draws arrows of left-out events."""
    states = {arrow.target for arrow in drawing.arrows} | {arrow.source for arrow in drawing.arrows if arrow.steps}
    others = [name for name in drawing.states if not found[name] and name not in states]
    written = {name: (name, *drawing.below.get(name, ())) for name in others}
    words = {name: lines for name, lines in written.items() if all(meaning for _, meaning in known.meant(lines))}
    arrows = [
        replace(arrow, source=None, steps=single_label(words[arrow.source], arrow.place))
        if arrow.source in words
        else arrow
        for arrow in drawing.arrows
    ]
    kept = {name: place for name, place in drawing.states.items() if name not in words}
    return replace(drawing, states=kept, arrows=tuple(arrows))


def _merge_names(machine: Machine, found: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    merged: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    for name, states in found.items():
        same = next((names[state] for state in states if state in names), name)
        merged[same] = merged.get(same, ()) + states
        names |= dict.fromkeys(states, same)
    drawn = {state for states in merged.values() for state in states}
    for name, states in proposed(machine).items():
        merged.setdefault(name, tuple(state for state in states if state not in drawn))
    return {name: states for name, states in merged.items() if states}


class Matching:
    """Compares a machine, as the first side of the comparison, with a drawing, as the second side."""

    def __init__(self, machine: Machine, drawing: Drawing, *, complete: bool) -> None:
        self.known = LabelMeanings(machine)
        self.found = groups(machine, {name: drawing.below.get(name, ()) for name in drawing.states})
        self.drawing = _without_label_sources(drawing, self.found, self.known)
        events = [(arrow, event) for arrow in self.drawing.arrows for event in self.known.events(arrow.labels)]
        self.events = {event for _, event in events}
        self.sourceless = any(arrow.source is None for arrow in self.drawing.arrows)
        nowhere = {event for arrow, event in events if arrow.source is None and machine.events[event].interrupts}
        self.abstraction = Abstraction(machine, _merge_names(machine, self.found), nowhere)
        self.initial = self.abstraction.shown[machine.initial]
        self.shown = {self._drawn_name(name) for name in self.drawing.states}
        self.shown |= {self.initial, ""} if self.sourceless else set()
        self.strict = complete or machine.omits is not None
        self.moves: list[ComparedMove] = []
        self.drawn: dict[Move, set[str]] = {}

    def compared(self) -> Comparison:
        for arrow in self.drawing.arrows:
            self._add_arrow(arrow)
        for key, acts in self.abstraction.must.items():
            self._add_machine_move(key, acts)
        return Comparison(
            first=self.abstraction.table.machine.name,
            second=self.drawing.place,
            states=tuple(self._compared_states()),
            moves=tuple(self.moves),
            initial=self.initial,
        )

    def _drawn_name(self, name: str | None) -> str:
        if name is None:
            return self.initial
        return next((self.abstraction.shown[state] for state in self.found[name]), name)

    def _add_arrow(self, arrow: Arrow) -> None:
        target = self._drawn_name(arrow.target)
        unknown = [name for name in (arrow.source, arrow.target) if name not in {None, ANY} and not self.found[name]]
        if not arrow.labels:
            first = arrow.source is None
            if first and target == self.initial:
                return
            wrong = Why.STATE if unknown else Why.INITIAL if first else Why.UNLABELLED
            source = "" if first else self._drawn_name(arrow.source)
            self._add_drawn_move(arrow, Move(source, "", target), "", wrong)
            return
        # Treat one arrow from "any state" as an arrow from each state in which the machine has the move.
        anywhere = arrow.source == ANY and not self.found[ANY]
        for label, meaning in self.known.meant(arrow.labels):
            event, outcome = meaning or Meaning(label)
            nowhere = arrow.source is None and event in self.abstraction.nowhere
            source = ANY if anywhere else "" if nowhere else self._drawn_name(arrow.source)
            sources = dict.fromkeys(self.abstraction.shown.values()) if anywhere else [source]
            keys = [Move(each, event, target) for each in sources]
            allowed = [] if unknown else [key for key in keys if self.abstraction.allows(key, outcome)]
            for key in allowed:
                self._add_common_move(arrow, key, label, outcome)
            if not allowed:
                elsewhere = outcome and not anywhere and self.abstraction.allows(keys[0], "")
                known = None if anywhere else Why.STATE if unknown else Why.OUTCOME if elsewhere else None
                why = Why.EVENT if meaning is None else known
                self._add_drawn_move(arrow, Move(source, event, target), label, why)

    def _add_drawn_move(self, arrow: Arrow, key: Move, label: str, why: Why | None) -> None:
        # If exactly one label is wrong, report the location of that label, because the arrowhead may be far away.
        wrong = [step.place for step in arrow.steps] if why in {Why.EVENT, Why.OUTCOME} else []
        places = (None, wrong[0] if len(wrong) == 1 else arrow.place)
        self.moves.append(ComparedMove(**key._asdict(), where=Where.SECOND, label=label, places=places, why=why))

    def _add_common_move(self, arrow: Arrow, key: Move, label: str, outcome: str) -> None:
        if outcome in self.drawn.setdefault(key, set()):
            return
        self.drawn[key].add(outcome)
        ways = tuple(dict.fromkeys(act.outcome for act in self.abstraction.acts(key)))
        places = (None, arrow.place)
        self.moves.append(ComparedMove(**key._asdict(), where=Where.BOTH, label=label, outcomes=ways, places=places))

    def _add_machine_move(self, key: Move, acts: list[Act]) -> None:
        drawn = self.drawn.get(key)
        ends = self.abstraction.ends.get(key)
        if drawn is not None:
            # A label that names one outcome does not cover other outcomes that have their own labels.
            acts = [act for act in acts if act.named and not {"", act.outcome} & drawn]
        elif ends and self._shows_where_call_ends(ends):
            return
        missing = [act for act in acts if not self._may_be_left_out(key, act)]
        if missing or (acts and drawn is None):
            where = Where.FIRST if missing else Where.UNDRAWN
            outcomes = tuple(dict.fromkeys(act.outcome for act in missing or acts))
            self.moves.append(ComparedMove(**key._asdict(), where=where, outcomes=outcomes))

    def _shows_where_call_ends(self, ends: set[Move]) -> bool:
        seen = [end for end in ends if end.source != end.target]
        return all(end in self.drawn for end in seen) and any(end not in self.abstraction.must for end in seen)

    def _may_be_left_out(self, key: Move, act: Act) -> bool:
        if self.strict:
            return self.abstraction.omitted(act, key.event)
        return act.failed or key.event not in self.events or not {key.source, key.target} <= self.shown

    def _compared_states(self) -> list[ComparedState]:
        shown = self.abstraction.shown
        stands_for = {name: tuple(state for state in shown if shown[state] == name) for name in shown.values()}
        places = {self._drawn_name(name): place for name, place in reversed(self.drawing.states.items())}
        states = []
        for name, own in stands_for.items():
            drawn = name in places or (name == self.initial and self.sourceless)
            where = Where.BOTH if drawn else Where.FIRST if self.strict else Where.UNDRAWN
            states.append(ComparedState(name=name, where=where, stands_for=own, place=places.get(name)))
        for name, place in self.drawing.states.items():
            if name != ANY and not self.found[name]:
                states.append(ComparedState(name=name, where=Where.SECOND, place=place, why=Why.STATE))
        return states


__all__ = ["ComparedMove", "ComparedState", "Comparison", "Where", "Why", "choose", "compare"]

_OTHER = {where: where for where in Where} | {Where.FIRST: Where.SECOND, Where.SECOND: Where.FIRST}


def compare(first: Machine | Drawing, second: Machine | Drawing, *, complete: bool = False) -> Comparison:
    """Compare the states and moves of *first* and *second*.

    If *complete* is true, a drawing must show the whole machine, even if the model does not mention drawings.

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
    """Compare two machines, two files with drawings, or a machine with a file.

    If a file has several drawings, use the one that does not differ from the other side, or else the only one that
    shares a state with it. Raise :class:`InputError` if the choice is not clear, or if a candidate cannot be read.
    """
    sides = [side for side in (first, second) if isinstance(side, tuple)]
    problems = [problem for side in sides for found in side for problem in found.problems]
    pairs = itertools.product(_without_problems(first), _without_problems(second))
    compared = [compare(one, other, complete=complete) for one, other in pairs]
    for comparison in compared:
        if comparison.equal:
            return comparison
    if problems:
        raise InputError(problems)
    likely = [each for each in compared if any(state.where is Where.BOTH for state in each.states)]
    if len(likely or compared) == 1:
        return (likely or compared)[0]
    raise InputError([_several_drawings_problem(side) for side in sides if len(side) > 1])


def _without_problems(side: Machine | tuple[Drawing, ...]) -> list[Machine | Drawing]:
    return [found for found in side if not found.problems] if isinstance(side, tuple) else [side]


def _several_drawings_problem(side: tuple[Drawing, ...]) -> Problem:
    lines = ", ".join(str(found.line) for found in side)
    what = f"the file has {len(side)} drawings, on lines {lines}, and none of them equals the other side"
    hint = f"select one drawing, as with {side[0].place}"
    return Problem(path=side[0].path, line=0, code="FSM410", what=what, hint=hint)


def _compare_machines(first: Machine, second: Machine) -> Comparison:
    """Compare two machines. States or events are the same if they share a name, RPC name or alias."""
    states = _matching_names(first.states.values(), second.states.values())
    events = _matching_names(first.events.values(), second.events.values())
    mine = _moves(first, {name: name for name in first.states}, {name: name for name in first.events})
    theirs = _moves(second, states, events)
    return Comparison(
        first=first.name,
        second=second.name,
        states=_states_of_both(dict.fromkeys(first.states), dict.fromkeys(states.values())),
        moves=tuple(
            replace(move, where=side_of(move, mine, theirs), outcomes=mine.get(move, theirs.get(move, ())))
            for move in {**mine, **theirs}
        ),
        initial=first.initial if states[second.initial] == first.initial else "",
    )


def _states_of_both(
    mine: Mapping[str, Location | None], theirs: Mapping[str, Location | None]
) -> tuple[ComparedState, ...]:
    places = {**mine, **theirs}
    return tuple(ComparedState(name=each, where=side_of(each, mine, theirs), place=places[each]) for each in places)


def _matching_names(mine: Iterable[State | Event], theirs: Iterable[State | Event]) -> dict[str, str]:
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
    """Map each move of *one* to its outcomes. Each reply has its own move. Names are those of the first machine."""
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
    mine, theirs = _drawn_moves(first), _drawn_moves(second)
    return Comparison(
        first=first.place,
        second=second.place,
        states=_states_of_both(first.states, second.states),
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


def _drawn_moves(drawing: Drawing) -> dict[Move, Location]:
    found: dict[Move, Location] = {}
    for arrow in drawing.arrows:
        for label in arrow.labels or [""]:
            for part in parts(label):
                found.setdefault(Move(arrow.source or "", part, arrow.target), arrow.place)
    return found
