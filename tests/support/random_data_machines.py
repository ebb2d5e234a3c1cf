"""Generate random machines with data as TOML text, and random traces of these machines.

The guards of each cell are complete and disjoint by construction: each is a condition without the earlier ones, and the
last is ``otherwise``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from machines import machine_of

from fsm.machine.simulation import simulate
from fsm.trace import Observation

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine

STATES = ("s0", "s1", "s2")
REPLIES = ("", ', reply = "BUSY"', ', reply = "GONE"', ', reply = ["ok", "BUSY"]')
OUTPUTS = ("", "", "", ', emits = ["x"]')
DATA = {
    "n": "{ from = 0, to = 2, saturates = true, shown = true }",
    "p": '{ type = "bool" }',
    "m": '{ values = ["red", "blue"] }',
    "t": "{ from = 0, to = 2, scope = true }",
}
ARGUMENTS = {
    "a": "{ from = 0, to = 2, scope = true }",
    "b": "{ from = 0, to = 1 }",
    "c": '{ type = "bool" }',
}
BEYOND = 3
"""The largest value beyond a scope."""
LONGEST = 10


def random_data_machine(chance: random.Random, *, vague: bool = True) -> Machine:
    """Build a random machine.  If *vague*, it may have hidden events and silent cells."""
    return machine_of(random_data_text(chance, vague=vague))


def random_data_text(chance: random.Random, *, vague: bool = True) -> str:
    variables = chance.sample([*DATA], chance.randint(1, 2))
    lines = [
        "[machine]",
        'name = "random"',
        'title = "Random"',
        'about = "Made by chance."',
        'source = "none"',
        'initial = "s0"',
        "[states]",
        *(f'{state} = {{ about = "A state.", shows = "{chance.choice("AB")}" }}' for state in STATES),
        "[data]",
        *(f"{name} = {DATA[name]}" for name in variables),
    ]
    kinds = ["call", chance.choice(("call", "signal")), chance.choice(("call", "signal", "hidden"))]
    for number, kind in enumerate(kinds):
        if kind != "hidden" or vague:
            lines += _event(chance, f"{kind[0]}{number}", kind, variables, silent=vague)
    return "\n".join(lines) + "\n"


def _event(chance: random.Random, name: str, kind: str, variables: list[str], *, silent: bool) -> list[str]:
    arguments = [] if kind == "hidden" else chance.sample([*ARGUMENTS], chance.choice((0, 1, 1, 2)))
    names = [*variables, *arguments]
    lines = [f"[event.{name}]", f'kind = "{kind}"', 'about = "An event."']
    lines += ["interrupts = true"] if kind == "signal" and chance.random() < 0.3 else []
    if arguments:
        lines.append(f"arguments = {{ {', '.join(f'{each} = {ARGUMENTS[each]}' for each in arguments)} }}")
    begun, moves, rest = set[str](), list[str](), dict[str, str]()
    for state in STATES:
        group = chance.choice(("moves", "moves", "moves", "ignores", "cannot" if kind != "call" else "moves", "silent"))
        group = "ignores" if group == "silent" and not (silent and chance.random() < 0.5) else group
        if group == "moves":
            moves.append(f"{state} = [{_outcomes(chance, kind, names, variables, begun)}]")
        else:
            rest[state] = group
    ends = {state: _outcomes(chance, kind, names, variables, None) for state in sorted(begun)}
    lines += [f"moves = {{ {', '.join(moves)} }}"] if moves else []
    for group in dict.fromkeys(rest.values()):
        lines.append(f"{group} = {[each for each, of in rest.items() if of == group]}")
    return [*lines, *(f"ends.{state} = [{text}]" for state, text in ends.items())]


def _outcomes(chance: random.Random, kind: str, names: list[str], variables: list[str], begun: set[str] | None) -> str:
    guards = [_condition(chance, names) for _ in range(chance.choice((0, 1, 1, 2)))]
    texts = []
    for number in range(len(guards) + 1):
        earlier = "".join(f" and not ({each})" for each in guards[:number])
        when = f', when = "({guards[number]}){earlier}"' if number < len(guards) else ', when = "otherwise"'
        when = when if guards else ""
        sets = [f'{each} = "{_value(chance, each, names)}"' for each in variables if chance.random() < 0.5]
        effect = when + (f", set = {{ {', '.join(sets)} }}" if sets else "")
        to = chance.choice(STATES)
        if begun is not None and kind == "call" and chance.random() < 0.4:
            begun.add(to)
            texts.append(f'{{ name = "o{number}", begins = "{to}"{effect} }}')
        else:
            reply = chance.choice(REPLIES) if kind == "call" else ""
            emits = "" if kind == "hidden" else chance.choice(OUTPUTS)
            texts.append(f'{{ name = "o{number}", to = "{to}"{reply}{emits}{effect} }}')
    return ", ".join(texts)


def _condition(chance: random.Random, names: list[str]) -> str:
    name = chance.choice(names)
    if name in {"p", "c"}:
        return f"{name} == {chance.choice(('true', 'false'))}"
    if name == "m":
        return f"m {chance.choice(('==', '!='))} {chance.choice(('red', 'blue'))}"
    numbers = [each for each in names if each in {"n", "t", "a", "b"} and each != name]
    other = chance.choice([*numbers, "0", "1", "2"])
    return f"{name} {chance.choice(('==', '!=', '<', '<=', '>', '>='))} {other}"


def _value(chance: random.Random, name: str, names: list[str]) -> str:
    if name == "p":
        return chance.choice(["true", "false", *(each for each in names if each in {"p", "c"})])
    if name == "m":
        return chance.choice(("red", "blue"))
    numbers = [each for each in names if each in {"n", "t", "a", "b"}]
    plain = [str(chance.randint(0, 2)), *numbers, f"min({chance.choice(numbers)}, 1)"]
    # A scope is left only by values that the naive interpreter enumerates.
    return chance.choice([*plain, "n + 1", "n + 1", "n - 1", "max(n - 1, 1)"] if name == "n" else plain)


def random_arguments(
    chance: random.Random, machine: Machine, event: str, *, vague: bool = True
) -> dict[str, int | bool | str]:
    most = {"a": BEYOND, "b": 2 if vague and chance.random() < 0.1 else 1, "c": 1}
    given = {name: chance.randint(0, most[name]) for name in machine.events[event].arguments}
    return {name: bool(value) if name == "c" else value for name, value in given.items()}


def random_data_trace(chance: random.Random, machine: Machine, *, vague: bool = True) -> list[Observation]:
    """Return a random trace, which may be legal.  If *vague*, arguments may be missing, and callers may give up."""
    made = simulate(machine, seed=chance.randrange(1 << 30), length=chance.randint(3, 9), overlap=chance.randint(1, 2))
    trace = [_seen(chance, each) for each in made]
    for _ in range(chance.choice((0, 2, 4, 6))):
        if trace:
            at = chance.randrange(len(trace))
            trace[at : at + 1] = _changed(chance, machine, trace[at], vague=vague)
    return trace[:LONGEST]


def _seen(chance: random.Random, each: Observation) -> Observation:
    args = {name: value if name == "c" else min(int(value), BEYOND) for name, value in (each.args or {}).items()}
    return msgspec.structs.replace(
        each,
        entity="e",
        args=args or None,
        fields=each.fields if chance.random() < 0.5 else None,
        shows=each.shows if chance.random() < 0.6 else "",
        emits=each.emits if chance.random() < 0.6 else None,
    )


def _changed(chance: random.Random, machine: Machine, each: Observation, *, vague: bool) -> list[Observation]:
    match chance.choice(("args", "args", "forget", "reply", "reply", "fields", "fields", "drop", "repeat", "lose")):
        case "args" if each.args:
            args = random_arguments(chance, machine, each.event, vague=vague)
            return [msgspec.structs.replace(each, args=args)]
        case "forget" if each.args and vague:
            kept = {name: value for name, value in each.args.items() if chance.random() < 0.3}
            return [msgspec.structs.replace(each, args=kept or None)]
        case "reply" if each.phase == "reply":
            return [msgspec.structs.replace(each, reply=chance.choice(("ok", "BUSY", "GONE")))]
        case "fields" if each.fields:
            return [msgspec.structs.replace(each, fields={"n": chance.randint(0, 2)})]
        case "drop" if vague:
            return []
        case "repeat" if not each.phase:
            return [each, each]
        case "lose" if each.phase == "reply" and vague:
            return [Observation(entity="e", event=each.event, phase="lost")]
        case _:
            return [each]
