"""Generate random tests, which consist of stimuli and the responses of a random implementation.

``changed`` alters such a test at random.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fsm.conformance.lookup import Simulated
from fsm.machine import Moves
from fsm.sut import Response, Stimulus, UnsupportedError

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine
    from fsm.sut import StimulusStage

    Test = list[tuple[Stimulus, Response]]

LONGEST = 5
REPLIES = ("ok", "ok", "BUSY", "GONE", "NOT_FOUND", "CANCELED", "WEIRD")
OUTPUTS = ((), ("x",), ("y",), ("x", "y"))


def random_test(chance: random.Random, machine: Machine) -> Test:
    sut = Simulated(machine)
    left = ""
    stage: StimulusStage
    test: Test = []
    for _ in range(3 * LONGEST):
        if left and chance.random() < 0.5:
            event, stage = machine.events[left], "end"
        else:
            event = chance.choice([*machine.events.values()])
            stage = "begin" if event.ends and not left else "do"
        if event.ends and stage == "do":
            continue  # such a call might repeat its stages forever
        _arrange(chance, machine, sut, event.name)
        try:
            reply = {"do": sut.do, "begin": sut.begin, "end": sut.end}[stage](event.name)
            if stage == "begin" and reply is None and chance.random() < 0.4:
                stage, reply = "do", _whole(chance, machine, sut, event.name)
                if reply is None:
                    break
        except UnsupportedError:
            if stage == "end":
                break  # a hidden event has interrupted the call
            continue
        if event.kind == "hidden":
            continue
        left = "" if event.interrupts or stage != "do" else left
        left = event.name if reply is None else left
        test.append((Stimulus(event.name, stage), Response(reply=reply, shows=sut.shows(), outputs=sut.outputs())))
        if len(test) == LONGEST:
            break
    return test


def _whole(chance: random.Random, machine: Machine, sut: Simulated, event: str) -> str | None:
    reply = None
    for _ in range(4):
        if reply is None:
            _arrange(chance, machine, sut, event)
            reply = sut.end(event)
    return reply


def _arrange(chance: random.Random, machine: Machine, sut: Simulated, event: str) -> None:
    found = machine.events[event]
    cells = (*found.cells.values(), *found.ends.values())
    names = sorted({way.name for cell in cells if isinstance(cell, Moves) for way in cell.outcomes})
    for _ in range(3 if names else 0):
        sut.arrange(event, chance.choice(names))


def changed(chance: random.Random, machine: Machine, test: Test) -> Test:
    outputs = chance.random() < 0.6
    test = [
        (
            step,
            replace(seen, shows=seen.shows if chance.random() < 0.6 else "", outputs=seen.outputs if outputs else None),
        )
        for step, seen in test
    ]
    shown = sorted({state.shows for state in machine.states.values()})
    for _ in range(chance.choice((0, 1, 1, 2)) if test else 0):
        at = chance.randrange(len(test))
        step, seen = test[at]
        match chance.choice(("reply", "shows", "outputs", "drop")):
            case "reply" if seen.reply:
                test[at] = step, replace(seen, reply=chance.choice(REPLIES))
            case "shows":
                test[at] = step, replace(seen, shows=chance.choice(shown))
            case "outputs" if outputs:
                test[at] = step, replace(seen, outputs=chance.choice(OUTPUTS))
            case "drop" if step.stage == "do":
                del test[at]
                if not test:
                    return test
            case _:
                pass
    return test
