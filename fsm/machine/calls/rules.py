"""Rules for calls: how they proceed from instant to instant, and which replies fit.

A call acts at some instant between its request and its reply.  A call that takes time begins, continues and ends at
separate instants.  There are six rules:

1. A call that is *asked* for acts by the cell of its event in the current state.  It *begins*, or ends by an outcome of
   that cell.
2. A call that has *begun* continues by the ``ends`` of the current state, even if other events have moved the entity.
   If that state has no ``ends``, the end of the call is unspecified: the call is *free*, the state stays, and nothing
   is emitted.
3. If the specification is silent, any state may follow.  A call that acts there is free, or has begun.
4. An event that interrupts cuts off the calls that have begun.  They no longer act, and can only get an indefinite
   reply.  A call that has ended may still be answered, and one that was asked for may still arrive; but an observer of
   the interruption treats all calls in progress as over.
5. A reply fits a call that has ended if its outcome has it; any reply fits a free call.  An indefinite reply also fits
   a call that has not acted, and never will.
6. A call that was *lost*, because its caller gave up, may act at any later time, repeatedly, or never, until something
   interrupts it.

Engines differ in which calls they distinguish and in what else they know; :class:`Rules` has everything else.
"""

from typing import Final, NamedTuple

from fsm.machine.table import Table, Way

ASKED: Final = -1
"""The request was seen; the call has not acted."""
CUT: Final = -2
"""The call had begun when something interrupted it; it can only get an indefinite reply."""
BEGUN: Final = -3
"""The call has begun and not ended; other events may meet its state."""
HELD: Final = -4
"""Like begun, but the call continues only when a test lets it."""
FREE: Final = -5
"""The call has ended in an unspecified way."""
LOST: Final = -6
"""The caller gave up; the call may act at any time, repeatedly, or never.  Kept as a set, so that retries add none."""
LOST_BEGUN: Final = -7
"""Like lost, but the call has begun."""

_ACTING: Final = frozenset({ASKED, BEGUN, LOST, LOST_BEGUN})


class CallInstant(NamedTuple):
    """One instant of an event or of a call: the ``way`` taken in ``row``; ``None`` if it is unspecified.

    ``stage`` is the stage of a call after it: begun, free, or the index of the way that ended it.
    """

    row: int
    way: Way | None
    to: int
    stage: int

    @property
    def emits(self) -> tuple[str, ...]:
        """Outputs of the way; none if it is unspecified."""
        return self.way.emits if self.way else ()


class Rules:
    """The rules, applied to *table*; instants are computed once.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> rules = Rules(tabulate(load("container-status")))
    >>> begun = rules.instants(rules.table.states.index("created"), rules.table.row["start"])[0]
    >>> rules.table.states[begun.to], begun.stage == BEGUN
    ('starting', True)
    >>> [each.way.name for each in rules.instants(begun.to, begun.row, BEGUN)]
    ['started', 'failed', 'not-recorded']
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._instants: dict[tuple[int, int, int], tuple[CallInstant, ...]] = {}
        self._moving: dict[tuple[int, int, int], tuple[CallInstant, ...]] = {}
        self._staying: dict[tuple[int, int], tuple[CallInstant, ...]] = {}
        self._special: dict[tuple[int, int], tuple[CallInstant, ...]] = {}
        self._moves: dict[tuple[int, int], bool] = {}

    def instants(self, state: int, row: int, stage: int = ASKED) -> tuple[CallInstant, ...]:
        """Return every instant that an event of *row*, or a call at *stage*, may have in *state*.

        The order is the model's; empty if the event cannot happen, or the call no longer acts.
        """
        if stage not in _ACTING:
            return ()
        found = self._instants.get((state, row, stage))
        if found is None:
            begun = stage in {BEGUN, LOST_BEGUN}
            found = self._instants[state, row, stage] = self._found(state, row, begun=begun)
        return found

    def moving(self, state: int, row: int, stage: int) -> tuple[CallInstant, ...]:
        """Return those :meth:`instants` that do more than end a call without moving the entity."""
        found = self._moving.get((state, row, stage))
        if found is None:
            staying = self.staying(state, row) if stage in {ASKED, LOST} else ()
            found = tuple(each for each in self.instants(state, row, stage) if each not in staying)
            self._moving[state, row, stage] = found
        return found

    def staying(self, state: int, row: int) -> tuple[CallInstant, ...]:
        """Return the instants by which a call of *row* that was asked for ends directly in the same *state*."""
        found = self._staying.get((state, row))
        if found is None:
            found = tuple(
                each
                for each in self.instants(state, row)
                if each.way is not None and each.stage >= 0 and each.to == state
            )
            self._staying[state, row] = found
        return found

    def special(self, state: int, row: int) -> tuple[CallInstant, ...]:
        """Return the :meth:`staying` instants that may have to be tried separately: they emit, or set a time limit."""
        found = self._special.get((state, row))
        if found is None:
            staying = self.staying(state, row)
            found = tuple(each for each in staying if each.way is not None and (each.way.emits or each.way.within))
            self._special[state, row] = found
        return found

    def moves(self, row: int) -> bool:
        """Check whether an event of *row* can change the state, or limit the time in it, in any state."""
        known = len(self.table.states)
        found = self._moves.get((row, known))
        if found is None:
            cells = ((state, self.table.step(state, row)) for state in range(known))
            found = any(
                ways is None or any(way.to != state or way.begins or way.within for way in ways)
                for state, ways in cells
            )
            self._moves[row, known] = found
        return found

    def _found(self, state: int, row: int, *, begun: bool) -> tuple[CallInstant, ...]:
        end = self.table.end.get(row)
        row = end if begun and end is not None else row
        ways = self.table.step(state, row)
        if ways is None:
            stages = (FREE,) if begun or end is None else (FREE, BEGUN)
            return tuple(CallInstant(row, None, to, stage) for stage in stages for to in range(len(self.table.states)))
        if begun and not ways:
            return (CallInstant(row, None, state, FREE),)
        return tuple(CallInstant(row, way, way.to, BEGUN if way.begins else way.index) for way in ways)

    def silent(self, row: int) -> bool:
        """Check whether the specification is silent about an event of *row*, or about its end, in any state."""
        rows = {row, self.table.end.get(row, row)}
        return any(self.table.step(state, each) is None for state in range(len(self.table.states)) for each in rows)

    def interrupts(self, row: int) -> bool:
        """Check whether an event of *row* interrupts the calls in progress."""
        return self.table.rows[row].event.interrupts

    def indefinite(self, reply: str) -> bool:
        """Check whether *reply* leaves open what the call did; an empty reply was not seen."""
        return not reply or reply in self.table.machine.indefinite

    def fits(self, stage: int, reply: str) -> bool:
        """Check whether a call at *stage* may have given *reply*."""
        if stage >= 0:
            return self.indefinite(reply) or self.table.ways[stage].replies(reply)
        return stage == FREE or (stage in {ASKED, CUT} and self.indefinite(reply))
