"""Situations of an entity, and the changes that one instant can make.

Instants follow the rules of calls (:mod:`fsm.machine.calls`).  Operations that only read the shown state take effect as
soon as they can, because they gain nothing by waiting.  The same is true of operations that change nothing in any state
in which their reply is possible.  Similar operations that never returned take effect in the order of their calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from fsm.linearizability.history import Operation
from fsm.machine import Deviation
from fsm.machine.calls import ASKED, BEGUN, CUT, CallInstant, Rules
from fsm.machine.calls.configuration import numbers
from fsm.machine.traversal import Numbering

LOOKING: Final = -101
"""Stage of an operation that has taken effect, but has not read the shown value yet."""
OVER: Final = -102
"""Stage of an operation that is complete except for its return."""


class Step(NamedTuple):
    """An instant of a linearization.

    ``row`` is the name of the event.  It has the prefix ``…`` if a call that has begun continues, and is empty if an
    operation reads the shown state.  ``operation`` is ``None`` if the event was not recorded.  ``outcome`` is empty if
    the specification leaves it open.
    """

    operation: Operation | None
    row: str
    before: str
    outcome: str
    after: str
    deviation: Deviation | None = None


Calls: TypeAlias = tuple[tuple[int, int], ...]
"""The number and the stage of each operation in progress."""


class Place(NamedTuple):
    """The state of the entity, the stages of the operations in progress, and the progress of the outputs."""

    state: int
    calls: Calls = ()
    came: int = 0


class Situation(NamedTuple):
    """A possible situation of an entity, and the steps that led to it.

    ``late`` is the bit set of operations that never return but may still take effect.  ``deviations`` names the
    deviations that the situation relies on.  ``trail`` links the steps, starting with the last one.
    """

    place: Place
    late: int = 0
    deviations: frozenset[str] = frozenset()
    trail: Trail | None = None

    def with_calls(self, calls: Calls) -> Situation:
        return self._replace(place=self.place._replace(calls=calls))


class Trail(NamedTuple):
    before: Trail | None
    number: int
    row: int
    source: int
    instant: CallInstant | None


class Best:
    """A set of situations in which no situation covers another one."""

    def __init__(self) -> None:
        self._known: dict[Place, list[Situation]] = {}

    def add(self, new: Situation) -> bool:
        known = self._known.setdefault(new.place, [])
        if any(_covers(other, new) for other in known):
            return False
        known[:] = [*(other for other in known if not _covers(new, other)), new]
        return True

    def all(self) -> list[Situation]:
        return [each for known in self._known.values() for each in known]


def _covers(more: Situation, less: Situation) -> bool:
    """Check whether *more* allows everything that *less* allows.  Both must have the same place."""
    return more.late | less.late == more.late and more.deviations <= less.deviations


class Seen:
    """The observed outputs.  The methods express progress as the number of outputs that have been emitted so far."""

    def __init__(self, seen: tuple[str, ...]) -> None:
        self._seen = seen

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """Return the progress after *emits*, or ``None`` if these outputs were not observed next."""
        after = came + len(emits)
        return after if self._seen[came:after] == emits else None

    def anything(self, came: int) -> Iterable[int]:
        return range(came, len(self._seen) + 1)

    def whole(self, came: int) -> bool:
        return came == len(self._seen)


class Possible:
    """All possible sequences of up to *longest* outputs.  Progress is the index of a sequence in ``sequences``."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._numbers = Numbering[tuple[str, ...]]([()])
        self.sequences = self._numbers.listed

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """Return the index of sequence *came* extended by *emits*, or ``None`` if the result would be too long."""
        after = self.sequences[came] + emits
        return self._numbers[after] if len(after) <= self._longest else None

    def anything(self, came: int) -> Iterable[int]:
        """Return only the current progress, because unspecified outputs cannot be enumerated."""
        return (came,)

    def whole(self, _progress_after: int) -> bool:
        return True


Outputs: TypeAlias = Seen | Possible


class _Kind(NamedTuple):
    """The properties of an operation that determine its possible instants.

    ``row`` is -1 if the operation only reads the shown state.  ``reply`` is ``None`` if any outcome fits.  ``shows`` is
    the value that must be shown after the operation has taken effect.  If ``returns`` is false, the search does not
    wait for the operation to return.
    """

    row: int
    reply: str | None
    shows: str
    returns: bool


class Moves:
    """The possible instants of *operations* on one entity.

    Operations are identified by their numbers.  *outputs* is ``None`` if the outputs were not observed.  *unseen* lists
    the rows of unseen events, which may happen at any instant.  ``early`` contains the operations that were called
    before the observation began.  They may have taken effect already, and their returns are ignored.  ``again``
    contains rows of events that may happen at any instant.  If such an event is a call, it may begin or end then.
    """

    def __init__(
        self, rules: Rules, operations: Sequence[Operation], outputs: Outputs | None, unseen: tuple[int, ...]
    ) -> None:
        self.rules = rules
        self.operations = operations
        self.outputs = outputs
        self.unseen = unseen
        self.early: set[int] = set()
        self.again: set[int] = set()
        self.kind = cache(self._kind_of)
        self._at_once = cache(self._gains_nothing)
        self._instants = cache(self._fitting_instants)

    def after(self, here: Situation) -> Iterator[Situation]:
        state = here.place.state
        for number, stage in here.place.calls:
            if stage in {ASKED, BEGUN}:
                kind = self.kind(number)
                for instant in self._instants(kind, state, stage):
                    yield from self._after_instant(here, number, instant)
                if stage == ASKED and kind.reply is not None and self.rules.fits(ASKED, kind.reply):
                    yield self._take_step(here, number, kind.row, None, state)  # the call never takes effect
        yield from self._late_effects(here)
        for row in (*self.unseen, *sorted(self.again)):
            for stage in (ASKED, BEGUN) if row in self.again and row in self.rules.table.end else (ASKED,):
                for instant in self.rules.instants(state, row, stage):
                    if instant.to != state or instant.emits or here.place.calls:
                        yield from self._after_instant(here, -1, instant)

    def _late_effects(self, here: Situation) -> Iterator[Situation]:
        first = {self.kind(number): number for number in reversed(numbers(here.late))}
        for kind, number in sorted(first.items(), key=itemgetter(1)):
            for instant in self._instants(kind, here.place.state, ASKED):
                yield from self._after_instant(here._replace(late=here.late ^ 1 << number), number, instant)

    def _after_instant(self, here: Situation, number: int, instant: CallInstant) -> Iterator[Situation]:
        if self.rules.interrupts(instant.row):
            calls = tuple(
                (other, CUT if stage == BEGUN and other != number else stage) for other, stage in here.place.calls
            )
            replies = [self.kind(other).reply for other, stage in calls if stage == CUT]
            if any(reply is not None and not self.rules.fits(CUT, reply) for reply in replies):
                return
            here = here.with_calls(calls)
        if instant.way is not None and instant.way.deviation is not None:
            here = here._replace(deviations=here.deviations | {instant.way.deviation.name})
        for came in self._progress_after(here.place, number, instant):
            yield self._take_step(here, number, instant.row, instant, instant.to, came)

    def _take_step(
        self, here: Situation, number: int, row: int, instant: CallInstant | None, state: int, came: int | None = None
    ) -> Situation:
        calls, trail = here.place.calls, Trail(here.trail, number, row, here.place.state, instant)
        if number >= 0:
            begun = instant is not None and instant.stage == BEGUN
            calls = self._set_stage(calls, number, BEGUN if begun else self._final_stage(number))
        place = Place(state, calls, here.place.came if came is None else came)
        return self.settled(Situation(place, here.late, here.deviations, trail))

    def _set_stage(self, calls: Calls, number: int, stage: int) -> Calls:
        others = [call for call in calls if call[0] != number]
        if stage != OVER or self.kind(number).returns:
            others.append((number, stage))
        return tuple(sorted(others))

    def _progress_after(self, here: Place, number: int, instant: CallInstant) -> Iterable[int]:
        if self.outputs is None:
            return (here.came,)
        if instant.way is None and self.rules.table.step(here.state, instant.row) is None:
            return self.outputs.anything(here.came) if number >= 0 else (here.came,)
        after = self.outputs.after(here.came, instant.emits)
        return () if after is None else (after,)

    def settled(self, here: Situation) -> Situation:
        """Let all operations that gain nothing by waiting take effect, and return the resulting situation."""
        (state, calls, _), trail = here.place, here.trail
        again = True
        while again:
            again = False
            for number, stage in calls:
                kind = self.kind(number)
                if stage == OVER or not self._at_once(kind, stage, state):
                    continue
                if stage == LOOKING or kind.row < 0:
                    trail = Trail(trail, number, -1, state, None)
                    calls = self._set_stage(calls, number, OVER)
                else:
                    instant = next(iter(self._instants(kind, state, stage)), None)
                    trail = Trail(trail, number, kind.row, state, instant)
                    calls = self._set_stage(calls, number, self._final_stage(number))
                again = True
        return here if trail is here.trail else here.with_calls(calls)._replace(trail=trail)

    def _gains_nothing(self, kind: _Kind, stage: int, state: int) -> bool:
        if stage == LOOKING or (stage == ASKED and kind.row < 0):
            return self.rules.table.matches(state, kind.shows)
        if stage == ASKED:
            return self._is_harmless(kind) and bool(self._instants(kind, state, stage))
        return stage == CUT

    def _is_harmless(self, kind: _Kind) -> bool:
        return not self.rules.interrupts(kind.row) and all(
            each.way is not None
            and each.to == state
            and each.stage != BEGUN
            and not each.way.deviation
            and not each.emits
            for state in range(len(self.rules.table.states))
            for each in self._instants(kind, state, ASKED)
        )

    def _kind_of(self, number: int) -> _Kind:
        operation = self.operations[number]
        row = self.rules.table.row[operation.event] if operation.event else -1
        call = row >= 0 and self.rules.table.rows[row].event.kind == "call" and operation.returned is not None
        returns = operation.returned is not None and number not in self.early
        return _Kind(row, operation.reply if call else None, operation.shows if returns else "", returns)

    def _final_stage(self, number: int) -> int:
        return LOOKING if self.kind(number).shows else OVER

    def _fitting_instants(self, kind: _Kind, state: int, stage: int) -> tuple[CallInstant, ...]:
        return tuple(
            each
            for each in (self.rules.instants(state, kind.row, stage) if kind.row >= 0 else ())
            if each.stage == BEGUN or kind.reply is None or self.rules.fits(each.stage, kind.reply)
        )

    def steps(self, situation: Situation) -> tuple[Step, ...]:
        found: list[Step] = []
        trail, table = situation.trail, self.rules.table
        while trail is not None:
            trail, number, row, source, instant = trail
            way = instant.way if instant else None
            step = Step(
                operation=None if number < 0 else self.operations[number],
                row="" if row < 0 else table.rows[row].name,
                before=table.states[source],
                outcome=way.name if way else "",
                after=table.states[instant.to if instant else source],
                deviation=way.deviation if way else None,
            )
            found.append(step)
        return tuple(reversed(found))
