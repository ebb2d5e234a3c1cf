"""What may be true of one entity: every state it could be in, given what was seen.

A *belief* is a set of possibilities.  A possibility is a state together with
the calls in progress: asked, begun, or ended with a reply nobody has seen yet.
Between two observations anything may happen that nobody sees: pending calls
act, and so do the events that this trace does not show.  An observation keeps
the possibilities that explain it.

Two calls whose intervals overlap are thereby tried in every order that is
consistent with time (linearizability: Herlihy and Wing, 1990), and the search
is the subset construction of automata theory (Rabin and Scott, 1959), done
lazily: beliefs are interned, each remembers where each observation leads, so
a long trace costs one look-up an observation.
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
    """A call in progress: its row, how far it is (or the way it ended), the state it met."""

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
    """What an observation leaves: possibilities, and the (row, state) pairs that explain it."""

    possibilities: Possibilities
    cells: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamics:
    """How beliefs move: a table, and what the trace does not show.

    ``unseen`` are the rows of events that may happen without an observation;
    ``outputs`` says that the trace shows outputs on their own.
    """

    table: Table
    unseen: tuple[int, ...]
    outputs: bool = False
    names: dict[str, int] = field(default_factory=dict)

    def everything(self) -> Possibilities:
        """Nothing is known."""
        return self.closed(Possibility(state) for state in range(len(self.table.states)))

    def beginning(self) -> Possibilities:
        """The entity is known to be in the machine's initial state."""
        return self.closed([Possibility(self.table.initial)])

    # -- what nobody sees --------------------------------------------------

    def closed(self, possibilities: Iterable[Possibility]) -> Possibilities:
        """*possibilities*, and all that may come of them unseen."""
        found = set(possibilities)
        todo = list(found)
        while todo:
            for successor in self._unseen(todo.pop()):
                if successor not in found:
                    found.add(successor)
                    todo.append(successor)
            if len(found) > LIMIT:
                raise TooManyError
        return frozenset(found)

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
                yield from (here._replace(state=state) for state in range(len(self.table.states)))
                continue
            for way in ways:
                if not (way.emits and here.queue):
                    after = _with(pending, Pending(row, LOST_BEGUN, here.state)) if way.begins else pending
                    yield self._went(here, way, after)

    def _acts(self, here: Possibility, call: Pending, others: tuple[Pending, ...]) -> Iterator[Possibility]:
        """The next instant of *call*: it begins, goes on, or ends."""
        if call.stage in {ASKED, LOST}:
            ways, met = self.table.step(here.state, call.row), here.state
        elif call.stage in {BEGUN, LOST_BEGUN}:
            ways, met = self.table.step(here.state, self.table.end[call.row]), call.met
            if ways == ():
                # Another event took the entity out of the state that the call
                # had moved it to: nothing is specified of how the call ends.
                after = _with(others, Pending(call.row, FREE, met)) if call.stage == BEGUN else others
                yield here._replace(pending=after)
        else:
            return
        kept = _with(others, call) if call.stage == LOST else others
        lost = call.stage in {LOST, LOST_BEGUN}
        if ways is None:
            pending = kept if lost else _with(others, Pending(call.row, FREE, met))
            for state in range(len(self.table.states)):
                yield here._replace(state=state, pending=pending)
            return
        for way in ways:
            if way.emits and here.queue:
                continue
            if way.begins:
                after = _with(kept, Pending(call.row, LOST_BEGUN if lost else BEGUN, met))
            elif lost:
                after = kept
            else:
                after = _with(others, Pending(call.row, way.index, met))
            yield self._went(here, way, after)

    def _went(self, here: Possibility, way: Way, pending: tuple[Pending, ...]) -> Possibility:
        deviations = here.deviations
        if way.deviation is not None:
            deviations = tuple(sorted({*deviations, way.deviation.name}))
        queue = here.queue + way.emits if self.outputs else here.queue
        return Possibility(way.to, pending, queue, deviations)

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
        return frozenset(each._replace(pending=_with(each.pending, Pending(row, ASKED, -1))) for each in before)

    def waits(self, before: Iterable[Possibility], row: int) -> bool:
        """Whether a call of *row* is in progress whose reply somebody waits for."""
        return any(call.row == row and call.stage > LOST for each in before for call in each.pending)

    def _replied(
        self, before: Possibilities, row: int, reply: str, met: str, emits: tuple[str, ...] | None
    ) -> Kept:
        table = self.table
        indefinite = not reply or reply in table.machine.indefinite
        kept, cells = set(), set()
        for each in before:
            for index, call in enumerate(each.pending):
                if call.row != row or (met and call.met >= 0 and table.shows[call.met] != met):
                    continue
                if call.stage >= 0:
                    way = table.ways[call.stage]
                    fits = (indefinite or way.replies(reply)) and (emits is None or emits == way.emits)
                else:
                    fits = call.stage == FREE or (call.stage == ASKED and indefinite)
                if fits:
                    kept.add(each._replace(pending=each.pending[:index] + each.pending[index + 1 :]))
                    cells.add((row, call.met if call.met >= 0 else each.state))
        return Kept(possibilities=frozenset(kept), cells=frozenset(cells))

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
                if call.stage in {ASKED, BEGUN}:
                    stage = LOST if call.stage == ASKED else LOST_BEGUN
                    late = Pending(row, stage, -1 if stage == LOST else call.met)
                    others = others if late in others else _with(others, late)
                kept.add(each._replace(pending=others))
        return self.closed(kept)

    def _happened(self, before: Possibilities, row: int, emits: tuple[str, ...] | None, phase: str) -> Kept:
        kept, cells = set(), set()
        event = self.table.rows[row].event
        for each in before:
            ways = self.table.step(each.state, row)
            pending = () if event.interrupts else each.pending
            if phase == "maybe" or (phase == "noticed" and ways != ()):
                kept.add(each)
            if ways is None:
                kept |= {each._replace(state=state, pending=pending) for state in range(len(self.table.states))}
                cells.add((row, each.state))
                continue
            for way in ways:
                if emits is None or emits == way.emits:
                    # What came with the event was seen with it: nothing waits in the queue.
                    kept.add(self._went(each, way, pending)._replace(queue=each.queue))
                    cells.add((row, each.state))
        return Kept(possibilities=frozenset(kept), cells=frozenset(cells))

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


def _with(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """*calls*, a sorted bag, with *call* in it."""
    return tuple(sorted((*calls, call)))
