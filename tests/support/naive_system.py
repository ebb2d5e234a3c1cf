"""A slow second opinion on systems, straight from the steps: it shares no code with :mod:`fsm.product`.

All copies take part; states are dictionaries; nothing is cached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import naive

from fsm.machine.conditions import All, At, Not, Some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fsm.machine.conditions import Condition
    from fsm.product.system import JointEvent, PartStep, System

Global: TypeAlias = "tuple[tuple[str, str], ...]"
"""Each copy with its state."""


class Step(NamedTuple):
    """One step of the system."""

    event: str
    way: str
    reply: tuple[str, ...]
    emits: tuple[str, ...]
    target: Global


def beginning(system: System) -> Global:
    """The initial state of every run."""
    return tuple((copy.name, system.parts[copy.part].initial) for copy in system.copies)


def steps(system: System, state: Global) -> set[Step]:
    """Every step from *state*."""
    return {step for joint in system.events.values() for step in _steps(system, joint, dict(state))}


def reachable(system: System) -> dict[Global, set[Step]]:
    """Every reachable state, with its steps."""
    found: dict[Global, set[Step]] = {}
    todo = [beginning(system)]
    while todo:
        state = todo.pop()
        if state not in found:
            found[state] = steps(system, state)
            todo += [step.target for step in found[state]]
    return found


def true(system: System, condition: Condition | None, now: Mapping[str, str]) -> bool:
    """Whether *condition* holds of the states *now*."""
    match condition:
        case None:
            return True
        case Not():
            return not true(system, condition.of, now)
        case All():
            return all(true(system, each, now) for each in condition.of)
        case Some():
            return any(true(system, each, now) for each in condition.of)
        case At():
            names = [copy.name for copy in system.copies if copy.digit in condition.copies]
            those = [now[name] in condition.states for name in names]
            return all(those) if condition.every else any(those)
    raise TypeError(condition)


def _steps(system: System, joint: JointEvent, now: dict[str, str]) -> Iterator[Step]:
    if not true(system, joint.when, now):
        return
    for way in joint.ways:
        if not true(system, way.when, now):
            continue
        for after, emits, error in _taken(system, list(way.steps), now, call=joint.kind == "call"):
            reply = (error or way.reply or ("ok",)) if joint.kind == "call" else ()
            target = tuple((copy.name, after[copy.name]) for copy in system.copies)
            yield Step(joint.name, way.name, tuple(sorted(reply)), emits, target)


def _taken(
    system: System, steps: list[PartStep], now: dict[str, str], *, call: bool
) -> Iterator[tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]]:
    if not steps:
        yield now, (), ()
        return
    step, *rest = steps
    if not true(system, step.when, now):
        yield from _taken(system, rest, now, call=call)
        return
    part, name = system.parts[step.copy.part], step.copy.name
    if not step.event:
        yield from _taken(system, rest, {**now, name: part.initial}, call=call)
        return
    look = naive.ends if step.ends else naive.ways
    hears = true(system, part.heard, now)
    for way in look(part.machine, now[name], step.event) or ():
        if way.outcome in part.without or (step.outcomes and way.outcome not in step.outcomes):
            continue
        emits = tuple(f"{output}{step.copy.suffix}" for output in way.emits) if hears else ()
        after = {**now, name: way.to}
        errors = set(way.replies) - {"ok"} if call and not step.goes_on else set()
        if errors:
            yield after, emits, tuple(errors)
        if not errors or "ok" in way.replies:
            for last, more, error in _taken(system, rest, after, call=call):
                yield last, (*emits, *more), error
