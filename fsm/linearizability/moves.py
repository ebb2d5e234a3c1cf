"""What may come of a situation in one instant, by the rules of calls (:mod:`fsm.machine.calls.rules`).

A look, and an operation that moves nothing wherever its reply is possible,
happen as soon as they may: waiting gains nothing.  Of operations that never
returned, and are of one event, the first one acts first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsm.linearizability.situations import LOOKING, OVER, Situation, Step, Trail, numbers
from fsm.machine.calls.rules import ASKED, BEGUN, CUT, FREE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fsm.linearizability.history import Operation
    from fsm.linearizability.outputs import Outputs
    from fsm.machine.calls.rules import Instant, Rules


@dataclass(slots=True, kw_only=True)
class Moves:
    """Instants of ``operations``, which are those of one entity, by number.

    ``outputs`` is what came out, ``None`` where nobody looked; ``unseen`` are
    the rows that may happen at any instant.  Operations that are ``early``
    were called before anybody looked: they may have acted or not, and nothing
    is known of their return.  Events of rows in ``again`` may happen at any
    instant too, and calls of theirs go on.
    """

    rules: Rules
    operations: Sequence[Operation]
    outputs: Outputs | None
    unseen: tuple[int, ...]
    early: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    _harmless: dict[int, bool] = field(default_factory=dict)

    def after(self, here: Situation) -> Iterator[Situation]:
        """What may come of *here* in one instant."""
        for number, row, stage in self._candidates(here):
            before = here._replace(late=here.late & ~(1 << number)) if number >= 0 else here
            for instant in self.rules.instants(here.place.state, row, stage):
                yield from self._acted(before, number, instant)
            if stage == ASKED and self._may_do_nothing(here, number):
                yield self.settled(self._went(here, number, row, None, self._over(number)))

    def _candidates(self, here: Situation) -> Iterator[tuple[int, int, int]]:
        """What may act: an operation, or -1, the row of its event, and how far it is."""
        for number, stage in here.place.calls:
            if stage in {ASKED, BEGUN} and self.row(number) >= 0:
                yield number, self.row(number), stage
        alike: set[tuple[int, str | None]] = set()
        for number in numbers(here.late):
            operation = self.operations[number]
            kind = (self.row(number), None if operation.returned is None else operation.reply)
            if kind not in alike:
                alike.add(kind)
                yield number, self.row(number), ASKED
        for row in (*self.unseen, *sorted(self.again)):
            yield -1, row, ASKED
            if row in self.again and row in self.rules.table.end:
                yield -1, row, BEGUN

    def _may_do_nothing(self, here: Situation, number: int) -> bool:
        """Whether operation *number* returns, and may do so without having acted."""
        return (number, ASKED) in here.place.calls and self._is_call(number) and self._fits(number, ASKED)

    def _acted(self, here: Situation, number: int, instant: Instant) -> Iterator[Situation]:
        """*here* after an *instant* of operation *number*, if that fits what was seen."""
        stage = instant.stage
        if number >= 0 and stage != BEGUN:
            if not self._fits(number, stage):
                return
            stage = self._over(number)
        here = self._went(here, number, instant.row, instant, stage)
        if self.rules.interrupts(instant.row):
            here = self._interrupted(here, number)
            if any(stage == CUT and not self._fits(other, CUT) for other, stage in here.place.calls):
                return
        if instant.way is not None and instant.way.deviation is not None:
            here = here._replace(deviations=here.deviations | {instant.way.deviation.name})
        for came in self._came(here.place.came, number, instant):
            yield self.settled(here._replace(place=here.place._replace(state=instant.to, came=came)))

    def _went(self, here: Situation, number: int, row: int, instant: Instant | None, stage: int) -> Situation:
        """*here*, operation *number* as far as *stage* by an instant of *row*; the state is as before."""
        calls = here.place.calls if number < 0 else self._at(here.place.calls, number, stage)
        trail = Trail(here.trail, number, row, here.place.state, instant)
        return here._replace(place=here.place._replace(calls=calls), trail=trail)

    def _at(self, calls: tuple[tuple[int, int], ...], number: int, stage: int) -> tuple[tuple[int, int], ...]:
        """*calls* with operation *number* as far as *stage*; one that never returns is gone once it is over."""
        others = tuple(call for call in calls if call[0] != number)
        return others if self._forgotten(number) and stage in {OVER, CUT} else tuple(sorted((*others, (number, stage))))

    def settled(self, here: Situation) -> Situation:
        """*here* once those have looked that can, and those have acted that move nothing by it, now or ever."""
        number = 0
        while number < len(here.place.calls):
            after = self._at_once(here, *here.place.calls[number])
            here, number = (here, number + 1) if after is None else (after, 0)
        return here

    def _at_once(self, here: Situation, number: int, stage: int) -> Situation | None:
        """*here* when operation *number* has done what it gains nothing by waiting with; ``None`` if there is nothing."""
        operation, row, state = self.operations[number], self.row(number), here.place.state
        if stage == LOOKING or (stage == ASKED and row < 0):
            shown = operation.shows == self.rules.table.shows[state]
            return self._went(here, number, -1, None, OVER) if shown else None
        if stage == CUT and self._fits(number, CUT):
            return self._went(here, number, row, None, self._over(number))
        if stage == ASKED and self._is_harmless(number):
            instants = self.rules.instants(state, row)
            fits = next((each for each in instants if self._fits(number, each.stage)), None)
            return self._went(here, number, row, fits, self._over(number)) if fits else None
        return None

    def _is_harmless(self, number: int) -> bool:
        """Whether operation *number* moves nothing and puts nothing out, wherever its reply is possible."""
        found = self._harmless.get(number)
        if found is None:
            row = self.row(number)
            found = self._harmless[number] = not self.rules.interrupts(row) and all(
                each.way is not None
                and each.to == state
                and each.stage != BEGUN
                and not each.way.deviation
                and not each.emits
                for state in range(len(self.rules.table.states))
                for each in self.rules.instants(state, row)
                if each.stage == BEGUN or self._fits(number, each.stage)
            )
        return found

    def row(self, number: int) -> int:
        """The row of the event of operation *number*; -1 of a look."""
        event = self.operations[number].event
        return self.rules.table.row[event] if event else -1

    def _is_call(self, number: int) -> bool:
        row = self.row(number)
        return row >= 0 and self.rules.table.rows[row].event.kind == "call"

    def _forgotten(self, number: int) -> bool:
        """Whether operation *number* never returns, as far as anybody looks."""
        return self.operations[number].returned is None or number in self.early

    def _over(self, number: int) -> int:
        """How far operation *number* is when it has acted."""
        return LOOKING if self.operations[number].shows and not self._forgotten(number) else OVER

    def _fits(self, number: int, stage: int) -> bool:
        """Whether operation *number* may return when it is as far as *stage*."""
        operation = self.operations[number]
        return not self._is_call(number) or operation.returned is None or self.rules.fits(stage, operation.reply)

    def _interrupted(self, here: Situation, by: int) -> Situation:
        """*here* once operation *by* has cut off the calls that have begun."""
        calls = here.place.calls
        for number, stage in calls:
            if number != by and stage == BEGUN:
                calls = self._at(calls, number, CUT)
        return here._replace(place=here.place._replace(calls=calls))

    def _came(self, came: int, number: int, instant: Instant) -> Iterable[int]:
        """How many outputs have come after *instant*; nothing if that is not what came out."""
        if self.outputs is None:
            return (came,)
        if instant.stage == FREE:
            return self.outputs.anything(came) if number >= 0 else (came,)
        after = self.outputs.after(came, instant.emits)
        return () if after is None else (after,)

    def steps(self, situation: Situation) -> tuple[Step, ...]:
        """How *situation* came about."""
        found = []
        trail = situation.trail
        table = self.rules.table
        while trail is not None:
            instant = trail.instant
            way = instant.way if instant else None
            found.append(
                Step(
                    operation=None if trail.number < 0 else self.operations[trail.number],
                    row="" if trail.row < 0 else table.rows[trail.row].name,
                    before=table.states[trail.source],
                    outcome=way.name if way else "",
                    after=table.states[instant.to if instant else trail.source],
                    deviation=way.deviation if way else None,
                )
            )
            trail = trail.before
        return tuple(reversed(found))
