"""Evaluate conditions at an instant, as defined in the reference of the property language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from brute_force.steps import Configuration, Instant, Model, Step
from fsm.machine.conditions import (
    All,
    At,
    Compare,
    Condition,
    Emits,
    EmitsOnly,
    Happens,
    In,
    Not,
    Replies,
    SilentOn,
    Some,
    StateChanges,
    StepEmits,
    atoms,
)

Test: TypeAlias = Callable[[Instant], bool]


def test_of(condition: Condition, model: Model) -> Test:
    match condition:
        case Not(of=inner):
            test = test_of(inner, model)
            return lambda at: not test(at)
        case All(of=parts):
            tests = [test_of(part, model) for part in parts]
            return lambda at: all(test(at) for test in tests)
        case Some(of=parts):
            tests = [test_of(part, model) for part in parts]
            return lambda at: any(test(at) for test in tests)
        case Compare():
            return lambda at: model.compares(condition, at.after)
        case SilentOn(event=event):
            return lambda at: model.silent(at.after, event)
        case _:
            return lambda at: _holds(condition, at)


def _holds(condition: Condition, at: Instant) -> bool:
    match condition:
        case In(states=states, before=False):
            return at.after[0][0] in states
        case At(before=False):
            return _at(condition, at.after)
        case Emits(output=output):
            return at.output == output
        case _:  # the first instant has no previous state, and no step leads to it
            return at.step is not None and (_was(condition, at.step) or _says_step(condition, at.step))


def _at(condition: At, here: Configuration) -> bool:
    found = [here[digit][0] in condition.states for digit in condition.copies]
    return all(found) if condition.every else any(found)


def _was(condition: Condition, step: Step) -> bool:
    match condition:
        case In(states=states):
            return step.source[0][0] in states
        case At():
            return _at(condition, step.source)
        case _:
            return False


def _says_step(condition: Condition, step: Step) -> bool:
    match condition:
        case EmitsOnly(outputs=outputs, among=among):
            return outputs == tuple(each for each in step.emits if among is None or each in among)
        case StepEmits(output=output):
            return output in step.emits
        case Happens(event=event):
            return step.event == event and step.stage in {"acts", "begins"}
        case Replies(event=event, reply=reply):
            fits = step.reply not in {"", "ok"} if reply == "error" else step.reply == reply
            return step.event == event and fits
        case StateChanges():
            return step.source[0][0] != step.target[0][0]
        case _:
            return False


def codes_named(conditions: list[Condition]) -> frozenset[str]:
    found = {atom.reply for condition in conditions for atom in atoms(condition) if isinstance(atom, Replies)}
    return frozenset(found - {"ok", "error"})
