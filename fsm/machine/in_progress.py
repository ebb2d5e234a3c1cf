"""A machine's table with calls in progress.

Its states are *configurations*: a state of the machine together with the calls that have begun.  Once a call that takes
time has begun, it may end in any state to which other events move the entity, until it is interrupted.  At most
*overlap* calls of one event may be in progress at a time; any further begin is blocked.  If the model has no ``ends``
for a state, a call may have an *unspecified end* there: the reply is arbitrary, nothing is emitted, and the state does
not change.  A search either includes unspecified ends or leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from msgspec.structs import replace as changed

from fsm.machine import ANY_ERROR
from fsm.machine.table import UNSPECIFIED, Table, TransitionSystem, Way
from fsm.machine.traversal import Numbering

BegunCalls: TypeAlias = tuple[int, ...]
"""The sorted ``ends`` rows of all calls that have begun."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InProgress(Table):
    """Extends the table ``of`` to numbered configurations.  One without calls has the same number as its state.

    ``states`` and ``shows`` have an entry for each configuration found so far, so entries repeat.
    """

    of: Table
    overlap: int
    unwritten: bool = False
    numbers: Numbering[tuple[int, BegunCalls]]
    known: dict[tuple[int, int], tuple[tuple[Way, ...] | None, tuple[Way, ...]]] = field(default_factory=dict)

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        """Return the ways of *row* in the configuration *state*; a call can end only if it has begun."""
        return self._found(state, row)[0]

    def blocked(self, state: int, row: int) -> tuple[Way, ...]:
        """Return the ways that are possible but left out: begins beyond *overlap*, and excluded unspecified ends."""
        return self._found(state, row)[1]

    def bare(self, state: int) -> int:
        """Return the index of the machine's state in the configuration *state*."""
        return self.numbers.listed[state][0]

    def calls(self, state: int) -> BegunCalls:
        return self.numbers.listed[state][1]

    def named(self, state: int) -> str:
        """Return a name for the configuration *state* that lists the calls that have begun."""
        return ", ".join([self.states[state], *(f"{self.rows[row].event.name} has begun" for row in self.calls(state))])

    def idle(self, state: int) -> bool:
        return not self.calls(state)

    def beyond(self) -> InProgress:
        """Return a copy that includes unspecified ends."""
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
        """Return the index of the configuration (*state*, *calls*), adding it if it is new."""
        number = self.numbers[state, calls]
        if number == len(self.states):
            self.states.append(self.of.states[state])  # type: ignore[attr-defined]  # a list, which grows
            self.shows.append(self.of.shows[state])  # type: ignore[attr-defined]
        return number


def in_progress(table: Table, overlap: int = 1, *, like: TransitionSystem | None = None) -> Table:
    """Return *table* extended to up to *overlap* calls of each event in progress.

    Return *table* itself if no call takes time.  If *like* is given, configurations have the same numbers as in it;
    *like* must come from a table with the same states and rows.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = in_progress(tabulate(load("examples/models/washer.toml")))
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
    """Add every configuration that is reachable from any state to *table*, and return *table*."""
    if isinstance(table, InProgress):
        further = table.beyond()
        for state, _ in enumerate(table.states):  # the list grows during the iteration
            for row in range(len(table.rows)):
                further.step(state, row)
    return table
