"""The table of a machine with data, in which states carry the values of variables, and rows the arguments of events.

A state with other values is another state, and an event with other arguments has another row.  Calls in progress
therefore keep the arguments with which they began, and all rules for calls apply to machines with data, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from fsm.machine.guards import DataEffects, encoded, may_agree
from fsm.machine.table import Row, Table, Way
from fsm.machine.terms import Argument, Constant, Values
from fsm.machine.traversal import Numbering

MOST: Final = 1 << 16
"""Maximum number of cells of states with values and rows with arguments.  Further values are unknown."""

JOINT: Final = 16
"""Maximum number of combinations of values that events may compute repeatedly without being observed.

The variables with the smallest ranges are *joint* while they have no more combinations.  A belief contains each
combination of their values that may have been computed, so it knows how these variables depend on each other.  The
computed values of other variables are unknown, as are values beyond a range.
"""


class _Rows(tuple[Row, ...]):  # noqa: SLOT001  (a tuple cannot have slots)
    """The rows of a machine.  The number of a row with arguments leads to the same row without arguments."""

    called: Numbering[tuple[int, Values]]

    def __getitem__(self, index: int) -> Row:  # type: ignore[override]  # rows are not sliced
        return super().__getitem__(self.called.listed[index][0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValuedTable(Table):
    """The table ``of`` with values.  States and rows keep their numbers, but there all values are unknown.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = with_data(tabulate(load("examples/models/safe.toml")))
    >>> [table.named(way.to) for way in table.step(table.initial, table.placed(table.row["enter"], {"code": 7}))]
    ['locked, failures = 1']
    """

    data: DataEffects
    of: Table
    numbers: Numbering[tuple[int, Values]]
    called: Numbering[tuple[int, Values]]
    joint: frozenset[str]
    most: int = MOST
    known: dict[tuple[int, int], tuple[Way, ...] | None] = field(default_factory=dict)

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        if (state, row) not in self.known:
            self.known[state, row] = self._step(state, row)
        return self.known[state, row]

    def _step(self, state: int, row: int) -> tuple[Way, ...] | None:
        found = self._outcomes(*self.numbers.listed[state], *self.called.listed[row])
        if found is None:
            return None
        first = len(self.ways)
        for way, after in found:
            to = self.number(way.to, after)
            self.ways.append(replace(way, index=len(self.ways), to=to, given=self.given(row)))  # type: ignore[attr-defined]  # a list
            self.origin.append((row, state))  # type: ignore[attr-defined]
        return tuple(self.ways[first:])

    def _outcomes(
        self, bare: int, values: Values, plain: int, arguments: Values
    ) -> Collection[tuple[Way, Values]] | None:
        return self.data.outcomes(self.of.step(bare, plain), plain, values, arguments)

    def number(self, bare: int, values: Values) -> int:
        if len(self.known) >= self.most and (bare, values) not in self.numbers:
            return bare
        number = self.numbers[bare, values]
        if number == len(self.states):
            self.states.append(self.of.states[bare])  # type: ignore[attr-defined]  # a list
            self.shows.append(self.of.shows[bare])  # type: ignore[attr-defined]
        return number

    @property
    def size(self) -> int:
        return len(self.of.states)

    @property
    def anywhere(self) -> Sequence[int]:
        return range(self.size)

    def bare(self, state: int) -> int:
        return self.numbers.listed[state][0]

    def values(self, state: int) -> Values:
        return self.numbers.listed[state][1]

    def named(self, state: int) -> str:
        return ", ".join([self.states[state], *self.data.texts(self.values(state))])

    def placed(self, row: int, given: Mapping[str, Argument]) -> int:
        event, plain = self.rows[row].event, self.rows[row].index
        arguments = encoded(event, {name: value for name, value in given.items() if name in event.arguments})
        if len(self.known) >= self.most and (plain, arguments) not in self.called:
            return plain
        number = self.called[plain, arguments]
        if plain in self.of.end:
            self.end[number] = self.called[self.of.end[plain], arguments]  # type: ignore[index]  # a dictionary
        return number

    def agree(self, row: int, other: int) -> bool:
        (one, mine), (another, yours) = self.called.listed[row], self.called.listed[other]
        return one == another and may_agree([mine], [yours])

    def learned(self, state: int, shown: Mapping[str, Argument]) -> int:
        bare, values = self.numbers.listed[state]
        pairs = zip(self.data.variables, values, strict=True)
        found = tuple(each.encoded(shown[each.name]) if each.name in shown else value for each, value in pairs)
        agree = all(old is None or old == new for old, new in zip(values, found, strict=True))
        return self.number(bare, found) if agree else -1

    def arguments(self, row: int) -> dict[str, Argument]:
        plain, values = self.called.listed[row]
        pairs = zip(self.data.arguments[plain], values, strict=True)
        return {each.name: each.written(value) for each, value in pairs if value is not None}

    def given(self, row: int) -> tuple[Values, ...]:
        return (self.called.listed[row][1],)

    def visible(self, state: int) -> dict[str, Argument]:
        pairs = zip(self.data.variables, self.values(state), strict=True)
        return {each.name: each.written(value) for each, value in pairs if each.shown and value is not None}

    def loosened(self, way: Way) -> Way:
        bare, values = self.numbers.listed[way.to]
        computed = {each.variable for each in way.updates if not isinstance(each.term, Constant)}
        pairs = zip(self.data.variables, values, strict=True)
        after = tuple(
            value if each.name not in computed or (each.name in self.joint and each.in_range(value)) else None
            for each, value in pairs
        )
        return way if after == values else replace(way, to=self.number(bare, after))


def _joint(data: DataEffects) -> Iterator[str]:
    left = JOINT
    for each in sorted(data.variables, key=lambda each: each.high - each.low):
        left //= each.high - each.low + 1
        if left:
            yield each.name


def with_data(table: Table, most: int = MOST, *, kind: type[ValuedTable] = ValuedTable) -> Table:
    """Return *table* with values, as a table of this *kind*, or *table* itself if its machine has no data.

    After *most* cells have been used, new values become unknown.
    """
    if (data := table.data) is None or isinstance(table, ValuedTable):
        return table
    numbers = Numbering((state, data.unknown) for state in range(len(table.states)))
    initial, rows = numbers[table.initial, data.initial], _Rows(table.rows)
    rows.called = Numbering((row, (None,) * len(of)) for row, of in enumerate(data.arguments))
    return kind(
        machine=table.machine,
        states=[table.states[bare] for bare, _ in numbers.listed],
        shows=[table.shows[bare] for bare, _ in numbers.listed],
        initial=initial,
        rows=rows,
        row=table.row,
        end=dict(table.end),
        ways=[],
        origin=[],
        cells=(),
        data=data,
        of=table,
        numbers=numbers,
        called=rows.called,
        joint=frozenset(_joint(data)),
        most=most,
    )
