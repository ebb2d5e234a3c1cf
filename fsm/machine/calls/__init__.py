"""Rules for calls in progress, which all engines share.

- :mod:`~fsm.machine.calls.configuration` combines states with the calls in progress and drops redundant combinations.
- :mod:`~fsm.machine.calls.unobserved` computes what may happen between observations.
- :mod:`~fsm.machine.calls.belief` computes the effect of an observation or a test step.

A call takes effect at some instant between its request and its reply.  A call that takes time begins, continues and
ends at separate instants.  There are six rules:

1. An *asked* call takes effect according to the cell of its event in the current state.  It either *begins* or ends
   with an outcome of that cell.
2. A *begun* call continues according to the ``ends`` of the current state, even if other events have moved the entity.
   If that state has no ``ends``, the call has *ended* with an unspecified reply.  The state does not change, and
   nothing is emitted.
3. If the specification is silent about an event in a state, any state may follow.  A call begins or becomes *free*.
4. An interrupting event cuts off begun calls.  They have no further effect and can only get an indefinite reply.  An
   ended call may still be answered, and an asked call may still take effect.  If the interruption is observed, all
   calls in progress are over.
5. A reply fits a call that ended with an outcome if the outcome has this reply.  Any reply fits other calls that
   ended, and free calls.  An indefinite reply also fits a call that has not taken effect.  Such a call then never takes
   effect.
6. A *lost* call, whose caller gave up, may take effect at any later time, repeatedly, or never, until it is
   interrupted.

Engines differ in which calls they tell apart and in what else they know.  The rules themselves are in :class:`Rules`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from fsm.machine import Event, Machine, Moves, outcomes
from fsm.machine.table import Table, Way
from fsm.machine.traversal import closure

ASKED, CUT, BEGUN, HELD, FREE, ENDED, LOST, LOST_BEGUN = range(-1, -9, -1)
"""Stages of calls.  The stage of a call that ended with an outcome is the index of its way.

- asked: the request was observed, but the call has not taken effect.
- cut: the call had begun when it was interrupted.  It can only get an indefinite reply.
- begun: the call has begun and has not ended.  Other events may happen in the meantime.
- held: like begun, but the call continues only when the test lets it.
- free: the specification is silent about the call.  It may have had any effect, and may have emitted anything.
- ended: the call has ended in a state without ``ends``.  Its reply is unspecified, and it emitted nothing.
- lost: the caller gave up.  The call may take effect at any time, repeatedly, or never, so retries add no call.
- lost begun: like lost, but the call has begun.
"""

_ACTING: Final = frozenset({ASKED, BEGUN, LOST, LOST_BEGUN})


class CallInstant(NamedTuple):
    """An instant at which an event happens or a call reaches a new ``stage``.

    ``way`` is ``None`` if the specification leaves the effect open.
    """

    row: int
    way: Way | None
    to: int
    stage: int

    @property
    def emits(self) -> tuple[str, ...]:
        return self.way.emits if self.way else ()


class Rules:
    """The rules for the calls of a machine.  ``instants``, ``moving`` and ``special`` are cached.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> rules = Rules(tabulate(load("examples/models/washer.toml")))
    >>> begun = rules.instants(rules.table.states.index("idle"), rules.table.row["start"])[0]
    >>> rules.table.states[begun.to], begun.stage == BEGUN
    ('filling', True)
    >>> [each.way.name for each in rules.instants(begun.to, begun.row, BEGUN)]
    ['started', 'failed']
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.instants = cache(self._instants)
        self.moving = cache(self._moving_instants)
        self.special = cache(self._instants_with_effects)
        self._moves = cache(self._moves_within)
        timers = table.machine.timers.values()
        self._starting = {name for timer in timers for name in (*timer.restarts, timer.event)}

    def _instants(self, state: int, row: int, stage: int = ASKED) -> tuple[CallInstant, ...]:
        """Return the instants that are possible in *state* for an event or a call at *stage*, in model order.

        The result is empty if the event cannot happen, or if the call can have no further effect.
        """
        if stage not in _ACTING:
            return ()
        begun, end = stage in {BEGUN, LOST_BEGUN}, self.table.end.get(row)
        row = end if begun and end is not None else row
        ways = self.table.step(state, row)
        if ways is None:
            stages = (FREE,) if begun or end is None else (FREE, BEGUN)
            return tuple(CallInstant(row, None, to, stage) for stage in stages for to in self.table.anywhere)
        if begun and not ways:
            return (CallInstant(row, None, state, ENDED),)
        return tuple(CallInstant(row, way, way.to, BEGUN if way.begins else way.index) for way in ways)

    def _moving_instants(self, state: int, row: int, stage: int) -> tuple[CallInstant, ...]:
        """Like :attr:`instants`, but leave out instants at which a call takes effect without changing the state."""
        found = self.instants(state, row, stage)
        return tuple(each for each in found if stage not in {ASKED, LOST} or each.stage < 0 or each.to != state)

    def _instants_with_effects(self, state: int, row: int) -> tuple[CallInstant, ...]:
        """Return the instants at which a call emits outputs or starts a timer without changing the state."""
        ended = ((each, each.way) for each in self.instants(state, row) if each.stage >= 0 and each.to == state)
        return tuple(each for each, way in ended if way and (way.emits or self.timed(row, way)))

    def moves(self, row: int) -> bool:
        """Check whether the event can change the state or the data, begin a call or start a timer."""
        return self._moves(row, self.table.size)  # some tables add states when they are needed

    def _moves_within(self, row: int, states: int) -> bool:
        cells = ((state, self.table.step(state, row)) for state in range(states))
        return any(
            ways is None or any(way.to != state or way.begins or way.updates or self.timed(row, way) for way in ways)
            for state, ways in cells
        )

    def timed(self, row: int, way: Way) -> bool:
        """Check whether *way* may start a timer or set a time limit although the state does not change."""
        return bool(way.within) or self.table.rows[row].event.name in self._starting

    def interrupts(self, row: int) -> bool:
        return self.table.rows[row].event.interrupts

    def indefinite(self, reply: str) -> bool:
        """Check whether *reply* leaves open whether the call took effect.

        *reply* is empty if no reply was observed.
        """
        return not reply or reply in self.table.machine.indefinite

    def fits(self, stage: int, reply: str) -> bool:
        if stage >= 0:
            return self.indefinite(reply) or self.table.ways[stage].replies(reply)
        return stage in {FREE, ENDED} or (stage in {ASKED, CUT} and self.indefinite(reply))


def finals(table: Table, state: int, row: int, *, displaced: bool = False) -> tuple[Way, ...] | None:
    """Return the ways in which an event in *state* may end, or ``None`` if it may end in any way.

    If *displaced* is true, other events may have moved the entity during the call.
    """
    ways = table.step(state, row)
    if ways is None or not any(way.begins for way in ways):
        return ways
    event = table.rows[row].event
    end = table.end[row]
    first = [way.to for way in ways if way.begins]
    begun = {*closure(first, lambda each: [way.to for way in table.step(each, end) or () if way.begins])}
    if displaced:
        begun |= {table.states.index(name) for name in states_during_call(table.machine, event)}
        if any(table.states[each] not in event.ends for each in begun):
            return None
    ends = [way for each in sorted(begun) for way in table.step(each, end) or ()]
    return tuple(way for way in (*ways, *ends) if not way.begins)


def origins(table: Table, states: tuple[int, ...], row: int) -> list[int]:
    bare, to = table.bare, {table.bare(state) for state in states}
    return [state for state in table.anywhere if any(bare(way.to) in to for way in finals(table, state, row) or ())]


def makers(table: Table, *, shows: str = "", output: str = "") -> list[int]:
    """Return the rows of events that can emit *output* or, if *output* is empty, lead to a state that shows *shows*."""
    found = []
    for row in (row.index for row in table.rows if not row.ends):
        ways = [(state, way) for state in table.anywhere for way in finals(table, state, row) or ()]
        emits = any(output in way.emits for _, way in ways)
        leads = any(way.to != state for state, way in ways) and any(table.matches(way.to, shows) for _, way in ways)
        found += [row] if (emits if output else leads) else []
    return found


def states_begun_in(event: Event) -> dict[str, int]:
    found: dict[str, int] = {}
    for cell in (*event.cells.values(), *event.ends.values()):
        for way in cell.outcomes if isinstance(cell, Moves) else ():
            if way.begins:
                found.setdefault(way.to, cell.line)
    return found


def states_during_call(machine: Machine, event: Event) -> set[str]:
    """Return the states that the entity may be in during a call of *event*, even if other events move it."""
    begun = states_begun_in(event)
    alone = _reachable_during_call(machine, event, begun, twice=False)
    # If a second call of the event can begin in one of these states, the end of that call may also move the entity.
    twice = any(way.begins for state in alone for way in outcomes(event.cells[state], state, event.kind) or ())
    return _reachable_during_call(machine, event, begun, twice=True) if twice else alone


def _reachable_during_call(machine: Machine, event: Event, begun: Iterable[str], *, twice: bool) -> set[str]:
    def leads(state: str) -> Iterator[str]:
        for other in (each for each in machine.events.values() if not each.interrupts):
            end = other.ends.get(state) if twice or other is not event else None
            for cell in (other.cells[state], *([end] if end else [])):
                ways = outcomes(cell, state, other.kind)
                yield from machine.states if ways is None else (way.to for way in ways if way.to in machine.states)

    return {*closure((state for state in begun if state in machine.states), leads)}
