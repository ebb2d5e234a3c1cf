"""Machines of `transitions` and `python-statemachine` as source text, and what these libraries do with them.

This second opinion on the import of Python files shares no code with it: it replays runs on objects of the real
classes, whose guards read :data:`GUARDS` of their module.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import random
import re
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from statemachine.exceptions import TransitionNotAllowed
from transitions import MachineError

from fsm.machine import Ignores, Moves, Refuses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from fsm.machine import Machine

Step: TypeAlias = tuple[str, tuple[bool, ...]]
"""An event, and the results of the guards."""

HEAD = "GUARDS = {}\n"
NAMES = ("ga", "gb")


def guards(indent: str = "    ") -> str:
    return "".join(f"{indent}def {name}(self): return GUARDS['{name}']\n" for name in NAMES)


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"real_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def replay_chart(module: ModuleType, steps: tuple[Step, ...]) -> tuple[str, str]:
    """Return the reply to the last step, and the names of the active leaves after it."""
    results = vars(module)["GUARDS"]
    results |= dict.fromkeys(NAMES, True)
    chart, reply = module.M(), ""
    for event, answers in steps:
        results |= dict(zip(NAMES, answers, strict=True))
        try:
            chart.send(event)
            reply = "ok"
        except (TransitionNotAllowed, ArithmeticError):
            reply = "error"
    order = [state for state in type(chart).states_map.values() if state.is_atomic]
    active = {state.id for state in chart.configuration}
    return reply, ".".join(state.id for state in order if state.id in active)


def replay_transitions(module: ModuleType, steps: tuple[Step, ...]) -> tuple[str, str]:
    model, reply = module.M(), ""
    for event, answers in steps:
        vars(module)["GUARDS"].update(zip(NAMES, answers, strict=True))
        try:
            done = model.trigger(event)
            if asyncio.iscoroutine(done):
                asyncio.run(done)
            reply = "ok"
        except MachineError:
            reply = "error"
    return reply, ".".join(_leaves(model.state))


def _leaves(state: object) -> Iterator[str]:
    for each in state if isinstance(state, list) else ():
        yield from _leaves(each)
    if not isinstance(state, list):
        yield str(getattr(state, "name", state))


def expected(machine: Machine, state: str, event: str, answers: tuple[bool, ...]) -> tuple[str, str]:
    """Return the reply and the next state in the model, where each outcome says which guards it needs."""
    truth = dict(zip(NAMES, answers, strict=True))
    match machine.events[event].cells[state]:
        case Ignores():
            return "ok", state
        case Refuses():
            return "error", state
        case Moves(outcomes=outcomes):
            for way in outcomes:
                words = re.match(r"When (?!no condition)(.*?)\.( |$)", way.about)
                needs = words[1].split(" and ") if words else []
                if all(truth[each.removeprefix("not ")] != each.startswith("not ") for each in needs):
                    return way.reply[0], way.to
    raise AssertionError((state, event, answers))


def differences(
    machine: Machine, module: ModuleType, replay: Callable[[ModuleType, tuple[Step, ...]], tuple[str, str]]
) -> tuple[list[str], set[str]]:
    """Compare every event with every result of the guards in every state that runs reach; return these states, too."""
    found: list[str] = []
    paths: dict[str, tuple[Step, ...]] = {machine.initial: ()}
    shown = {each.name: each.shows for each in machine.states.values()}
    first = replay(module, ())[1]
    if first != shown[machine.initial]:
        found.append(f"begins in {first}")
    waiting = [machine.initial]
    for state in waiting:
        for event, answers in itertools.product(machine.events, itertools.product((True, False), repeat=len(NAMES))):
            steps = (*paths[state], (event, answers))
            reply, to = expected(machine, state, event, answers)
            if (reply, shown[to]) != (real := replay(module, steps)):
                found.append(f"{state}: {event} {answers}: {reply, to}, not {real}; {steps}")
            elif to not in paths:
                paths[to] = steps
                waiting.append(to)
    return found, set(paths)


def random_chart(seed: int) -> str:
    """Return the source of a random class of python-statemachine."""
    choose = random.Random(seed)
    lines: list[str] = []
    states: list[tuple[str, str]] = []  # path in the class, and what it is
    count = itertools.count()

    def region(indent: str, path: str, depth: int, *, final: bool) -> None:
        size = choose.randint(2, 3)
        for number in range(size):
            name = f"s{next(count)}"
            kind = choose.choice(["leaf", "leaf", "leaf", "compound", "parallel"]) if depth < 2 else "leaf"
            ends = final and number == size - 1 and size > 2
            if kind == "leaf":
                flags = ", ".join(["initial=True"] * (number == 0) + ["final=True"] * ends)
                lines.append(f"{indent}{name} = State({flags})")
                states.append((f"{path}{name}", "final" if ends else "leaf"))
                continue
            lines.append(f"{indent}class {name}(State.{kind.capitalize()}):")
            states.append((f"{path}{name}", kind))
            if kind == "compound":
                region(f"{indent}    ", f"{path}{name}.", depth + 1, final=True)
                if choose.random() < 0.6:
                    history = f"h{next(count)}"
                    lines.append(f"{indent}    {history} = HistoryState(type='{choose.choice(['shallow', 'deep'])}')")
                    states.append((f"{path}{name}.{history}", "history"))
            else:
                for _ in range(2):
                    part = f"s{next(count)}"
                    lines.append(f"{indent}    class {part}(State.Compound):")
                    states.append((f"{path}{name}.{part}", "compound"))
                    region(f"{indent}        ", f"{path}{name}.{part}.", 2, final=True)

    region("    ", "", 0, final=False)
    sources = [path for path, kind in states if kind not in {"final", "history"}]
    for event in range(choose.randint(2, 4)):
        arrows = []
        for _ in range(choose.randint(1, 4)):
            guard = choose.choice(
                ["", "", ", cond='ga'", ", unless='gb'", ", cond='ga and !gb'", ", cond='ga', unless='gb'"]
            )
            source, (target, _) = choose.choice(sources), choose.choice(states)
            arrows.append(f"{source}.to({target}{guard})")
        lines.append(f"    e{event} = {' | '.join(arrows)}")
    lines.append(
        f"    done_state_{choose.choice(sources).rpartition('.')[2]} = {choose.choice(sources)}.to({choose.choice(sources)})"
    )
    base = choose.choice(["StateChart", "StateMachine"])
    checks = "".join(
        f"    validate_{name} = False\n" for name in ("disconnected_states", "trap_states", "final_reachability")
    )
    head = f"from statemachine import HistoryState, State, StateChart, StateMachine\n{HEAD}class M({base}):\n{checks}"
    return head + "\n".join(lines) + "\n" + guards()


def random_machine(seed: int) -> str:
    """Return the source of a random class with a machine of transitions, which may be hierarchical or asynchronous."""
    choose = random.Random(seed)
    names: list[str] = []

    def state(name: str, path: str, depth: int) -> str | dict[str, Any]:
        names.append(f"{path}{name}")
        kind = choose.choice(["leaf", "leaf", "children", "parallel"]) if depth < 2 else "leaf"
        if kind == "leaf":
            return name if choose.random() < 0.7 else {"name": name, "ignore_invalid_triggers": choose.random() < 0.5}
        parts = [state(f"{name}{letter}", f"{path}{name}_", depth + 1) for letter in "xyz"[: choose.randint(2, 3)]]
        first = parts[0] if isinstance(parts[0], str) else parts[0]["name"]
        return {"name": name, kind: parts} | ({"initial": first} if kind == "children" else {})

    nested = choose.random() < 0.8
    states = [state(name, "", 0 if nested else 9) for name in "abc"]
    moves: list[dict[str, Any]] = []
    for _ in range(choose.randint(3, 8)):
        source: Any = choose.choice([choose.choice(names), [choose.choice(names), choose.choice(names)], "*"])
        move = {
            "trigger": f"e{choose.randint(0, 3)}",
            "source": source,
            "dest": choose.choice([*names, *names, "=", None]),
        }
        guard: dict[str, Any] = choose.choice(
            [{}, {}, {"conditions": "ga"}, {"unless": ["gb"]}, {"conditions": ["ga", "gb"]}]
        )
        moves.append(move | guard)
    kind = (
        f"Hierarchical{choose.choice(['', 'Async'])}Machine" if nested else choose.choice(["Machine", "AsyncMachine"])
    )
    ordered = f"        self.machine.add_ordered_transitions({['a', 'c', 'b']!r})\n" if choose.random() < 0.3 else ""
    return (
        f"from transitions.extensions import HierarchicalMachine, AsyncMachine, HierarchicalAsyncMachine\n"
        f"from transitions import Machine\n{HEAD}class M:\n    def __init__(self):\n        states = {states!r}\n"
        f"        self.machine = {kind}(self, states=states, initial='{choose.choice('abc')}', "
        f"ignore_invalid_triggers={choose.random() < 0.3})\n"
        f"        self.machine.add_transitions({moves!r})\n{ordered}{guards()}"
    )
