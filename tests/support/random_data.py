"""Add random variables, arguments, conditions and updates to a random machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from machines import machine_of
from random_machines import ELSEWHERE, random_text

from fsm.errors import InputError

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine

VARIABLES: Final = {
    "n": ("n = { from = 0, to = 2%s }", ("", "", ", saturates = true", ", scope = true", ", initial = 1")),
    "m": ("m = { from = -1, to = 1%s }", (", saturates = true", ", scope = true", ", initial = 0", "")),
    "b": ('b = { type = "bool"%s }', ("", ", initial = true")),
    "w": ('w = { values = ["red", "blue", "grey"]%s }', ("", ', initial = "blue"')),
}
ARGUMENTS: Final = {
    "x": "x = { from = 0, to = 2, scope = true }",
    "y": "y = { from = -1, to = 1 }",
    "c": 'c = { type = "bool" }',
    "v": 'v = { values = ["red", "blue", "grey"] }',
}
NUMBERS: Final = frozenset("nmxy")
TRUTHS: Final = frozenset("bc")

_CELL: Final = re.compile(r'(\w+|"\*") = (\[\{.*?\}\]|\{ name [^}]*\})')
_OUTCOME: Final = re.compile(r"\{ name = [^}]*\}")


def random_data_machine(chance: random.Random) -> Machine:
    """Return a random machine with data, whose conditions cover all values and overlap only on purpose."""
    while True:
        texts = [random_data_text(chance) for _ in range(6)]
        text = max(texts, key=_liveliness) if chance.random() < 0.5 else texts[0]
        try:
            return machine_of(text)
        except InputError as error:
            if {each.code for each in error.problems} <= {"FSM145", "FSM144"}:
                continue  # a random update or condition was wrong
            try:  # no outcome leads to the state in which the call should end
                return machine_of("\n".join(line for line in text.split("\n") if not line.endswith(ELSEWHERE)))
            except InputError:
                continue


def _liveliness(text: str) -> int:
    """Return the number of places where the end of a call reads an argument."""
    ends = re.findall(r"(?m)^ends\..*$", text)
    return sum(len(re.findall(r'"[^"]*\b[xycv]\b', end)) for end in ends)


def random_data_text(chance: random.Random) -> str:
    data = chance.sample(sorted(VARIABLES), chance.randint(1, 3))
    head, *events = re.split(r"(?m)^(?=\[event\.)", random_text(chance))
    listed = [VARIABLES[name][0] % chance.choice(VARIABLES[name][1]) for name in data]
    return "".join(
        (head, "[data]\n", *(f"{each}\n" for each in listed), *(_event(chance, each, data) for each in events))
    )


def _event(chance: random.Random, text: str, data: list[str]) -> str:
    names = chance.sample(sorted(ARGUMENTS), chance.choice((0, 1, 1, 2)))
    header, _, rest = text.partition("\n")
    written = f"arguments = {{ {', '.join(ARGUMENTS[name] for name in names)} }}\n" if names else ""
    known = [*data, *names]
    return f"{header}\n{written}{_CELL.sub(lambda cell: f'{cell[1]} = {_cell(chance, cell[2], data, known)}', rest)}"


def _cell(chance: random.Random, text: str, data: list[str], known: list[str]) -> str:
    outcomes = _OUTCOME.findall(text)
    if len(outcomes) == 1 and chance.random() < 0.6:
        outcomes.append(re.sub(r'name = "\w+"', 'name = "p"', outcomes[0]))
    words = [""] * len(outcomes)
    if len(outcomes) > 1 and chance.random() < 0.8:
        if chance.random() < 0.3:
            words = [f', when = "{random_condition(chance, known, 1)}", chosen = true' for _ in outcomes[1:]]
            words.append(", chosen = true")
        else:
            words, before = [], ""
            for _ in outcomes[1:]:
                here = random_condition(chance, known, 1)
                words.append(f', when = "{here} and not ({before})"' if before else f', when = "{here}"')
                before = f"{before} or {here}" if before else here
            words.append(', when = "otherwise"')
        chance.shuffle(words)
    found = [
        f"{each[:-2]}{word}{_updates(chance, data, known) if chance.random() < 0.6 else ''} }}"
        for each, word in zip(outcomes, words, strict=True)
    ]
    return f"[{', '.join(found)}]"


def _updates(chance: random.Random, data: list[str], known: list[str]) -> str:
    some = chance.sample(data, chance.randint(1, len(data)))
    return f", set = {{ {', '.join(f'{name} = {_new(chance, name, known)}' for name in some)} }}"


def _new(chance: random.Random, name: str, known: list[str]) -> str:
    if name in NUMBERS:
        term = random_term(chance, known, 2)
        low, high = (0, 2) if name == "n" else (-1, 1)
        return f'"{chance.choice((term, f"min(max({term}, {low}), {high})", str(chance.randint(low, high))))}"'
    if name in TRUTHS:
        return chance.choice(("true", "false", *(f'"{each}"' for each in known if each in TRUTHS)))
    return chance.choice(('"red"', '"grey"', *(f'"{each}"' for each in known if each in "wv")))


def random_term(chance: random.Random, known: list[str], depth: int) -> str:
    """Return a random term that is a number."""
    numbers = [name for name in known if name in NUMBERS]
    if not depth or chance.random() < 0.4:
        return chance.choice((*numbers, *numbers, str(chance.randint(-1, 3))))
    operator = chance.choice(("+", "-", "min", "max"))
    left, right = (random_term(chance, known, depth - 1) for _ in range(2))
    if operator in {"min", "max"}:
        return f"{operator}({left}, {right})"
    right = right if re.fullmatch(r"[\w-]+|m(in|ax)\(.*\)", right) else f"max({right}, -9)"
    return f"{left} {operator} {right}"


def random_condition(chance: random.Random, known: list[str], depth: int) -> str:
    """Return a random condition on *known*.  It can be combined with ``and`` and ``not``."""
    if depth and chance.random() < 0.4:
        parts = [random_condition(chance, known, depth - 1) for _ in range(2)]
        return f"({chance.choice((' and ', ' or ')).join(parts)})"
    if depth and chance.random() < 0.2:
        return f"not {random_condition(chance, known, depth - 1)}"
    truths, words = [each for each in known if each in TRUTHS], [each for each in known if each in "wv"]
    roll = chance.random()
    if truths and roll < 0.3:
        return chance.choice((chance.choice(truths), f"{chance.choice(truths)} == {chance.choice(('true', *truths))}"))
    if words and roll < 0.6:
        return f"{chance.choice(words)} {chance.choice(('==', '!='))} {chance.choice(('red', 'blue', *words))}"
    left, right = random_term(chance, known, 1), random_term(chance, known, 1)
    numbers = [name for name in known if name in NUMBERS]
    left = chance.choice(numbers) if numbers else left
    return f"{left} {chance.choice(('==', '!=', '<', '<=', '>', '>='))} {right}"
