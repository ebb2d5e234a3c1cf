"""Generate random total machines as TOML text, and random traces of these machines.

The machines have all kinds of events and cells, including alternatives, calls that take time, outputs, states that
look alike, interruptions, and indefinite replies.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from hypothesis import strategies as st
from machines import machine_of

from fsm.errors import InputError
from fsm.machine.simulation import simulate
from fsm.trace import Observation

if TYPE_CHECKING:
    import random

    from hypothesis.strategies import SearchStrategy

    from fsm.machine import Machine

CODES = ("NOT_FOUND", "BUSY", "error", "CANCELED")
INDEFINITE = ("[]", '["CANCELED"]')
OUTPUTS = ("[]", "[]", "[]", '["x"]', '["y"]', '["x", "y"]')
LEVELS = ("MUST", "SHOULD", "MAY", "observed")


REPLIES = ("ok", "ok", "BUSY", "GONE", "NOT_FOUND", "CANCELED", "WEIRD", "")
ELSEWHERE = "# elsewhere"
"""The mark for the end of a call in a state where the call cannot begin but may end."""
SEEN_OUTPUTS = (None, None, None, (), ("x",), ("y",), ("x", "y"))
LONGEST = 7
WIDEST = 3
"""The maximum numbers of observations and of calls in progress.

Both numbers are small, because every order is tried.
"""


def random_machine(chance: random.Random, *, time: bool = True, limits: bool = False) -> Machine:
    """Build a random machine.

    With *time*, some calls take time. With *limits*, some states have a time limit.
    """
    text = random_text(chance, time=time)
    if limits:
        text = re.sub(
            r"(emits = \[[^]]*\])(?= })",
            lambda it: f"{it[0]}, within = {chance.randint(1, 3)}" if chance.random() < 0.4 else it[0],
            text,
        )
    try:
        return machine_of(text)
    except InputError:  # no outcome leads to the state in which the call should end
        return machine_of("\n".join(line for line in text.split("\n") if not line.endswith(ELSEWHERE)))


def machines(*, time: bool = True) -> SearchStrategy[Machine]:
    """Return a Hypothesis strategy that generates random machines, and shrinks them after a failure."""
    return st.randoms(use_true_random=False).map(lambda chance: random_machine(chance, time=time))


def random_text(chance: random.Random, *, time: bool = True) -> str:
    states = [f"s{number}" for number in range(chance.randint(2, 5))]
    lines = [
        "[machine]",
        'name = "random"',
        'title = "Random"',
        'about = "Made by chance."',
        'source = "none"',
        f'initial = "{chance.choice(states[:2])}"',
        f"indefinite = {chance.choice(INDEFINITE)}",
        f'level = "{chance.choice(LEVELS)}"',
        "[states]",
        *(f'{state} = {{ about = "A state."{_shows(chance)} }}' for state in states),
    ]
    for number in range(chance.randint(1, 5)):
        kind = "call" if not number else chance.choice(("call", "call", "signal", "signal", "hidden"))
        lines += _event(chance, f"{kind[0]}{number}", kind, states, time=time)
    return "\n".join(lines) + "\n"


def _shows(chance: random.Random) -> str:
    return chance.choice(("", ', shows = "A"', ', shows = "B"'))


def _event(chance: random.Random, name: str, kind: str, states: list[str], *, time: bool) -> list[str]:
    begun: list[str] = []
    cells = _cells(chance, kind, states, begun, time=time)
    ends: dict[str, str] = {}
    while begun:
        state = begun.pop()
        if state not in ends:
            ends[state] = _outcomes(chance, kind, states, begun, begins=chance.random() < 0.3, last=True)
    lines = [f"[event.{name}]", f'kind = "{kind}"', 'about = "An event."']
    if chance.random() < 0.3:
        lines.append(f'rpc = "{name.upper()}"')
    if chance.random() < 0.3:
        lines.append(f'{chance.choice(LEVELS)} = "nobody"')
    if kind != "call" and chance.random() < 0.3:
        lines.append("interrupts = true")
    for group, each in cells.items():
        opening, closing = "{}" if group in {"moves", "refuses"} else "[]"
        lines += [f"{group} = {opening} {', '.join(each)} {closing}"] if each else []
    lines += [f"ends.{state} = {text}" for state, text in ends.items()]
    if ends and (others := [state for state in states if state not in ends]) and chance.random() < 0.5:
        state = chance.choice(others)
        lines.append(f"ends.{state} = {_outcomes(chance, kind, states, [], begins=False)} {ELSEWHERE}")
    return lines


def _cells(
    chance: random.Random, kind: str, states: list[str], begun: list[str], *, time: bool
) -> dict[str, list[str]]:
    groups = ("moves", "moves", "ignores", "refuses" if kind == "call" else "cannot", "silent")
    cells: dict[str, list[str]] = {group: [] for group in groups}
    rest = chance.choice(groups[:-1]) if chance.random() < 0.3 else ""
    left = 0
    for state in states:
        group = chance.choice(groups)
        # A silent cell allows everything, so if many cells were silent, nothing could be wrong.
        group = "ignores" if group == "silent" and chance.random() < 0.7 else group
        if group == rest:
            left += 1
            continue
        begins = time and kind == "call" and chance.random() < 0.4
        cells[group].append(_cell(chance, group, kind, states, state, begun if begins else None))
    if left:
        cells[rest].append(_cell(chance, rest, kind, states, '"*"', None))
    return cells


def _cell(chance: random.Random, group: str, kind: str, states: list[str], state: str, begun: list[str] | None) -> str:
    match group:
        case "moves":
            return (
                f"{state} = {_outcomes(chance, kind, states, [] if begun is None else begun, begins=begun is not None)}"
            )
        case "refuses":
            return f"{state} = {_codes(chance)}"
        case _:
            return state if state.startswith('"') else f'"{state}"'


def _codes(chance: random.Random) -> str:
    return chance.choice((f'"{chance.choice(CODES)}"', '["BUSY", "GONE"]'))


def _outcomes(
    chance: random.Random, kind: str, states: list[str], begun: list[str], *, begins: bool, last: bool = False
) -> str:
    texts = [_outcome(chance, kind, states, number) for number in range(chance.choice((1, 1, 2, 3)))]
    if begins:
        begun.append(chance.choice(states))
        text = f'{{ name = "begins", begins = "{begun[-1]}" }}'
        texts = [text, *texts] if last or chance.random() < 0.5 else [text]
    if len(texts) > 1:
        return f"[{', '.join(texts)}]"
    return f'"{chance.choice(states)}"' if not begins and chance.random() < 0.3 else texts[0]


def _outcome(chance: random.Random, kind: str, states: list[str], number: int) -> str:
    reply = chance.choice(("", "", ', reply = "error"', ', reply = ["ok", "BUSY"]', ', reply = "BUSY"'))
    reply = reply if kind == "call" else ""
    return f'{{ name = "o{number}", to = "{chance.choice(states)}"{reply}, emits = {chance.choice(OUTPUTS)} }}'


# -- traces ------------------------------------------------------------------


def random_trace(chance: random.Random, machine: Machine, *, lost: bool) -> list[Observation]:
    made = simulate(
        machine, seed=chance.randrange(1 << 30), length=chance.randint(1, 5), overlap=chance.randint(1, WIDEST)
    )
    trace = _vague(chance, [msgspec.structs.replace(each, entity="e") for each in made][:LONGEST])
    if not lost:
        trace = [each for each in trace if each.phase != "lost"]
    for _ in range(chance.choice((0, 1, 1, 2))):
        at = chance.randrange(len(trace) + 1)
        match chance.choice(("replace", "drop", "repeat", "swap")):
            case "replace":
                trace[at : at + 1] = [random_observation(chance, machine, lost=lost)]
            case "drop":
                del trace[at : at + 1]
            case "repeat":
                trace[at:at] = trace[at : at + 1]
            case _:
                trace[at : at + 2] = reversed(trace[at : at + 2])
    return _narrow(trace)[:LONGEST]


def _narrow(trace: list[Observation]) -> list[Observation]:
    """Return *trace* without the requests that would exceed :data:`WIDEST` calls in progress."""
    narrow: list[Observation] = []
    waiting = 0
    for each in trace:
        if each.phase == "request" and waiting == WIDEST:
            continue
        waiting += {"request": 1, "reply": -1}.get(each.phase, 0)
        narrow.append(each)
    return narrow


def _vague(chance: random.Random, trace: list[Observation]) -> list[Observation]:
    vague: list[Observation] = []
    for each in trace:
        less = each
        if chance.random() < 0.4:
            less = msgspec.structs.replace(less, shows="")
        if chance.random() < 0.4:
            less = msgspec.structs.replace(less, emits=None)
        if vague and each.phase == "reply" and vague[-1].phase == "request" and vague[-1].event == each.event:
            vague.pop()
            less = msgspec.structs.replace(less, phase="")
        vague.append(less)
    return vague


def random_observation(chance: random.Random, machine: Machine, *, lost: bool) -> Observation:
    sights = ["", "", *(state.shows for state in machine.states.values())]
    shows, met, emits = chance.choice(sights), chance.choice(sights), chance.choice(SEEN_OUTPUTS)
    if chance.random() < 0.05:
        return Observation(entity=chance.choice(("e", "")), phase="gap")
    event = chance.choice([*machine.events.values()])
    name = event.rpc if event.rpc and chance.random() < 0.5 else event.name
    if chance.random() < 0.15:
        return Observation(entity="e", event=chance.choice(("", "unheard-of")), shows=shows)
    if event.kind != "call":
        return Observation(
            entity="e", event=name, phase=chance.choice(("", "", "maybe", "noticed")), shows=shows, emits=emits
        )
    match chance.choice(("request", "reply", "whole", *(("lost", "maybe", "noticed") if lost else ("whole",)))):
        case "request":
            return Observation(entity="e", event=name, phase="request", shows=shows)
        case "lost" | "maybe" | "noticed" as phase:
            return Observation(entity="e", event=name, phase=phase, shows=shows)
        case phase:
            reply = chance.choice(REPLIES)
            return Observation(
                entity="e",
                event=name,
                phase="reply" if phase == "reply" else "",
                reply=reply,
                shows=shows,
                met=met,
                emits=emits,
            )


def random_seen(chance: random.Random, machine: Machine) -> frozenset[str] | None:
    signals = [event.name for event in machine.events.values() if event.kind == "signal"]
    return None if chance.random() < 0.6 else frozenset(name for name in signals if chance.random() < 0.5)
