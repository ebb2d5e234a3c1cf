"""Tables whose states are configurations, with calls in progress and values of data.

A call that takes time begins in the row of its event, and ends in the *ends* row of that event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec.structs import replace as changed

from fsm.machine import ANY_ERROR
from fsm.machine.table import UNSPECIFIED, Table, Way, tabulate
from fsm.machine.terms import Values
from fsm.machine.timers import clocked
from fsm.machine.traversal import Numbering

BegunCalls: TypeAlias = tuple[int, ...]  # for each call in progress, the index of the row for its end; sorted
Configured: TypeAlias = tuple[int, BegunCalls, Values, tuple[Values, ...]]
"""A state, the calls in progress, the values of the variables, and the arguments of each call in progress."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InProgress(Table):
    """A table whose states are configurations of the table ``of``.

    A configuration is a state with calls in progress and values of the variables.  Arguments have the values in their
    declared ranges, and values of variables stay in theirs.  A configuration without calls and with the initial values
    has the same number as its state.  ``states`` and ``shows`` grow as configurations are found, and may contain the
    same value several times.
    """

    of: Table
    overlap: int
    unwritten: bool = False
    numbers: Numbering[Configured]
    known: dict[tuple[int, int], tuple[tuple[Way, ...] | None, tuple[Way, ...]]] = field(default_factory=dict)
    beyond_scope: dict[tuple[int, int], int] = field(default_factory=dict)
    """The number of ways that lead out of the scope of a variable, by configuration and row."""
    combinations: dict[tuple[int, int], tuple[Values, ...]] = field(default_factory=dict)
    """The arguments with which an event may happen in a state, by row and state of the table ``of``."""

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        return self._find_ways(state, row)[0]

    def blocked(self, state: int, row: int) -> tuple[Way, ...]:
        """Return the ways that :meth:`step` leaves out.

        Such a way would exceed the limit ``overlap`` or the scope of a variable, or, unless ``unwritten`` is true, end
        a call although the model does not specify the end.
        """
        return self._find_ways(state, row)[1]

    def bare(self, state: int) -> int:
        return self.numbers.listed[state][0]

    def calls(self, state: int) -> BegunCalls:
        return self.numbers.listed[state][1]

    def values(self, state: int) -> Values:
        return self.numbers.listed[state][2]

    def named(self, state: int) -> str:
        values = self.data.texts(self.values(state)) if self.data else ()
        begun = (f"{self.rows[row].event.name} has begun" for row in self.calls(state))
        return ", ".join([self.states[state], *values, *begun])

    def idle(self, state: int) -> bool:
        return not self.calls(state)

    def beyond(self) -> InProgress:
        """Return a copy of this table that includes unspecified ends of calls."""
        return replace(self, unwritten=True, known={}, beyond_scope={})

    def _find_ways(self, state: int, row: int) -> tuple[tuple[Way, ...] | None, tuple[Way, ...]]:
        found = self.known.get((state, row))
        if found is None:
            found = self.known[state, row] = self._step(state, row)
        return found

    def _step(self, number: int, row: int) -> tuple[tuple[Way, ...] | None, tuple[Way, ...]]:
        state, calls, values, given = self.numbers.listed[number]
        ends, event = self.rows[row].ends, self.rows[row].event
        if ends and row not in calls:
            return (), ()
        ways = self.of.step(state, row)
        if ways is None:
            return None, ()
        unwritten = ends and not ways
        if unwritten:
            ways = (Way(index=-1, name=UNSPECIFIED, to=state, reply=("ok", ANY_ERROR), emits=()),)
        end = row if ends else self.end.get(row, -1)
        going: dict[tuple[int, int], tuple[Way, list[Values]]] = {}
        cut: dict[tuple[int, int], tuple[Way, list[Values]]] = {}
        for place, arguments in self._arguments(ways, row, state, calls, given):
            left, rest = (calls, given) if not event.interrupts else ((), ())
            if ends:
                left, rest = left[:place] + left[place + 1 :], rest[:place] + rest[place + 1 :]
            for way, after in self._possible(ways, row, values, arguments):
                if self.data is not None and not self.data.in_range(after):
                    self.beyond_scope[number, row] = self.beyond_scope.get((number, row), 0) + 1
                    cut.setdefault((way.index, -1), (changed(way, begins=False), []))
                    continue
                room = not way.begins or left.count(end) < self.overlap
                then, with_ = left, rest
                if way.begins and room:
                    begun = bisect_right(left, end)
                    then, with_ = (*left[:begun], end, *left[begun:]), (*rest[:begun], arguments, *rest[begun:])
                to = self.number(way.to, then, after, with_)
                found = going if room and (self.unwritten or not unwritten) else cut
                found.setdefault((way.index, to), (way, []))[1].append(arguments)
        return self._reached(going), self._reached(cut)

    def _reached(self, found: Mapping[tuple[int, int], tuple[Way, list[Values]]]) -> tuple[Way, ...]:
        return tuple(
            changed(way, to=to, given=tuple(arguments) if self.data else ())
            for (_, to), (way, arguments) in found.items()
        )

    def _possible(
        self, ways: tuple[Way, ...], row: int, values: Values, arguments: Values
    ) -> Iterable[tuple[Way, Values]]:
        if self.data is None:
            return [(way, values) for way in ways]
        return self.data.outcomes(ways, row, values, arguments) or ()

    def _arguments(
        self, ways: tuple[Way, ...], row: int, state: int, calls: BegunCalls, given: tuple[Values, ...]
    ) -> Iterable[tuple[int, Values]]:
        """Return the arguments with which an event may happen, or those of calls in progress, with their places."""
        if self.rows[row].ends:
            those = [(place, given[place]) for place, call in enumerate(calls) if call == row]
            return list({arguments: (place, arguments) for place, arguments in reversed(those)}.values())
        if self.data is None:
            return [(-1, ())]
        if (row, state) not in self.combinations:
            ends = [self.end[row]] if any(way.begins for way in ways) else []
            later = [
                way for end in ends for each in range(len(self.of.states)) for way in self.of.step(each, end) or ()
            ]
            self.combinations[row, state] = self.data.combinations(row, (*ways, *later))
        return [(-1, arguments) for arguments in self.combinations[row, state]]

    def number(self, state: int, calls: BegunCalls, values: Values, given: tuple[Values, ...]) -> int:
        number = self.numbers[state, calls, values, given]
        if number == len(self.states):
            self.states.append(self.of.states[state])  # type: ignore[attr-defined]  # a list, which grows
            self.shows.append(self.of.shows[state])  # type: ignore[attr-defined]
        return number


def in_progress(table: Table, overlap: int = 1, *, like: Table | None = None) -> Table:
    """Extend *table* to configurations with up to *overlap* calls of each event in progress, and with data and clocks.

    The table is returned as it is if no call takes time and there are no data.  *like* may be the extension of a table
    with the same states and rows.  The result then uses the same numbers for configurations.
    """
    if isinstance(table, InProgress):
        return table
    if table.machine.timers:
        table = tabulate(clocked(table.machine))
    if not (table.end or table.data):
        return table
    initial = table.data.initial if table.data else ()
    known = like if isinstance(like, InProgress) else None
    return InProgress(
        machine=table.machine,
        states=known.states if known else list(table.states),
        shows=known.shows if known else list(table.shows),
        initial=table.initial,
        rows=table.rows,
        row=table.row,
        end=table.end,
        ways=table.ways,
        origin=table.origin,
        cells=(),
        data=table.data,
        of=table,
        overlap=known.overlap if known else overlap,
        unwritten=known.unwritten if known else False,
        numbers=known.numbers if known else Numbering((each, (), initial, ()) for each in range(len(table.states))),
    )


def closed(table: Table) -> Table:
    """Add to *table* every configuration that is reachable from any of its states, and return *table*."""
    if isinstance(table, InProgress):
        further = table.beyond()
        for state, _ in enumerate(table.states):  # the list grows during the iteration
            for row in range(len(table.rows)):
                further.step(state, row)
    return table
