"""A machine as a dense table of integers.

A call that takes time has two rows.  It begins in the row of its event and ends in its *ends* row.  Other events may
happen in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct

from fsm.machine import Cell, Deviation, Event, Machine, Outcome, fits

UNSPECIFIED: Final = "unspecified"
"""Name of the outcome if the specification is silent."""


class Done(Struct, gc=False, frozen=True):
    """A step of one copy of a part in a system.  ``event`` is empty if it was reset to its initial state."""

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
    """A numbered outcome; ``to`` is an index into the table's states.  In a system, ``done`` is what its parts did."""

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
    """An event or, if ``ends`` is true, the ends of a call that takes time."""

    index: int
    event: Event
    ends: bool

    @property
    def name(self) -> str:
        """Name of the event, with the prefix ``…`` for its ends: ``…start`` means "start continues to its end"."""
        return f"…{self.event.name}" if self.ends else self.event.name


class TransitionSystem(Protocol):
    """Anything that can be explored: a :class:`Table`, or a ``SystemTable``, whose states are created on demand."""

    @property
    def states(self) -> Sequence[str]: ...
    @property
    def initial(self) -> int: ...
    @property
    def rows(self) -> tuple[Row, ...]: ...
    @property
    def row(self) -> Mapping[str, int]: ...
    @property
    def end(self) -> Mapping[int, int]: ...

    def step(self, state: int, row: int) -> tuple[Way, ...] | None: ...
    def blocked(self, state: int, row: int) -> tuple[Way, ...]: ...
    def bare(self, state: int) -> int: ...
    def idle(self, state: int) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A machine with numbered states and rows, and the ways of each cell.

    ``ways`` lists the ways of all cells by index, and ``origin`` the (row, state) cell of each.  ``row`` maps an event
    to its row, and ``end`` maps a row to that of its ends.  :mod:`fsm.machine.in_progress` adds calls in progress.
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
        """Return the ways of *row* in *state*, ``()`` if it cannot happen, or ``None`` if the model is silent."""
        return self.cells[row * len(self.states) + state]

    def blocked(self, _state: int, _row: int) -> tuple[Way, ...]:
        return ()

    def bare(self, state: int) -> int:
        return state

    def named(self, state: int) -> str:
        return self.states[state]

    def idle(self, _state: int) -> bool:
        return True

    def cell(self, state: int, row: int) -> Cell | None:
        """Return the model's cell, or ``None`` if *row* is for ends and the model has none for *state*."""
        event = self.rows[row].event
        name = self.states[state]
        return event.ends.get(name) if self.rows[row].ends else event.cells[name]

    def defined(self) -> Iterator[tuple[int, int]]:
        """Yield every (row, state) pair that has a cell, in the model's order."""
        for row in self.rows:
            for state in range(len(self.states)):
                if self.cell(state, row.index) is not None:
                    yield row.index, state


def tabulate(machine: Machine, *, like: Table | None = None) -> Table:
    """Return *machine* as a table with states and events in the model's order.

    To save time, rows are taken from *like*, a table with the same states, if their events and numbers are the same.

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
    """Return the cells of *row* from *table* if it has an equal row there whose ways also start at index *first*."""
    there = table.rows[row.index] if row.index < len(table.rows) else None
    if there is None or there.event is not row.event or there.ends != row.ends:
        return None
    start = row.index * len(table.states)
    found = table.cells[start : start + len(table.states)]
    return found if all(ways[0].index == first for ways in [*filter(None, found)][:1]) else None
