"""Compose the moves of a joint event, for all values of data at once.

The conditions and updates of a move are about the values after the moves before it.  Here they are rewritten in
terms of the values before the event, so that the event has them as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.conditions import Condition, Not, all_of, comparisons_over
from fsm.machine.product.system import JointMove, Locals, Option
from fsm.machine.table import Done
from fsm.machine.terms import Combined, Constant, DataUpdate, Read, Term, Variable, substituted, term_text


class AssumedData(NamedTuple):
    """Some moves are possible if the data before them satisfy ``holding``, and they change the data to ``values``."""

    holding: tuple[Condition, ...] = ()
    values: Mapping[str, Term] = MappingProxyType({})

    @property
    def condition(self) -> Condition | None:
        return all_of(self.holding) if self.holding else None


NOTHING_ASSUMED: Final = AssumedData()

JointRun: TypeAlias = tuple[Locals, tuple[Done, ...], tuple[str, ...], AssumedData]
"""The states after some moves, the steps, the error reply that ended the event, if any, and assumptions about data.

There are many runs, and Python makes and unpacks plain tuples faster than anything else.  The same is true for options.
"""


@dataclass(frozen=True, slots=True)
class Composition:
    """Composes moves in a system with the variables ``of``."""

    of: Mapping[str, Variable]

    def runs(self, moves: Sequence[JointMove], *starts: JointRun, blocked: bool = False) -> list[JointRun]:
        going, ended = list(starts), list[JointRun]()
        for move in moves:
            take = self._take_on_data if move.on_data else _take
            going = take(move, move.all_options if blocked else move.options, going, ended)
        return [*going, *ended]

    def _take_on_data(
        self, move: JointMove, options: _OptionsOf, going: list[JointRun], ended: list[JointRun]
    ) -> list[JointRun]:
        following: list[JointRun] = []
        for here, done, _, before in going:
            for taken, assumed in self._cases(before, move.when(here)):
                if not taken:
                    following.append((here, done, (), assumed))
                    continue
                cases = self._cases(assumed, move.heard(here))
                for (heard, given), option in product(cases, options(here[move.at])):
                    to, error, delivered, silent, guard, updates = option
                    after = (*here[: move.at], to, *here[move.at + 1 :])
                    steps, then = (*done, delivered if heard else silent), self._after(given, guard, updates)
                    (ended if error else following).append((after, steps, error, then))
        return following

    def met(self, moves: Sequence[JointMove], start: JointRun) -> Iterator[tuple[JointMove, int, AssumedData]]:
        """Yield the moves that may be taken after *start*, each with the state before it and what this assumes."""
        going = [start]
        for move in moves:
            for here, _, _, before in going:
                cases = self._cases(before, move.when(here))
                yield from ((move, here[move.at], assumed) for taken, assumed in cases if taken)
            following = [run for run in self.runs([move], *going) if not run[2]]
            different = {(here, then.holding, *then.values.items()): (here, then) for here, _, _, then in following}
            going = [(here, (), (), then) for here, then in different.values()]

    def _cases(self, before: AssumedData, found: bool | Condition) -> list[tuple[bool, AssumedData]]:  # noqa: FBT001
        """Return whether a condition holds, or both cases if that depends on data."""
        if isinstance(found, bool):
            return [(found, before)]
        return [(True, self._after(before, found)), (False, self._after(before, Not(of=found)))]

    def now(self, before: AssumedData, condition: Condition) -> Condition:
        """Return *condition* on the values after some moves as a condition on the values before them."""
        return comparisons_over(condition, lambda name: self._value(before, name))

    def updates(self, after: AssumedData) -> tuple[DataUpdate, ...]:
        return tuple(
            DataUpdate(variable=name, term=term, text=term_text(term, Read(name=name), self.of))
            for name, term in after.values.items()
        )

    def _after(self, before: AssumedData, guard: Condition | None, updates: Sequence[DataUpdate] = ()) -> AssumedData:
        """Add the condition and the updates of a move to *before*."""
        holding = before.holding if guard is None else (*before.holding, self.now(before, guard))
        new = {each.variable: substituted(each.term, lambda name: self._value(before, name)) for each in updates}
        return AssumedData(holding, {**before.values, **new})

    def _value(self, before: AssumedData, name: str) -> Term:
        value, variable = before.values.get(name), self.of.get(name)
        if value is None or variable is None:
            return Read(name=name)
        if variable.beyond != "saturates" or isinstance(value, Read | Constant):
            return value
        least = Combined(operator="max", left=value, right=Constant(value=variable.low))
        return Combined(operator="min", left=least, right=Constant(value=variable.high))


_OptionsOf: TypeAlias = Callable[[int], Iterable[Option]]


def _take(move: JointMove, options: _OptionsOf, going: list[JointRun], ended: list[JointRun]) -> list[JointRun]:
    """Return the runs after a *move* that does not depend on data.  Runs that an error ends are added to *ended*."""
    following: list[JointRun] = []
    at, when, hears = move.at, move.when, move.heard
    for run in going:
        here, done, _, assumed = run
        if not when(here):
            following.append(run)
            continue
        heard = hears(here)
        for to, error, delivered, silent, _, _ in options(here[at]):
            after = here if to == here[at] else (*here[:at], to, *here[at + 1 :])
            (ended if error else following).append((after, (*done, delivered if heard else silent), error, assumed))
    return following
