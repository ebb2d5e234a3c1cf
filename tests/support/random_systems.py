"""Generate random systems of random machines as TOML text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import reject
from random_machines import random_machine
from toy_systems import stated_of

from fsm.checker.breadth_first import Limit, reachable_size
from fsm.errors import InputError
from fsm.language.build.systems import build_system
from fsm.language.library import load
from fsm.language.read import parse
from fsm.language.vocabularies import WrittenSystem
from fsm.machine.product import SystemTable
from fsm.machine.traversal import LimitError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.machine.product.system import System


def system_of(text: str, machines: dict[str, Machine]) -> System:
    def find(name: str) -> Machine:
        return machines[name] if name in machines else load(name)

    return build_system(parse(text.encode(), WrittenSystem, path="system.toml"), find)


def random_system(chance: random.Random, copies: int = 2) -> System:
    return system_of(*random_text(chance, copies))


def is_small(system: System, states: int, moves: float = math.inf) -> bool:
    """Check whether a system has few states, and few moves in each event.

    A limit on states is not enough, because the number of outcomes of an event grows exponentially with its moves.
    """
    table = SystemTable(system)
    if any(len(path.moves) > moves for event in table.joint for path in event.paths):
        return False
    try:
        reachable_size(table, Limit(states=states))
    except LimitError:
        return False
    return True


def random_text(
    chance: random.Random,
    copies: int = 2,
    made: Callable[[random.Random], Machine] = random_machine,
    *,
    apart: float = 0,
) -> tuple[str, dict[str, Machine]]:
    """Return the text of a random system and its machines.

    *apart* is the probability that an event involves only one part.
    """
    machines = {f"p{number}": made(chance) for number in range(chance.randint(2, 3))}
    parts = list(machines)
    below = len(parts) > 1 and chance.random() < 0.5
    lines = ['[system]\nname = "random"\ntitle = "R"\nabout = "R"\nsource = "none"']
    for number, part in enumerate(parts):
        lines.append(f'[part.{part}]\nmachine = "{part}"')
        if number == 1 and below:
            lines.append('per = "p0"')
        if number < 2 and chance.random() < 0.6:
            lines.append(f"count = {copies}")
        if number == 1 and chance.random() < 0.5:
            lines.append(f'heard = "some p0 is {_state(chance, machines["p0"])}"')
    for number in range(chance.randint(2, 4)):
        of = chance.choice(parts) if chance.random() < 0.7 else ""
        alone = of or chance.choice(parts)
        among = {alone: machines[alone]} if apart and chance.random() < apart else machines
        lines += _event(chance, f"j{number}", among, of)
    return "\n".join(lines), machines


def _event(chance: random.Random, name: str, machines: dict[str, Machine], of: str) -> list[str]:
    kind = chance.choice(("call", "signal"))
    lines = [f"[event.{name}]", f'kind = "{kind}"', 'about = "R"']
    if of:
        lines.append(f'of = "{of}"')
    if chance.random() < 0.3:
        lines.append(f'when = "{_condition(chance, machines)}"')
    ways = []
    for number in range(chance.randint(1, 2)):
        steps = ", ".join(_step(chance, machines, of) for _ in range(chance.randint(1, 3)))
        when = f', when = "{_condition(chance, machines)}"' if chance.random() < 0.3 else ""
        ways.append(f"ways.w{number} = {{ steps = [{steps}]{when} }}")
    return [*lines, *ways]


def _state(chance: random.Random, machine: Machine) -> str:
    return chance.choice(list(machine.states))


def _condition(chance: random.Random, machines: dict[str, Machine]) -> str:
    part = chance.choice(list(machines))
    word = chance.choice(("every", "some", "no"))
    data = machines[part].data
    if data and chance.random() < 0.6:
        variable = data[chance.choice(list(data))]
        value = variable.text(chance.randint(variable.low, variable.high))
        comparison = chance.choice(("==", "!=", *(("<", ">=") if variable.number else ())))
        return f"{word} {part}.{variable.name} {comparison} {value}"
    text = f"{word} {part} is {chance.choice(('', 'not '))}{_state(chance, machines[part])}"
    return f"not ({text})" if chance.random() < 0.2 else text


def _step(chance: random.Random, machines: dict[str, Machine], of: str) -> str:
    part = of if of and chance.random() < 0.6 else chance.choice(list(machines))
    every = "" if part == of else "every "
    if chance.random() < 0.1:
        return f'"reset {every}{part}"'
    event = chance.choice(list(machines[part].events.values()))
    ends = ".ends" if event.ends and chance.random() < 0.3 else ""
    cells = (event.ends if ends else event.cells).values()
    outcomes = sorted({way.name for cell in cells for way in getattr(cell, "outcomes", ())})
    only = f"/{chance.choice(outcomes)}" if outcomes and chance.random() < 0.3 else ""
    do = f"{every}{part}.{event.name}{ends}{only}"
    more = ", goes-on = true" if chance.random() < 0.4 else ""
    more += f', when = "{_condition(chance, machines)}"' if chance.random() < 0.2 else ""
    return f'{{ do = "{do}"{more} }}'


def with_more_words(chance: random.Random, text: str, machines: dict[str, Machine]) -> str:
    """Extend a system with keys that :func:`random_text` does not use: ``initial``, ``reply`` and ``each``."""
    lines = []
    calls = False
    for line in text.split("\n"):
        more = line
        if line.startswith("kind = "):
            calls = "call" in line
        if line.startswith("machine = ") and chance.random() < 0.2:
            part = line.split('"')[1]
            more += f'\ninitial = "{_state(chance, machines[part])}"'
        if line.startswith("ways.") and calls and chance.random() < 0.3:
            more = f"{line.removesuffix('}')}, reply = {chance.choice(REPLIES)} }}"
        if line.startswith("ways.") and chance.random() < 0.2:
            part = chance.choice(list(machines))
            step = f'{{ each = "{part}", steps = [{_step(chance, machines, part)}] }}'
            more = more.replace("steps = [", f"steps = [{step}, ", 1)
        lines.append(more)
    return "\n".join(lines)


REPLIES = ('"BUSY"', '["ok", "BUSY"]', '["BUSY", "GONE"]', '"error"')


KINDS = ("idempotent", "always", "never", "never", "reachable")


def random_claim_of(system: System, chance: random.Random, kinds: tuple[str, ...] = KINDS) -> Property:
    try:
        return stated_of(system, random_claim_text(system, chance, kinds))
    except InputError:
        reject()


def random_claim_text(system: System, chance: random.Random, kinds: tuple[str, ...] = KINDS) -> str:
    """Return the text of a random claim, which need not make sense."""
    event = chance.choice(list(system.events.values()))
    part = chance.choice(list(system.parts.values()))

    def condition() -> str:
        of = chance.choice(list(system.parts.values()))
        state, word = chance.choice(list(of.machine.states)), chance.choice(("every", "some", "no"))
        replies = f"{event.family} replies {chance.choice(('ok', 'error', 'BUSY'))}" if event.kind == "call" else ""
        output = chance.choice((*part.machine.outputs(), "nothing"))
        atom = chance.choice(
            (
                f"{word} {of.name} is {state}",
                f"{word} {of.name} was {state}",
                replies or event.family,
                event.family,
                f"emits {output}",
                f"emits only {output}" if output != "nothing" else "stays",
            )
        )
        return f"not ({atom})" if chance.random() < 0.2 else atom

    def sequence() -> str:
        parts = [condition() for _ in range(chance.choice((1, 2, 2, 3)))]
        if chance.random() < 0.2:
            parts[-1] = parts[0]
        if chance.random() < 0.4:
            parts[-1] = f"({parts[-1]} {chance.choice(('and', 'or'))} {condition()})"
        return " then ".join(parts)

    match chance.choice(kinds):
        case "idempotent":
            once = f'\nonce = "{condition()}"' if chance.random() < 0.4 else ""
            text = f'idempotent = "{event.family}"{once}'
        case "always":
            text = f'always = "{condition()}"' + (f'\nwhen = "{condition()}"' if chance.random() < 0.7 else "")
        case "never":
            text = f'never = "{sequence()}"' + (f'\nuntil = "{condition()}"' if chance.random() < 0.5 else "")
        case "leads-to":
            text = f'from = "{condition()}"\nleads-to = "{condition()}"'
            for word in ("fair", "strongly-fair"):
                names = chance.sample(sorted({each.family for each in system.events.values()}), chance.randint(0, 2))
                text += f"\n{word} = {names}" if names else ""
        case _:
            text = f'reachable = "{sequence()}"'
    return f'for = "{part.name}"\n{text}\n'
