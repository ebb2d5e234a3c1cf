"""A second opinion on linearizability that follows a history in time and keeps every possibility.

Between two instants of the history, it takes every possible step, without choosing or undoing any. It reads cells
like :mod:`naive`, and shares no code with :mod:`fsm.linearizability`.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import naive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.linearizability.history import History, Operation
    from fsm.machine import Machine

How: TypeAlias = Literal["asked", "cut", "begun", "acted", "over"]


class Now(NamedTuple):
    """A possible situation, with the progress of each operation and the number of outputs so far."""

    state: str
    calls: tuple[tuple[int, How], ...]
    came: int

    def with_call(self, number: int, how: How | None) -> Now:
        others = {each: far for each, far in self.calls if each != number}
        if how is not None:
            others[number] = how
        return self._replace(calls=tuple(sorted(others.items())))


def linearizable(machine: Machine, history: History, begun: frozenset[Operation] = frozenset()) -> bool:
    """Check whether *history* is legal if the calls *begun* have begun before it, in the initial state."""
    return all(_Entity(machine, part, entity).legal(begun) for entity, part in history.parts())


def explained(machine: Machine, history: History) -> bool:
    """Check whether some order of the operations explains *history*."""
    return all(_Entity(machine, part, entity).found() for entity, part in history.parts())


class _Entity:
    def __init__(self, machine: Machine, part: History, entity: str) -> None:
        self.machine = machine
        self.operations = part.operations
        self.outputs = part.outputs.get(entity)

    def instants(self) -> list[tuple[int, int, int]]:
        instants = [(each.called, 0, number) for number, each in enumerate(self.operations)]
        instants += [
            (each.returned, 1, number) for number, each in enumerate(self.operations) if each.returned is not None
        ]
        return sorted(instants)

    def found(self) -> bool:
        """Search depth first for an order (Wing and Gong), and skip situations that were tried before (Lowe)."""
        instants = self.instants()
        todo = [(0, Now(self.machine.initial, (), 0))]
        met = set(todo)
        while todo:
            passed, now = todo.pop()
            following = [(passed, each) for each in self.after(now)]
            if passed == len(instants):
                if self.outputs is None or now.came == len(self.outputs):
                    return True
            else:
                _, returns, number = instants[passed]
                if not returns:
                    following.append((passed + 1, now.with_call(number, "asked")))
                elif (number, "over") in now.calls:
                    following.append((passed + 1, now.with_call(number, None)))
            todo += [each for each in following if each not in met]
            met.update(following)
        return False

    def legal(self, begun: frozenset[Operation]) -> bool:
        first = Now(self.machine.initial, (), 0)
        for number, each in enumerate(self.operations):
            first = first.with_call(number, "begun") if each in begun else first
        possible = self.closed({first})
        for _, returns, number in self.instants():
            if returns:
                possible = {now.with_call(number, None) for now in possible if (number, "over") in now.calls}
            elif self.operations[number] not in begun:
                possible = self.closed({now.with_call(number, "asked") for now in possible})
        return any(self.outputs is None or now.came == len(self.outputs) for now in possible)

    def closed(self, possible: set[Now]) -> set[Now]:
        while True:
            more = {after for now in possible for after in self.after(now)}
            if more <= possible:
                return possible
            possible = possible | more

    def after(self, now: Now) -> Iterator[Now]:
        for number, how in now.calls:
            operation = self.operations[number]
            if how in {"acted", "asked"} and (how == "acted" or not operation.event):
                if self.machine.states[now.state].shows == operation.shows:
                    yield now.with_call(number, "over")
            elif how != "over":
                yield from self.event(now, number, operation, how)
        for event in self.machine.events.values():
            if event.kind == "hidden":
                yield from self.hidden(now, event.name)

    def hidden(self, now: Now, event: str) -> Iterator[Now]:
        ways = naive.ways(self.machine, now.state, event)
        for each in self.interrupted(now, event, -1):
            if ways is None:
                yield from (each._replace(state=state) for state in self.machine.states)
            for way in ways or ():
                for came in self.emitted(now.came, way.emits):
                    yield each._replace(state=way.to, came=came)

    def event(self, now: Now, number: int, operation: Operation, how: How) -> Iterator[Now]:
        acted: How = "acted" if operation.shows else "over"
        find = naive.ends if how == "begun" else naive.ways
        ways = find(self.machine, now.state, operation.event)
        call = self.machine.events[operation.event].kind == "call"
        vague = operation.returned is None or not operation.reply or operation.reply in self.machine.indefinite
        if how in {"cut", "asked"} and call and vague:
            yield now.with_call(number, acted)
        if how == "cut":
            return
        for each in self.interrupted(now, operation.event, number):
            if ways is None or (how == "begun" and not ways):
                may: tuple[How, ...] = (acted, "begun") if how == "asked" and call else (acted,)
                yield from self.anything(each, number, may, moves=ways is None)
            for way in ways or ():
                known = operation.reply in way.replies or ("error" in way.replies and operation.reply not in {"", "ok"})
                if way.begins or not call or vague or known:
                    for came in self.emitted(now.came, way.emits):
                        far: How = "begun" if way.begins else acted
                        yield each.with_call(number, far)._replace(state=way.to, came=came)

    def anything(self, now: Now, number: int, may: tuple[How, ...], *, moves: bool) -> Iterator[Now]:
        """Yield the situations after an instant of operation *number* whose effect the model does not specify.

        If *moves* is false, the instant is the end of a call that the model leaves open. Such an end neither changes
        the state nor emits anything.
        """
        last = now.came if self.outputs is None or not moves else len(self.outputs)
        for far, came in product(may, range(now.came, last + 1)):
            for state in self.machine.states if moves else (now.state,):
                yield now.with_call(number, far)._replace(state=state, came=came)

    def emitted(self, came: int, emits: tuple[str, ...]) -> list[int]:
        if self.outputs is None:
            return [came]
        return [came + len(emits)] if self.outputs[came : came + len(emits)] == emits else []

    def interrupted(self, now: Now, event: str, number: int) -> list[Now]:
        if self.machine.events[event].interrupts:
            for other, how in now.calls:
                operation = self.operations[other]
                if other == number or not operation.event or self.machine.events[operation.event].kind != "call":
                    continue
                if how == "begun":
                    now = now.with_call(other, "cut")
        return [now]
