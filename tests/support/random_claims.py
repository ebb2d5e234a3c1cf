"""Generate random claims about a machine, in the text form that an author would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from random_data import random_condition

from fsm.language.build.grammar import outputs
from fsm.language.build.specification import specify
from fsm.language.read import parse
from fsm.language.vocabularies import Stated

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine
    from fsm.machine.claims import Property, Specification

KINDS = ("idempotent", "always", "never", "never", "reachable", "leads-to", "leads-to")


def specification_of(machine: Machine, text: str) -> Specification[Machine]:
    def find(_: str) -> Machine:
        return machine

    return specify(parse(text.encode(), Stated, path="random.toml"), find)


def stated(machine: Machine, claim: str) -> Property:
    """Build a property from a claim in TOML."""
    head = f'machine = "{machine.name}"\n[property.it]\nsays = "It."\nMUST = "none"\n'
    return specification_of(machine, head + claim).properties[0]


def random_property(chance: random.Random, machine: Machine, kinds: tuple[str, ...] = KINDS) -> Property:
    return stated(machine, random_claim(chance, machine, kinds))


def random_claim(chance: random.Random, machine: Machine, kinds: tuple[str, ...] = KINDS) -> str:
    calls = [event.name for event in machine.events.values() if event.kind == "call"]
    match chance.choice(kinds):
        case "idempotent":
            once = f'\nonce = "{_condition(chance, machine, 1)}"' if chance.random() < 0.4 else ""
            return f'idempotent = "{chance.choice(calls)}"{once}'
        case "always":
            when = f'\nwhen = "{_condition(chance, machine, 1)}"' if chance.random() < 0.7 else ""
            return f'always = "{_condition(chance, machine, 2)}"{when}'
        case "never":
            until = f'\nuntil = "{_condition(chance, machine, 1)}"' if chance.random() < 0.5 else ""
            return f"never = {_sequences(chance, machine)}{until}"
        case "reachable":
            return f"reachable = {_sequences(chance, machine)}"
        case _:
            fair = "".join(
                f"\n{word} = [{', '.join(_fair(chance, machine) for _ in range(chance.randint(1, 2)))}]"
                for word in ("fair", "strongly-fair")
                if chance.random() < 0.5
            )
            source, target = _condition(chance, machine, 1), _condition(chance, machine, 1)
            return f'from = "{source}"\nleads-to = "{target}"{fair}'


def _sequences(chance: random.Random, machine: Machine) -> str:
    texts = [
        " then ".join(_condition(chance, machine, 1) for _ in range(chance.choice((1, 2, 2, 3))))
        for _ in range(chance.choice((1, 1, 1, 2)))
    ]
    quoted = [f'"{text}"' for text in texts]
    return f"[{', '.join(quoted)}]" if len(quoted) > 1 else quoted[0]


def _condition(chance: random.Random, machine: Machine, depth: int) -> str:
    roll = chance.random()
    if depth and roll < 0.15:
        return f"not ({_condition(chance, machine, depth - 1)})"
    if depth and roll < 0.4:
        both = [_condition(chance, machine, depth - 1) for _ in range(2)]
        return f"({chance.choice((' and ', ' or ')).join(both)})"
    return _atom(chance, machine)


def _atom(chance: random.Random, machine: Machine) -> str:
    states, events = list(machine.states), list(machine.events.values())
    if machine.data and chance.random() < 0.4:
        return random_condition(chance, list(machine.data), 0)
    event = chance.choice(events)
    match chance.randrange(9):
        case 0 | 1 | 2:
            return f"{chance.choice(('is', 'is', 'was'))} {chance.choice(states)}"
        case 3:
            word = chance.choice(("shows", "showed"))
            return f"{word} {machine.states[chance.choice(states)].shows}"
        case 4 if event.kind == "call":
            return f"{event.name} replies {chance.choice(('ok', 'error', 'BUSY', 'GONE'))}"
        case 5:
            return f"emits {_emitted(chance, outputs(machine))}"
        case 7:
            return f"silent on {event.name}"
        case 6:
            return chance.choice(("moves", "stays"))
        case _:
            return f"{event.name} happens"


def _emitted(chance: random.Random, known: tuple[str, ...]) -> str:
    if known and chance.random() < 0.5:
        return f"only {', '.join(chance.choices(known, k=chance.choice((1, 1, 2))))}"
    return chance.choice(("nothing", *known))


def _fair(chance: random.Random, machine: Machine) -> str:
    event = chance.choice(list(machine.events.values()))
    ends = bool(event.ends) and chance.random() < 0.5
    rows = event.ends if ends else event.cells
    names = [way.name for cell in rows.values() for way in getattr(cell, "outcomes", ())]
    outcome = f"/{chance.choice(names)}" if names and chance.random() < 0.4 else ""
    return f'"{event.name}{".ends" if ends else ""}{outcome}"'
