"""Compose the moves of a joint event, for all values of data at once.

The conditions and updates of a move are about the values after the moves before it.  Here they are rewritten in
terms of the values before the event, so that the event has them as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fsm.machine.conditions import Condition, Not, all_of, comparisons_over
from fsm.machine.product.system import JointMove, Locals, Option
from fsm.machine.table import Done
from fsm.machine.terms import Combined, Constant, DataUpdate, Read, Term, Variable, substituted, term_text

UNCHANGED: Final[Mapping[str, Term]] = MappingProxyType({})


class JointRun(Struct, gc=False, frozen=True):
    """The moves in ``done`` lead to the states ``here`` and to new ``values`` if the data satisfy ``holding``.

    ``error`` is set if an error reply has ended the event.
    """

    here: Locals
    done: tuple[Done, ...] = ()
    error: tuple[str, ...] = ()
    holding: tuple[Condition, ...] = ()
    values: Mapping[str, Term] = UNCHANGED

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
            at = move.at
            for before in going:
                when = move.when(before.here)
                if when is False:
                    following.append(before)
                    continue
                options = move.options(before.here[at])
                if blocked:
                    options = (*options, *move.blocked(before.here[at]))
                for taken, run in ((True, before),) if when is True else self._cases(before, when):
                    if not taken:
                        following.append(run)
                        continue
                    for heard, then in self._cases(run, move.heard(run.here)):
                        for option in options:
                            (ended if option.errors else following).append(self.after(then, at, option, heard))
            going = following
        return [*going, *ended]

    def met(self, moves: Sequence[JointMove], start: JointRun) -> Iterator[tuple[JointMove, JointRun]]:
        """Yield the moves that may be taken after *start*, each with the runs before it, apart from their steps."""
        going = [start]
        for place, move in enumerate(moves):
            cases = (each for run in going for each in self._cases(run, move.when(run.here)))
            yield from ((move, run) for taken, run in cases if taken)
            after = (replace(run, done=()) for run in self.runs(moves[place : place + 1], *going) if not run.error)
            going = [*{(run.here, run.holding, *run.values.items()): run for run in after}.values()]

    def _cases(self, run: JointRun, found: bool | Condition) -> tuple[tuple[bool, JointRun], ...]:  # noqa: FBT001
        """Return whether a condition holds after *run*, or both cases if that depends on data."""
        if isinstance(found, bool):
            return ((found, run),)
        now = self.now(run, found)
        return tuple(
            (holds, replace(run, holding=(*run.holding, now if holds else Not(of=now)))) for holds in (True, False)
        )

    def now(self, run: JointRun, condition: Condition) -> Condition:
        """Return *condition* on the values after *run* as a condition on the values before it."""
        return comparisons_over(condition, lambda name: self._value(run, name))

    def updates(self, run: JointRun) -> tuple[DataUpdate, ...]:
        return tuple(
            DataUpdate(variable=name, term=term, text=term_text(term, Read(name=name), self.of))
            for name, term in run.values.items()
        )

    def after(self, run: JointRun, at: int, option: Option, heard: bool = True) -> JointRun:  # noqa: FBT001, FBT002
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
