"""Systems under test that are made of the interpreter, and mutants of combined models."""

from __future__ import annotations

import random
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from combined_machines import FEATURES, model_text, random_text
from interpreter import Interpreter, Seen, TooWideError
from machines import machine_of

from fsm.conformance.suite import conform
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from combined_machines import Model
    from interpreter import Effect, Pairs, Situation, Value

    from fsm.machine import Machine

MILLISECOND = 10**6
MOST = 150
"""The maximum number of steps in the search for a difference between a model and its mutant."""


class InterpretedSUT:
    """An implementation of *text* that makes the choices of the environment at random.

    Its timers fire after exactly their time.
    """

    def __init__(self, text: str, seed: int = 0) -> None:
        self.interpreter = Interpreter(text, tick=MILLISECOND)
        self.chance = random.Random(seed)
        self.reset()

    def reset(self) -> None:
        self.here, self.emitted = self.interpreter.initial, list[str]()

    def do(self, event: str, **args: Value) -> str:
        pairs = tuple((name, args[name]) for name in self.interpreter.events[event].get("arguments", {}))
        effect = self.taken(event, pairs)
        while effect.begins:
            effect = self.taken(event, pairs, ends=True)
        return effect.reply

    def taken(self, event: str, args: Pairs, *, ends: bool = False) -> Effect:
        effects = self.interpreter.effects(self.here, event, args, ends=ends)
        if not effects:
            raise UnsupportedError(event)
        effect = self.chance.choice(effects)
        self.here = effect.after
        self.emitted += effect.emits
        return effect

    def advance(self, seconds: float) -> None:
        left = round(seconds * 1_000)
        while True:
            due = [(sum(self.interpreter.times[name]) // 2 - ticks, name) for name, ticks in self.here.clocks]
            step = min([left, *(time for time, _ in due)])
            self.here = replace(self.here, clocks=tuple((name, ticks + step) for name, ticks in self.here.clocks))
            fires = [name for time, name in due if time == step]
            if not fires:
                return
            left -= step
            self.taken(self.interpreter.timers[fires[0]]["event"], ())

    def shows(self) -> str:
        return self.interpreter.shows(self.here)

    def fields(self) -> dict[str, Any]:
        return self.interpreter.fields(self.here)

    def outputs(self) -> list[str]:
        emitted, self.emitted = self.emitted, []
        return emitted

    def close(self) -> None: ...


def mutant(chance: random.Random, text: str) -> str:
    """Return *text* with one defect, and without faults."""
    while True:
        model = tomllib.loads(text)
        _damage(chance, model)
        changed = model_text(model)
        if changed != model_text(tomllib.loads(text)) and not Interpreter(changed).faults():
            return changed


def _damage(chance: random.Random, model: Model) -> None:
    events = model["event"]
    if "timer" in model and chance.random() < 0.2:
        timer = chance.choice([*model["timer"].values()])
        if timer["restarts"] and chance.random() < 0.5:
            timer["restarts"] = []
        else:
            timer["after"] = f"{int(timer['after'][0]) + chance.choice((3, 4))} s"
        return
    event = chance.choice([*events.values()])
    cells = [*event.get("moves", {}).values(), *event.get("ends", {}).values()]
    if not cells:
        return
    outcome = chance.choice(chance.choice(cells))
    match chance.choice(("to", "to", "reply", "set", "set", "when", "emits")):
        case "to" if "begins" not in outcome:
            outcome.pop("stays", None)
            outcome["to"] = chance.choice([*model["states"]])
        case "reply" if event["kind"] == "call" and "begins" not in outcome:
            outcome["reply"] = chance.choice(("ok", "BUSY", "GONE"))
        case "set" if outcome.get("set"):
            outcome["set"].pop(chance.choice([*outcome["set"]]))
        case "when" if "when" in outcome:
            outcome["when"] = (
                outcome["when"].replace("<", ">") if "<" in outcome["when"] else outcome["when"].replace("==", "!=")
            )
        case "emits" if "begins" not in outcome:
            outcome["emits"] = [] if outcome.get("emits") else ["x"]
        case _:
            pass


def differs(text: str, other: str) -> bool:
    """Check whether a test of few steps shows that *other* is no implementation of *text*."""
    believed, mutated = (Interpreter(_unseen(each)) for each in (text, other))
    try:
        return _differ(believed, mutated)
    except TooWideError:
        return False


def _differ(believed: Interpreter, mutated: Interpreter) -> bool:
    start = frozenset(believed.closure([believed.initial])), mutated.initial
    met, todo = {start}, [start]
    for belief, here in todo:  # the list grows during the loop
        for seen, after in _tests(mutated, here):
            before = believed.elapsed(set(belief), 1) if seen.at else set(belief)
            left = frozenset(believed.explained(before, seen))
            if not left:
                return True
            if (left, after) not in met and len(met) < MOST:
                met.add((left, after))
                todo.append((left, after))
    return False


def _unseen(text: str) -> str:
    """Let the events of timers happen unseen, because a test sees only what follows from them."""
    model = tomllib.loads(text)
    for timer in model.get("timer", {}).values():
        model["event"][timer["event"]]["kind"] = "hidden"
    return model_text(model)


def _tests(of: Interpreter, here: Situation) -> Iterator[tuple[Seen, Situation]]:
    """Yield what a test may do, with what it sees: events, and a second in which time passes."""
    for event in of.events:
        for args in of.arguments(event) if event not in of.fired else ():
            for effect in of.effects(here, event, args) or ():
                if not effect.begins:
                    yield (
                        Seen(
                            event,
                            "",
                            effect.reply,
                            of.shows(effect.after),
                            effect.emits,
                            of.fields(effect.after),
                            dict(args),
                        ),
                        effect.after,
                    )
    if not here.clocks or not (later := of.tick(here)):
        return
    fires = [name for name, ticks in later.clocks if ticks >= sum(of.times[name]) // 2]
    effects = of.effects(later, of.timers[fires[0]]["event"], ()) if fires else None
    for after in [effect.after for effect in effects or ()] or [later]:
        yield Seen("", "", "", of.shows(after), None, of.fields(after), None, 1), after


def failures(machine: Machine, text: str, *, examples: int = 30) -> list[str]:
    tested = conform(machine, lambda: InterpretedSUT(text), examples=examples, steps=25)
    return [str(each.broken or each.violation) for each in tested.failures]


def passes(seed: str, features: frozenset[str] = FEATURES) -> tuple[int, list[str]]:
    """Return the failures of a correct implementation of a random machine."""
    text = random_text(random.Random(seed), features)
    return 1, [f"{seed}: {each}" for each in failures(machine_of(text), text)]


def found(seed: str, features: frozenset[str] = FEATURES) -> bool | None:
    """Return whether an incorrect implementation of a random machine is found, or ``None`` if there is none."""
    chance = random.Random(seed)
    text = random_text(chance, features)
    other = next((other for _ in range(5) if differs(text, other := mutant(chance, text))), "")
    return bool(failures(machine_of(text), other, examples=100)) if other else None
