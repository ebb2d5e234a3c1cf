"""The compiled part of an :class:`~fsm.monitor.automaton.BeliefAutomaton`: its entities by id, and the loop over a column."""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Bytes, Codes, Number, Numbers, alike, copied, hashed, lean, lean_inner

NONE: Final = -1
"""In place of a number: there is none."""

ALIVE: Final = -1
NEW: Final = -2
"""In place of where an entity stands among those at rest: it is alive, or nothing was seen of it yet."""

SKIPPED: Final = -1
SLOWLY: Final = -2
"""In place of the number of a kind: it concerns another machine, or is not for compiled code."""

USED, FREE, HIGH, HEAD, TAIL, RESTING, BORN, ENTITIES, OBSERVED, FULL, TEXT = range(11)
"""What the counts of a store have: bytes of ``ids`` in use; free slots below the highest that was used, and that one; where the
queue begins and ends, and how many in it are at rest; lives that have begun, entities and observations; whether there was
no room; bytes of ids that are needed."""


class KindRows(NamedTuple):
    """The columns of a batch, by the numbers that kinds have here, and the slot of each id once it is known.

    The last of the numbers is that of rows without a kind.
    A row at which a time limit has ``began`` to run has the slot of its entity there, the others -1.
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
    """Where kinds lead from beliefs, or -1 where that is not known, and how often each step was taken.

    ``rests`` are beliefs at rest, ``timed`` those in what may be left in time, and ``limits`` the nanoseconds after which the
    first of it is, -1 if no time runs; ``asks`` are kinds that are requests, ``leads`` those that lead entities somewhere.
    """

    to: NDArray[np.int32]
    taken: NDArray[np.int64]
    rests: NDArray[np.bool_]
    timed: NDArray[np.bool_]
    limits: Numbers
    asks: NDArray[np.bool_]
    leads: NDArray[np.bool_]


EntitySlots: TypeAlias = NDArray[np.void]
"""What is known of each entity, an :data:`ENTITY` of each."""

ENTITY: Final = np.dtype(
    [
        *((name, np.int32) for name in ("belief", "last", "led", "length")),
        *((name, np.int64) for name in ("begins", "owner", "since", "place", "born")),
        ("hashed", np.uint64),
    ]
)
"""A line of a cache: the ``belief`` in an entity, or less than 0 if it is not for compiled code, and ``since`` when it is in what
is left in time, or -1; kinds that were seen ``last`` and that ``led``; its ``place`` among those at rest; when its life was
``born``, in which order; the id of the batch that is its ``owner``; where its id ``begins``, of which ``length``, and its hash."""


class SlotStore(NamedTuple):
    """A hash table of slots, each one more than it is; the text of ids; those at rest in order; free slots; counts."""

    buckets: Codes
    ids: Bytes
    queue: Codes
    free: Codes
    counts: Numbers


def steps_for(beliefs: int, kinds: int) -> StepTable:
    """Room for steps from so many beliefs, by so many kinds."""
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
    """*table* with room for more."""
    wider = steps_for(beliefs, kinds)
    old = table.to.shape
    wider.to[: old[0], : old[1]], wider.taken[: old[0], : old[1]] = table.to, table.taken
    wider.rests[: old[0]], wider.timed[: old[0]], wider.limits[: old[0]] = table.rests, table.timed, table.limits
    wider.asks[: old[1]], wider.leads[: old[1]] = table.asks, table.leads
    return wider


def slots_for(size: int) -> EntitySlots:
    """Room for so many entities, each in a line of the cache."""
    line = ENTITY.itemsize
    room = np.zeros(line * (size + 1), np.uint8)
    start = -room.ctypes.data % line
    return room[start : start + line * size].view(ENTITY)


def store_for(size: int, text: int, most: int) -> SlotStore:
    """The same, for so many bytes of ids, and at most *most* at rest."""
    return SlotStore(
        np.zeros(2 * size, np.int32),
        np.zeros(text, np.uint8),
        np.zeros(4 * most + 4, np.int32),
        np.zeros(size, np.int32),
        np.zeros(TEXT + 1, np.int64),
    )


@lean_inner
def found(text: Bytes, start: Number, end: Number, mixed: np.uint64, slots: EntitySlots, store: SlotStore) -> Number:
    """The slot of an id, or -1."""
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
    """The slot of an id that has none yet, or -1 if there is no room."""
    counts, size = store.counts, end - start
    slot = np.int64(store.free[counts[FREE] - 1]) if counts[FREE] else counts[HIGH]
    fits = slot < slots.shape[0] and slots[slot]["length"] == size  # where the id of one that was removed is
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
    """Nothing is known of the entity in *slot* any more."""
    last = np.uint64(store.buckets.shape[0] - 1)
    hole = slots[slot]["hashed"] & last
    while store.buckets[hole] != slot + 1:
        hole = (hole + np.uint64(1)) & last
    at = hole
    while True:  # what would not be found any more behind the hole fills it
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
    """The entity in *slot* comes to rest behind all others, of which *most* are remembered."""
    queue, counts = store.queue, store.counts
    size = queue.shape[0]
    if counts[TAIL] - counts[HEAD] == size:  # leave out those that have left it
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
    """The slot of the id that is *text*; if there is none one is *entered*, or it is -1."""
    mixed = hashed(text, 0, text.shape[0])
    slot = found(text, 0, text.shape[0], mixed, slots, store)
    return entered(text, 0, text.shape[0], mixed, slots, store) if slot < 0 and enter else slot


@lean
def rest(slot: Number, most: Number, slots: EntitySlots, store: SlotStore) -> None:
    """:func:`rested`, to be called by others."""
    rested(slot, most, slots, store)


@lean
def remove(slot: Number, slots: EntitySlots, store: SlotStore) -> None:
    """:func:`removed`, to be called by others."""
    removed(slot, slots, store)


@lean
def move(slots: EntitySlots, before: SlotStore, store: SlotStore) -> None:
    """Enter all that has a slot in a *store* with more room, or without the ids that are not needed any more."""
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
    """The slot of an *entity* of a batch; -1 if it is all entities, or there is no room."""
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
    """Of the entity in *slot*, which was at rest or of which nothing was seen, something is seen."""
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
    """Whether all that was possible *before*, of the entity in *slot*, still is at the time of a *row*, as far as is known here."""
    if not (table.timed[before] or table.timed[to]):
        return True
    since, now = slots[slot]["since"], rows.at[row]
    return slots[slot]["place"] != ALIVE or since < 0 or now < 0 or now - since <= table.limits[before]


@lean_inner
def moved(slot: Number, to: Number, row: Number, rows: KindRows, table: StepTable, slots: EntitySlots) -> None:
    """By a *row* the belief in the entity in *slot* is that with the number *to*."""
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
    """Take the observations from the *first* on; gives which is the first that is not for compiled code, or for which there is no room.

    ``base`` is the number of ids in batches before this one, ``unseen`` the belief in an entity of which nothing was
    seen.
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
        if slot < 0 or slots[slot]["owner"] != base + entity:  # here, since a call is handed all arrays, one by one
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
