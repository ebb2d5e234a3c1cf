"""A machine's table with calls in progress: its states are *configurations*, a state and the calls begun in it.

A call that takes time begins by its row, and its ends are possible from then on, wherever other events have moved the
entity, until it has ended or something interrupts it.  So many calls of one event as the *overlap* may have begun at once;
a further begin is cut off.  Where no ``ends`` is written the call ends in an *unwritten* way: at an instant of its own,
with any reply, without outputs, and the state stays.  Searches take such ends, or they leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec.structs import replace as changed

from fsm.machine import ANY_ERROR
from fsm.machine.table import UNSPECIFIED, Table, TransitionSystem, Way
from fsm.machine.traversal import Numbering

BegunCalls: TypeAlias = tuple[int, ...]
"""The rows of the ends of all calls that have begun, in order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InProgress(Table):
    """The configurations of the table ``of`` a machine, by number; those without calls have the numbers of their states.

    ``states`` and ``shows`` are those of the configurations met so far, so several have the same name.
    """

    of: Table
    overlap: int
    unwritten: bool = False
    numbers: Numbering[tuple[int, BegunCalls]]
    known: dict[tuple[int, int], tuple[tuple[Way, ...] | None, tuple[Way, ...]]] = field(default_factory=dict)

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        """Every way in which *row* may go in the configuration *state*; the ends of a call only where one has begun."""
        return self._found(state, row)[0]

    def blocked(self, state: int, row: int) -> tuple[Way, ...]:
        """Ways that are possible but not taken: further begins, and, unless these are taken, ends that are not written."""
        return self._found(state, row)[1]

    def bare(self, state: int) -> int:
        """The state of the machine in the configuration *state*."""
        return self.numbers.listed[state][0]

    def calls(self, state: int) -> BegunCalls:
        """The calls in progress in the configuration *state*."""
        return self.numbers.listed[state][1]

    def named(self, state: int) -> str:
        """The name of the state in the configuration *state*, and of the calls that have begun."""
        return ", ".join([self.states[state], *(f"{self.rows[row].event.name} has begun" for row in self.calls(state))])

    def idle(self, state: int) -> bool:
        """Whether no call is in progress in the configuration *state*."""
        return not self.calls(state)

    def beyond(self) -> InProgress:
        """A copy in which searches also take ends that are not written."""
        return replace(self, unwritten=True, known={})

    def _found(self, state: int, row: int) -> tuple[tuple[Way, ...] | None, tuple[Way, ...]]:
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
        """The number of the configuration of *state* and *calls*."""
        number = self.numbers[state, calls]
        if number == len(self.states):
            self.states.append(self.of.states[state])  # type: ignore[attr-defined]  # a list, which grows
            self.shows.append(self.of.shows[state])  # type: ignore[attr-defined]
        return number


def in_progress(table: Table, overlap: int = 1, *, like: TransitionSystem | None = None) -> Table:
    """*table* with calls in progress, of each event up to *overlap*; itself where no call takes time.

    Configurations have the same numbers as in *like*, which is of a table with the same states and rows.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = in_progress(tabulate(load("container-status")))
    >>> len(closed(table).states) > len(table.machine.states)
    True
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
    """Number every configuration that any state can lead to, and return *table*."""
    if isinstance(table, InProgress):
        further = table.beyond()
        for state, _ in enumerate(table.states):  # which grow meanwhile
            for row in range(len(table.rows)):
                further.step(state, row)
    return table
