"""Generate random histories of threads that use a machine concurrently, some of them with a random change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import naive

from fsm.linearizability.history import History, Operation

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine

LONGEST = 6
WIDEST = 3
REPLIES = ("ok", "BUSY", "GONE", "NOT_FOUND", "CANCELED", "WEIRD", "")


@dataclass
class _Running:
    operation: Operation
    stage: str = "asked"


def random_history(chance: random.Random, machine: Machine) -> History:
    history = _legal(chance, machine)
    for _ in range(chance.choice((0, 1, 1, 2))):
        history = _changed(chance, machine, history)
    return history


def _legal(chance: random.Random, machine: Machine) -> History:
    state = machine.initial
    outputs: list[str] = []
    running: list[_Running] = []
    done: list[Operation] = []
    for instant in range(chance.randint(4, 40)):
        free = [thread for thread in range(WIDEST) if all(each.operation.thread != thread for each in running)]
        choice = chance.choice(("call", "act", "act", "return", "hidden"))
        if choice == "call" and free and len(done) + len(running) < LONGEST:
            event = chance.choice([each.name for each in machine.events.values() if each.kind != "hidden"])
            thread = chance.choice(free)
            running.append(_Running(Operation(called=instant, returned=None, event=event, thread=thread)))
        elif choice == "act" and (acting := [each for each in running if each.stage in {"asked", "begun"}]):
            each = chance.choice(acting)
            state = _act(chance, machine, state, each, outputs)
        elif choice == "return" and (over := [each for each in running if each.stage == "acted"]):
            each = chance.choice(over)
            running.remove(each)
            done.append(replace(each.operation, returned=instant))
        elif choice == "hidden" and (
            hidden := [each.name for each in machine.events.values() if each.kind == "hidden"]
        ):
            ways = sorted(naive.ways(machine, state, chance.choice(hidden)) or ())
            if ways:
                way = chance.choice(ways)
                state = way.to
                outputs += way.emits
    operations = [*done, *(each.operation for each in running)]
    chance.shuffle(operations)
    seen = {"": tuple(outputs)} if chance.random() < 0.6 else {}
    return History(operations=tuple(operations), outputs=seen)


def _act(chance: random.Random, machine: Machine, state: str, each: _Running, outputs: list[str]) -> str:
    event = each.operation.event
    call = machine.events[event].kind == "call"
    find = naive.ends if each.stage == "begun" else naive.ways
    ways = find(machine, state, event)
    if not ways:
        if ways is None or each.stage == "begun":
            each.stage = "acted"
            each.operation = replace(each.operation, reply=chance.choice(REPLIES) if call else "")
        return state
    way = sorted(ways, key=lambda way: (way.outcome, way.to))[chance.randrange(len(ways))]
    outputs += way.emits
    each.stage = "begun" if way.begins else "acted"
    if not way.begins and call:
        reply = chance.choice(sorted(way.replies))
        each.operation = replace(each.operation, reply="BROKEN" if reply == "error" else reply)
    if not way.begins and chance.random() < 0.4:
        each.operation = replace(each.operation, shows=machine.states[way.to].shows)
    return way.to


def _changed(chance: random.Random, machine: Machine, history: History) -> History:
    shown = sorted({each.shows for each in machine.states.values()})
    operations = list(history.operations)
    outputs = list(history.outputs.get("", ()))
    what = chance.choice(("reply", "shows", "look", "called", "returned", "outputs", "event"))
    if what == "outputs" and history.outputs:
        at = chance.randrange(len(outputs) + 1)
        outputs[at : at + chance.randint(0, 1)] = chance.choice(([], ["x"], ["y"]))
        return replace(history, outputs={"": tuple(outputs)})
    if what == "look":
        called = chance.randint(0, 40)
        look = Operation(called=called, returned=called + chance.randint(0, 5), shows=chance.choice(shown))
        return replace(history, operations=(*operations, look))
    if operations:
        at = chance.randrange(len(operations))
        operations[at] = _other(chance, machine, operations[at], what, shown)
    return replace(history, operations=tuple(operations))


def _other(chance: random.Random, machine: Machine, each: Operation, what: str, shown: list[str]) -> Operation:
    match what:
        case "reply" if each.event and machine.events[each.event].kind == "call":
            return replace(each, reply=chance.choice(REPLIES))
        case "shows" if each.returned is not None:
            return replace(each, shows=chance.choice(shown))
        case "called":
            last = 40 if each.returned is None else each.returned
            return replace(each, called=chance.randint(0, last))
        case "returned":
            return replace(each, returned=each.called + chance.randint(0, 9))
        case "event" if each.event:
            return replace(each, event=chance.choice(list(machine.events)))
        case _:
            return each
