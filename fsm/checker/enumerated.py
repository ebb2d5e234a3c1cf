"""Tables that enumerate the values of data, with which the comparison of machines is exact.

The monitor forgets values that unobserved events change, because it judges values beyond any range.  A comparison
enumerates them instead, within the declared ranges.  Only values beyond a scope are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Final

from msgspec import structs

from fsm.machine import Event
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.calls.valued import ValuedTable, with_data
from fsm.machine.evidence import RunStep, run_step
from fsm.machine.guards import arguments_read
from fsm.machine.table import Table, Way
from fsm.machine.terms import Argument, Values, Variable, word

MOST: Final = 20_000
"""Maximum number of states with values that may follow if the specification is silent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnumeratedTable(ValuedTable):
    """A table in which events with unknown arguments have any arguments in their ranges."""

    everywhere: list[int] = field(default_factory=list)

    def _outcomes(
        self, bare: int, values: Values, plain: int, arguments: Values
    ) -> Collection[tuple[Way, Values]] | None:
        ways = self.of.step(bare, plain)
        found: dict[tuple[int, Values], tuple[Way, Values]] = {}
        for each in self._completed(plain, arguments, ways or ()):
            outcomes = self.data.outcomes(ways, plain, values, each)
            if outcomes is None:
                return None
            for way, after in outcomes:
                left = after if self.data.in_range(after) else tuple(map(_within_range, self.data.variables, after))
                found[way.index, left] = way, left
        return found.values()

    def _completed(self, plain: int, arguments: Values, ways: Sequence[Way]) -> Iterable[Values]:
        if None not in arguments:
            return [arguments]
        every = self.data.combinations(plain, ways)
        return {tuple(map(lambda old, new: new if old is None else old, arguments, each)): None for each in every}

    @property
    def anywhere(self) -> Sequence[int]:
        if not self.everywhere:
            ranges = [
                (*range(each.low, each.high + 1), *([None] if each.beyond == "scope" else []))
                for each in self.data.variables
            ]
            if self.size * prod(map(len, ranges)) > MOST:
                raise TooManyError
            pairs = product(range(self.size), product(*ranges))
            self.everywhere.extend(self.number(bare, values) for bare, values in pairs)
        return self.everywhere

    def loosened(self, way: Way) -> Way:
        return way

    def within(self, state: int) -> bool:
        """Check whether all values in *state* are in their ranges."""
        values = self.numbers.listed[state][1]
        return None not in values and self.data.in_range(values)


def _within_range(variable: Variable, value: int | None) -> int | None:
    return value if value is not None and variable.low <= value <= variable.high else None


def enumerated(table: Table) -> Table:
    """Return *table* with each value of its data, or *table* itself if its machine has no data."""
    return with_data(table, 1 << 62, kind=EnumeratedTable)


def within(table: Table, state: int) -> bool:
    return not isinstance(table, EnumeratedTable) or table.within(state)


def each_argument(event: Event, besides: Collection[str]) -> Iterator[dict[str, Argument]]:
    """Yield the arguments of *event* in their ranges, without those that nothing reads and *besides* does not list."""
    read = arguments_read(event)
    known = [each for each in event.arguments.values() if each.name in read or each.name in besides]
    for values in product(*(range(each.low, each.high + 1) for each in known)):
        yield {each.name: each.written(value) for each, value in zip(known, values, strict=True)}


def step_with_values(table: Table, state: int, row: int, way: Way | None, to: int, reply: str = "") -> RunStep:
    """Return the step of a run, with the arguments of the event and the values of the variables after it."""
    return with_values(table, run_step(table, state, row, way, to, reply), row, to)


def with_values(table: Table, taken: RunStep, row: int, to: int) -> RunStep:
    if not isinstance(table, ValuedTable):
        return taken
    return structs.replace(taken, given=given_texts(table, row), data=table.data.texts(table.numbers.listed[to][1]))


def given_texts(table: Table, row: int) -> tuple[str, ...]:
    return table.data.given(*table.called.listed[row]) if isinstance(table, ValuedTable) and row >= 0 else ()


def shown_texts(table: Table, state: int) -> tuple[str, ...]:
    return tuple(f"{name} = {word(value)}" for name, value in table.visible(state).items())
