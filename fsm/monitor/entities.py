"""The entities of a monitor, stored in cells that compiled code (:mod:`fsm.monitor.automaton`) can also use.

An entity is alive, at rest, or new. A new entity has not been seen yet or was forgotten. The live entities form a
linked list in the order in which they became alive, and the entities at rest form a second list. Anything that does
not fit into the cells of an entity's slot is stored elsewhere, and only the monitor can then process the entity's next
observation.
"""

from array import array
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from itertools import compress
from operator import ne
from typing import Final

from fsm.machine.findings import Assumed
from fsm.monitor.beliefs import Belief
from fsm.monitor.life import LastSeen, Life, Start, Untimely
from fsm.monitor.stepping import Beliefs
from fsm.trace import Key, Line

MANY: Final = 1_000

# Compiled code uses the definitions from this line to the end of `linked`.

NONE: Final = -1

BELIEF, LAST, LED, SINCE, PLACE, RESTED, BEFORE, AFTER, SIZE = range(9)
"""The offsets of the cells in a slot, and the size of a slot, which fills one cache line.

``BELIEF`` is the number of the belief, or its complement if only the monitor may take the next step.  ``LAST`` is the
kind of the last observation, and ``LED`` is the kind of the last observation that may have moved the entity or that
showed its state.  Requests are ignored for both.  ``SINCE`` is the time at which the time limit began.  ``PLACE`` is
:data:`AT_REST`, :data:`NEW` or, for a live entity, the number of possible events that its belief takes into account.
``RESTED`` is the first possible event on which the belief may depend.  ``BEFORE`` and ``AFTER`` are the neighbours in
the list of entities at rest or alive.
"""

AT_REST, NEW = -1, -2

RESTING, ALIVE, NOBODY = 0, SIZE, 2 * SIZE
"""Slots without an entity. The first two are the heads of the lists, and the third is always new."""

ALL: Final = ALIVE
"""The slot for observations of all entities, which only the monitor may process."""

RESTS, MET, TAKEN = range(RESTING, RESTING + 3)
"""Counters of the entities at rest, and of the new entities and the observations that compiled code has processed."""


def remove_from_list(cells: MutableSequence[int], slot: int) -> None:
    before, after = cells[slot + BEFORE], cells[slot + AFTER]
    cells[before + AFTER] = after
    cells[after + BEFORE] = before


def linked(cells: MutableSequence[int], slot: int, head: int) -> None:
    last = cells[head + BEFORE]
    cells[last + AFTER] = cells[head + BEFORE] = slot
    cells[slot + BEFORE], cells[slot + AFTER] = last, head


class Entities:
    """The entities of a monitor, which remembers no more than *most* entities at rest."""

    def __init__(self, beliefs: Beliefs, most: int) -> None:
        self.slots: dict[str, int] = {"": ALL}
        self.cells: array[int] = array("q", [0] * 3 * SIZE)
        self.lines: dict[int, int | Line] = {}
        """Maps the slot of an entity to the line on which its time limit began."""
        self.most = most
        self._beliefs = beliefs
        self._ids: dict[int, str] = {}
        self._free: list[int] = []
        self._enough = MANY
        self._beside: dict[
            int, tuple[tuple[Assumed, ...], tuple[Start, ...], tuple[Untimely, ...], LastSeen | None]
        ] = {}
        for head in (RESTING, ALIVE):
            self.cells[head + BEFORE] = self.cells[head + AFTER] = head
        self.cells[ALL + PLACE], self.cells[ALL + BELIEF], self.cells[NOBODY + PLACE] = AT_REST, NONE, NEW

    def slot(self, identity: str) -> int:
        """Return the slot of *identity*, allocating one if necessary. :meth:`sweep` frees unused slots."""
        slot = self.slots.get(identity)
        if slot is None:
            if not self._free:
                self._grow(1)
            slot = self.slots[identity] = self._free.pop()
            self._ids[slot] = identity
        return slot

    def slots_of(self, identities: Sequence[str]) -> list[int]:
        if len(identities) > len(self._free):
            self._grow(len(identities))
        first = len(self._free) - len(identities)
        offered = self._free[first:]
        found = list(map(self.slots.setdefault, identities, offered))
        self._free[first:] = compress(offered, map(ne, found, offered))
        return found

    def _grow(self, count: int) -> None:
        before, more = len(self.cells), max(len(self.cells), (count + 60) * SIZE)
        # Compiled code may be using the cells, so they cannot be resized in place.
        self.cells = self.cells + array("q", [NEW]) * more
        self._free += range(before + more - SIZE, before - SIZE, -SIZE)

    def sweep(self) -> None:
        if len(self.slots) < self._enough:
            return
        cells, before = self.cells, self.slots
        # Most entities in a large table were forgotten. Copying the others is cheaper than removing the forgotten ones.
        self._ids.clear()
        self.slots = {identity: slot for identity, slot in before.items() if cells[slot + PLACE] != NEW}
        self._free += [slot for slot in before.values() if cells[slot + PLACE] == NEW]
        self._enough = 2 * len(self.slots) + MANY

    def identity(self, slot: int) -> str:
        if slot not in self._ids:  # `slots_of` does not store ids, which are rarely needed.
            self._ids = {known: name for name, known in self.slots.items()}
        return self._ids[slot]

    def listed(self, head: int) -> Iterator[int]:
        slot = self.cells[head + AFTER]
        while slot != head:
            after = self.cells[slot + AFTER]
            yield slot
            slot = after

    def belief(self, slot: int) -> Belief:
        number = self.cells[slot]
        return self._beliefs.listed[number if number >= 0 else ~number]

    def life(self, slot: int) -> Life:
        last, led, since, assumed, rested = self.cells[slot + LAST : slot + BEFORE]
        life = Life(self.belief(slot), last, led, assumed, rested)
        if slot in self._beside:
            life.own, life.starts, life.untimely, life.seen = self._beside[slot]
        elif life.belief.limit is not None:
            life.starts = (Start(None if since < 0 else since, self.lines.get(slot, 0)),)
        return life

    def last_seen(self, slot: int) -> LastSeen | None:
        return self._beside[slot][3] if slot in self._beside else None

    def live(self, slot: int, life: Life, *, apart: bool) -> None:
        cells, number, since = self.cells, life.belief.number, NONE
        if cells[slot + PLACE] < 0:
            self.forget(slot)
            linked(cells, slot, ALIVE)
        self._beside.pop(slot, None)
        special = life.untimely or life.own or life.starts[1:] or life.seen
        if special or any((each.at or 0) < 0 for each in life.starts):
            apart, self._beside[slot] = True, (life.own, life.starts, life.untimely, life.seen)
        elif life.starts:
            at, self.lines[slot], _ = life.starts[0]
            since = NONE if at is None else at
        cells[slot], cells[slot + LAST], cells[slot + LED] = ~number if apart else number, life.last, life.led
        cells[slot + SINCE], cells[slot + PLACE], cells[slot + RESTED] = since, life.assumed, life.rested

    def take(self, slot: int, seen: Key, assumed: int) -> bool:
        """Process *seen* if it changes only the belief about a live entity, and return whether *seen* was processed.

        *assumed* is the number of possible events that the belief must take into account. If a time limit may be
        running before or after the step, *seen* is not processed.
        """
        cells, before = self.cells, self.belief(slot)
        step, usual = before.next.get(seen), cells[slot] >= 0 and cells[slot + PLACE] == assumed
        if step is None or not usual or not step.quiet or step.to.rests or step.to.timed or before.timed:
            return False
        step.taken += 1
        cells[slot] = step.to.number
        if seen.phase != "request":
            cells[slot + LAST] = step.kind
        if step.leads:
            cells[slot + LED] = step.kind
        return True

    def rest(self, slot: int, belief: Belief, seen: LastSeen | None = None) -> None:
        self.forget(slot)
        if seen:
            self._beside[slot] = (), (), (), seen
        linked(self.cells, slot, RESTING)
        self.cells[slot], self.cells[slot + PLACE] = belief.number, AT_REST
        self.cells[RESTS] += 1
        while self.cells[RESTS] > self.most:
            self.forget(self.cells[RESTING + AFTER])

    def forget(self, slot: int) -> None:
        place = self.cells[slot + PLACE]
        if place != NEW:
            remove_from_list(self.cells, slot)
            self.cells[RESTS] -= place == AT_REST
            self.cells[slot + PLACE] = NEW
            self._beside.pop(slot, None)

    def set_apart(self, identity: str) -> None:
        slot = self.slots.get(identity, NOBODY)
        if self.cells[slot + PLACE] >= AT_REST and self.cells[slot] >= 0:
            self.cells[slot] = ~self.cells[slot]

    def renumber(self, others: Iterable[Belief]) -> None:
        """Forget all steps, and the kinds and beliefs that are not in use. Keep the beliefs in *others*."""
        cells, kinds = self.cells, self._beliefs.kinds.listed
        alive = [*self.listed(ALIVE)]
        held = [(slot, self.belief(slot)) for slot in (*alive, *self.listed(RESTING))]
        seen = [(at, kinds[cells[at]]) for slot in alive for at in (slot + LAST, slot + LED) if cells[at] >= 0]
        self._beliefs.forget([*others, *(belief for _, belief in held)])
        for slot, belief in held:
            cells[slot] = belief.number if cells[slot] >= 0 else ~belief.number
        for at, kind in seen:
            cells[at] = self._beliefs.kinds[kind]
