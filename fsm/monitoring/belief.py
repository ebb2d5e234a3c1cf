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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsm.table import Table, Way
    from fsm.trace import Key

LIMIT = 20_000
"""Possibilities of one entity; beyond it the search gives up and says so."""

ASKED: Final = -1
"""The request was seen; the call has not acted."""
BEGUN: Final = -2
"""The call is in a state that others may meet."""
FREE: Final = -3
"""The call has ended in a way of which the specification says nothing."""
LOST: Final = -4
"""Nobody waits for the reply; the call may act at any time, or never."""
LOST_BEGUN: Final = -5
"""As lost, and in a state that others may meet."""


class Pending(NamedTuple):
    """A call in progress: its row, how far it is (or the way it ended), the states it may have met.

    ``met`` is a set of states, as bits: for a call that was asked, those the
    entity has been in since; for one that has acted, the one it acted in.
    """

    row: int
    stage: int
    met: int


class Possibility(NamedTuple):
    """One way things may stand for an entity.

    ``queue`` holds outputs that were emitted and not seen yet, ``deviations``
    the declared deviations that this possibility rests on.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


Possibilities: TypeAlias = frozenset[Possibility]


class TooManyError(Exception):
    """The possibilities outgrew :data:`LIMIT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What an observation leaves: possibilities, and the (row, state) pairs it certainly rests on."""

    possibilities: Possibilities
    cells: frozenset[tuple[int, int]] = frozenset()


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

    def everything(self) -> Possibilities:
        """Nothing is known."""
        return self.closed(Possibility(state) for state in range(len(self.table.states)))

    def beginning(self) -> Possibilities:
        """The entity is known to be in the machine's initial state."""
        return self.closed([Possibility(self.table.initial)])

    # -- what nobody sees --------------------------------------------------

    def closed(self, possibilities: Iterable[Possibility]) -> Possibilities:
        """*possibilities*, and all that may come of them unseen; those that know less left out."""
        found = _Best()
        todo = [each for each in possibilities if found.add(each)]
        while todo:
            todo += [each for each in self._unseen(todo.pop()) if found.add(each)]
            if found.size > LIMIT:
                raise TooManyError
        return found.all()

    def _unseen(self, here: Possibility) -> Iterator[Possibility]:
        for index, call in enumerate(here.pending):
            if index and call == here.pending[index - 1]:
                continue
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
                    after = _with(pending, Pending(row, LOST_BEGUN, 0)) if way.begins else pending
                    yield self._went(here, way, after)

    def _acts(self, here: Possibility, call: Pending, others: tuple[Pending, ...]) -> Iterator[Possibility]:
        """The next instant of *call* that moves the entity: it begins, goes on, or ends."""
        if call.stage in {ASKED, LOST}:
            ways = self.table.step(here.state, call.row)
            met = 1 << here.state
        elif call.stage in {BEGUN, LOST_BEGUN}:
            ways = self.table.step(here.state, self.table.end[call.row])
            met = call.met
            if ways == ():
                # Another event took the entity out of the state that the call
                # had moved it to: nothing is specified of how the call ends.
                yield here._replace(pending=_with(others, Pending(call.row, FREE, met)) if call.stage == BEGUN else others)
        else:
            return
        kept = _with(others, call) if call.stage == LOST else others
        lost = call.stage in {LOST, LOST_BEGUN}
        if ways is None:
            yield from self._anywhere(here, kept if lost else _with(others, Pending(call.row, FREE, met)))
            return
        for way in ways:
            if (way.emits and here.queue) or (way.to == here.state and call.stage in {ASKED, LOST}):
                continue
            if way.begins:
                after = _with(kept, Pending(call.row, LOST_BEGUN if lost else BEGUN, met))
            elif lost:
                after = kept
            else:
                after = _with(others, Pending(call.row, way.index, met))
            yield self._went(here, way, after)

    def _anywhere(self, here: Possibility, pending: tuple[Pending, ...]) -> Iterator[Possibility]:
        """The specification is silent: the entity may be in any state."""
        if not self.silence:
            return
        for state in range(len(self.table.states)):
            yield here._replace(state=state, pending=_passing(pending, state))

    def _went(self, here: Possibility, way: Way, pending: tuple[Pending, ...]) -> Possibility:
        deviations = here.deviations
        if way.deviation is not None:
            deviations = tuple(sorted({*deviations, way.deviation.name}))
        queue = here.queue + way.emits if self.outputs else here.queue
        return Possibility(way.to, _passing(pending, way.to), queue, deviations)

    # -- what somebody sees ------------------------------------------------

    def observed(self, before: Possibilities, seen: Key) -> Kept:
        """What is left of *before*, which is closed, when *seen* is seen; closed again.

        Nothing is left if no possibility explains it.
        """
        event, phase, reply, shows, met, output, emits = seen
        row = self.names.get(event, -1)
        cells: frozenset[tuple[int, int]] = frozenset()
        if output:
            before = self.closed(each._replace(queue=each.queue[1:]) for each in before if each.queue[:1] == (output,))
        elif row >= 0 and self.table.rows[row].event.kind == "call":
            match phase:
                case "request":
                    before = self.closed(self.requested(before, row))
                case "lost":
                    before = self._lost(before, row)
                case _:
                    if phase == "":
                        before = self.closed(self.requested(before, row))
                    kept = self._replied(before, row, reply, met, emits)
                    before, cells = self.closed(kept.possibilities), kept.cells
        elif row >= 0:
            kept = self._happened(before, row, emits, phase)
            before, cells = self.closed(kept.possibilities), kept.cells
        if shows:
            before = self.closed(each for each in before if self.table.shows[each.state] == shows)
        return Kept(possibilities=before, cells=cells)

    def requested(self, before: Possibilities, row: int) -> Possibilities:
        """*before* with one more call of *row* in progress; not closed."""
        return frozenset(
            each._replace(pending=_with(each.pending, Pending(row, ASKED, 1 << each.state))) for each in before
        )

    def waits(self, before: Iterable[Possibility], row: int) -> bool:
        """Whether a call of *row* is in progress whose reply somebody waits for."""
        return any(call.row == row and call.stage > LOST for each in before for call in each.pending)

    def _replied(
        self, before: Possibilities, row: int, reply: str, met: str, emits: tuple[str, ...] | None
    ) -> Kept:
        kept: set[Possibility] = set()
        cells: set[frozenset[tuple[int, int]]] = set()
        for each in before:
            for index, call in enumerate(each.pending):
                if call.row != row or (index and call == each.pending[index - 1]):
                    continue
                fit = self._fits(call, reply, met, emits)
                if fit is None:
                    continue
                pending = each.pending[:index] + each.pending[index + 1 :]
                deviations = tuple(sorted({*each.deviations, *fit.deviations}))
                kept.add(each._replace(pending=pending, deviations=deviations))
                cells.add(fit.cells)
        certain = next(iter(cells)) if len(cells) == 1 else frozenset()
        return Kept(possibilities=frozenset(kept), cells=certain)

    def _fits(self, call: Pending, reply: str, met: str, emits: tuple[str, ...] | None) -> _Fit | None:
        """How *call* may have ended with *reply*; ``None`` if it may not."""
        table = self.table
        indefinite = not reply or reply in table.machine.indefinite
        states = [state for state in numbers(call.met) if not met or table.shows[state] == met]
        if call.stage >= 0:
            way = table.ways[call.stage]
            fits = (indefinite or way.replies(reply)) and (emits is None or emits == way.emits)
            cells = frozenset({(call.row, state) for state in states} | {table.origin[call.stage]})
            return _Fit(cells=cells) if fits and states else None
        if call.stage == FREE:
            return _Fit()
        if call.stage != ASKED:
            return None
        if indefinite:
            return _Fit()
        where = []
        deviations: list[str | None] = []
        for state in states:
            for way in table.step(state, call.row) or ():
                still = way.to == state and not way.begins
                if still and way.replies(reply) and (emits is None or emits == way.emits):
                    where.append(state)
                    deviations.append(way.deviation.name if way.deviation else None)
            if self.silence and table.step(state, call.row) is None:
                where.append(state)
                deviations.append(None)
        if not where:
            return None
        cells = frozenset((call.row, state) for state in where)
        needed = () if None in deviations else tuple(name for name in deviations[:1] if name)
        return _Fit(cells=cells if len(cells) == 1 else frozenset(), deviations=needed)

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
                if call.stage == BEGUN or (call.stage == ASKED and self._moves(row)):
                    stage = LOST if call.stage == ASKED else LOST_BEGUN
                    late = Pending(row, stage, 0 if stage == LOST else call.met)
                    others = others if late in others else _with(others, late)
                kept.add(each._replace(pending=others))
        return self.closed(kept)

    def _moves(self, row: int) -> bool:
        """Whether an event of *row* can change the state, anywhere."""
        cells = ((state, self.table.step(state, row)) for state in range(len(self.table.states)))
        return any(ways is None or any(way.to != state for way in ways) for state, ways in cells)

    def _happened(self, before: Possibilities, row: int, emits: tuple[str, ...] | None, phase: str) -> Kept:
        kept: set[Possibility] = set()
        states: set[int] = set()
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
                    states.add(each.state)
        cells = frozenset((row, state) for state in states) if len(states) == 1 and not phase else frozenset()
        return Kept(possibilities=frozenset(kept), cells=cells)

    def after(self, before: Possibilities, seen: Key) -> Possibilities:
        """What is left when *seen* is seen, the request of a reply taken as seen with it."""
        row = self.names.get(seen[0], -1)
        if seen[1] == "reply" and row >= 0 and not self.waits(before, row):
            before = self.closed(self.requested(before, row))
        return self.observed(before, seen).possibilities

    def allows(self, before: Possibilities, seen: Key) -> bool:
        """Whether *seen* is legal after *before*."""
        return bool(self.after(before, seen))

    def answers(self, states: Iterable[int], seen: Key) -> bool:
        """Whether a call that met one of *states* may have the reply of *seen*."""
        row, reply, met = self.names[seen[0]], seen[2], seen[4]
        return reply in self.table.machine.indefinite or any(
            ways is None or any(reply in found or ("error" in found and reply != "ok") for found in ways)
            for ways in (self.replies(state, row) for state in states if not met or self.table.shows[state] == met)
        )

    def replies(self, state: int, row: int) -> tuple[tuple[str, ...], ...] | None:
        """The replies that a call of *row* which meets *state* may have, its ends included; ``None``: any."""
        found = []
        todo, done = [(state, row)], set()
        while todo:
            here = todo.pop()
            if here in done:
                continue
            done.add(here)
            ways = self.table.step(*here)
            if ways is None:
                return None
            for way in ways:
                if way.begins:
                    todo.append((way.to, self.table.end[row]))
                else:
                    found.append(way.reply)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The cells that a reply certainly rests on, and the deviations it needs."""

    cells: frozenset[tuple[int, int]] = frozenset()
    deviations: tuple[str, ...] = ()


class _Best:
    """Possibilities, without those that another one of them covers.

    One covers another if the two differ only in that its calls may have met
    more states: whatever is legal after the other is legal after it.
    """

    def __init__(self) -> None:
        self._met: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
        self._whole: dict[tuple[object, ...], list[Possibility]] = {}
        self.size = 0

    def add(self, new: Possibility) -> bool:
        """Take *new*; whether it says anything that was not known."""
        shape = (new.state, tuple((call.row, call.stage) for call in new.pending), new.queue, new.deviations)
        met = tuple(call.met for call in new.pending)
        known = self._met.setdefault(shape, [])
        if any(_covers(other, met) for other in known):
            return False
        left = [index for index, other in enumerate(known) if not _covers(met, other)]
        whole = self._whole.setdefault(shape, [])
        self.size += 1 + len(left) - len(known)
        self._met[shape] = [*(known[index] for index in left), met]
        self._whole[shape] = [*(whole[index] for index in left), new]
        return True

    def all(self) -> Possibilities:
        """What is left."""
        return frozenset(each for whole in self._whole.values() for each in whole)


def _covers(more: tuple[int, ...], less: tuple[int, ...]) -> bool:
    return all(one | other == one for one, other in zip(more, less, strict=True))


def _with(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """*calls*, a sorted bag, with *call* in it."""
    return tuple(sorted((*calls, call)))


def _passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """*calls* once the entity has come to *state*: those not acted yet may meet it."""
    if not calls:
        return calls
    bit = 1 << state
    return tuple(sorted(call._replace(met=call.met | bit) if call.stage == ASKED else call for call in calls))


def numbers(bits: int) -> list[int]:
    """The numbers in a set of bits.

    >>> numbers(0b101)
    [0, 2]
    """
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
