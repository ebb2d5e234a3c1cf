"""A machine as a dense table of integers.

A call that takes time has two rows: it begins in the row of its event, and ends in the *ends* row of that event.
Other events may happen in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace as changed

from fsm.machine import ANY_ERROR, Cell, Deviation, Event, Machine, Outcome, fits
from fsm.machine.traversal import Numbering
from fsm.trace import shown_parts

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

    ``to`` is the index of the next state.  In a system, ``done`` lists the steps of the parts.
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
    event to its row.  ``end`` maps the row of a call to the row for the ends of that call.
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

    def idle(self, _state: int) -> bool:
        return True

    def showing(self, shows: str) -> tuple[int, ...]:
        """Return the states that show *shows*, or in which the parts of a system show the values in *shows*."""
        return tuple(state for state in range(len(self.states)) if self.matches(state, shows))

    def matches(self, state: int, shows: str) -> bool:
        """Check whether *state* shows *shows*, which may name only some of the parts of a system."""
        if self.shows[state] == shows:
            return True
        parts = self.machine.states[self.states[state]].parts
        return bool(parts and (seen := shown_parts(shows)) and seen.items() <= parts.items())

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
    )


def _row_of(table: Table, row: Row, first: int) -> tuple[tuple[Way, ...] | None, ...] | None:
    there = table.rows[row.index] if row.index < len(table.rows) else None
    if there is None or there.event is not row.event or there.ends != row.ends:
        return None
    start = row.index * len(table.states)
    found = table.cells[start : start + len(table.states)]
    return found if all(ways[0].index == first for ways in [*filter(None, found)][:1]) else None


BegunCalls: TypeAlias = tuple[int, ...]  # for each call in progress, the index of the row for its end; sorted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InProgress(Table):
    """A table whose states are configurations, that is, states of the table ``of`` together with calls in progress.

    A configuration without calls has the same number as its state.  ``states`` and ``shows`` grow as configurations
    are found, and may contain the same value several times.
    """

    of: Table
    overlap: int
    unwritten: bool = False
    numbers: Numbering[tuple[int, BegunCalls]]
    known: dict[tuple[int, int], tuple[tuple[Way, ...] | None, tuple[Way, ...]]] = field(default_factory=dict)

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

    def named(self, state: int) -> str:
        return ", ".join([self.states[state], *(f"{self.rows[row].event.name} has begun" for row in self.calls(state))])

    def idle(self, state: int) -> bool:
        return not self.calls(state)

    def beyond(self) -> InProgress:
        """Return a copy of this table that includes unspecified ends of calls."""
        return replace(self, unwritten=True, known={})

    def _find_ways(self, state: int, row: int) -> tuple[tuple[Way, ...] | None, tuple[Way, ...]]:
        found = self.known.get((state, row))
        if found is None:
            found = self.known[state, row] = self._step(*self.numbers.listed[state], row)
        return found

    def _step(self, state: int, calls: BegunCalls, row: int) -> tuple[tuple[Way, ...] | None, tuple[Way, ...]]:
        ends, event = self.rows[row].ends, self.rows[row].event
        if ends and row not in calls:
            return (), ()
        ways, left = self.of.step(state, row), () if event.interrupts else calls
        if ends:
            place = calls.index(row)
            left = calls[:place] + calls[place + 1 :]
        if ways is None:
            return None, ()
        if ends and not ways:
            reply = ("ok", ANY_ERROR)
            way = Way(index=-1, name=UNSPECIFIED, to=self.number(state, left), reply=reply, emits=())
            return ((way,), ()) if self.unwritten else ((), (way,))
        going: list[Way] = []
        cut: list[Way] = []
        end = row if ends else self.end.get(row, -1)
        for way in ways:
            room = not way.begins or left.count(end) < self.overlap
            after = tuple(sorted((*left, end))) if way.begins and room else left
            (going if room else cut).append(changed(way, to=self.number(way.to, after)))
        return tuple(going), tuple(cut)

    def number(self, state: int, calls: BegunCalls) -> int:
        number = self.numbers[state, calls]
        if number == len(self.states):
            self.states.append(self.of.states[state])  # type: ignore[attr-defined]  # a list, which grows
            self.shows.append(self.of.shows[state])  # type: ignore[attr-defined]
        return number


def in_progress(table: Table, overlap: int = 1, *, like: Table | None = None) -> Table:
    """Extend *table* to configurations with up to *overlap* calls of each event in progress, if any call takes time.

    *like* may be the extension of a table with the same states and rows.  The result then uses the same numbers for
    configurations.
    """
    if not table.end or isinstance(table, InProgress):
        return table
    if isinstance(like, InProgress):
        return replace(like, machine=table.machine, rows=table.rows, ways=table.ways, of=table, known={})
    return InProgress(
        machine=table.machine,
        states=list(table.states),
        shows=list(table.shows),
        initial=table.initial,
        rows=table.rows,
        row=table.row,
        end=table.end,
        ways=table.ways,
        origin=table.origin,
        cells=(),
        of=table,
        overlap=overlap,
        numbers=Numbering((state, ()) for state in range(len(table.states))),
    )


def closed(table: Table) -> Table:
    """Add to *table* every configuration that is reachable from any of its states, and return *table*."""
    if isinstance(table, InProgress):
        further = table.beyond()
        for state, _ in enumerate(table.states):  # the list grows during the iteration
            for row in range(len(table.rows)):
                further.step(state, row)
    return table
