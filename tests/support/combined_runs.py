"""Compare simulated runs, drivers and judgements of recordings of combined machines with the interpreter."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from combined_machines import FEATURES, random_text
from interpreter import Interpreter, Seen, TooWideError, domain
from machines import machine_of
from msgspec import structs

from fsm.machine.driver import CannotHappenError, Driver
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.machine import Machine

UNIT = "0.00000000{} s"
"""Times of a few nanoseconds, so that the interpreter can count every one."""
LENGTH = 12
START = 1_767_225_600 * 10**9
"""The time at which simulated entities begin their lives."""


def seen(each: Observation) -> Seen:
    at = each.at if isinstance(each.at, int) else None
    return Seen(each.event, each.phase, each.reply, each.shows, each.emits, each.fields, each.args, at)


# -- simulation -------------------------------------------------------------------------------


def simulated(
    seed: str, features: frozenset[str] = FEATURES, interpret: type[Interpreter] = Interpreter
) -> tuple[int, list[str]]:
    """Return the length of a simulated run, and the complaint of the interpreter, if it has one."""
    chance = random.Random(seed)
    text = random_text(chance, features, unit=UNIT)
    trace = [
        *simulate(machine_of(text), seed=chance.randrange(1 << 30), length=2 * LENGTH, overlap=chance.randint(1, 2))
    ]
    try:
        index, _ = interpret(text, tick=1).first_unexplained(map(seen, trace), START)
    except TooWideError:
        return 0, []
    return len(trace), [] if index is None else [f"{seed}: no run explains observation {index}: {trace[index]}"]


# -- driver -----------------------------------------------------------------------------------


def driven(
    seed: str, features: frozenset[str] = FEATURES, interpret: type[Interpreter] = Interpreter
) -> tuple[int, list[str]]:
    """Take random steps with a driver and with the interpreter, and return their number and the differences."""
    chance = random.Random(seed)
    text = random_text(chance, features - {"time"})
    machine, interpreter = machine_of(text), interpret(text)
    position, here, begun = Driver(machine).position(), interpreter.initial, list[tuple[str, bool]]()
    for number in range(30):
        event = chance.choice([*interpreter.events])
        ends = event in dict(begun)
        given = interpreter.events[event].get("arguments", {})
        args = dict(next(call.args for call in here.calls if call.event == event)) if ends else {
            name: chance.randint(-2, 4) if "from" in each else chance.choice([*domain(each)])
            for name, each in given.items()
        }  # fmt: skip
        effects = (
            interpreter.effects(here, event, tuple(args.items()), ends=ends)
            if not ends or interpreter.ends(event, here.leaf) is not None
            else None
        )
        expected = {each.name: each for each in effects or ()}
        try:
            offered = {each.name for each in position.outcomes(event, ends=ends, **args)}
        except CannotHappenError:
            offered = set()
        if offered != {*expected}:
            return number, [f"{seed}: {event}({args}) in {here} offers {offered}, expected {[*expected]}"]
        if not offered:
            if ends:
                return number, []
            continue
        name = chance.choice(sorted(offered))
        taken = position.take(event, name, ends=ends, **args)
        those = [each for each in effects or () if each.name == name]
        kept = here.without(next(call for call in here.calls if call.event == event)).calls if ends else here.calls
        here = interpreter.begun(
            those[0], event, tuple(args.items()), () if interpreter.events[event].get("interrupts") else kept
        ).after
        begun = [(call.event, True) for call in here.calls]
        found = (
            taken.reply or ("",),
            taken.emits,
            taken.begins,
            machine.hierarchy.in_model(position.state),
            position.shows,
            position.data,
        )
        right = (
            tuple(each.reply for each in those),
            those[0].emits,
            those[0].begins,
            here.leaf,
            interpreter.shows(here),
            dict(here.data),
        )
        if found != right:
            return number, [f"{seed}: {event}({args}) leads to {found}, expected {right}"]
    return 30, []


# -- judgement --------------------------------------------------------------------------------


def first_violation(machine: Machine, trace: Sequence[Observation]) -> int | None:
    monitor = Monitor(machine, fresh=True)
    return next((index for index, each in enumerate(trace) if monitor.observe(each)), None)


HIDING = frozenset({"hidden", "silent", "alike", "slow", "choice", "scope"})
"""Features because of which the monitor may not know the state and all values after an observation."""


def judged(
    seed: str, features: frozenset[str] = FEATURES, interpret: type[Interpreter] = Interpreter
) -> tuple[Counter[str], list[str]]:
    """Return what the monitor found in a random recording, compared with the interpreter, and the disagreements.

    If nothing is hidden, both must find the same first violation.  If not, the monitor may find it later, but never
    earlier.
    """
    chance = random.Random(seed)
    text = random_text(chance, features, unit=UNIT)
    machine, hides = machine_of(text), bool(features & HIDING)
    if hides:
        made = simulate(machine, seed=chance.randrange(1 << 30), length=LENGTH, overlap=chance.choice((1, 2)))
        trace = _hidden(chance, [structs.replace(each, entity="e") for each in made])
    else:
        trace = walked(chance, Interpreter(text, tick=1))
    for _ in range(chance.choice((0, 1, 1, 2)) if trace else 0):
        trace = _changed(chance, machine, trace, times=hides)
    try:
        expected, vague = interpret(text, tick=1).first_unexplained(map(seen, trace))
    except TooWideError:
        return Counter(), []
    found = first_violation(machine, trace)
    count = Counter({"legal" if expected is None else "illegal": 1})
    if found == expected or (vague is not None and (found is None or found > vague)):
        return count + Counter(same=1), []
    if (found is None or (expected is not None and found > expected)) and hides:
        return count + Counter(later=1), []
    return count, [f"{seed}: violation at {found}, expected at {expected}: {trace}"]


def walked(chance: random.Random, interpreter: Interpreter) -> list[Observation]:
    """Return a random run of the interpreter, in which every step is observed and calls take no time."""
    here, time, trace = interpreter.initial, START, list[Observation]()
    while len(trace) < LENGTH:
        later = interpreter.tick(here)
        if later and chance.random() < 0.5:
            here, time = later, time + 1
            continue
        event = chance.choice(
            [name for name in interpreter.events if later is None or name not in interpreter.fired] or [""]
        )
        due = [event for event in interpreter.fired if interpreter.fires(here, event)]
        event = chance.choice(due) if due and (later is None or chance.random() < 0.5) else event
        args = chance.choice([*interpreter.arguments(event)])
        if not (effects := interpreter.effects(here, event, args)):
            continue
        effect = chance.choice(effects)
        here = effect.after
        trace.append(
            Observation(
                entity="e",
                event=event,
                reply=effect.reply,
                shows=interpreter.shows(here),
                emits=effect.emits,
                fields=interpreter.fields(here) or None,
                args=dict(args) or None,
                at=time,
                start=time,
                end=time,
            )
        )
    return trace


def _hidden(chance: random.Random, trace: list[Observation]) -> list[Observation]:
    """Leave out some of what was observed."""
    sparse = chance.choice((0.0, 0.0, 0.4))
    return [
        structs.replace(
            each,
            shows=each.shows if chance.random() >= sparse else "",
            emits=each.emits if chance.random() >= sparse else None,
            fields=each.fields if chance.random() >= sparse else None,
            args=each.args if chance.random() >= sparse / 2 else None,
            reply=each.reply if chance.random() >= sparse / 4 else "",
        )
        for each in trace
    ]


def _changed(chance: random.Random, machine: Machine, trace: list[Observation], *, times: bool) -> list[Observation]:
    """Change one thing in the trace."""
    at = chance.randrange(len(trace))
    each = trace[at]
    match chance.choice(("reply", "shows", "fields", "args", "drop", "repeat", "later", "later", "emits")):
        case "reply" if each.reply:
            each = structs.replace(each, reply=chance.choice(("ok", "BUSY", "GONE")))
        case "shows" if each.shows:
            each = structs.replace(each, shows=chance.choice([state.shows for state in machine.states.values()]))
        case "fields" if each.fields:
            name = chance.choice([*each.fields])
            variable = machine.data[name]
            each = structs.replace(
                each, fields={**each.fields, name: variable.written(chance.randint(variable.low, variable.high))}
            )
        case "args" if each.args:
            arguments = machine.events[each.event].arguments
            args = {
                name: arguments[name].written(chance.randint(arguments[name].low, arguments[name].high))
                for name in each.args
            }
            each = structs.replace(each, args=args)
        case "emits" if each.emits is not None:
            each = structs.replace(each, emits=chance.choice(((), ("x",), ("y",), ("x", "y"))))
        case "later" if each.at is not None:
            ticks = chance.randint(1, 3)
            return [*trace[:at], *(_delayed(one, ticks) for one in trace[at:])]
        case "drop" if each.phase == "" or times:
            return trace[:at] + trace[at + 1 :]
        case "repeat" if each.phase == "":
            return [*trace[: at + 1], *trace[at:]]
        case _:
            return trace
    return [*trace[:at], each, *trace[at + 1 :]]


def _delayed(each: Observation, ticks: int) -> Observation:
    def after(time: int | None) -> int | None:
        return None if time is None else time + ticks

    return structs.replace(each, at=after(each.at), start=after(each.start), end=after(each.end))  # type: ignore[arg-type]
