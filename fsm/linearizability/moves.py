"""Situations: where one entity may be, how far the operations on it are, and what may come of that in one instant.

Instants are those of the rules of calls (:mod:`fsm.machine.calls.rules`).  A look, and an operation that moves nothing
wherever its reply is possible, happen as soon as they may: waiting gains nothing.  Of operations that never returned,
and are of one event, the first one acts first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from fsm.linearizability.history import Operation
from fsm.machine import Deviation
from fsm.machine.calls.configuration import numbers
from fsm.machine.calls.rules import ASKED, BEGUN, CUT, CallInstant, Rules
from fsm.machine.traversal import Numbering

LOOKING: Final = -101
"""How far an operation is that has acted, and has still to look at what is shown."""
OVER: Final = -102
"""How far an operation is that has done all that it does, and has still to return."""


class Step(NamedTuple):
    """An instant of a linearization: what ``row`` of the machine did, for ``operation``.

    ``row`` is an event, or its name with ``…`` before it for a stage of a call that has begun; it is empty for a look,
    and ``operation`` is ``None`` for what happened hidden.  ``outcome`` is empty where nothing is specified.
    """

    operation: Operation | None
    row: str
    before: str
    outcome: str
    after: str
    deviation: Deviation | None = None


Calls: TypeAlias = tuple[tuple[int, int], ...]
"""Operations that were called and did not return, by number, and how far each is."""


class Place(NamedTuple):
    """Where the entity is, how far each operation is that was called and did not return, how many outputs came."""

    state: int
    calls: Calls = ()
    came: int = 0


class Situation(NamedTuple):
    """A place; the operations, as bits, that never return and may act yet; the deviations on which it rests.

    ``trail`` is how it came about, the last step first.
    """

    place: Place
    late: int = 0
    deviations: frozenset[str] = frozenset()
    trail: Trail | None = None


class Trail(NamedTuple):
    """One step, and those before it."""

    before: Trail | None
    number: int
    row: int
    source: int
    instant: CallInstant | None


class Best:
    """Situations, without those that another one covers."""

    def __init__(self) -> None:
        self._known: dict[Place, list[Situation]] = {}

    def add(self, new: Situation) -> bool:
        """Take *new*; whether none of those known covers it."""
        known = self._known.setdefault(new.place, [])
        if any(_covers(other, new) for other in known):
            return False
        known[:] = [*(other for other in known if not _covers(new, other)), new]
        return True

    def all(self) -> list[Situation]:
        """What is left, in the order in which the places were found."""
        return [each for known in self._known.values() for each in known]


def _covers(more: Situation, less: Situation) -> bool:
    """Whether whatever is legal after *less* is legal after *more*, both being in one place."""
    return more.late | less.late == more.late and more.deviations <= less.deviations


class Seen:
    """The outputs that were seen.  How far they have come is a number, and 0 at the beginning."""

    def __init__(self, seen: tuple[str, ...]) -> None:
        self._seen = seen

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """How far they have come when *emits* came too; ``None`` if they cannot have come."""
        after = came + len(emits)
        return after if self._seen[came:after] == emits else None

    def anything(self, came: int) -> Iterable[int]:
        """How far they may have come when nothing is specified of what came."""
        return range(came, len(self._seen) + 1)

    def whole(self, came: int) -> bool:
        """Whether nothing is missing."""
        return came == len(self._seen)


class Possible:
    """All sequences of up to *longest* outputs, by number, whatever was seen; as far as they have come."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._numbers = Numbering[tuple[str, ...]]([()])
        self.sequences = self._numbers.listed

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """The number of the sequence with *emits* at its end; ``None`` if that is too long."""
        after = self.sequences[came] + emits
        return self._numbers[after] if len(after) <= self._longest else None

    def anything(self, came: int) -> Iterable[int]:
        """Just this one: what is not specified cannot be listed."""
        return (came,)

    def whole(self, _came: int) -> bool:
        return True


Outputs: TypeAlias = Seen | Possible
"""How far the outputs of an entity have come: those that were seen, or all that could have been."""


class _Kind(NamedTuple):
    """All of an operation that bears on what it does.

    ``row`` is that of its event, -1 if it only looks.  ``reply`` is what a call replied; ``None`` where any outcome
    fits.  ``shows`` is what it has still to see when it has acted.  If it ``returns``, that is waited for.
    """

    row: int
    reply: str | None
    shows: str
    returns: bool


class Moves:
    """Instants of *operations*, which are those of one entity, by number.

    *outputs* is what came out, ``None`` where it was not observed; *unseen* are the rows that may happen at any instant.
    Operations that are ``early`` were called before anybody looked: they may have acted or not, and nothing is known of
    their return.  Events of rows in ``again`` may happen at any instant too, and calls of theirs go on.
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
        self._kind = cache(self._kind_of)
        self._at_once = cache(self._states_at_once)
        self._instants = cache(self._fitting)

    def after(self, here: Situation) -> Iterator[Situation]:
        """What may come of *here* in one instant."""
        state = here.place.state
        for number, stage in here.place.calls:
            if stage in {ASKED, BEGUN}:
                kind = self._kind(number)
                for instant in self._instants(kind, state, stage):
                    yield from self._acted(here, number, instant)
                if stage == ASKED and kind.reply is not None and self.rules.fits(ASKED, kind.reply):
                    yield self._went(here, number, kind.row, None, state)  # it never acts
        yield from self._late(here)
        for row in (*self.unseen, *sorted(self.again)):
            for stage in (ASKED, BEGUN) if row in self.again and row in self.rules.table.end else (ASKED,):
                for instant in self.rules.instants(state, row, stage):
                    if instant.to != state or instant.emits or here.place.calls:
                        yield from self._acted(here, -1, instant)

    def _late(self, here: Situation) -> Iterator[Situation]:
        """*here* after an instant of an operation that never returned, the first of its kind."""
        alike: set[_Kind] = set()
        for number in numbers(here.late):
            kind = self._kind(number)
            if kind not in alike:
                alike.add(kind)
                for instant in self._instants(kind, here.place.state, ASKED):
                    yield from self._acted(here._replace(late=here.late ^ 1 << number), number, instant)

    def _acted(self, here: Situation, number: int, instant: CallInstant) -> Iterator[Situation]:
        """*here* after an *instant* of operation *number*, or of none, unless more was seen of it than came out."""
        if self.rules.interrupts(instant.row):
            calls = tuple(
                (other, CUT if stage == BEGUN and other != number else stage) for other, stage in here.place.calls
            )
            if any(stage == CUT and not self._may_be_cut(other) for other, stage in calls):
                return
            here = here._replace(place=here.place._replace(calls=calls))
        if instant.way is not None and instant.way.deviation is not None:
            here = here._replace(deviations=here.deviations | {instant.way.deviation.name})
        for came in self._came(here.place, number, instant):
            yield self._went(here, number, instant.row, instant, instant.to, came)

    def _may_be_cut(self, number: int) -> bool:
        reply = self._kind(number).reply
        return reply is None or self.rules.fits(CUT, reply)

    def _went(
        self, here: Situation, number: int, row: int, instant: CallInstant | None, state: int, came: int | None = None
    ) -> Situation:
        """*here* in *state*, which operation *number* has acted for, or gone on in, by an *instant* of *row*."""
        calls, trail = here.place.calls, Trail(here.trail, number, row, here.place.state, instant)
        if number >= 0:
            begun = instant is not None and instant.stage == BEGUN
            calls = self._at(calls, number, BEGUN if begun else self._over(number))
        place = Place(state, calls, here.place.came if came is None else came)
        return self.settled(Situation(place, here.late, here.deviations, trail))

    def _at(self, calls: Calls, number: int, stage: int) -> Calls:
        """*calls* with operation *number* as far as *stage*; one that is not waited for is gone once it is over."""
        others = [call for call in calls if call[0] != number]
        if stage != OVER or self._kind(number).returns:
            others.append((number, stage))
            others.sort()
        return tuple(others)

    def _came(self, here: Place, number: int, instant: CallInstant) -> Iterable[int]:
        """How many outputs have come after *instant*; nothing if that is not what came out."""
        came = here.came
        if self.outputs is None:
            return (came,)
        if instant.way is None and self.rules.table.step(here.state, instant.row) is None:
            return self.outputs.anything(came) if number >= 0 else (came,)
        after = self.outputs.after(came, instant.emits)
        return () if after is None else (after,)

    def settled(self, here: Situation) -> Situation:
        """*here* once those have looked that can, and those have acted that move nothing by it, now or ever."""
        (state, calls, _), trail = here.place, here.trail
        again = True
        while again:
            again = False
            for number, stage in calls:
                if stage != OVER and self._at_once(self._kind(number), stage) >> state & 1:
                    trail = self._trail(trail, number, stage, state)
                    looked = stage == LOOKING or self._kind(number).row < 0
                    calls = self._at(calls, number, OVER if looked else self._over(number))
                    again = True
        return here if trail is here.trail else here._replace(place=here.place._replace(calls=calls), trail=trail)

    def _trail(self, before: Trail | None, number: int, stage: int, state: int) -> Trail:
        kind = self._kind(number)
        if stage == LOOKING or kind.row < 0:
            return Trail(before, number, -1, state, None)
        return Trail(before, number, kind.row, state, next(iter(self._instants(kind, state, stage)), None))

    def _states_at_once(self, kind: _Kind, stage: int) -> int:
        """The states, as bits, in which an operation of this *kind* that is as far as *stage* does not wait."""
        states = range(len(self.rules.table.states))
        return sum(1 << state for state in states if self._gains_nothing(kind, stage, state))

    def _gains_nothing(self, kind: _Kind, stage: int, state: int) -> bool:
        """Whether an operation of this *kind* need not wait in *state*."""
        if stage == LOOKING or (stage == ASKED and kind.row < 0):
            return self.rules.table.shows[state] == kind.shows
        if stage == ASKED:
            return self._is_harmless(kind) and bool(self._instants(kind, state, stage))
        return stage == CUT

    def _is_harmless(self, kind: _Kind) -> bool:
        """Whether an operation of this *kind* moves nothing and puts nothing out, wherever its reply is possible."""
        return not self.rules.interrupts(kind.row) and all(
            each.way is not None
            and each.to == state
            and each.stage != BEGUN
            and not each.way.deviation
            and not each.emits
            for state in range(len(self.rules.table.states))
            for each in self._instants(kind, state, ASKED)
        )

    def row(self, number: int) -> int:
        """The row of the event of operation *number*; -1 of a look."""
        return self._kind(number).row

    def _kind_of(self, number: int) -> _Kind:
        operation = self.operations[number]
        row = self.rules.table.row[operation.event] if operation.event else -1
        call = row >= 0 and self.rules.table.rows[row].event.kind == "call" and operation.returned is not None
        returns = operation.returned is not None and number not in self.early
        return _Kind(row, operation.reply if call else None, operation.shows if returns else "", returns)

    def _over(self, number: int) -> int:
        """How far operation *number* is when it has acted."""
        return LOOKING if self._kind(number).shows else OVER

    def _fitting(self, kind: _Kind, state: int, stage: int) -> tuple[CallInstant, ...]:
        """The instants in *state* of an operation of this *kind* that fit what is known of it."""
        return tuple(
            each
            for each in (self.rules.instants(state, kind.row, stage) if kind.row >= 0 else ())
            if each.stage == BEGUN or kind.reply is None or self.rules.fits(each.stage, kind.reply)
        )

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
