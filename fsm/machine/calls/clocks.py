"""Timers that run in a configuration.

A time limit of an outcome (``within``) is a timer, too: only the outcome starts it, no event ends it, and unobserved
interruptions let it continue.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from fsm.machine.timers import Timer
from fsm.machine.traversal import Numbering, closure

if TYPE_CHECKING:
    from fsm.machine.table import Table, Way

NOW: Final = 1 << 20  # the instant of the current observation
FRESH: Final = NOW + 1  # the instant of the next observation
ANYTIME: Final = -1  # an unknown instant, or one that does not matter


class RunningClock(NamedTuple):
    """A timer that runs and has started between the instants ``first`` and ``last``.

    An instant is :data:`NOW`, :data:`FRESH`, :data:`ANYTIME`, or the index of an earlier instant of the belief.
    """

    timer: int
    first: int
    last: int


RunningClocks: TypeAlias = tuple[RunningClock, ...]


def outlast(more: RunningClocks, less: RunningClocks) -> bool:
    """Check whether *more*, of two sets of clocks in the same state, allow every time that *less* allow."""
    known = {each.timer: each for each in less}
    return all(
        (other := known.get(each.timer)) is not None and each.first <= other.first and each.last >= other.last
        for each in more
    )


def joined(some: RunningClocks, others: RunningClocks) -> RunningClocks | None:
    """Return clocks of the same timers that allow the times of *some* and of *others*, or ``None`` if these differ."""
    if [each.timer for each in some] != [each.timer for each in others]:
        return None
    pairs = zip(some, others, strict=True)
    return tuple(RunningClock(one.timer, min(one.first, two.first), max(one.last, two.last)) for one, two in pairs)


class RunningTimers:
    """The timers of the machine of *table* and the time limits of its outcomes, by number."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._listed: Numbering[Timer] = Numbering(table.machine.timers.values())
        self.named = range(len(self._listed))
        self.starts = cache(self._starts)
        self._around = cache(self._states_around)

    def __getitem__(self, number: int) -> Timer:
        return self._listed.listed[number]

    def runs(self, number: int, state: int) -> bool:
        return self._table.states[state] in self[number].states

    def unknown(self, state: int) -> RunningClocks:
        """Return the clocks in *state* if it is not known when its timers have started."""
        return tuple(RunningClock(number, ANYTIME, FRESH) for number in self.named if self.runs(number, state))

    def forgotten(self, state: int, clocks: RunningClocks) -> RunningClocks:
        """Return *clocks* without the times at which timers have started.  Time limits continue."""
        return (*self.unknown(state), *(each for each in clocks if each.timer not in self.named))

    def moved(self, clocks: RunningClocks, state: int, way: Way, *, interrupts: bool) -> RunningClocks:
        """Return the clocks after *way*, which acts in *state*.  *interrupts* is true for unobserved interruptions."""
        starts = self.starts(way.index)
        if not (clocks or starts):
            return ()
        bare, to = self._table.bare(state), self._table.bare(way.to)
        kept = {
            each.timer: each
            for each in clocks
            if bare == to
            or (
                self.runs(each.timer, to) if each.timer in self.named else interrupts and to in self._around(each.timer)
            )
        }
        for number in starts:
            if number in self.named:
                kept[number] = RunningClock(number, NOW, FRESH)
            else:  # trying again does not extend a limit
                kept.setdefault(number, RunningClock(number, ANYTIME, FRESH))
        return tuple(sorted(kept.values()))

    def _starts(self, index: int) -> tuple[int, ...]:
        """Return the timers that the way with the number *index* starts, followed by its time limit, if any."""
        table, way = self._table, self._table.ways[index]
        row, at = table.origin[index]
        event, names = table.rows[row].event, (table.states[at], table.states[way.to])
        found = [n for n in self.named if self[n].starts(event, *names, way.reply, begins=way.begins)]
        if way.within and (cell := table.cell(at, row)) is not None:
            limit = Timer(
                name=event.name,
                about="",
                states=frozenset(names[1:]),
                event="",
                after=way.within * 1_000_000_000,
                tolerance=0,
                clause=cell.clause,
            )
            found.append(self._listed[limit])
        return tuple(found)

    def _states_around(self, number: int) -> frozenset[int]:
        """Return the state of a time limit, and the states that can reach it by interruptions only."""
        table = self._table
        rows = [row.index for row in table.rows if row.event.interrupts]
        steps = [(at, table.bare(way.to)) for at in table.anywhere for row in rows for way in table.step(at, row) or ()]
        target = [at for at in table.anywhere if self.runs(number, at)]
        return frozenset(closure(target, lambda state: [at for at, to in steps if to == state]))
