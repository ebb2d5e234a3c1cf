"""A machine with data: the values of variables and the arguments of calls in progress are part of a configuration.

The conditions and updates are evaluated as they are written, by Python's own parser.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, Final, TypeAlias

from brute_force.steps import (
    UNLIMITED,
    Configuration,
    Cut,
    Model,
    Stage,
    Step,
    cut_of,
    outcomes_of,
    possible_replies,
)
from fsm.machine import Event, Machine, Outcome, Silent
from fsm.machine.conditions import Compare
from fsm.machine.terms import Combined, Constant, Read, Term, Variable

Value: TypeAlias = "int | bool | str"
Given: TypeAlias = tuple[Value, ...]

_PYTHON: Final[dict[type, Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_parsed = cache(lambda text: ast.parse(text.strip(), mode="eval").body)


def evaluated(text: str, values: Mapping[str, Value]) -> Any:  # noqa: ANN401  (a value or a truth value)
    """Evaluate *text* as Python would, where a name that is not in *values* is a word.

    >>> evaluated("not n + 1 < 3 and how == slow", {"n": 2, "how": "slow"})
    True
    """
    return _evaluated(_parsed(text), {"true": True, "false": False, **values})


def _evaluated(node: ast.AST, values: Mapping[str, Value]) -> Any:  # noqa: ANN401  (one for each kind of node)
    match node:
        case ast.BoolOp(op=op, values=parts):
            found = [_evaluated(each, values) for each in parts]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _evaluated(inner, values)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, values)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _PYTHON[type(op)](_evaluated(left, values), _evaluated(right, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _PYTHON[type(op)](_evaluated(left, values), _evaluated(right, values))
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return {"min": min, "max": max}[name](_evaluated(left, values), _evaluated(right, values))
        case ast.Name(id=name):
            return values.get(name, name)
        case ast.Constant(value=value):
            return value
        case _:
            raise TypeError(ast.dump(node))


def domain(variable: Variable) -> tuple[Value, ...]:
    if variable.words:
        return variable.words
    return (False, True) if variable.truth else tuple(range(variable.low, variable.high + 1))


def in_domain(variable: Variable, value: Value) -> bool:
    return value in variable.words if variable.words else variable.truth or variable.low <= int(value) <= variable.high


def possible(outcomes: tuple[Outcome, ...], values: Mapping[str, Value]) -> list[Outcome]:
    """Return the outcomes whose conditions hold.  ``otherwise`` holds if no other condition in the cell does."""
    holds = [
        each.when is None or (each.when.text != "otherwise" and evaluated(each.when.text, values)) for each in outcomes
    ]
    return [
        each
        for each, right in zip(outcomes, holds, strict=True)
        if right or (each.when is not None and each.when.text == "otherwise" and not any(holds))
    ]


def updated(machine: Machine, outcome: Outcome, values: Mapping[str, Value]) -> tuple[Value, ...]:
    """Return the values of the variables after *outcome*.  Every update reads the values before it."""
    new = {each.variable: evaluated(each.text, values) for each in outcome.updates}
    after = []
    for name, variable in machine.data.items():
        value = new.get(name, values[name])
        if variable.beyond == "saturates":
            value = min(max(value, variable.low), variable.high)
        after.append(value)
    return tuple(after)


@dataclass(frozen=True, slots=True)
class DataModel(Model):
    """A machine with data, in which at most *overlap* calls of an event are in progress.

    A configuration is ``((state, calls), (values, arguments of the calls))``.
    """

    machine: Machine
    overlap: int = 1
    beyond: bool = False

    @property
    def initial(self) -> Configuration:
        values = tuple(domain(each)[each.initial - each.low] for each in self.machine.data.values())
        return ((self.machine.initial, ()), (values, ()))  # type: ignore[return-value]  # the values are beside the state

    def steps(self, here: Configuration, codes: frozenset[str] = frozenset()) -> list[Step]:
        state, calls = here[0]
        values, given = data_of(here)
        found: list[Step] = []
        for event in self.machine.events.values():
            kept = [] if event.interrupts else list(zip(calls, given, strict=True))
            for arguments in product(*map(domain, event.arguments.values())):
                for outcome in possible(outcomes_of(event, state) or (), self.frame(here, event, arguments)):
                    if not outcome.begins or [name for name, _ in kept].count(event.name) < self.overlap:
                        found += self._steps(here, event, outcome, codes, arguments, kept, ends=False)
        going = list(zip(calls, given, strict=True))
        for place, (name, arguments) in enumerate(going):
            event, rest = self.machine.events[name], going[:place] + going[place + 1 :]
            if (end := event.ends.get(state)) is None:
                step = Step(
                    event=name,
                    stage="ends",
                    source=here,
                    target=_beside(state, rest, values),
                    unwritten=True,
                    given=arguments,
                )
                found += [replace(step, reply=reply) for reply in possible_replies(("ok", "error"), codes)]
            else:
                for outcome in possible(end.outcomes, self.frame(here, event, arguments)):
                    found += self._steps(here, event, outcome, codes, arguments, rest, ends=True)
        return list(dict.fromkeys(found))

    def frame(self, here: Configuration, event: Event, arguments: Given) -> dict[str, Value]:
        """Return the values that conditions and updates of *event* read."""
        return dict(zip((*self.machine.data, *event.arguments), (*data_of(here)[0], *arguments), strict=True))

    def _steps(
        self,
        here: Configuration,
        event: Event,
        outcome: Outcome,
        codes: frozenset[str],
        arguments: Given,
        rest: list[tuple[str, Given]],
        *,
        ends: bool,
    ) -> Iterator[Step]:
        after = updated(self.machine, outcome, self.frame(here, event, arguments))
        if not self.beyond and not all(map(in_domain, self.machine.data.values(), after)):
            return
        going = [*rest, (event.name, arguments)] if outcome.begins else rest
        stage: Stage = ("continues" if outcome.begins else "ends") if ends else ("begins" if outcome.begins else "acts")
        step = Step(
            event=event.name,
            stage=stage,
            source=here,
            target=_beside(outcome.to, going, after),
            outcome=outcome.name,
            emits=outcome.emits,
            among=outcome.reply,
            emitted=tuple((output, 0) for output in outcome.emits),
            signal=event.kind == "signal",
            given=arguments,
        )
        silent = event.kind != "call" or outcome.begins
        yield from [step] if silent else [replace(step, reply=each) for each in possible_replies(outcome.reply, codes)]

    def cut(self, here: Configuration) -> Cut:
        return cut_of(replace(self, overlap=UNLIMITED, beyond=True).steps(here), self.steps(here))

    def silent(self, here: Configuration, event: str) -> bool:
        return isinstance(self.machine.events[event].cells[here[0][0]], Silent)

    def compares(self, condition: Compare, here: Configuration) -> bool:
        pairs = zip(self.machine.data.items(), data_of(here)[0], strict=True)
        values = {name: domain(each).index(value) + each.low for (name, each), value in pairs}
        left, right = (_term(each, values) for each in (condition.left, condition.right))
        return bool(evaluated(f"{left} {condition.comparison} {right}", {}))

    def shows(self, here: Configuration) -> str:
        return self.machine.states[here[0][0]].shows


def _term(term: Term, values: Mapping[str, int]) -> int:
    match term:
        case Constant(value=value):
            return value
        case Read(name=name):
            return values[name]
        case Combined(operator=operator, left=left, right=right):
            both = _term(left, values), _term(right, values)
            return {"+": sum(both), "-": both[0] - both[1], "min": min(both), "max": max(both)}[operator]


def texts(machine: Machine, values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(f"{name} = {word(value)}" for name, value in zip(machine.data, values, strict=True))


def word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def data_of(here: Configuration) -> tuple[Given, tuple[Given, ...]]:
    """Return the values of the variables, and the arguments of each call in progress."""
    return here[1]  # type: ignore[return-value]  # they are beside the state


def _beside(state: str, going: list[tuple[str, Given]], values: tuple[Value, ...]) -> Configuration:
    ordered = sorted(going)
    calls, given = tuple(name for name, _ in ordered), tuple(arguments for _, arguments in ordered)
    return ((state, calls), (values, given))  # type: ignore[return-value]  # the values are beside the state
