"""Generate random machines with a known relation: a profile that deviates, or a variant that allows less."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from machines import machine_of
from random_machines import CODES, ELSEWHERE, OUTPUTS, random_text

from fsm.errors import InputError
from fsm.machine import Moves, Silent
from fsm.mutation import mutants

if TYPE_CHECKING:
    import random

    from fsm.machine import Cell, Machine, Outcome

PROFILE = """
[clause.broken]
says = "It does not."
MUST = "none"
[profile.old]
about = "As it was."
"""


def deviating(chance: random.Random) -> Machine:
    """Return a random machine whose profile ``old`` has a few deviations, or none if they would have no effect."""
    text = random_text(chance)
    try:
        machine = machine_of(text)
    except InputError:
        text = "\n".join(line for line in text.split("\n") if not line.endswith(ELSEWHERE))
        machine = machine_of(text)
    text += PROFILE
    for number in range(chance.randint(1, 3)):
        event = chance.choice([*machine.events.values()])
        source, target = chance.choices([*machine.states], k=2)
        reply = f', reply = "{chance.choice(CODES)}"' if event.kind == "call" and chance.random() < 0.7 else ""
        cell = f"""\
[profile.old.cell.way{number}]
event = "{event.name}"
about = "It did."
deviates = "broken"
moves = {{ {source} = {{ to = "{target}"{reply}, emits = {chance.choice(OUTPUTS)} }} }}
"""
        try:
            machine = machine_of(text + cell)
        except InputError:  # the machine already allows it
            continue
        text += cell
    return machine


def undeviating(machine: Machine) -> Machine:
    events = {
        event.name: replace(
            event,
            cells={state: _undeviating(cell) for state, cell in event.cells.items()},
            ends={state: replace(cell, outcomes=_kept(cell)) for state, cell in event.ends.items()},
        )
        for event in machine.events.values()
    }
    return replace(machine, events=events)


def _undeviating(cell: Cell) -> Cell:
    return replace(cell, outcomes=_kept(cell)) if isinstance(cell, Moves) else cell


def _kept(cell: Moves) -> tuple[Outcome, ...]:
    return tuple(way for way in cell.outcomes if way.deviation is None)


def narrowings(machine: Machine) -> list[Machine]:
    """Return variants that allow less than *machine*, because an outcome is missing or a silent cell is specified."""
    return [
        each.machine
        for each in mutants(machine)
        if each.name.endswith("dropped")
        or (not each.ends and isinstance(machine.events[each.event].cells[each.state], Silent))
    ]
