"""A machine as a dense table of integers.

A call that takes time has two rows: it begins in the row of its event, and ends in the *ends* row of that event.
Other events may happen in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace as changed

from fsm.machine import ANY_ERROR, Cell, Deviation, Event, Machine, Outcome, fits
from fsm.machine.conditions import Condition
from fsm.machine.guards import Data
from fsm.machine.terms import Argument, Update, Values
from fsm.machine.traversal import Numbering

UNSPECIFIED: Final = "unspecified"


class Done(Struct, gc=False, frozen=True):
    """A step of one copy of a part in a system.  ``event`` is empty if the step reset the copy."""

    copy: str
    digit: int
    event: str
    ends: bool
    outcome: str
    source: str
    target: str
    emits: tuple[str, ...] = ()
    reply: tuple[str, ...] = ()


class Way(Struct, gc=False, frozen=True, kw_only=True):
    """An outcome in a table.

    ``to`` is the index of the next state.  In a system, ``done`` lists the steps of the parts.  The way is possible if
    the data satisfy ``when``.  ``given`` lists all arguments with which an event of a checked machine ends this way.
    """

    index: int
    name: str
    to: int
    reply: tuple[str, ...]
    emits: tuple[str, ...]
    begins: bool = False
    deviation: Deviation | None = None
    within: int = 0
    done: tuple[Done, ...] = ()
    when: Condition | None = None
    updates: tuple[Update, ...] = ()
    given: tuple[Values, ...] = ()

    def replies(self, reply: str) -> bool:
        return fits(reply, self.reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table, for an event or, if ``ends`` is true, for the end of a call that takes time."""

    index: int
    event: Event
    ends: bool

    @property
    def name(self) -> str:
        """The name of the event, or ``…start`` for the end of the call ``start``."""
        return f"…{self.event.name}" if self.ends else self.event.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A machine with numbered states and rows, and the possible ways in each cell.

    ``ways`` lists the ways of all cells, and ``origin`` lists the (row, state) cell of each way.  ``row`` maps an
    event to its row.  ``end`` maps the row of a call to the row for the ends of that call.  ``data`` computes the
    effects of data, and is ``None`` if the machine has no variables and no event has arguments.
    """

    machine: Machine
    states: Sequence[str]
    shows: Sequence[str]
    initial: int
    rows: tuple[Row, ...]
    row: Mapping[str, int]
    end: Mapping[int, int]
    ways: Sequence[Way]
    origin: Sequence[tuple[int, int]]
    cells: tuple[tuple[Way, ...] | None, ...]
    data: Data | None = None

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        """Return the ways of *row* in *state*, or ``None`` if the model is silent.

        The result is empty if the event cannot happen.
        """
        return self.cells[row * len(self.states) + state]

    def blocked(self, _state: int, _row: int) -> tuple[Way, ...]:
        return ()

    def bare(self, state: int) -> int:
        return state

    def named(self, state: int) -> str:
        return self.states[state]

    @property
    def anywhere(self) -> range:
        """The states that are possible if nothing is known about an entity."""
        return range(len(self.states))

    def placed(self, row: int, _given: Mapping[str, Argument]) -> int:
        """Return the row for the event of *row* with the given arguments.  Other arguments are unknown."""
        return row

    def agree(self, row: int, other: int) -> bool:
        return row == other

    def arguments(self, _row: int) -> dict[str, Argument]:
        return {}

    def learned(self, state: int, _shown: Mapping[str, Argument]) -> int:
        """Return *state* with the values in *shown*, or -1 if it has other values."""
        return state

    def visible(self, _state: int) -> dict[str, Argument]:
        return {}

    def loosened(self, way: Way) -> Way:
        """Return *way* as it is if it may happen repeatedly: the values that it computes are unknown."""
        return way

    def settled(self, state: int) -> tuple[str, Values]:
        """Return the name of the state and the values of the data, which are equal if nothing has changed."""
        return self.states[state], ()

    def idle(self, _state: int) -> bool:
        return True

    def cell(self, state: int, row: int) -> Cell | None:
        """Return the cell of *row* in *state*, or ``None`` if the model does not specify how the call ends there."""
        event, name = self.rows[row].event, self.states[state]
        return event.ends.get(name) if self.rows[row].ends else event.cells[name]

    def defined(self) -> Iterator[tuple[int, int]]:
        for row, state in product(range(len(self.rows)), range(len(self.states))):
            if self.cell(state, row) is not None:
                yield row, state


def tabulate(machine: Machine, *, like: Table | None = None) -> Table:
    """Return *machine* as a table with states and events in the model's order.

    *like* may be a table with the same states.  To save time, its rows are reused where events and numbering agree.

    >>> from fsm.language.library import load
    >>> table = tabulate(load("examples/models/door.toml"))
    >>> [(way.name, table.states[way.to]) for way in table.step(table.states.index("shut"), table.row["pull"])]
    [('ignored', 'shut')]
    """
    number = {name: index for index, name in enumerate(machine.states)}
    rows: list[Row] = []
    ways: list[Way] = []
    origin: list[tuple[int, int]] = []
    cells: list[tuple[Way, ...] | None] = []
    for event in machine.events.values():
        for ends in (False, True) if event.ends else (False,):
            rows.append(Row(index=len(rows), event=event, ends=ends))
            if like is not None and (same := _row_of(like, rows[-1], len(ways))) is not None:
                last = len(ways) + sum(map(len, filter(None, same)))
                origin.extend(like.origin[len(ways) : last])
                ways.extend(like.ways[len(ways) : last])
                cells.extend(same)
                continue
            for state in machine.states:
                found = machine.step(state, event.name, ends=ends)
                here = tuple(_way(len(ways) + place, way, number) for place, way in enumerate(found or ()))
                cells.append(None if found is None else here)
                ways.extend(here)
                origin.extend((rows[-1].index, number[state]) for _ in here)
    return Table(
        machine=machine,
        states=tuple(machine.states),
        shows=tuple(state.shows for state in machine.states.values()),
        initial=number[machine.initial],
        rows=tuple(rows),
        row={row.event.name: row.index for row in rows if not row.ends},
        end={row.index - 1: row.index for row in rows if row.ends},
        ways=tuple(ways),
        origin=tuple(origin),
        cells=tuple(cells),
        data=Data(machine) if machine.data or any(event.arguments for event in machine.events.values()) else None,
    )


def _way(index: int, outcome: Outcome, number: Mapping[str, int]) -> Way:
    return Way(
        index=index,
        name=outcome.name,
        to=number[outcome.to],
        reply=outcome.reply,
        emits=outcome.emits,
        begins=outcome.begins,
        deviation=outcome.deviation,
        within=outcome.within,
        when=outcome.when.means if outcome.when else None,
        updates=outcome.updates,
    )


def _row_of(table: Table, row: Row, first: int) -> tuple[tuple[Way, ...] | None, ...] | None:
    there = table.rows[row.index] if row.index < len(table.rows) else None
    if there is None or there.event is not row.event or there.ends != row.ends:
        return None
    start = row.index * len(table.states)
    found = table.cells[start : start + len(table.states)]
    return found if all(ways[0].index == first for ways in [*filter(None, found)][:1]) else None


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

        Such a way would exceed the limit ``overlap`` or, unless ``unwritten`` is true, end a call although the model
        does not specify the end.
        """
        return self._find_ways(state, row)[1]

    def bare(self, state: int) -> int:
        return self.numbers.listed[state][0]

    def calls(self, state: int) -> BegunCalls:
        return self.numbers.listed[state][1]

    def values(self, state: int) -> Values:
        return self.numbers.listed[state][2]

    def settled(self, state: int) -> tuple[str, Values]:
        return self.states[state], self.values(state)

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
    """Extend *table* to configurations with up to *overlap* calls of each event in progress, and with data.

    The table is returned as it is if no call takes time and there are no data.  *like* may be the extension of a table
    with the same states and rows.  The result then uses the same numbers for configurations.
    """
    if not (table.end or table.data) or isinstance(table, InProgress):
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
