"""Random machines with data, implementations of them that Python's own evaluator computes, and defects in these.

Guards and updates are written so that they mean the same to fsm and to Python. The implementation shares no code
with fsm.
"""

from __future__ import annotations

import re
from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from machines import machine_of

from fsm.errors import InputError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from fsm.machine import Machine

COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
WORDS: Final = ("card", "cash", "coin")
Cell = list[dict[str, Any]]


@dataclass
class Draft:
    """A machine as data: the first values, the highest value of each variable, and the outcomes in each cell.

    Each variable has values from 0, and saturates. The first guard that holds decides.
    """

    states: list[str]
    first: dict[str, int]
    highest: dict[str, int]
    arguments: dict[str, dict[str, int]]
    cells: dict[tuple[str, str], Cell]
    shows: dict[str, str]

    def text(self) -> str:
        """Write the machine as TOML."""
        lines = ["[machine]", 'name = "random"', 'title = "R"', 'about = "R."', 'source = "s"', 'initial = "s0"']
        lines += ["[states]", *(f'{each} = {{ about = "A.", shows = "{self.shows[each]}" }}' for each in self.states)]
        lines += ["[data]"]
        for name, high in self.highest.items():
            lines += [f"{name} = {{ from = 0, to = {high}, initial = {self.first[name]}, saturates = true }}"]
        for event, arguments in self.arguments.items():
            lines += [f"[event.{event}]", 'kind = "call"', 'about = "A."']
            if arguments:
                ranges = (f"{name} = {_domain(high)}" for name, high in arguments.items())
                lines += [f"arguments = {{ {', '.join(ranges)} }}"]
            for state in self.states:
                lines += [f"moves.{state} = ["]
                lines += [
                    f"  {_outcome(each, alone=len(self.cells[event, state]) == 1)},"
                    for each in self.cells[event, state]
                ]
                lines += ["]"]
        return "\n".join(lines)

    def machine(self) -> Machine:
        return machine_of(self.text())

    def step(
        self, state: str, values: dict[str, int], event: str, given: dict[str, Any]
    ) -> tuple[str, str, dict[str, int]]:
        """Return the reply, and the state and values afterwards."""
        known = {**values, **given, **{word: word for word in WORDS}, "min": min, "max": max}
        for each in self.cells[event, state]:
            if each["when"] == "otherwise" or eval(each["when"], {"__builtins__": {}}, known):  # noqa: S307  (a second opinion)
                changed = {name: eval(term, {"__builtins__": {}}, known) for name, term in each["set"].items()}  # noqa: S307
                kept = {name: max(0, min(self.highest[name], value)) for name, value in changed.items()}
                return each["reply"], each["to"], {**values, **kept}
        raise AssertionError("the guards do not cover everything")

    def given(self, event: str) -> Iterator[dict[str, Any]]:
        """Yield all arguments of *event*."""
        ranges = [WORDS if high < 0 else range(high + 1) for high in self.arguments[event].values()]
        for each in product(*ranges):
            yield dict(zip(self.arguments[event], each, strict=True))


def _domain(high: int) -> str:
    return f"{{ values = {[*WORDS]} }}".replace("'", '"') if high < 0 else f"{{ from = 0, to = {high} }}"


def _outcome(of: dict[str, Any], *, alone: bool) -> str:
    when = "" if alone else f', when = "{of["when"]}"'
    changes = ", ".join(f'{name} = "{term}"' for name, term in of["set"].items())
    return f'{{ name = "{of["name"]}", to = "{of["to"]}", reply = "{of["reply"]}"{when}, set = {{ {changes} }} }}'


def random_draft(chance: random.Random, *, most: int = 4) -> Draft:
    """Build a random machine whose guards are disjoint, because each excludes the ones before."""
    states = [f"s{number}" for number in range(chance.randint(1, 3))]
    names = ["a", "b"][: chance.randint(1, 2)]
    highest = {name: chance.randint(1, most) for name in names}
    arguments: dict[str, dict[str, int]] = {}
    cells: dict[tuple[str, str], Cell] = {}
    for event in ("go", "pay")[: chance.randint(1, 2)]:
        arguments[event] = {name: chance.choice([-1, 1, most]) for name in ("n", "m")[: chance.randint(0, 2)]}
        numbers = [*names, *(name for name, high in arguments[event].items() if high > 0)]
        words = [name for name, high in arguments[event].items() if high < 0]
        for state in states:
            guards: list[str] = []
            cell: Cell = []
            for number in range(count := chance.randint(1, 3)):
                guard = _guard(chance, numbers, words)
                when = " and ".join([*(f"not ({each})" for each in guards), f"({guard})"])
                when = "otherwise" if number == count - 1 else when
                guards.append(guard)
                cell.append(
                    {
                        "name": f"w{number}",
                        "to": chance.choice(states),
                        "reply": chance.choice(["ok", "NO"]),
                        "when": when,
                        "set": {name: _term(chance, numbers) for name in names if chance.random() < 0.5},
                    }
                )
            cells[event, state] = cell
    shows = {state: chance.choice(["", "", "SAME"]) or state.upper() for state in states}
    return Draft(states, {name: chance.randint(0, highest[name]) for name in names}, highest, arguments, cells, shows)


def _guard(chance: random.Random, numbers: list[str], words: list[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 2)):
        if words and chance.random() < 0.3:
            parts.append(f"{chance.choice(words)} {chance.choice(['==', '!='])} {chance.choice(WORDS)}")
        else:
            right = chance.choice([*numbers, *"0123"])
            parts.append(f"{chance.choice(numbers)} {chance.choice(COMPARISONS)} {right}")
    return chance.choice([" and ", " or "]).join(parts)


def _term(chance: random.Random, numbers: list[str]) -> str:
    one, other = chance.choice(numbers), chance.choice([*numbers, "1", "2"])
    return chance.choice(
        [f"{one} + {other}", f"{one} - {other}", f"min({one}, {other})", f"max({one}, {other})", other]
    )


def defective(chance: random.Random, draft: Draft) -> Draft:
    """Return a copy of *draft* with one defect in a guard or an update."""
    made = deepcopy(draft)
    for _ in range(100):
        outcome = chance.choice(chance.choice([*made.cells.values()]))
        places = [("when", outcome), *((name, outcome["set"]) for name in outcome["set"])]
        name, holder = chance.choice(places)
        if name != "when" and chance.random() < 0.3:
            del holder[name]
            return made
        changed = _altered(chance, holder[name])
        if changed != holder[name]:
            holder[name] = changed
            return made
    return made


def _altered(chance: random.Random, text: str) -> str:
    places = [*re.finditer(r"[<>=!]=|[<>]|(?<= )[-+](?= )|\b\d\b|\band\b|\bor\b|\bmin\b|\bmax\b", text)]
    if not places or text == "otherwise":
        return text
    at = chance.choice(places)
    word = at[0]
    if word in COMPARISONS:
        new = chance.choice(
            COMPARISONS[:2] if re.search(r"card|cash|coin", text[at.end() : at.end() + 6]) else COMPARISONS
        )
    elif word.isdigit():
        new = str(max(0, int(word) + chance.choice([-1, 1])))
    else:
        new = {"+": "-", "-": "+", "and": "or", "or": "and", "min": "max", "max": "min"}[word]
    return text[: at.start()] + new + text[at.end() :]


def differs(one: Draft, other: Draft) -> bool:
    """Check with all values whether some test distinguishes two implementations of the same machine."""
    start = ("s0", tuple(one.first.values()), "s0", tuple(other.first.values()))
    met, queue = {start}, deque([start])
    while queue:
        state, values, there, theirs = queue.popleft()
        for event in one.arguments:
            for given in one.given(event):
                reply, to, after = one.step(state, dict(zip(one.first, values, strict=True)), event, given)
                answer, goes, then = other.step(there, dict(zip(one.first, theirs, strict=True)), event, given)
                if reply != answer or one.shows[to] != one.shows[goes]:
                    return True
                node = (to, tuple(after.values()), goes, tuple(then.values()))
                if node not in met:
                    met.add(node)
                    queue.append(node)
    return False


class Implementation:
    """A SUT that behaves as *draft* says."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.reset()

    def reset(self) -> None:
        self.state, self.values = "s0", dict(self.draft.first)

    def do(self, event: str, **args: int | str) -> str:
        reply, self.state, self.values = self.draft.step(self.state, self.values, event, args)
        return reply

    def shows(self) -> str:
        return self.draft.shows[self.state]

    def close(self) -> None: ...


def drafts(chance: random.Random) -> Iterator[tuple[Draft, Machine]]:
    """Yield random machines that are well-formed."""
    while True:
        draft = random_draft(chance)
        try:
            machine = draft.machine()
        except InputError:
            continue
        yield draft, machine
