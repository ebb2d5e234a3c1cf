"""Candidate properties of a machine, derived from its cells and written in the property language.

A candidate is a guess at what the machine's author may have meant. :mod:`~fsm.mutation.suggestions` finds out whether
it holds and which errors break it. The strongest candidates come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from fsm.language.build.machine_conditions import WORDS
from fsm.machine import ANY_ERROR, LEVELS, Clause, Event, Level, Machine, Outcome, outcomes
from fsm.machine.graph import explore
from fsm.machine.table import tabulate

ClaimWords: TypeAlias = Mapping[str, str | list[str]]
"""The claim of a property and its parameters, as in a property file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A property that a machine may have. ``event`` is empty if the property is about several events."""

    name: str
    kind: str
    says: str
    level: Level
    source: str
    claim: ClaimWords
    event: str = ""


def candidates(machine: Machine) -> Iterator[Candidate]:
    """Yield properties that *machine* may have and that an error in it would break. Names may repeat.

    >>> from fsm.language.library import load
    >>> [each.name for each in candidates(load("examples/models/door.toml"))][:2]
    ['gone-is-final', 'nothing-is-left-open']
    """
    graph = explore(tabulate(machine))
    met = tuple(state for number, state in enumerate(graph.table.states) if number in graph.depth)
    reading = _Reading(machine=machine, met=met)
    yield from reading.never_again()
    yield from reading.open_cells()
    yield from reading.entered()
    yield from reading.outputs()
    for event in machine.events.values():
        if reading.sayable(event.name):
            yield from _OfEvent(reading=reading, event=event).candidates()


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """Reads the cells of ``machine`` in the reachable states ``met`` and words conditions about them."""

    machine: Machine
    met: tuple[str, ...]
    outputs_known: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs_known", self.machine.outputs())

    @cached_property
    def unclear(self) -> frozenset[str]:
        """Names that are ambiguous in a condition: keywords, and names of both an event and a state."""
        return WORDS | (self.machine.words().keys() & set(self.machine.states))

    def sayable(self, event: str) -> bool:
        return event not in WORDS

    def happens(self, event: str) -> str:
        return f"{event} happens" if event in self.unclear else event

    def now(self, states: Collection[str]) -> str:
        """Return the condition that the state is one of *states*."""
        return _some(f"is {each}" if each in self.unclear else each for each in states)

    def before(self, states: Collection[str]) -> str:
        """Return the condition that the state was one of *states*, or an empty string if that is always true."""
        rest = [each for each in self.met if each not in states]
        if len(rest) == 1 and len(states) > 1:
            return f"not was {rest[0]}"
        return _some(f"was {each}" for each in states) if rest else ""

    def cited(self, clauses: Iterable[Clause]) -> tuple[Level, str]:
        """Return the weakest level of *clauses* and their source, or the machine's source if theirs differ."""
        found = list(clauses)
        level: Level = min((each.level for each in found), key=LEVELS.index, default="observed")
        sources = {each.source for each in found}
        return level, sources.pop() if len(sources) == 1 else self.machine.source

    def candidate(
        self, kind: str, name: str, says: str, claim: ClaimWords, clauses: Iterable[Clause], event: str = ""
    ) -> Candidate:
        level, source = self.cited(clauses)
        return Candidate(name=name, kind=kind, says=says, level=level, source=source, claim=claim, event=event)

    def clauses(self, events: Iterable[Event], states: Collection[str]) -> list[Clause]:
        return [event.cells[state].clause for event in events for state in states]

    def never_again(self) -> Iterator[Candidate]:
        """Yield claims that certain states are never reached again from a given state."""
        after = {state: self._after(state) for state in self.met}
        groups: dict[tuple[str, ...], list[str]] = {}
        for state in self.met:
            lost = tuple(each for each in self.met if each not in after[state])
            if lost:
                groups.setdefault(lost, []).append(state)
        for lost, states in groups.items():
            clauses = self.clauses(self.machine.events.values(), states)
            final = len(lost) == len(self.met) - len(states)
            if final and len(states) == 1:
                claim = {"never": f"{self.now(states)} then not {self.now(states)}"}
                yield self.candidate("final", f"{states[0]}-is-final", f"What is {states[0]} stays so.", claim, clauses)
            else:
                says = f"Once it is {_either(states)}, it is never {_either(lost)} again."
                claim = {"never": f"{self.now(states)} then {self.now(lost)}"}
                yield self.candidate("no-way-back", f"no-way-back-from-{states[0]}", says, claim, clauses)

    def _after(self, state: str) -> frozenset[str]:
        found, todo = {state}, [state]
        while todo:
            here = todo.pop()
            fresh = {way.to for event in self.machine.events.values() for way in self.ways(event, here)} - found
            found |= fresh
            todo += fresh
        return frozenset(found)

    def ways(self, event: Event, state: str) -> Iterator[Outcome]:
        """Yield the outcomes of *event* in *state*, including those of a call that ends there."""
        yield from outcomes(event.cells[state], state, event.kind) or ()
        if state in event.ends:
            yield from event.ends[state].outcomes

    def open_cells(self) -> Iterator[Candidate]:
        """Yield the claim that the machine specifies certain events in every reachable state."""
        named = [event for event in self.machine.events.values() if self.sayable(event.name)]
        told = [
            each.name
            for each in named
            if all(outcomes(each.cells[state], state, each.kind) is not None for state in self.met)
        ]
        if told:
            every = len(told) == len(self.machine.events)
            does = f"{'every event' if every else _list(told)} {'does' if every or len(told) == 1 else 'do'}"
            says = f"It is stated what {does} in every state."
            claim = {"always": [f"not silent on {each}" for each in told]}
            clauses = self.clauses(self.machine.events.values(), self.met)
            yield self.candidate("stated", "nothing-is-left-open", says, claim, clauses)

    def entered(self) -> Iterator[Candidate]:
        """Yield, for each state, the claim that only certain events lead to it."""
        for state in self.met:
            by = {
                event.name
                for event in self.machine.events.values()
                for source in self.met
                if source != state and any(way.to == state for way in self.ways(event, source))
            }
            if by and len(by) < len(self.machine.events) and all(map(self.sayable, by)):
                events = [event for event in self.machine.events.values() if event.name in by]
                says = f"It becomes {state} by {_either([each.name for each in events])} only."
                claim = {"always": " or ".join(map(self.acts, events)), "when": f"{self.now([state])} and moves"}
                clauses = self.clauses(events, self.met)
                yield self.candidate("entered", f"{state}-is-entered", says, claim, clauses)

    def acts(self, event: Event) -> str:
        """Return the condition for *event* to happen or, if it is a call that takes time, to end."""
        if event.ends:
            return f"{self.happens(event.name)} or {event.name} replies ok or {event.name} replies {ANY_ERROR}"
        return self.happens(event.name)

    def outputs(self) -> Iterator[Candidate]:
        """Yield, for each output, the claim that only certain events emit it."""
        for output in self.outputs_known:
            events = [
                event
                for event in self.machine.events.values()
                if any(output in way.emits for state in self.met for way in self.ways(event, state))
            ]
            if 0 < len(events) < len(self.machine.events) and all(self.sayable(each.name) for each in events):
                says = f"{output} comes out by {_either([each.name for each in events])} only."
                claim = {"always": " or ".join(map(self.acts, events)), "when": f"emits {output}"}
                clauses = self.clauses(events, self.met)
                yield self.candidate("output", f"{output}-has-a-cause", says, claim, clauses)


_Effect: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The target of an outcome (empty if the state does not change), its replies, and its outputs."""


@dataclass(frozen=True, kw_only=True)
class _OfEvent:
    reading: _Reading
    event: Event

    def candidates(self) -> Iterator[Candidate]:
        if self.event.kind == "call":
            yield from self._of_call()
        yield from self._where()
        for ends in (False, True) if self.event.ends else (False,):
            yield from self._exactly(ends=ends)
        yield from self._silent()
        for ends in (False, True) if self.event.ends else (False,):
            yield from self._possible(ends=ends)

    @cached_property
    def _cells(self) -> dict[str, tuple[Outcome, ...] | None]:
        kind = self.event.kind
        return {state: outcomes(self.event.cells[state], state, kind) for state in self.reading.met}

    def _row(self, *, ends: bool) -> dict[str, tuple[Outcome, ...]]:
        if ends:
            return {state: self.event.ends[state].outcomes for state in self.reading.met if state in self.event.ends}
        return {state: ways for state, ways in self._cells.items() if ways}

    def _made(self, name: str, says: str, claim: ClaimWords, states: Iterable[str] = ()) -> Candidate:
        chosen = tuple(states) or self.reading.met
        clauses = [self.event.cells[state].clause for state in chosen]
        kind = name.partition("-")[0]
        return self.reading.candidate(kind, f"{self.event.name}-{name}", says, claim, clauses, self.event.name)

    def _of_call(self) -> Iterator[Candidate]:
        name = self.event.name
        yield self._made(
            "idempotent", f"A call of {name} right after one that succeeded changes nothing.", {"idempotent": name}
        )
        ways = [
            (state, way) for ends in (False, True) for state, found in self._row(ends=ends).items() for way in found
        ]
        led = [each for each in self.reading.met if any(way.to == each and "ok" in way.reply for _, way in ways)]
        if led and len(led) < len(self.reading.met):
            says = f"After a call of {name} that succeeds it is {_either(led)}."
            yield self._made("succeeds", says, {"always": self.reading.now(led), "when": f"{name} replies ok"})
        failing = [(state, way) for state, way in ways if any(reply != "ok" for reply in way.reply)]
        if failing and all(way.to == state for state, way in failing):
            says = f"A call of {name} that fails changes nothing."
            yield self._made("fails-without-effect", says, {"always": "stays", "when": f"{name} replies {ANY_ERROR}"})
        refusing = [
            state
            for state, found in self._row(ends=False).items()
            if all(way.reply and "ok" not in way.reply for way in found)
        ]
        if refusing:
            says = f"A call of {name} fails where it is {_either(refusing)}."
            claim = {"always": f"{name} replies {ANY_ERROR}", "when": self._in(refusing)}
            yield self._made("refused", says, claim, refusing)

    def _where(self) -> Iterator[Candidate]:
        possible = [state for state, found in self._cells.items() if found]
        if all(found == () for found in self._cells.values()):
            happens = self.reading.happens(self.event.name)
            yield self._made("never", f"{self.event.name} never happens.", {"always": f"not {happens}"})
        if possible and any(found == () for found in self._cells.values()):
            says = f"{self.event.name} happens only where it is {_either(possible)}."
            claim = {"always": self.reading.before(possible), "when": self.reading.happens(self.event.name)}
            yield self._made("where-it-can-be", says, claim, possible)

    def _in(self, states: Collection[str]) -> str:
        return _all(self.reading.happens(self.event.name), self.reading.before(states))

    def _exactly(self, *, ends: bool) -> Iterator[Candidate]:
        """Yield a claim about the exact effects of the event for each group of states in which they are the same."""
        groups: dict[frozenset[_Effect], list[str]] = {}
        for state, found in self._row(ends=ends).items():
            groups.setdefault(frozenset(_effect(way, state) for way in found), []).append(state)
        name = self.event.name
        for effects, states in groups.items():
            happens = self._in(states)
            if ends:
                replied = _some([f"{name} replies ok", f"{name} replies {ANY_ERROR}"])
                happens = _all(replied, self.reading.before(states) or f"was {states[0]}")
            ways = " or ".join(self._said(each) for each in sorted(effects))
            what = f"a call of {name} that is in progress" if ends else name
            says = f"Where it is {_either(states)}, {what} {', or '.join(map(_told, sorted(effects)))}."
            if ways:
                yield self._made(
                    f"{'ends' if ends else 'acts'}-in-{states[0]}", says, {"always": ways, "when": happens}, states
                )

    def _possible(self, *, ends: bool) -> Iterator[Candidate]:
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
            says = f"{self.event.name} may {how} and {what} where it is {_either(states)}."
            claim: ClaimWords = {"reachable": _all(happens, self._said(effect)), "from-each": states}
            name = "-".join(("may", to or "stay", *(f"with-{each.lower().replace('_', '-')}" for each in replies)))
            yield self._made(name, says, claim, states)

    def _silent(self) -> Iterator[Candidate]:
        silent = [state for state, found in self._cells.items() if found is None]
        if silent:
            says = f"Nothing is stated of {self.event.name} where it is {_either(silent)}."
            claim = {"always": f"silent on {self.event.name}", "when": self.reading.now(silent)}
            yield self._made("unstated", says, claim, silent)
            others = [state for state in self.reading.met if state not in silent]
            if others:
                says = f"It is stated what {self.event.name} does where it is {_either(others)}."
                claim = {"always": f"not silent on {self.event.name}", "when": self.reading.now(others)}
                yield self._made("stated", says, claim, others)

    def _said(self, effect: _Effect) -> str:
        to, replies, emits = effect
        put_out = ""
        if self.reading.outputs_known:
            put_out = f"emits only {', '.join(emits)}" if emits else "emits nothing"
        replied = _some(f"{self.event.name} replies {each}" for each in replies)
        return _all(replied, self.reading.now([to]) if to else "stays", put_out)


def _effect(way: Outcome, state: str) -> _Effect:
    return ("" if way.to == state else way.to, tuple(sorted(way.reply)), way.emits)


def _told(effect: _Effect) -> str:
    """Describe an outcome with this *effect* as a verb phrase."""
    to, replies, emits = effect
    replied = (
        f"replies {_either([f'any {each}' if each == ANY_ERROR else each for each in replies])}" if replies else ""
    )
    put_out = f"emits {_list(emits)}" if emits else ""
    return _list([*filter(None, (replied, put_out)), f"leads to {to}" if to else "changes nothing"])


def _some(conditions: Iterable[str]) -> str:
    found = list(conditions)
    return f"({' or '.join(found)})" if len(found) > 1 else "".join(found)


def _all(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))


def _list(words: Collection[str], last: str = "and") -> str:
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def _either(words: Collection[str]) -> str:
    return _list(words, "or")
