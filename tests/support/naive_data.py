"""A second opinion on machines with data: every state is written once for all values, and every event for all arguments.

The result is a machine without data, which :mod:`naive` interprets.  Conditions and values are evaluated by Python
from their texts, so this shares no code with :mod:`fsm.machine.guards` and :mod:`fsm.machine.terms`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from naive import Asking, beliefs
from random_data_machines import BEYOND

from fsm.machine import Cell, Event, Machine, Moves, Silent, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from naive import Situation

    from fsm.machine import Outcome
    from fsm.trace import Observation

Argument: TypeAlias = "int | bool | str"
Variable: TypeAlias = Any
"""A variable of :mod:`fsm.machine.terms`, of which only the fields are read."""
UNKNOWN = "?"
WIDEST = 2_000


def domain(variable: Variable) -> Sequence[Argument]:
    if variable.words:
        words: Sequence[Argument] = variable.words
        return words
    if variable.truth:
        return (False, True)
    return range(variable.low, (BEYOND if variable.beyond == "scope" else variable.high) + 1)


def combinations(variables: Mapping[str, Variable]) -> Iterator[dict[str, Argument]]:
    return (dict(zip(variables, values, strict=True)) for values in product(*map(domain, variables.values())))


def written(name: str, values: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{each}={value}' for each, value in values.items())})"


class Unrolled:
    """The machine without data, and the names of its states and events."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.values = {
            written(state, values): values for state in machine.states for values in combinations(machine.data)
        }
        self.words = {word: word for each in machine.data.values() for word in each.words}
        initial = {name: each.written(each.initial) for name, each in machine.data.items()}
        self.complete = {
            event.name: [written(event.name, given) for given in combinations(event.arguments)]
            for event in machine.events.values()
        }
        events = {}
        for event in machine.events.values():
            for given in product(*([*domain(each), *_outside(each), UNKNOWN] for each in event.arguments.values())):
                arguments = dict(zip(event.arguments, given, strict=True))
                one = self._event(event, arguments)
                events[one.name] = one
        states = {name: replace(machine.states[name.partition("(")[0]], name=name) for name in self.values}
        self.plain = replace(machine, states=states, events=events, initial=written(machine.initial, initial), data={})

    def _event(self, event: Event, given: dict[str, Argument]) -> Event:
        name, cells, ends = written(event.name, given), dict[str, Cell](), dict[str, Moves]()
        unknown = UNKNOWN in given.values()
        wrong = not unknown and any(value not in [*domain(event.arguments[each])] for each, value in given.items())
        for state, values in () if unknown else self.values.items():
            bare = state.partition("(")[0]
            cells[state] = self._cell(event, event.cells[bare], bare, values, given, wrong=wrong)
            if bare in event.ends:
                end = self._cell(event, event.ends[bare], bare, values, given, wrong=wrong)
                ends |= {state: end} if isinstance(end, Moves) else {}
        return replace(event, name=name, rpc="", cells=cells, ends=ends or event.ends, arguments={})

    def _cell(
        self,
        event: Event,
        cell: Cell,
        state: str,
        values: dict[str, Argument],
        given: dict[str, Argument],
        *,
        wrong: bool,
    ) -> Cell:
        ways = outcomes(cell, state, event.kind)
        if ways is None or (wrong and ways):
            return Silent(clause=cell.clause, line=cell.line)
        frame = {**self.words, "true": True, "false": False, **values, **given}
        others = [way.when.text for way in ways if way.when and way.when.text != "otherwise"]

        def possible(way: Outcome) -> bool:
            if way.when is None:
                return True
            if way.when.text == "otherwise":
                return not any(eval(each, {}, frame) for each in others)  # noqa: S307  (our own texts)
            return bool(eval(way.when.text, {}, frame))  # noqa: S307

        def after(way: Outcome) -> str:
            found = dict(values)
            for each in way.updates:
                found[each.variable] = self._kept(each.variable, eval(each.text, {}, frame))  # noqa: S307
            return written(way.to, found)

        made = tuple(replace(way, to=after(way), when=None, updates=()) for way in ways if possible(way))
        return Moves(clause=cell.clause, line=cell.line, outcomes=made)

    def _kept(self, name: str, value: Argument) -> Argument:
        variable = self.machine.data[name]
        if variable.number:
            value = int(value)
            return max(variable.low, min(variable.high, value)) if variable.beyond == "saturates" else value
        return value

    def renamed(self, seen: Observation) -> Observation:
        if seen.event not in self.machine.events:
            return seen
        arguments = self.machine.events[seen.event].arguments
        given = {name: (seen.args or {}).get(name, UNKNOWN) for name in arguments}
        return msgspec.structs.replace(seen, event=written(seen.event, given))


def _outside(variable: Variable) -> list[Argument]:
    return [variable.high + 1] if variable.number and variable.beyond == "error" else []


class TooWideError(Exception):
    """There are more than :data:`WIDEST` situations, which would take too long."""


class DataAsking(Asking):
    def __init__(self, unrolled: Unrolled) -> None:
        super().__init__(unrolled.plain, None, once=False)
        self.unrolled, self.steps = unrolled, 0
        self.unseen = [each for each in self.unseen if UNKNOWN not in each]

    def explains(self, now: set[Situation], each: Observation) -> set[Situation]:
        shown, left = each.fields or {}, super().explains(now, each)
        values = self.unrolled.values
        return self.later(
            here for here in left if all(values[here.state][name] == value for name, value in shown.items())
        )

    def sees(self, now: set[Situation], each: Observation, event: str | None) -> Iterable[Situation]:  # type: ignore[override]
        for one in [event] if event is None else self.events(event):
            yield from super().sees(now, each, one)

    def instants(self, here: Situation) -> Iterator[Situation]:
        self.steps += 1
        if self.steps > WIDEST:
            raise TooWideError
        yield from super().instants(here)

    def events(self, event: str) -> Sequence[str]:
        if UNKNOWN not in event:
            return [event]
        wanted = _arguments(event)
        return [
            each
            for each in self.unrolled.complete[event.partition("(")[0]]
            if all(a in {b, UNKNOWN} for a, b in zip(wanted, _arguments(each), strict=True))
        ]


def _arguments(event: str) -> list[str]:
    return [each.partition("=")[2] for each in event.partition("(")[2][:-1].split(", ")]


def agreement(found: int | None, expected: int | None) -> str:
    """Return ``same``, ``missed`` if the observation *found* is too late or ``None``, or else ``false``."""
    if found == expected:
        return "same"
    return "missed" if expected is not None and (found is None or found > expected) else "false"


def first_unexplained(machine: Machine, trace: Sequence[Observation]) -> int | None:
    """Return the index of the first observation that no behaviour explains, from the initial state on, or ``None``."""
    unrolled = Unrolled(machine)
    found = beliefs(DataAsking(unrolled), [unrolled.renamed(each) for each in trace], fresh=True)
    return next((index for index, (_, after) in enumerate(found) if not after), None)
