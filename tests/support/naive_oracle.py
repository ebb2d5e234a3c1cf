"""A second opinion on tests of the test kit, which keeps all possible situations after each step of a test.

A test may leave one call at a time in progress and resume it later. After each step, the test reads the shown state,
and then the outputs since the last reading. This module reads cells like :mod:`naive`, and shares no code with
:mod:`fsm.conformance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import naive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fsm.machine import Machine
    from fsm.sut import Response, Stimulus

Test: TypeAlias = "Sequence[tuple[Stimulus, Response]]"
Far: TypeAlias = Literal["asked", "begun", "cut", "over", "held"]
"""The stage of an event, which is ``held`` if a call stays in progress until a later step resumes it."""


class Now(NamedTuple):
    state: str
    held: str = ""
    cut: bool = False
    came: int = 0


Doing: TypeAlias = "tuple[Now, Far]"


def first_illegal(machine: Machine, test: Test) -> int | None:
    now = {Now(machine.initial)}
    for index, (step, seen) in enumerate(test):
        now = _Step(machine, step, seen).after(now)
        now = {each for each in now if seen.shows in {"", machine.states[each.state].shows}}
        now = _quietly(machine, now, seen.outputs)
        now = {each._replace(came=0) for each in now if each.came == len(seen.outputs or ())}
        if not now:
            return index
    return None


def _came(came: int, emits: tuple[str, ...], outputs: tuple[str, ...] | None) -> list[int]:
    """Return a list with the new number of explained outputs, or an empty list if *emits* contradicts *outputs*."""
    if outputs is None:
        return [came]
    return [came + len(emits)] if outputs[came : came + len(emits)] == emits else []


def _hidden(machine: Machine, now: Now, outputs: tuple[str, ...] | None) -> Iterator[tuple[Now, bool]]:
    """Yield the situations after each hidden event, and whether the event interrupts calls."""
    for event in machine.events.values():
        if event.kind != "hidden":
            continue
        ways = naive.ways(machine, now.state, event.name)
        cut = now.cut or bool(event.interrupts and now.held)
        if ways is None:
            yield from ((now._replace(state=state, cut=cut), event.interrupts) for state in machine.states)
        for way in ways or ():
            for came in _came(now.came, way.emits, outputs):
                yield now._replace(state=way.to, cut=cut, came=came), event.interrupts


def _quietly(machine: Machine, now: Iterable[Now], outputs: tuple[str, ...] | None) -> set[Now]:
    found = set(now)
    todo = list(found)
    while todo:
        fresh = {after for after, _ in _hidden(machine, todo.pop(), outputs)} - found
        found |= fresh
        todo += fresh
    return found


class _Step:
    def __init__(self, machine: Machine, step: Stimulus, seen: Response) -> None:
        self.machine = machine
        self.event = machine.events[step.event]
        self.ends = step.stage == "end"
        self.seen = seen

    def after(self, now: set[Now]) -> set[Now]:
        doing = {each for here in now for each in self._starts(here)}
        todo = list(doing)
        while todo:
            fresh = set(self._goes_on(*todo.pop())) - doing
            doing |= fresh
            todo += fresh
        return {here for here, far in doing if far == "over"}

    def _starts(self, here: Now) -> Iterator[Doing]:
        if not self.ends:
            yield here, "asked"
        elif here.held == self.event.name:
            yield here, "held"

    def _goes_on(self, here: Now, far: Far) -> Iterator[Doing]:
        for after, interrupts in _hidden(self.machine, here, self.seen.outputs):
            yield after, "cut" if interrupts and far == "begun" else far
        reply = self.seen.reply
        if far == "held" and reply is not None:
            yield here._replace(held="", cut=False), "cut" if here.cut else "begun"
        elif far in {"asked", "begun"} or (far == "held" and not here.cut):
            yield from self._acts(here, first=far == "asked")
        vague = reply is not None and (not reply or reply in self.machine.indefinite)
        if far in {"asked", "cut"} and self.event.kind == "call" and vague:
            yield here, "over"

    def _acts(self, here: Now, *, first: bool) -> Iterator[Doing]:
        name, outputs = self.event.name, self.seen.outputs
        ways = (naive.ways if first else naive.ends)(self.machine, here.state, name)
        if self.event.interrupts:
            here = here._replace(held="", cut=False)
        if self.seen.reply is None:
            here = here._replace(held=name)
        if ways is None or not (ways or first):
            for state in [here.state] if ways is not None else self.machine.states:
                for came in range(here.came, len(outputs or ()) + 1) if ways is None else [here.came]:
                    yield here._replace(state=state, came=came), "over"
        for way in ways or ():
            if way.begins or self._ends_so(way):
                for came in _came(here.came, way.emits, outputs):
                    goes_on = way.begins and self.seen.reply is not None
                    yield here._replace(state=way.to, came=came), "begun" if goes_on else "over"

    def _ends_so(self, way: naive.Way) -> bool:
        reply = self.seen.reply
        if reply is None or self.event.kind != "call":
            return reply is not None
        error = "error" in way.replies and reply != "ok"
        return not reply or reply in self.machine.indefinite or reply in way.replies or error
