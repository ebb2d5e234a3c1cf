"""Compose the moves of a joint event, for all values of data at once.

The conditions and updates of a move are about the values after the moves before it.  Here they are rewritten in
terms of the values before the event, so that the event has them as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fsm.machine.conditions import Condition, Not, all_of, comparisons_over
from fsm.machine.product.system import JointMove, Locals, Option
from fsm.machine.table import Done
from fsm.machine.terms import Combined, Constant, DataUpdate, Read, Term, Variable, substituted, term_text


class JointRun(NamedTuple):
    """The moves in ``done`` lead to the states ``here`` and to new ``values`` if the data satisfy ``holding``.

    ``error`` is set if an error reply has ended the event.
    """

    here: Locals
    done: tuple[Done, ...] = ()
    error: tuple[str, ...] = ()
    holding: tuple[Condition, ...] = ()
    values: Mapping[str, Term] = {}

    @property
    def condition(self) -> Condition:
        return all_of(self.holding)


@dataclass(frozen=True, slots=True)
class Composition:
    """Composes moves in a system with the variables ``of``."""

    of: Mapping[str, Variable] = field(default_factory=dict)

    def runs(self, moves: Sequence[JointMove], *starts: JointRun, blocked: bool = False) -> list[JointRun]:
        going, ended = list(starts), list[JointRun]()
        for move in moves:
            following: list[JointRun] = []
            for before in going:
                for taken, run in self.cases(before, move.when(before.here)):
                    if not taken:
                        following.append(run)
                        continue
                    local = run.here[move.at]
                    options = (*move.options(local), *move.blocked(local)) if blocked else move.options(local)
                    for heard, then in self.cases(run, move.heard(run.here)):
                        for option in options:
                            (ended if option.errors else following).append(
                                self.after(then, move.at, option, heard=heard)
                            )
            going = following
        return [*going, *ended]

    def met(self, moves: Sequence[JointMove], start: JointRun) -> Iterator[tuple[JointMove, JointRun]]:
        """Yield the moves that may be taken after *start*, each with the runs before it, apart from their steps."""
        going = [start]
        for place, move in enumerate(moves):
            cases = (each for run in going for each in self.cases(run, move.when(run.here)))
            yield from ((move, run) for taken, run in cases if taken)
            after = (run._replace(done=()) for run in self.runs(moves[place : place + 1], *going) if not run.error)
            going = [*{(run.here, run.holding, *run.values.items()): run for run in after}.values()]

    def cases(self, run: JointRun, found: bool | Condition) -> list[tuple[bool, JointRun]]:  # noqa: FBT001
        """Return whether a condition holds after *run*, or both cases if that depends on data."""
        if isinstance(found, bool):
            return [(found, run)]
        now = self.now(run, found)
        return [(True, _holding(run, now)), (False, _holding(run, Not(of=now)))]

    def now(self, run: JointRun, condition: Condition) -> Condition:
        """Return *condition* on the values after *run* as a condition on the values before it."""
        return comparisons_over(condition, lambda name: self._value(run, name))

    def updates(self, run: JointRun) -> tuple[DataUpdate, ...]:
        return tuple(
            DataUpdate(variable=name, term=term, text=term_text(term, self.of[name]))
            for name, term in run.values.items()
        )

    def after(self, run: JointRun, at: int, option: Option, *, heard: bool) -> JointRun:
        """Return *run* followed by a move of the copy *at*, with its outputs if they are *heard*."""
        here = run.here if option.to == run.here[at] else (*run.here[:at], option.to, *run.here[at + 1 :])
        done = (*run.done, option.done if heard else option.silent)
        if option.when is None and not option.updates:
            return JointRun(here, done, option.errors, run.holding, run.values)
        holding = run.holding if option.when is None else (*run.holding, self.now(run, option.when))
        new = {each.variable: substituted(each.term, lambda name: self._value(run, name)) for each in option.updates}
        return JointRun(here, done, option.errors, holding, {**run.values, **new})

    def _value(self, run: JointRun, name: str) -> Term:
        value, variable = run.values.get(name), self.of.get(name)
        if value is None or variable is None:
            return Read(name=name)
        if variable.beyond != "saturates" or isinstance(value, Read | Constant):
            return value
        least = Combined(operator="max", left=value, right=Constant(value=variable.low))
        return Combined(operator="min", left=least, right=Constant(value=variable.high))


def _holding(run: JointRun, condition: Condition) -> JointRun:
    return run._replace(holding=(*run.holding, condition))
