"""A machine as a dense table of integers.

A call that takes time has two rows: it begins in the row of its event, and ends in the *ends* row of that event.
Other events may happen in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from msgspec import Struct

from fsm.machine import Cell, Deviation, Event, Machine, Outcome, fits
from fsm.machine.conditions import Condition
from fsm.machine.guards import DataEffects, has_data
from fsm.machine.terms import Argument, DataUpdate, Values
from fsm.trace import shown_parts, shown_text

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
    the data satisfy ``when``, or the event is ``impossible`` then.  ``given`` lists all arguments with which an event
    of a checked machine ends this way.
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
    updates: tuple[DataUpdate, ...] = ()
    impossible: bool = False
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
    data: DataEffects | None = None

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
    def size(self) -> int:
        """The number of states, in which all values are unknown."""
        return len(self.states)

    @property
    def anywhere(self) -> Sequence[int]:  # the states that are possible if nothing is known about an entity
        return range(len(self.states))

    def placed(self, row: int, _given: Mapping[str, Argument]) -> int:
        """Return the row for the event of *row* with the given arguments.  Other arguments are unknown."""
        return row

    def agree(self, row: int, other: int) -> bool:
        return row == other

    def arguments(self, _row: int) -> dict[str, Argument]:
        return {}

    def given(self, _row: int) -> tuple[Values, ...]:
        """Return the arguments of an event in this row, or nothing if rows have no arguments."""
        return ()

    def learned(self, state: int, _shown: Mapping[str, Argument]) -> int:
        """Return *state* with the values in *shown*, or -1 if it has other values."""
        return state

    def visible(self, _state: int) -> dict[str, Argument]:
        return {}

    def loosened(self, way: Way) -> Way:
        """Return *way* as it is if it may happen repeatedly: the values that it computes are unknown."""
        return way

    def values(self, _state: int) -> Values:
        return ()

    def settled(self, state: int) -> tuple[str, Values]:
        """Return the name of the state and the values of the data, which are equal if nothing has changed."""
        return self.states[state], self.values(state)

    def idle(self, _state: int) -> bool:
        return True

    def showing(self, shows: str) -> tuple[int, ...]:
        """Return the states that show *shows*, or in which the parts of a system show the values in *shows*."""
        return tuple(state for state in self.anywhere if self.matches(state, shows))

    def matches(self, state: int, shows: str) -> bool:
        """Check whether *state* shows *shows*, which may name only some of the parts of a system."""
        if self.shows[state] == shows:
            return True
        parts = self.machine.states[self.states[state]].parts
        return bool(parts and (seen := shown_parts(shows)) and seen.items() <= parts.items())

    def shown_like(self, shows: str) -> Sequence[str]:
        """Return what each state shows. If *shows* names parts of a system, return what its parts show."""
        if not shown_parts(shows):
            return self.shows
        texts = (shown_text(self.machine.states[state].parts) for state in self.states)
        return [text or own for text, own in zip(texts, self.shows, strict=True)]

    def is_known(self, shows: str) -> bool:
        """Check whether a state shows *shows*, or for a system, whether each part shows its value in some state."""
        parts = {each for state in self.machine.states.values() for each in state.parts.items()}
        return bool(self.showing(shows)) or (bool(seen := shown_parts(shows).items()) and seen <= parts)

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
        data=DataEffects(machine.data, machine.events.values()) if has_data(machine) else None,
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
        impossible=outcome.impossible,
    )


def _row_of(table: Table, row: Row, first: int) -> tuple[tuple[Way, ...] | None, ...] | None:
    there = table.rows[row.index] if row.index < len(table.rows) else None
    if there is None or there.event is not row.event or there.ends != row.ends:
        return None
    start = row.index * len(table.states)
    found = table.cells[start : start + len(table.states)]
    return found if all(ways[0].index == first for ways in [*filter(None, found)][:1]) else None
