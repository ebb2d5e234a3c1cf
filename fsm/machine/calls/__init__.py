"""What may be true of one entity: every state it could be in, given what was seen.

A *belief* is a set of possibilities.  A possibility is a state together with
the calls in progress: asked, begun, or ended with a reply nobody has seen yet.
Between two observations anything may happen that nobody sees: pending calls
act, and so do the events that this trace does not show.  An observation keeps
the possibilities that explain it.

Two calls whose intervals overlap are thereby tried in every order that is
consistent with time (linearizability: Herlihy and Wing, 1990).  Most outcomes
leave the state as it is; such a call may have acted in any state that the
entity passed through while it was in progress.  So a call that has not moved
anything carries the set of these states, and only outcomes that move the
entity are tried one by one; what differs from another possibility by knowing
less is dropped.  Without this, eight threads at one container make millions
of possibilities; with it, hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fsm.machine.calls.configuration import (
    ASKED,
    BEGUN,
    FREE,
    LOST,
    LOST_BEGUN,
    Best,
    Pending,
    Possibilities,
    Possibility,
    bits,
    late,
    numbers,
    passing,
    plus,
)
from fsm.machine.calls.endings import finals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fsm.machine.table import Table, Way
    from fsm.trace import Key

LIMIT = 20_000
"""Possibilities of one entity beyond its states; with more the search gives up and says so."""


class TooManyError(Exception):
    """The possibilities outgrew :data:`LIMIT`."""


def tried(find: Callable[[], Possibilities]) -> Possibilities:
    """What *find* finds; nothing where that is too much to try."""
    try:
        return find()
    except TooManyError:
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What an observation leaves: possibilities, and the (row, state) pairs it certainly rests on.

    ``unspecified`` says that it is legal only in that the specification says nothing of it,
    ``passed`` which states, as bits, a whole call may have been in on its way.
    """

    possibilities: Possibilities
    cells: frozenset[tuple[int, int]] = frozenset()
    unspecified: bool = False
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamics:
    """How beliefs move: a table, and what the trace does not show.

    ``unseen`` are the rows of events that may happen without an observation;
    ``outputs`` says that the trace shows outputs on their own; without
    ``silence`` nothing happens where the specification says nothing.
    """

    table: Table
    unseen: tuple[int, ...]
    outputs: bool = False
    silence: bool = True
    names: dict[str, int] = field(default_factory=dict)

    @property
    def _anything(self) -> int:
        """All states, as bits."""
        return (1 << len(self.table.states)) - 1

    def everything(self) -> Possibilities:
        """Nothing is known."""
        return self.closed(Possibility(state) for state in range(len(self.table.states)))

    def beginning(self) -> Possibilities:
        """The entity is known to be in the machine's initial state."""
        return self.closed([Possibility(self.table.initial)])

    # -- what nobody sees --------------------------------------------------

    def closed(self, possibilities: Iterable[Possibility]) -> Possibilities:
        """*possibilities*, and all that may come of them unseen; those that know less left out."""
        found = Best()
        todo = [each for each in possibilities if found.add(each)]
        while todo:
            todo += [each for each in self._unseen(todo.pop()) if found.add(each)]
            if found.size > LIMIT + len(self.table.states):
                raise TooManyError
        return found.all()

    def _unseen(self, here: Possibility) -> Iterator[Possibility]:
        for index, call in enumerate(here.pending):
            if call.stage >= 0 or call.stage == FREE or (index and call == here.pending[index - 1]):
                continue  # it has ended, or it is as the last one
            others = here.pending[:index] + here.pending[index + 1 :]
            yield from self._acts(here, call, others)
        for row in self.unseen:
            ways = self.table.step(here.state, row)
            pending = () if self.table.rows[row].event.interrupts else here.pending
            if ways is None:
                yield from self._anywhere(here, pending)
                continue
            for way in ways:
                if not (way.emits and here.queue):
                    after = late(pending, row, LOST_BEGUN) if way.begins else pending
                    yield self._went(here, way, after)

    def _acts(self, here: Possibility, call: Pending, others: tuple[Pending, ...]) -> Iterator[Possibility]:
        """The next instant of *call* that moves the entity: it begins, goes on, or ends."""
        if call.stage in {ASKED, LOST}:
            ways = self.table.step(here.state, call.row)
            met = 1 << here.state
        elif call.stage in {BEGUN, LOST_BEGUN}:
            ways = self.table.step(here.state, self.table.end[call.row])
            met = call.met
            if ways == () and call.stage == BEGUN:
                # Another event took the entity out of the state that the call
                # had moved it to: nothing is specified of how the call ends.
                yield here._replace(pending=plus(others, Pending(call.row, FREE, self._anything)))
        else:
            return
        lost = call.stage in {LOST, LOST_BEGUN}
        if ways is None:
            yield from self._anywhere(here, here.pending if lost else plus(others, Pending(call.row, FREE, met)))
            return
        for way in ways:
            still = way.to == here.state and not way.begins and call.stage in {ASKED, LOST}
            if still or (way.emits and here.queue):
                continue
            if lost:
                after = late(here.pending, call.row, LOST_BEGUN) if way.begins else here.pending
            elif way.begins:
                after = plus(others, Pending(call.row, BEGUN, met))
            else:
                after = plus(others, Pending(call.row, way.index, met))
            yield self._went(here, way, after)

    def _anywhere(self, here: Possibility, pending: tuple[Pending, ...]) -> Iterator[Possibility]:
        """The specification is silent: the entity may be in any state."""
        if not self.silence:
            return
        for state in range(len(self.table.states)):
            yield here._replace(state=state, pending=passing(pending, state))

    def _went(self, here: Possibility, way: Way, pending: tuple[Pending, ...]) -> Possibility:
        deviations = here.deviations
        if way.deviation is not None:
            deviations = tuple(sorted({*deviations, way.deviation.name}))
        queue = here.queue + way.emits if self.outputs else here.queue
        return Possibility(way.to, passing(pending, way.to), queue, deviations)

    # -- what somebody sees ------------------------------------------------

    def observed(self, before: Possibilities, seen: Key, since: int = 0) -> Kept:
        """What is left of *before*, which is closed, when *seen* is seen; closed again.

        *since* are the states, as bits, in which an unrecorded call may have
        acted; without them it is those of *before*.  Nothing is left if no
        possibility explains it.
        """
        event, phase, reply, shows, met, output, emits = seen
        met = self.understood(met)
        row = self.row(event)
        kept = Kept(possibilities=before)
        if output:
            before = self.closed(each._replace(queue=each.queue[1:]) for each in before if each.queue[:1] == (output,))
        elif self.calls(row):
            match phase:
                case "request":
                    before = self.asked(before, row)
                case "lost":
                    before = self._lost(before, row)
                case "maybe" | "noticed":
                    before = self._lost(self.asked(before, row), row)
                case "answered":
                    answers = self._answers(numbers(since or bits(before)), seen)
                    # It has acted: before what was last seen, or after.
                    acted = self._replied(self.asked(before, row), row, reply, met, emits).possibilities
                    already = {_resting_on(each, deviation) for each in before for deviation in answers}
                    before = self.closed(already | acted) if answers else frozenset()
                case "":
                    asked = self.asked(before, row)
                    kept = replace(self._replied(asked, row, reply, met, emits), passed=bits(asked))
                    before = self.closed(kept.possibilities)
                case _:
                    kept = self._replied(before, row, reply, met, emits)
                    before = self.closed(kept.possibilities)
        elif row >= 0:
            kept = self._happened(before, row, emits, phase)
            before = self.closed(kept.possibilities)
        if shows:
            before = self.closed(each for each in before if self.table.shows[each.state] == shows)
        return replace(kept, possibilities=before)

    def row(self, event: str) -> int:
        """The row of the event that a trace calls *event*; -1 if the machine has none."""
        return self.names.get(event, -1)

    def calls(self, row: int) -> bool:
        """Whether *row* is that of a call."""
        return row >= 0 and self.table.rows[row].event.kind == "call"

    def understood(self, met: str) -> str:
        """*met*, unless it is a state that this machine never shows: then the reply says nothing of its states."""
        return met if met in self.table.shows else ""

    def asked(self, before: Possibilities, row: int) -> Possibilities:
        """*before* with one more call of *row* in progress."""
        return self.closed(
            each._replace(pending=plus(each.pending, Pending(row, ASKED, 1 << each.state))) for each in before
        )

    def waits(self, before: Iterable[Possibility], row: int) -> bool:
        """Whether a call of *row* is in progress whose reply somebody waits for."""
        return any(call.row == row and call.stage > LOST for each in before for call in each.pending)

    def unasked(self, before: Possibilities, seen: Key) -> bool:
        """Whether *seen* ends a call for which nobody waits: its request was not seen."""
        row = self.row(seen[0])
        return seen[1] in {"reply", "lost"} and self.calls(row) and not self.waits(before, row)

    def _replied(self, before: Possibilities, row: int, reply: str, met: str, emits: tuple[str, ...] | None) -> Kept:
        kept: set[Possibility] = set()
        cells: set[frozenset[tuple[int, int]]] = set()
        unspecified = True
        for each in before:
            for index, call in enumerate(each.pending):
                if call.row != row or (index and call == each.pending[index - 1]):
                    continue
                fit = self._fits(call, reply, met, emits)
                if fit is None:
                    continue
                left = each._replace(pending=each.pending[:index] + each.pending[index + 1 :])
                kept.update(_resting_on(left, deviation) for deviation in fit.deviations)
                cells.add(fit.cells)
                unspecified = unspecified and fit.unspecified
        certain = frozenset.intersection(*cells) if cells else frozenset()
        return Kept(possibilities=frozenset(kept), cells=certain, unspecified=unspecified and bool(kept))

    def _fits(self, call: Pending, reply: str, met: str, emits: tuple[str, ...] | None) -> _Fit | None:
        """How *call* may have ended with *reply*; ``None`` if it may not."""
        table = self.table
        indefinite = self.indefinite(reply)
        states = [state for state in numbers(call.met) if not met or table.shows[state] == met]
        if call.stage >= 0:
            way = table.ways[call.stage]
            fits = (indefinite or way.replies(reply)) and (emits is None or emits == way.emits)
            cells = frozenset({(call.row, state) for state in states} | {table.origin[call.stage]})
            return _Fit(cells=cells) if fits and states else None
        if call.stage == FREE:
            return _Fit(unspecified=True) if states else None
        if call.stage != ASKED:
            return None
        if indefinite and states and not emits:
            return _Fit()
        where = []
        silent = []
        deviations: list[str] = []
        for state in states:
            for way in table.step(state, call.row) or ():
                still = way.to == state and not way.begins
                if still and (indefinite or way.replies(reply)) and (emits is None or emits == way.emits):
                    where.append(state)
                    deviations.append(way.deviation.name if way.deviation else "")
            if self.silence and table.step(state, call.row) is None:
                silent.append(state)
        if not where:
            return _Fit(unspecified=True) if silent else None
        cells = frozenset((call.row, state) for state in [*where, *silent])
        needed = ("",) if "" in deviations else tuple(dict.fromkeys(deviations))
        return _Fit(cells=cells if len(cells) == 1 else frozenset(), deviations=needed)

    def indefinite(self, reply: str) -> bool:
        """Whether *reply* leaves open what the call did, or nobody knows it."""
        return not reply or reply in self.table.machine.indefinite

    def _lost(self, before: Possibilities, row: int) -> Possibilities:
        """The caller of *row* gave up: it may have acted, or act yet."""
        kept = set()
        for each in self.closed(before):
            if not self.waits([each], row):
                kept.add(each)  # an interruption has ended the call already
            for index, call in enumerate(each.pending):
                if call.row != row or call.stage <= LOST:
                    continue
                others = each.pending[:index] + each.pending[index + 1 :]
                if call.stage == BEGUN or (call.stage == ASKED and self.moves(row)):
                    others = late(others, row, LOST if call.stage == ASKED else LOST_BEGUN)
                kept.add(each._replace(pending=others))
        return self.closed(kept)

    def moves(self, row: int) -> bool:
        """Whether an event of *row* can change the state, anywhere."""
        cells = ((state, self.table.step(state, row)) for state in range(len(self.table.states)))
        return any(ways is None or any(way.to != state or way.begins for way in ways) for state, ways in cells)

    def _happened(self, before: Possibilities, row: int, emits: tuple[str, ...] | None, phase: str) -> Kept:
        kept: set[Possibility] = set()
        states: set[int] = set()
        specified: set[int] = set()
        event = self.table.rows[row].event
        for each in before:
            ways = self.table.step(each.state, row)
            pending = () if event.interrupts else each.pending
            if phase == "maybe" or (phase == "noticed" and ways != ()):
                kept.add(each)
            if ways is None:
                kept.update(self._anywhere(each, pending))
                states.add(each.state)
                continue
            for way in ways:
                if emits is None or emits == way.emits:
                    # What came with the event was seen with it: nothing waits in the queue.
                    kept.add(self._went(each, way, pending)._replace(queue=each.queue))
                    specified.add(each.state)
        states |= specified
        cells = frozenset((row, state) for state in states) if len(states) == 1 and not phase else frozenset()
        return Kept(possibilities=frozenset(kept), cells=cells, unspecified=bool(kept) and not specified)

    def after(self, before: Possibilities, seen: Key) -> Possibilities:
        """What is left when *seen* is seen, the request of a reply taken as seen with it.

        Nothing where that is too much to try.
        """

        def left() -> Possibilities:
            start = self.asked(before, self.row(seen[0])) if self.unasked(before, seen) else before
            return self.observed(start, seen).possibilities

        return tried(left)

    def allows(self, before: Possibilities, seen: Key) -> bool:
        """Whether *seen* is legal after *before*."""
        return bool(self.after(before, seen))

    def _answers(self, states: Iterable[int], seen: Key) -> tuple[str, ...]:
        """The deviations of one of which the reply of *seen* needs that a call which met one of *states* gave.

        The empty one is none.  Nothing if there can be no such reply.
        """
        row, reply, met = self.row(seen[0]), seen[2], self.understood(seen[4])
        found: set[str] = set()
        for state in states:
            if met and self.table.shows[state] != met:
                continue
            ways = finals(self.table, state, row, displaced=True)
            if ways is None or self.indefinite(reply):
                return ("",)
            found |= {way.deviation.name if way.deviation else "" for way in ways if way.replies(reply)}
        return ("",) if "" in found else tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The cells that a reply certainly rests on, the deviations of which it needs one, whether only silence allows it.

    The empty deviation is none.
    """

    cells: frozenset[tuple[int, int]] = frozenset()
    deviations: tuple[str, ...] = ("",)
    unspecified: bool = False


def _resting_on(each: Possibility, deviation: str) -> Possibility:
    """*each*, which rests on *deviation* too, unless that is none."""
    return each._replace(deviations=tuple(sorted({*each.deviations, deviation}))) if deviation else each
