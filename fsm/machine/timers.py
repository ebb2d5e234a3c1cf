"""Timers of machines, and their meaning as integer clocks (Henzinger, Manna and Pnueli, 1992).

A timer runs in some states.  It starts when they are entered from elsewhere and stops when they are left, and its
event happens when the time is over.  The checker searches clocks that count in the greatest unit in which all
thresholds are whole.  The order of events and whether a timer can expire are then exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Final

from fsm.machine.conditions import Compare, Condition, WrittenCondition, all_of
from fsm.machine.terms import Combined, Constant, DataUpdate, Read, Term, Variable

if TYPE_CHECKING:
    from fsm.machine import Cell, Clause, Event, Machine, Outcome

_UNITS: Final = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3_600 * 10**9, "d": 86_400 * 10**9}
_ISO: Final = re.compile(
    r"P(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,9})?)S)?)?"
)
_SHORT: Final = re.compile(r"([0-9]+(?:\.[0-9]{1,9})?) ?(ms|s|min|h|d)")
PASSES: Final = " pass"  # end of the name of the event with which time passes
STOPPED: Final = -1  # value of the clock of a timer that does not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A timer that runs in ``states`` and fires ``event``.

    The event happens ``after`` nanoseconds, give or take ``tolerance``.  Events in ``restarts`` restart the timer,
    unless they reply an error.
    """

    name: str
    about: str
    states: frozenset[str]
    event: str
    after: int
    tolerance: int
    clause: Clause
    restarts: frozenset[str] = frozenset()

    @property
    def earliest(self) -> int:
        return self.after - self.tolerance

    @property
    def latest(self) -> int:
        return self.after + self.tolerance

    @property
    def margin(self) -> int:
        """The nanoseconds by which a test stays away from the earliest and the latest time, because clocks round."""
        return min(10**6, self.after // 1000)

    def starts(self, event: Event, before: str, after: str, reply: Sequence[str], *, begins: bool) -> bool | None:
        """Return whether the timer starts or stops when *event* moves between two states, or ``None`` if neither."""
        acts = event.name in self.restarts and not begins and (event.kind != "call" or "ok" in reply)
        if after in self.states:
            return True if before not in self.states or event.name == self.event or acts else None
        return False if before in self.states else None


class Clocks:
    """The nanoseconds since the start of each timer of *machine* that runs, in ``since``, for one entity."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.restart()

    def restart(self) -> None:
        machine = self._machine
        self.since = {name: 0 for name, timer in machine.timers.items() if machine.initial in timer.states}

    def left(self, timer: Timer) -> tuple[int, int]:
        """Return the least and the greatest time that is left before *timer*, which runs, fires."""
        return max(0, timer.earliest - self.since[timer.name]), timer.latest - self.since[timer.name]

    def advance(self, time: int) -> None:
        self.since = {name: since + time for name, since in self.since.items()}

    def move(self, event: str, before: str, after: str, reply: Sequence[str], *, begins: bool) -> None:
        for name, timer in self._machine.timers.items():
            if (starts := timer.starts(self._machine.events[event], before, after, reply, begins=begins)) is not None:
                self.since.pop(name, None)
                self.since |= {name: 0} if starts else {}


def nanoseconds_in(text: str) -> int | None:
    """Return the duration *text* in nanoseconds, or ``None`` if it is not a duration.

    >>> nanoseconds_in("1.5 s"), nanoseconds_in("P1W") == nanoseconds_in("7 d"), nanoseconds_in("soon")
    (1500000000, True, None)
    """
    if found := _SHORT.fullmatch(text):
        return _scaled(found[1], _UNITS[found[2]])
    if (found := _ISO.fullmatch(text)) and text[-1] not in "PT":
        weeks, *rest = (each or "0" for each in found.groups())
        return int(weeks) * 7 * _UNITS["d"] + sum(map(_scaled, rest, [_UNITS[each] for each in ("d", "h", "min", "s")]))
    return None


def _scaled(number: str, unit: int) -> int:
    whole, _, fraction = number.partition(".")
    return int(whole) * unit + int(fraction or 0) * unit // int("1" + "0" * len(fraction))


def duration(nanoseconds: int) -> str:
    """Format a duration with the largest unit in which it is whole.

    >>> duration(90 * 10**9), duration(1_800 * 10**9)
    ('90 s', '30 min')
    """
    name, unit = next(((name, unit) for name, unit in reversed(_UNITS.items()) if nanoseconds % unit == 0), ("ns", 1))
    return f"{nanoseconds // unit} {name}" if nanoseconds else "0 s"


def clocked(machine: Machine) -> Machine:
    """Return *machine* with a variable for each timer, which counts while the timer runs, and a hidden event for time.

    Time cannot pass while a timer is as late as its tolerance allows, and its event cannot happen too early.
    """
    unit = gcd(*(each for timer in machine.timers.values() for each in (timer.earliest, timer.latest)))
    clocks = {
        name: Variable(
            name=name,
            about=timer.about,
            low=STOPPED,
            high=timer.latest // unit,
            # The last word is also that of the index STOPPED.
            words=(*(duration(unit * number) for number in range(timer.latest // unit + 1)), "stopped"),
            initial=0 if machine.initial in timer.states else STOPPED,
        )
        for name, timer in machine.timers.items()
    }
    clock = _Clock(machine=machine, unit=unit)
    events = {name: clock.event(event) for name, event in machine.events.items()}
    passing = clock.passing(f"{duration(unit)}{PASSES}")
    return replace(machine, data={**machine.data, **clocks}, events={**events, passing.name: passing})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    machine: Machine
    unit: int

    def event(self, event: Event) -> Event:
        cells = {state: self._cell(event, state, cell) for state, cell in event.cells.items()}
        ends = {state: self._cell(event, state, cell) for state, cell in event.ends.items()}
        return replace(event, cells=cells, ends=ends)  # type: ignore[arg-type]  # cells that move stay so

    def _cell(self, event: Event, state: str, cell: Cell) -> Cell:
        from fsm.machine import Moves, outcomes  # noqa: PLC0415  (this module defines a part of machines)

        ways = outcomes(cell, state, event.kind)
        if not ways:
            return cell
        return Moves(
            outcomes=tuple(self._outcome(event, state, way) for way in ways), clause=cell.clause, line=cell.line
        )

    def _outcome(self, event: Event, state: str, way: Outcome) -> Outcome:
        updates, conditions = [*way.updates], [way.when.means] if way.when else []
        for timer in self.machine.timers.values():
            if state in timer.states and event.name == timer.event:
                conditions.append(_compared(Read(name=timer.name), ">=", timer.earliest // self.unit))
            if (starts := timer.starts(event, state, way.to, way.reply, begins=way.begins)) is not None:
                updates.append(_update(timer, Constant(value=0 if starts else STOPPED)))
        return replace(way, when=_all(conditions), updates=tuple(updates))

    def passing(self, name: str) -> Event:
        from fsm.machine import Cannot, Event, Moves, Outcome  # noqa: PLC0415  (as above)

        clause = next(iter(self.machine.timers.values())).clause
        cells: dict[str, Cell] = {}
        for state in self.machine.states:
            running = [timer for timer in self.machine.timers.values() if state in timer.states]
            early = [_compared(Read(name=timer.name), "<", timer.latest // self.unit) for timer in running]
            one = Constant(value=1)
            later = (_update(each, Combined(operator="+", left=Read(name=each.name), right=one)) for each in running)
            way = Outcome(name="ok", to=state, when=_all(early), updates=tuple(later))
            cells[state] = Moves(outcomes=(way,), clause=clause) if running else Cannot(clause=clause)
        return Event(name=name, kind="hidden", about="Time passes.", cells=cells)


def _compared(left: Term, comparison: str, value: int) -> Condition:
    return Compare(comparison=comparison, left=left, right=Constant(value=value))  # type: ignore[arg-type]


def _update(timer: Timer, term: Term) -> DataUpdate:
    return DataUpdate(variable=timer.name, term=term, text="")


def _all(conditions: list[Condition]) -> WrittenCondition | None:
    means = all_of(conditions)
    return WrittenCondition(text="", means=means) if conditions else None


def forced(machine: Machine) -> Iterator[str]:
    """Yield the events of a clocked machine that happen if they stay possible: time passes, and timers fire.

    The event of a timer is left out if it may also happen in states in which the timer does not run.
    """
    from fsm.machine import Cannot  # noqa: PLC0415  (as above)

    yield from [*machine.events][-1:] if machine.timers else ()
    for timer in machine.timers.values():
        cells = machine.events[timer.event].cells.items()
        if all(state in timer.states or isinstance(cell, Cannot) for state, cell in cells):
            yield timer.event
