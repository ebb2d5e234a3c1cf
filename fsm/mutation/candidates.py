"""Guess properties of a machine from its cells.

A candidate is a guess at the intention of the machine's author. :mod:`~fsm.mutation.outcomes` checks whether the
candidate holds, and which errors break it. The strongest candidates come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from fsm.language.build.grammar import WORDS
from fsm.machine import ANY_ERROR, LEVELS, Clause, Event, Level, Machine, Outcome, outcomes
from fsm.machine.graph import explore
from fsm.machine.table import tabulate
from fsm.machine.traversal import closure

# The claim of a property and its parameters, in the form of a property file.
ClaimWords: TypeAlias = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    name: str
    kind: str
    says: str
    level: Level
    source: str
    claim: ClaimWords
    event: str = ""  # empty if the property is about several events


def candidates(machine: Machine) -> Iterator[Candidate]:
    """Yield properties that *machine* may have, and that some error in *machine* would break. Names may repeat.

    >>> from fsm.language.library import load
    >>> [each.name for each in candidates(load("examples/models/door.toml"))][:2]
    ['gone-is-final', 'nothing-is-left-open']
    """
    graph = explore(tabulate(machine))
    reached = tuple(state for number, state in enumerate(graph.table.states) if number in graph.depth)
    reading = _Reading(machine=machine, reached=reached)
    yield from reading.no_return_claims()
    yield from reading.open_cells()
    yield from reading.entered()
    yield from reading.outputs()
    for event in machine.events.values():
        if reading.can_be_named(event.name):
            yield from _EventCandidates(reading=reading, event=event).candidates()


@dataclass(frozen=True, kw_only=True)
class _Reading:
    machine: Machine
    reached: tuple[str, ...]

    @cached_property
    def all_outputs(self) -> tuple[str, ...]:
        return self.machine.outputs()

    @cached_property
    def unclear(self) -> frozenset[str]:
        return WORDS | (self.machine.words().keys() & set(self.machine.states))

    def can_be_named(self, event: str) -> bool:
        return event not in WORDS

    def happens(self, event: str) -> str:
        return f"{event} happens" if event in self.unclear else event

    def now(self, states: Collection[str]) -> str:
        return _disjunction(f"is {state}" if state in self.unclear else state for state in states)

    def before(self, states: Collection[str]) -> str:
        others = [state for state in self.reached if state not in states]
        if len(others) == 1 and len(states) > 1:
            return f"not was {others[0]}"
        return _disjunction(f"was {state}" for state in states) if others else ""

    def clauses(self, events: Iterable[Event], states: Collection[str]) -> list[Clause]:
        return [event.cells[state].clause for event in events for state in states]

    def candidate(
        self, kind: str, name: str, says: str, claim: ClaimWords, clauses: Collection[Clause], event: str = ""
    ) -> Candidate:
        level: Level = min((each.level for each in clauses), key=LEVELS.index, default="observed")
        sources = {each.source for each in clauses}
        source = sources.pop() if len(sources) == 1 else self.machine.source
        return Candidate(name=name, kind=kind, says=says, level=level, source=source, claim=claim, event=event)

    def no_return_claims(self) -> Iterator[Candidate]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for state in self.reached:
            after = closure([state], self._next)
            if lost := tuple(other for other in self.reached if other not in after):
                groups.setdefault(lost, []).append(state)
        for lost, states in groups.items():
            clauses = self.clauses(self.machine.events.values(), states)
            if len(lost) == len(self.reached) - len(states) and len(states) == 1:
                kind, name, later = "final", f"{states[0]}-is-final", f"not {self.now(states)}"
                says = f"Once it is {states[0]}, it stays {states[0]}."
            else:
                kind, name, later = "no-way-back", f"no-way-back-from-{states[0]}", self.now(lost)
                says = f"Once it is {_list_with_or(states)}, it is never {_list_with_or(lost)} again."
            yield self.candidate(kind, name, says, {"never": f"{self.now(states)} then {later}"}, clauses)

    def _next(self, state: str) -> Iterator[str]:
        return (way.to for event in self.machine.events.values() for way in self.ways(event, state))

    def ways(self, event: Event, state: str) -> Iterator[Outcome]:
        yield from outcomes(event.cells[state], state, event.kind) or ()
        if state in event.ends:
            yield from event.ends[state].outcomes

    def open_cells(self) -> Iterator[Candidate]:
        specified = [
            event.name
            for event in self.machine.events.values()
            if self.can_be_named(event.name)
            if all(outcomes(event.cells[state], state, event.kind) is not None for state in self.reached)
        ]
        if specified:
            every = len(specified) == len(self.machine.events)
            does = f"{'every event' if every else _join(specified)} {'does' if every or len(specified) == 1 else 'do'}"
            says = f"The model states what {does} in every state."
            claim = {"always": [f"not silent on {name}" for name in specified]}
            clauses = self.clauses(self.machine.events.values(), self.reached)
            yield self.candidate("stated", "nothing-is-left-open", says, claim, clauses)

    def entered(self) -> Iterator[Candidate]:
        for state in self.reached:
            events = [event for event, source, way in self._all_outcomes if way.to == state != source]
            when = f"{self.now([state])} and moves"
            yield from self._causes("entered", f"{state}-is-entered", events, f"lead to {state}", when)

    def outputs(self) -> Iterator[Candidate]:
        for output in self.all_outputs:
            events = [event for event, _, way in self._all_outcomes if output in way.emits]
            yield from self._causes("output", f"{output}-has-a-cause", events, f"emit {output}", f"emits {output}")

    @cached_property
    def _all_outcomes(self) -> list[tuple[str, str, Outcome]]:
        every = ((event, state) for event in self.machine.events.values() for state in self.reached)
        return [(event.name, state, way) for event, state in every for way in self.ways(event, state)]

    def _causes(self, kind: str, name: str, causes: Iterable[str], does: str, when: str) -> Iterator[Candidate]:
        events = [self.machine.events[each] for each in dict.fromkeys(causes)]
        some = 0 < len(events) < len(self.machine.events)
        if some and all(self.can_be_named(event.name) for event in events):
            says = f"Only {_list_with_or([event.name for event in events])} can {does}."
            claim = {"always": " or ".join(map(self.acts, events)), "when": when}
            yield self.candidate(kind, name, says, claim, self.clauses(events, self.reached))

    def acts(self, event: Event) -> str:
        if event.ends:
            return f"{self.happens(event.name)} or {event.name} replies ok or {event.name} replies {ANY_ERROR}"
        return self.happens(event.name)


_Effect: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class _EventCandidates:
    reading: _Reading
    event: Event

    def candidates(self) -> Iterator[Candidate]:
        if self.event.kind == "call":
            yield from self._call()
        rows = (False, True) if self.event.ends else (False,)
        yield from self._enabling_states()
        for ends in rows:
            yield from self._exact_effects(ends=ends)
        yield from self._unstated_claims()
        for ends in rows:
            yield from self._possible_effects(ends=ends)

    @cached_property
    def _cells(self) -> dict[str, tuple[Outcome, ...] | None]:
        return {state: outcomes(self.event.cells[state], state, self.event.kind) for state in self.reading.reached}

    def _row(self, *, ends: bool) -> dict[str, tuple[Outcome, ...]]:
        if ends:
            cells = self.event.ends
            return {state: cells[state].outcomes for state in self.reading.reached if state in cells}
        return {state: ways for state, ways in self._cells.items() if ways}

    def _candidate(self, name: str, says: str, claim: ClaimWords, states: Iterable[str] = ()) -> Candidate:
        clauses = self.reading.clauses([self.event], tuple(states) or self.reading.reached)
        kind = name.partition("-")[0]
        return self.reading.candidate(kind, f"{self.event.name}-{name}", says, claim, clauses, self.event.name)

    def _call(self) -> Iterator[Candidate]:
        name = self.event.name
        says = f"A call of {name} right after one that succeeded changes nothing."
        yield self._candidate("idempotent", says, {"idempotent": name})
        rows = (self._row(ends=False), self._row(ends=True))
        ways = [(state, way) for row in rows for state, found in row.items() for way in found]
        reached = self.reading.reached
        targets = [state for state in reached if any(way.to == state and "ok" in way.reply for _, way in ways)]
        if targets and len(targets) < len(reached):
            says = f"After a call of {name} that succeeds, the state is {_list_with_or(targets)}."
            claim: ClaimWords = {"always": self.reading.now(targets), "when": f"{name} replies ok"}
            yield self._candidate("succeeds", says, claim)
        failing = [(state, way) for state, way in ways if any(reply != "ok" for reply in way.reply)]
        if failing and all(way.to == state for state, way in failing):
            claim = {"always": "stays", "when": f"{name} replies {ANY_ERROR}"}
            yield self._candidate("fails-without-effect", f"A call of {name} that fails changes nothing.", claim)
        cells = self._row(ends=False).items()
        refusing = [state for state, found in cells if all(way.reply and "ok" not in way.reply for way in found)]
        if refusing:
            says = f"A call of {name} fails if the state is {_list_with_or(refusing)}."
            claim = {"always": f"{name} replies {ANY_ERROR}", "when": self._happens_in(refusing)}
            yield self._candidate("refused", says, claim, refusing)

    def _enabling_states(self) -> Iterator[Candidate]:
        possible = [state for state, found in self._cells.items() if found]
        if all(found == () for found in self._cells.values()):
            happens = self.reading.happens(self.event.name)
            yield self._candidate("never", f"{self.event.name} never happens.", {"always": f"not {happens}"})
        if possible and any(found == () for found in self._cells.values()):
            says = f"{self.event.name} happens only if the state is {_list_with_or(possible)}."
            claim = {"always": self.reading.before(possible), "when": self.reading.happens(self.event.name)}
            yield self._candidate("where-it-can-be", says, claim, possible)

    def _happens_in(self, states: Collection[str]) -> str:
        return _conjunction(self.reading.happens(self.event.name), self.reading.before(states))

    def _exact_effects(self, *, ends: bool) -> Iterator[Candidate]:
        groups: dict[frozenset[_Effect], list[str]] = {}
        for state, found in self._row(ends=ends).items():
            groups.setdefault(frozenset(_effect(way, state) for way in found), []).append(state)
        name = self.event.name
        for effects, states in groups.items():
            happens = self._happens_in(states)
            if ends:
                replied = _disjunction([f"{name} replies ok", f"{name} replies {ANY_ERROR}"])
                happens = _conjunction(replied, self.reading.before(states) or f"was {states[0]}")
            ways = " or ".join(self._condition(each) for each in sorted(effects))
            what = f"a call of {name} that is in progress" if ends else name
            says = f"If the state is {_list_with_or(states)}, {what} {', or '.join(map(_phrase, sorted(effects)))}."
            if ways:
                kind = "ends" if ends else "acts"
                yield self._candidate(f"{kind}-in-{states[0]}", says, {"always": ways, "when": happens}, states)

    def _possible_effects(self, *, ends: bool) -> Iterator[Candidate]:
        where: dict[_Effect, list[str]] = {}
        for state, found in self._row(ends=ends).items():
            for to, replies, emits in (_effect(way, state) for way in found):
                for reply in replies or ("",):
                    where.setdefault((to, (reply,) if reply else (), emits), []).append(state)
        for effect, places in where.items():
            states = list(dict.fromkeys(places))
            to, replies, _ = effect
            happens = "" if replies else self.reading.happens(self.event.name)
            how = f"reply {replies[0]}" if replies else "happen"
            what = f"lead to {to}" if to else "change nothing"
            says = f"{self.event.name} may {how} and {what} if the state is {_list_with_or(states)}."
            claim: ClaimWords = {"reachable": _conjunction(happens, self._condition(effect)), "from-each": states}
            name = "-".join(("may", to or "stay", *(f"with-{each.lower().replace('_', '-')}" for each in replies)))
            yield self._candidate(name, says, claim, states)

    def _unstated_claims(self) -> Iterator[Candidate]:
        silent = [state for state, found in self._cells.items() if found is None]
        if silent:
            says = f"The model states nothing about {self.event.name} if the state is {_list_with_or(silent)}."
            claim = {"always": f"silent on {self.event.name}", "when": self.reading.now(silent)}
            yield self._candidate("unstated", says, claim, silent)
            others = [state for state in self.reading.reached if state not in silent]
            if others:
                says = f"The model states what {self.event.name} does if the state is {_list_with_or(others)}."
                claim = {"always": f"not silent on {self.event.name}", "when": self.reading.now(others)}
                yield self._candidate("stated", says, claim, others)

    def _condition(self, effect: _Effect) -> str:
        to, replies, emits = effect
        emitted = ""
        if self.reading.all_outputs:
            emitted = f"emits only {', '.join(emits)}" if emits else "emits nothing"
        replied = _disjunction(f"{self.event.name} replies {reply}" for reply in replies)
        return _conjunction(replied, self.reading.now([to]) if to else "stays", emitted)


def _effect(way: Outcome, state: str) -> _Effect:
    return ("" if way.to == state else way.to, tuple(sorted(way.reply)), way.emits)


def _phrase(effect: _Effect) -> str:
    to, replies, emits = effect
    named = [f"any {reply}" if reply == ANY_ERROR else reply for reply in replies]
    replied = [f"replies {_list_with_or(named)}"] if replies else []
    emitted = [f"emits {_join(emits)}"] if emits else []
    return _join([*replied, *emitted, f"leads to {to}" if to else "changes nothing"])


def _disjunction(conditions: Iterable[str]) -> str:
    found = list(conditions)
    return f"({' or '.join(found)})" if len(found) > 1 else "".join(found)


def _conjunction(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))


def _join(words: Collection[str], last: str = "and") -> str:
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def _list_with_or(words: Collection[str]) -> str:
    return _join(words, "or")
