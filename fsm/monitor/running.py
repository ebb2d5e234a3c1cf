"""The compiled part of a :class:`~fsm.monitor.automaton.BeliefAutomaton`: its entity store and its main loop."""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Bytes, Codes, Number, Numbers, alike, copied, hashed, lean, lean_inner

NONE: Final = -1
"""Stored where there is no number."""

ALIVE: Final = -1
NEW: Final = -2
"""Stored instead of a position among the entities at rest: the entity is alive, or has not been seen yet."""

SKIPPED: Final = -1
SLOWLY: Final = -2
"""Stored instead of the number of a kind: it concerns another machine, or the monitor must process it."""

USED, FREE, HIGH, HEAD, TAIL, RESTING, BORN, ENTITIES, OBSERVED, FULL, TEXT = range(11)
"""Indices into the counts of a store.

``USED`` is the number of bytes of ``ids`` in use.  ``FREE`` is the number of free slots below ``HIGH``, the first slot
never used.  The queue runs from ``HEAD`` to ``TAIL`` and has ``RESTING`` entities at rest.  ``BORN`` is the number of
lives begun.  ``ENTITIES`` and ``OBSERVED`` count the entities and observations met.  ``FULL`` is 1 if there was no
room.  ``TEXT`` is the number of bytes that the ids of the current entities need.
"""


class KindRows(NamedTuple):
    """The columns of a batch, and the slot of each id once it is known.

    ``numbers`` translates the kinds of the batch to those of the automaton.  Its last item is for rows without a kind.
    ``began`` has the slot of the entity in rows where a time limit starts to run, and -1 in all others.
    """

    kind: Codes
    entity: Codes
    text: Bytes
    starts: Numbers
    ends: Numbers
    numbers: Codes
    slots: Codes
    at: Numbers
    began: Codes


class StepTable(NamedTuple):
    """The next belief for each belief and kind, or -1 if unknown, and the number of times each step was taken.

    ``rests`` marks beliefs at rest.  ``timed`` marks beliefs with a state that has a time limit.  ``limits`` has the
    number of nanoseconds after which the first such state is overdue, or -1 if no time limit is running.  ``asks``
    marks kinds that are requests.  ``leads`` marks kinds that may move entities or show their state.
    """

    to: NDArray[np.int32]
    taken: NDArray[np.int64]
    rests: NDArray[np.bool_]
    timed: NDArray[np.bool_]
    limits: Numbers
    asks: NDArray[np.bool_]
    leads: NDArray[np.bool_]


EntitySlots: TypeAlias = NDArray[np.void]
"""An array of entity records, of dtype :data:`ENTITY`."""

ENTITY: Final = np.dtype(
    [
        *((name, np.int32) for name in ("belief", "last", "led", "length")),
        *((name, np.int64) for name in ("begins", "owner", "since", "place", "born")),
        ("hashed", np.uint64),
    ]
)
"""The record of an entity, which fills one cache line.

``belief`` is the number of the belief, or negative if compiled code may not use it.  ``since`` is when its time limit
began, or -1.  ``last`` is the last kind observed, and ``led`` is the last one that leads.  ``place`` is the position
among the entities at rest.  ``born`` orders entities by when they became alive.  ``owner`` is the number, counted over
all batches, of the id that was last looked up.  ``begins`` and ``length`` locate the text of the id in the store.
``hashed`` is its hash.
"""


class SlotStore(NamedTuple):
    """The ids of all entities, and the slots that have their records.

    ``buckets`` is a hash table of slot numbers plus 1, where 0 means empty.  ``ids`` holds the text of the ids.
    ``queue`` has the slots of entities at rest, and ``free`` the unused slots.
    """

    buckets: Codes
    ids: Bytes
    queue: Codes
    free: Codes
    counts: Numbers


def steps_for(beliefs: int, kinds: int) -> StepTable:
    """Return an empty table with room for *beliefs* beliefs and *kinds* kinds."""
    return StepTable(
        np.full((beliefs, kinds), NONE, np.int32),
        np.zeros((beliefs, kinds), np.int64),
        np.zeros(beliefs, np.bool_),
        np.zeros(beliefs, np.bool_),
        np.zeros(beliefs, np.int64),
        np.zeros(kinds, np.bool_),
        np.zeros(kinds, np.bool_),
    )


def widened(table: StepTable, beliefs: int, kinds: int) -> StepTable:
    """Return a copy of *table* with room for *beliefs* beliefs and *kinds* kinds."""
    wider = steps_for(beliefs, kinds)
    old = table.to.shape
    wider.to[: old[0], : old[1]], wider.taken[: old[0], : old[1]] = table.to, table.taken
    wider.rests[: old[0]], wider.timed[: old[0]], wider.limits[: old[0]] = table.rests, table.timed, table.limits
    wider.asks[: old[1]], wider.leads[: old[1]] = table.asks, table.leads
    return wider


def slots_for(size: int) -> EntitySlots:
    """Return *size* empty entity slots, each aligned to a cache line."""
    line = ENTITY.itemsize
    room = np.zeros(line * (size + 1), np.uint8)
    start = -room.ctypes.data % line
    return room[start : start + line * size].view(ENTITY)


def store_for(size: int, text: int, most: int) -> SlotStore:
    """Return an empty store for *size* entities, *text* bytes of ids, and at most *most* entities at rest."""
    return SlotStore(
        np.zeros(2 * size, np.int32),
        np.zeros(text, np.uint8),
        np.zeros(4 * most + 4, np.int32),
        np.zeros(size, np.int32),
        np.zeros(TEXT + 1, np.int64),
    )


@lean_inner
def found(text: Bytes, start: Number, end: Number, mixed: np.uint64, slots: EntitySlots, store: SlotStore) -> Number:
    """Return the slot of an id, or -1 if it has none."""
    last = np.uint64(store.buckets.shape[0] - 1)
    at = mixed & last
    while store.buckets[at]:
        slot = np.int64(store.buckets[at]) - 1
        if (
            slots[slot]["hashed"] == mixed
            and slots[slot]["length"] == end - start
            and alike(text, start, store.ids, slots[slot]["begins"], end - start)
        ):
            return slot
        at = (at + np.uint64(1)) & last
    return NONE


@lean_inner
def entered(text: Bytes, start: Number, end: Number, mixed: np.uint64, slots: EntitySlots, store: SlotStore) -> Number:
    """Give an id its first slot.  Return the slot, or -1 if there is no room."""
    counts, size = store.counts, end - start
    slot = np.int64(store.free[counts[FREE] - 1]) if counts[FREE] else counts[HIGH]
    fits = slot < slots.shape[0] and slots[slot]["length"] == size  # reuse the text of a removed id of the same length
    if slot == slots.shape[0] or (not fits and counts[USED] + size > store.ids.shape[0]):
        counts[FULL] = 1
        return NONE
    if counts[FREE]:
        counts[FREE] -= 1
    else:
        counts[HIGH] += 1
    if not fits:
        slots[slot]["begins"], slots[slot]["length"] = counts[USED], size
        counts[USED] += size
    copied(text, start, store.ids, slots[slot]["begins"], size)
    slots[slot]["hashed"] = mixed
    counts[TEXT] += size
    slots[slot]["place"], slots[slot]["owner"], slots[slot]["belief"] = NEW, NONE, NONE
    slots[slot]["last"] = slots[slot]["led"] = slots[slot]["since"] = NONE
    last = np.uint64(store.buckets.shape[0] - 1)
    at = mixed & last
    while store.buckets[at]:
        at = (at + np.uint64(1)) & last
    store.buckets[at] = slot + 1
    return slot


@lean_inner
def removed(slot: Number, slots: EntitySlots, store: SlotStore) -> None:
    """Forget the entity in *slot*."""
    last = np.uint64(store.buckets.shape[0] - 1)
    hole = slots[slot]["hashed"] & last
    while store.buckets[hole] != slot + 1:
        hole = (hole + np.uint64(1)) & last
    at = hole
    while True:  # backward-shift deletion: fill the hole with the next entry whose probe passes it
        store.buckets[hole] = 0
        at = (at + np.uint64(1)) & last
        while store.buckets[at] and (at - (slots[store.buckets[at] - 1]["hashed"] & last)) & last < (at - hole) & last:
            at = (at + np.uint64(1)) & last
        if not store.buckets[at]:
            break
        store.buckets[hole] = store.buckets[at]
        hole = at
    store.counts[TEXT] -= slots[slot]["length"]
    store.free[store.counts[FREE]] = slot
    store.counts[FREE] += 1
    slots[slot]["owner"], slots[slot]["place"], slots[slot]["belief"] = NONE, NEW, NONE


@lean_inner
def rested(slot: Number, most: Number, slots: EntitySlots, store: SlotStore) -> None:
    """Append the entity in *slot* to the queue of those at rest.  Forget the oldest beyond *most*."""
    queue, counts = store.queue, store.counts
    size = queue.shape[0]
    if counts[TAIL] - counts[HEAD] == size:  # compact: drop entities that have left the queue
        end = counts[HEAD]
        for at in range(counts[HEAD], counts[TAIL]):
            each = queue[at % size]
            if slots[each]["place"] == at:
                queue[end % size] = each
                slots[each]["place"] = end
                end += 1
        counts[TAIL] = end
    queue[counts[TAIL] % size] = slot
    slots[slot]["place"] = counts[TAIL]
    counts[TAIL] += 1
    counts[RESTING] += 1
    while counts[RESTING] > most:
        each = np.int64(queue[counts[HEAD] % size])
        if slots[each]["place"] == counts[HEAD]:
            removed(each, slots, store)
            counts[RESTING] -= 1
        counts[HEAD] += 1


@lean
def slot_of(text: Bytes, slots: EntitySlots, store: SlotStore, *, enter: bool) -> Number:
    """Return the slot of the id *text*, or -1 if it has none.  If *enter*, give it a slot if there is room."""
    mixed = hashed(text, 0, text.shape[0])
    slot = found(text, 0, text.shape[0], mixed, slots, store)
    return entered(text, 0, text.shape[0], mixed, slots, store) if slot < 0 and enter else slot


@lean
def rest(slot: Number, most: Number, slots: EntitySlots, store: SlotStore) -> None:
    """Call :func:`rested` from Python."""
    rested(slot, most, slots, store)


@lean
def remove(slot: Number, slots: EntitySlots, store: SlotStore) -> None:
    """Call :func:`removed` from Python."""
    removed(slot, slots, store)


@lean
def move(slots: EntitySlots, before: SlotStore, store: SlotStore) -> None:
    """Move all entities to *store*, which has more room than *before*, and drop ids that are no longer used."""
    last = np.uint64(store.buckets.shape[0] - 1)
    used = 0
    for at in range(before.buckets.shape[0]):
        if not before.buckets[at]:
            continue
        slot = np.int64(before.buckets[at]) - 1
        copied(before.ids, slots[slot]["begins"], store.ids, used, slots[slot]["length"])
        slots[slot]["begins"] = used
        used += slots[slot]["length"]
        to = slots[slot]["hashed"] & last
        while store.buckets[to]:
            to = (to + np.uint64(1)) & last
        store.buckets[to] = slot + 1
    store.counts[USED] = used
    for each in range(store.counts[FREE]):
        slots[store.free[each]]["length"] = 0


@lean_inner
def looked_up(
    rows: KindRows, entity: Number, base: Number, unseen: Number, slots: EntitySlots, store: SlotStore
) -> Number:
    """Return the slot of id number *entity* of the batch.  Give the id a slot if it is new.

    Return -1 if the id is empty, which stands for all entities, or if there is no room.
    """
    start, end = rows.starts[entity], rows.ends[entity]
    if start == end:
        return NONE
    mixed = hashed(rows.text, start, end)
    slot = np.int64(found(rows.text, start, end, mixed, slots, store))
    if slot < 0:
        slot = np.int64(entered(rows.text, start, end, mixed, slots, store))
        if slot >= 0:
            slots[slot]["belief"] = unseen
    if slot >= 0:
        rows.slots[entity] = slot
        slots[slot]["owner"] = base + entity
    return slot


@lean_inner
def born(slot: Number, slots: EntitySlots, counts: Numbers) -> None:
    """Mark the entity in *slot* as alive.  It was at rest or not seen yet."""
    if slots[slot]["place"] == NEW:
        counts[ENTITIES] += 1
    else:
        counts[RESTING] -= 1
    slots[slot]["place"], slots[slot]["born"] = ALIVE, counts[BORN]
    slots[slot]["last"] = slots[slot]["led"] = slots[slot]["since"] = NONE
    counts[BORN] += 1


@lean_inner
def in_time(
    rows: KindRows, row: Number, before: Number, to: Number, slot: Number, table: StepTable, slots: EntitySlots
) -> bool:
    """Check that no time limit of the entity in *slot* is known to have expired by the time of *row*."""
    if not (table.timed[before] or table.timed[to]):
        return True
    since, now = slots[slot]["since"], rows.at[row]
    return slots[slot]["place"] != ALIVE or since < 0 or now < 0 or now - since <= table.limits[before]


@lean_inner
def moved(slot: Number, to: Number, row: Number, rows: KindRows, table: StepTable, slots: EntitySlots) -> None:
    """Set the belief about the entity in *slot* to number *to*.  Record the start of a time limit."""
    before, slots[slot]["belief"] = slots[slot]["belief"], to
    if table.limits[to] < 0:
        slots[slot]["since"] = NONE
    elif table.limits[before] < 0:
        slots[slot]["since"], rows.began[row] = rows.at[row], slot


@lean
def run(
    rows: KindRows,
    first: Number,
    base: Number,
    unseen: Number,
    most: Number,
    table: StepTable,
    slots: EntitySlots,
    store: SlotStore,
) -> Number:
    """Process observations from row *first* on, and return the number of the first row that the monitor must process.

    The loop also stops if there is no room for an entity.  *base* is the number of ids in earlier batches.  *unseen* is
    the belief about an entity that has not been seen yet.
    """
    counts = store.counts
    for row in range(first, rows.kind.shape[0]):
        kind = rows.numbers[rows.kind[row]]
        if kind == SKIPPED:
            continue
        if kind < 0:
            return row
        entity = np.int64(rows.entity[row])
        slot = np.int64(rows.slots[entity])
        if slot < 0 or slots[slot]["owner"] != base + entity:  # inline, as a call would pass every array separately
            slot = np.int64(looked_up(rows, entity, base, unseen, slots, store))
        before = slots[slot]["belief"] if slot >= 0 else NONE
        to = table.to[before, kind] if before >= 0 else NONE
        if to < 0 or not in_time(rows, row, before, to, slot, table, slots):
            return row
        if slots[slot]["place"] != ALIVE:
            born(slot, slots, counts)
        counts[OBSERVED] += 1
        table.taken[before, kind] += 1
        moved(slot, to, row, rows, table, slots)
        if not table.asks[kind]:
            slots[slot]["last"] = kind
        if table.leads[kind]:
            slots[slot]["led"] = kind
        if table.rests[to]:
            rested(slot, most, slots, store)
    return np.int64(rows.kind.shape[0])
