"""Build the events of a machine, including those that are like another, and check that calls can end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from fsm.errors import nearest
from fsm.language.build.cells import REST, Groups, Part, Sets, keys
from fsm.language.build.citations import implied
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenEvent
from fsm.machine import Cell, Clause, Event, Kind, Machine, Moves, Silent
from fsm.machine.calls.endings import begun_in, found_in

C = TypeVar("C", bound=Cell)

_OF_THE_OTHER: Final = ("kind", "MUST", "SHOULD", "MAY", "observed", "clause", "says", "link", "interrupts")
"""Words that an event with ``like`` inherits, and must not have itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Builds the events of a machine from its ``known`` clauses and its ``sets`` of states."""

    problems: Problems[Written]
    known: Mapping[str, Clause]
    sets: Sets

    def by_name(self) -> dict[str, Event]:
        """Return every event, in file order.  An event that is like another inherits the cells that it lacks."""
        making = self.problems.model.written.event
        made = {name: self._event(name, each) for name, each in making.items() if each.like is None}
        for name, each in making.items():
            if each.like is not None:
                model = made[each.like] if each.like in made and making[each.like].like is None else None
                made[name] = self._like(name, each, model)
        return {name: made[name] for name in making}

    def _event(self, name: str, written: WrittenEvent) -> Event:
        at = ("event", name)
        if written.interrupts and written.meant_kind == "call":
            what = f"call '{name}' cannot interrupt calls"
            self.problems.say("FSM118", what, "only signals and hidden events do", *at, "interrupts")
        self.problems.known("FSM108", "unknown clause", written.clause, self.known, *at, "clause")
        own = self._implied(name, written, written)
        groups = self._groups(name, written, written.meant_kind, own)
        cells = groups.cells()
        for state in self.problems.model.written.states:
            if state not in cells:
                hint = f"say what '{name}' does there: moves, ignores, refuses, cannot or silent (or '*' for the rest)"
                self.problems.say("FSM103", f"event '{name}' has no cell for state '{state}'", hint, *at)
                cells[state] = Silent(clause=own)
        return Event(
            name=name,
            kind=groups.kind,
            about=written.about,
            cells={state: cells[state] for state in self.problems.model.written.states},
            ends=groups.ends(),
            rpc=written.rpc or "",
            aliases=tuple(written.aliases),
            interrupts=written.interrupts,
        )

    def _like(self, name: str, written: WrittenEvent, model: Event | None) -> Event:
        """Return the event *name*, with the cells of *model* except those that *written* has itself."""
        at = ("event", name)
        others = self.problems.model.written.event
        if model is None:
            other = others.get(str(written.like))
            what = f"event '{name}' is like '{written.like}', which " + (
                "is no event" if other is None else f"is like '{other.like}' itself"
            )
            able = [each for each, event in others.items() if event.like is None]
            hint = nearest(str(written.like), able, of="events") if other is None else f'say: like = "{other.like}"'
            self.problems.say("FSM127", what, hint, *at, "like")
            return self._event(name, written.model_copy(update={"kind": "hidden", "silent": [REST]}))
        for word in _OF_THE_OTHER:
            if word in written.model_fields_set:
                what = f"event '{name}' is like '{model.name}', and has '{word}'"
                self.problems.say("FSM127", what, f"leave it out: it is inherited from '{model.name}'", *at, word)
        if REST in keys(written) or any(REST in keys(each) for each in written.clauses.values()):
            what = f"event '{name}' is like '{model.name}', and has cells for '*'"
            self.problems.say("FSM127", what, "name the states in which it differs, or leave like out", *at)
        like = others[model.name]
        of_model = self._implied(model.name, like, like)
        of_this = self._implied(name, written, like)
        groups = self._groups(name, written.model_copy(update={"clause": like.clause}), model.kind, of_this)

        def own(cell: C) -> C:
            return replace(cell, clause=of_this) if cell.clause == of_model else cell

        return replace(
            model,
            name=name,
            about=written.about,
            cells={**{state: own(cell) for state, cell in model.cells.items()}, **groups.cells()},
            ends={**{state: own(end) for state, end in model.ends.items()}, **groups.ends()},
            rpc=written.rpc or "",
            aliases=tuple(written.aliases),
        )

    def _implied(self, name: str, about: WrittenEvent, of: WrittenEvent) -> Clause:
        return implied(self.problems, self.problems.model.written.machine, name, about.about, of)

    def _groups(self, name: str, written: WrittenEvent, kind: Kind, own: Clause) -> Groups:
        at = ("event", name)
        states = self.problems.model.written.states
        usual = self.known.get(written.clause or "", own)
        parts = [Part(written=written, clauses=dict.fromkeys(states, usual), at=at)]
        for clause, rest in written.clauses.items():
            at_rest = (*at, "clauses", clause)
            self.problems.known("FSM108", "unknown clause", clause, self.known, *at_rest)
            if not any(keys(rest)):
                what = f"no cell of event '{name}' rests on clause '{clause}'"
                self.problems.say("FSM119", what, "give it cells, or drop it", *at_rest)
            parts.append(Part(written=rest, clauses=dict.fromkeys(states, self.known.get(clause, own)), at=at_rest))
        return Groups(problems=self.problems, name=name, kind=kind, parts=parts, sets=self.sets)


def check_ends(problems: Problems[Written], machine: Machine) -> None:
    """Report every call of *machine* that begins but cannot end, and every end that no call can reach."""
    for event in machine.events.values():
        begun = begun_in(event)
        for state, line in begun.items():
            if state not in event.ends and state in machine.states:
                what = f"event '{event.name}' begins in '{state}' and never ends there"
                problems.say_at(line, "FSM111", what, f"say how it ends: ends = {{ {state} = … }}")
        met = in_progress(machine, event)
        for state, end in event.ends.items():
            if state not in met:
                what = f"event '{event.name}' ends in '{state}', where it is never in progress"
                why = f"nothing leads there from {' or '.join(begun)}, where it begins" if begun else "it never begins"
                hint = f'{why}: add an outcome with begins = "{state}", or drop the end'
                problems.say_at(end.line, "FSM111", what, hint)
        if stuck := endless(event):
            where = " and ".join(f"'{state}'" for state in stuck)
            what = f"event '{event.name}' never ends: from {where} it only begins again"
            hint = "give one of them an outcome with to or stays"
            problems.say_at(event.ends[stuck[0]].line, "FSM122", what, hint)


def endless(event: Event) -> list[str]:
    """Return the states from which a call of *event* only ever begins again."""
    ending: set[str] = set()

    def leaves(end: Moves) -> bool:
        # A call that begins in a state without an end is reported elsewhere.
        ways = end.outcomes
        return not ways or any(not way.begins or way.to in ending or way.to not in event.ends for way in ways)

    while more := {state for state, end in event.ends.items() if state not in ending and leaves(end)}:
        ending |= more
    return [state for state in event.ends if state not in ending]


def in_progress(machine: Machine, event: Event) -> set[str]:
    """Return the states that a call of *event* may be in after it has begun and before it ends."""
    begun = begun_in(event)
    return {*begun} if event.ends.keys() <= begun.keys() else {*begun, *found_in(machine, event)}
