"""Run columns of observations through a monitor's beliefs with compiled code.

Beliefs and kinds of observation are numbered, and a table maps each belief and kind to the next belief.  The table is
filled lazily, as in RE2.  If a step is missing, the monitor takes it.  The step is then added to the table if all it
does is lead to another belief.  The entities known to compiled code are kept here.  An entity is lent to the monitor
for an observation that compiled code cannot process.  All entities are given back at a gap that concerns all of them.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Codes
from fsm.monitor.beliefs import Belief, Life
from fsm.monitor.fresh_ids import FreshIds
from fsm.monitor.running import (
    ALIVE,
    BORN,
    ENTITIES,
    FREE,
    FULL,
    HIGH,
    NEW,
    NONE,
    OBSERVED,
    RESTING,
    SKIPPED,
    SLOWLY,
    TEXT,
    USED,
    KindRows,
    SlotStore,
    move,
    remove,
    rest,
    run,
    slot_of,
    slots_for,
    steps_for,
    store_for,
    widened,
)
from fsm.monitor.time_limits import Start
from fsm.trace import LATEST, Batch, Columns, Key, Line, Observation, key

CELLS: Final = 1 << 22
"""Maximum number of table entries.  A larger table is discarded."""

FIRST: Final = 1 << 12
"""Initial number of entity slots, of 64 bytes each."""

_LENT: Final = -1
"""Stored in place of a belief: the monitor has the entity.  If it must be lent next, ``-2 - belief`` is stored."""


class BeliefAutomaton:
    """Runs the observations of one monitor through compiled code, taking over the entities *alive* and *resting*.

    Entities of kinds other than *of* are skipped.  Lines without a file belong to *file*.  ``slow(observation)``
    returns whether the monitor must process observations of this kind.  ``leads(key)`` returns whether this kind of
    observation may move an entity or show its state.  ``limit(belief)`` returns the number of seconds after which some
    state of the belief must be left, or ``None`` if no time limit is running.  ``apart(entity)`` returns whether the
    monitor must keep this entity for now.  *ids* holds the ids given so far.  Compiled code processes an observation
    that gives an id only if the id is certainly fresh.  *most* is the maximum number of entities at rest to remember.
    """

    def __init__(
        self,
        alive: dict[str, Life],
        resting: OrderedDict[str, Belief],
        *,
        of: str,
        file: str,
        slow: Callable[[Observation], bool],
        leads: Callable[[Key], bool],
        limit: Callable[[Belief], int | None],
        ids: FreshIds,
        apart: Callable[[str], bool],
        most: int,
    ) -> None:
        self._alive, self._resting, self._most = alive, resting, most
        self._of, self._slow, self._leads, self._ids, self._apart = {of, ""}, slow, leads, ids, apart
        self._limit, self._file = limit, file
        self._waited, self._patience = 0, 0
        self._known: Sequence[Observation] | None = None
        self._lent: dict[str, Belief] = {}
        self._base = 0
        self.active = False
        self._begin()

    def _begin(self) -> None:
        self._beliefs: list[Belief] = []
        self._belief_numbers: dict[Belief, int] = {}
        self._kinds: list[Key] = []
        self._kind_numbers: dict[Key, int] = {}
        self._translated, self._giving = list[int](), list[bool]()
        self._lines: dict[int, int | Line] = {}
        self._table = steps_for(8, 8)
        self._slots = slots_for(FIRST)
        self._store = store_for(FIRST, FIRST * 64, self._most)

    def feed(
        self,
        batch: Batch,
        columns: Columns,
        slowly: Callable[[Observation, int | Line], None],
        *,
        unseen: Belief,
    ) -> int:
        """Process *batch* and return the number of observations consumed.

        This is less than all of them if all entities went back to the monitor.  *slowly* processes the observations
        that compiled code cannot.  *unseen* is the belief about an entity that has not been seen before.
        """
        if not self.active and not self._take_over():
            self._waited += len(batch.lines)
            return 0
        kind = np.array(columns.kind, np.int32)
        rows = self._rows(columns, kind)
        fresh = self._fresh(columns, kind)
        at = 0
        while True:
            first = at
            at = int(run(rows, at, self._base, self._number(unseen), self._most, self._table, self._slots, self._store))
            began = (np.flatnonzero(rows.began[first:at] >= 0) + first).tolist()
            self._lines.update((int(rows.began[row]), Line.of(batch.lines[row], self._file)) for row in began)
            if at == len(batch.lines):
                break
            if self._store.counts[FULL]:
                self._more_room(int(rows.ends[rows.entity[at]] - rows.starts[rows.entity[at]]))
                continue
            seen, line = batch.observations[at], batch.lines[at]
            at += 1
            if seen.of not in self._of:
                continue
            self._give(fresh, at - 1)
            if fresh and self._ids.gives(seen) and (later := fresh.pop(seen.entity, None)) is not None:
                kind[later] = NONE
            self._lent = {seen.entity: self._lend(seen.entity) or unseen} if seen.entity else {}
            slowly(seen, line)
            if not self.active:
                return at
            for each, before in self._lent.items():
                self._take_back(each)
                self._learn(before, key(seen))
            if len(self._table.taken) * len(self._table.asks) > CELLS:
                self.give_back()
                self._patience = max(2 * self._patience, CELLS)
                return at
        self._give(fresh, at)
        self._base += len(rows.slots)
        return at

    def _count(self) -> None:
        taken = self._table.taken
        for belief, kind in np.argwhere(taken):
            self._beliefs[belief].next[self._kinds[kind]].taken += int(taken[belief, kind])
        taken[:] = 0

    def counted(self) -> tuple[int, int]:
        """Return the numbers of observations and entities met since the last call.  Also update the step counts."""
        self._count()
        counts = self._store.counts
        found = int(counts[OBSERVED]), int(counts[ENTITIES])
        counts[OBSERVED] = counts[ENTITIES] = 0
        return found

    def give_back(self) -> None:
        """Return all entities to the monitor."""
        if not self.active:
            return
        self._count()
        self._lend_alive(self._living())
        last = dict(self._resting)
        self._resting.clear()
        place = self._slots["place"]
        resting = sorted((int(place[each]), int(each)) for each in self._used() if place[each] >= 0)
        self._resting.update((self._id(slot), self._belief(slot)) for _, slot in resting)
        self._resting.update(last)
        self.active = False
        self._waited = 0

    def _take_over(self) -> bool:
        """Take all entities from the monitor once it has processed enough observations to justify the cost."""
        if self._waited < max(len(self._alive) + len(self._resting), self._patience):
            return False
        self._begin()
        self.active = True
        for entity in (*self._resting, *self._alive):
            self._take_back(entity)
        return True

    def _fresh(self, columns: Columns, kinds: Codes) -> OrderedDict[str, int]:
        """Map each certainly fresh id to the row that gives it.

        Other rows that give ids are set to ``NONE`` in *kinds*, so that the monitor processes them.
        """
        giving = np.array([*self._giving, False])
        rows = np.flatnonzero(giving[kinds]) if giving.any() else np.zeros(0, np.int64)
        text = columns.text.tobytes() if len(rows) else b""
        found: OrderedDict[str, int] = OrderedDict()
        for row, own in zip(rows.tolist(), columns.entity[rows].tolist(), strict=True):
            identity = text[columns.starts[own] : columns.ends[own]].decode(errors="replace")
            if self._ids.known(identity) or found.setdefault(identity, row) != row:
                kinds[row] = NONE
        return found

    def _give(self, fresh: OrderedDict[str, int], end: int) -> None:
        while fresh and next(iter(fresh.values())) < end:
            self._ids.give(fresh.popitem(last=False)[0])

    def _rows(self, columns: Columns, kinds: Codes) -> KindRows:
        """Return *columns* for compiled code, with a translation from *kinds* to the numbers used here."""
        if self._known is not columns.kinds:
            self._known, self._translated, self._giving = columns.kinds, [], []
        for kind in columns.kinds[len(self._translated) :]:
            number = SKIPPED if kind.of not in self._of else SLOWLY if self._slow(kind) else self._kind(key(kind))
            self._translated.append(number)
            self._giving.append(number >= 0 and self._ids.gives(kind))
        return KindRows(
            _given(kinds, np.int32),
            _given(columns.entity, np.int32),
            _given(columns.text, np.uint8),
            _given(columns.starts, np.int64),
            _given(columns.ends, np.int64),
            _given(np.array([*self._translated, SLOWLY]), np.int32),
            np.full(len(columns.starts), NONE, np.int32),
            _given(columns.at, np.int64),
            np.full(len(kinds), NONE, np.int32),
        )

    def _kind(self, kind: Key) -> int:
        number = self._kind_numbers.setdefault(kind, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(kind)
            if number == len(self._table.asks):
                self._table = widened(self._table, len(self._table.rests), 2 * number)
            self._table.asks[number] = kind.phase == "request"
            self._table.leads[number] = self._leads(kind)
        return number

    def _number(self, belief: Belief) -> int:
        number = self._belief_numbers.setdefault(belief, len(self._beliefs))
        if number == len(self._beliefs):
            self._beliefs.append(belief)
            if number == len(self._table.rests):
                self._table = widened(self._table, 2 * number, len(self._table.asks))
            self._table.rests[number], self._table.timed[number] = belief.rests, belief.timed
            limit = self._limit(belief)
            self._table.limits[number] = NONE if limit is None else min(limit * 1_000_000_000, LATEST)
        return number

    def _learn(self, before: Belief, seen: Key) -> None:
        """Add the step from *before* for *seen* to the table if all it does is lead to another belief."""
        step, kind = before.next.get(seen), self._kind_numbers.get(seen)
        if step is None or kind is None or step.note or step.tolerated or step.explained:
            return
        if step.starts in {(), (0,)} or (not step.starts[1:] and self._limit(before) is None):
            start, end = self._number(before), self._number(step.to)  # first, as each call may replace the table
            self._table.to[start, kind] = end

    def _lend(self, entity: str) -> Belief | None:
        """Lend *entity* to the monitor and return the belief about it, or ``None`` if the entity is unknown here."""
        slot = self._slot(entity) if entity else NONE
        if slot < 0 or self._slots[slot]["place"] == NEW:
            return None
        if self._slots[slot]["belief"] == _LENT:
            return self._alive[entity].belief
        belief = self._belief(slot)
        if self._slots[slot]["place"] == ALIVE:
            self._alive[entity] = self._life(slot)
        else:
            self._resting[entity] = belief
            self._store.counts[RESTING] -= 1
            self._slots[slot]["place"] = NEW
        self._slots[slot]["belief"] = _LENT
        return belief

    def happens(self, seen: Observation) -> None:
        """Apply *seen*, which concerns all entities, to the live ones whose step is known.  Lend the others."""
        if not self.active:
            return
        kind, alive, slots = self._kind(key(seen)), self._living(), self._slots
        before = slots["belief"][alive]
        to, timed = np.where(before < 0, NONE, self._table.to[before, kind]), self._table.timed
        known = (to >= 0) & ~(self._table.rests[to] | timed[before] | timed[to]) & (self._table.limits[to] < 0)
        np.add.at(self._table.taken, (before[known], kind), 1)
        slots["belief"][alive[known]], slots["since"][alive[known]] = to[known], NONE
        if not self._table.asks[kind]:
            slots["last"][alive[known]] = kind
        if self._table.leads[kind]:
            slots["led"][alive[known]] = kind
        self._lend_alive(alive[~known])
        self._lent = {entity: life.belief for entity, life in self._alive.items()}

    def _lend_alive(self, slots: NDArray[np.int32]) -> None:
        """Lend the live entities in *slots* to the monitor, in order."""
        lives: dict[str, Life] = {}
        for slot in slots.tolist():
            entity = self._id(slot)
            if self._slots[slot]["belief"] != _LENT:
                lives[entity] = self._life(slot)
                self._slots[slot]["belief"] = _LENT
            elif entity in self._alive:
                lives[entity] = self._alive.pop(entity)
        lives |= self._alive
        self._alive.clear()
        self._alive.update(lives)

    def _living(self) -> NDArray[np.int32]:
        used = self._used()
        alive = used[self._slots["place"][used] == ALIVE]
        return np.asarray(alive[np.argsort(self._slots["born"][alive])], np.int32)

    def _used(self) -> NDArray[np.int32]:
        buckets = self._store.buckets
        return buckets[buckets > 0] - 1

    def _take_back(self, entity: str) -> None:
        """Take *entity* back with the monitor's belief about it, or mark it as lent if the monitor must keep it."""
        life, belief = self._alive.get(entity), self._resting.pop(entity, None)
        slot = self._slot(entity, enter=life is not None or belief is not None)
        if belief is not None:
            self._slots[slot]["belief"] = -2 - self._number(belief) if self._apart(entity) else self._number(belief)
            rest(slot, self._most, self._slots, self._store)
        elif life is not None:
            if self._slots[slot]["place"] != ALIVE:
                counts = self._store.counts
                self._slots[slot]["place"], self._slots[slot]["born"] = ALIVE, counts[BORN]
                counts[BORN] += 1
            if not life.plain() or self._apart(entity):
                self._slots[slot]["belief"] = _LENT
                return
            self._slots[slot]["belief"] = self._number(life.belief)
            (since, line) = life.starts[0] if life.starts else (None, 0)
            self._slots[slot]["since"], self._lines[slot] = NONE if since is None else since, line
            self._slots[slot]["last"] = self._last(life.last)
            self._slots[slot]["led"] = self._last(life.led)
            del self._alive[entity]
        elif slot >= 0:
            remove(slot, self._slots, self._store)

    def _last(self, seen: Observation | None) -> int:
        return NONE if seen is None else self._kind(key(seen))

    def _life(self, slot: int) -> Life:
        # Only the kinds of the last observations matter, so the other details are not restored.
        kinds = (int(self._slots[slot][each]) for each in ("last", "led"))
        last, led = (None if kind < 0 else Observation(**self._kinds[kind]._asdict()) for kind in kinds)
        since, belief = int(self._slots[slot]["since"]), self._belief(slot)
        start = Start(None if since < 0 else since, self._lines.get(slot, 0))
        return Life(belief=belief, last=last, led=led, starts=() if self._limit(belief) is None else (start,))

    def _belief(self, slot: int) -> Belief:
        number = int(self._slots[slot]["belief"])
        return self._beliefs[number if number >= 0 else -2 - number]

    def _id(self, slot: int) -> str:
        begins = self._slots[slot]["begins"]
        return bytes(self._store.ids[begins : begins + self._slots[slot]["length"]]).decode()

    def _slot(self, entity: str, *, enter: bool = False) -> int:
        text = np.frombuffer(entity.encode(), np.uint8)
        slot = slot_of(text, self._slots, self._store, enter=enter)
        while slot < 0 and enter:
            self._more_room(len(text))
            slot = slot_of(text, self._slots, self._store, enter=enter)
        return int(slot)

    def _more_room(self, text: int) -> None:
        counts, before = self._store.counts, self._store
        counts[FULL] = 0
        size = len(self._slots)
        if counts[FREE] == 0 and counts[HIGH] == size:
            slots, size = self._slots, 2 * size
            self._slots = slots_for(size)
            self._slots[: len(slots)] = slots
        room = len(before.ids)
        if counts[USED] + text > room and 2 * (counts[TEXT] + text) > room:
            room = 4 * (room + text)
        self._store = SlotStore(
            np.zeros(2 * size, np.int32),
            np.zeros(room, np.uint8),
            before.queue,
            np.concatenate([before.free, np.zeros(size - len(before.free), np.int32)]),
            counts,
        )
        move(self._slots, before, self._store)


def _given(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Return a contiguous, read-only view of *array*, so that functions are compiled for a single argument type."""
    given = np.ascontiguousarray(array, kind).view()
    given.flags.writeable = False
    return given
