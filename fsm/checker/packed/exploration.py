"""Explore states in breadth-first order, number the states, and record their steps."""

from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed.expansion import (
    FOLD,
    FULL,
    SPREAD,
    Expansion,
    Width,
    Words,
    copy_words,
    expand,
    same_words,
    written,
)
from fsm.checker.packed.programs import StateVector
from fsm.compiled import ZERO, Number, Numbers, lean, lean_inner
from fsm.machine.product.reduction import Orbits


def encode_orbits(orbits: Orbits | None, vector: StateVector) -> Numbers:
    """Encode *orbits* as an array of integers.

    The array holds the number of groups, followed by the groups.  A group is encoded as the number of members, the
    number of fields of a member, and the word, shift and mask of each field.
    """
    groups = orbits.groups if orbits else ()
    found = [len(groups)]
    for group in groups:
        found += [len(group), len(group[0])]
        for member in group:
            for digit in member:
                at = vector.fields[digit]
                found += [at.word, at.shift, at.mask]
    return np.array(found, np.int64)


def unfolded_counts(orbits: Orbits, vector: StateVector, words: Words, degrees: NDArray[np.uint32]) -> tuple[int, int]:
    def locals_(digit: int) -> Words:
        at = vector.fields[digit]
        return words[:, at.word] >> np.uint64(at.shift) & np.uint64(at.mask)

    def alike(one: tuple[int, ...], two: tuple[int, ...]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.all([locals_(a) == locals_(b) for a, b in zip(one, two, strict=True)], axis=0)
        return found

    neighbours = np.stack([alike(*pair) for group in orbits.groups for pair in pairwise(group)], axis=1)
    kinds, of, counts = np.unique(neighbours, axis=0, return_inverse=True, return_counts=True)
    steps = np.bincount(of.ravel(), weights=degrees, minlength=len(kinds))
    states, transitions = 0, 0
    for kind, count, taken in zip(kinds.tolist(), counts.tolist(), steps.tolist(), strict=True):
        each = iter(kind)
        size = orbits.size([list(islice(each, len(group) - 1)) for group in orbits.groups])
        states, transitions = states + size * count, transitions + size * int(taken)
    return states, transitions


@lean_inner
def represent(orbits: Numbers, words: Words, at: Number) -> None:
    """Sort the members of each group in one state, whose words in *words* begin at the index *at*."""
    place: Number = 1
    for _ in range(orbits[0]):
        size = 3 * orbits[place + 1]
        first = place + 2
        place = first + orbits[place] * size
        for begin in range(first + size, place, size):
            here = begin
            while here > first and _sorts_before(orbits, words, at, here, here - size, size):
                _exchange(orbits, words, at, here, here - size, size)
                here -= size


@lean_inner
def _local_state(orbits: Numbers, words: Words, at: Number, field: Number) -> np.uint64:
    local: np.uint64 = (words[at + orbits[field]] >> np.uint64(orbits[field + 1])) & np.uint64(orbits[field + 2])
    return local


@lean_inner
def _sorts_before(orbits: Numbers, words: Words, at: Number, one: Number, two: Number, size: Number) -> bool:
    for each in range(0, size, 3):
        left, right = _local_state(orbits, words, at, one + each), _local_state(orbits, words, at, two + each)
        if left != right:
            return bool(left < right)
    return False


@lean_inner
def _exchange(orbits: Numbers, words: Words, at: Number, one: Number, two: Number, size: Number) -> None:
    for each in range(0, size, 3):
        differ = _local_state(orbits, words, at, one + each) ^ _local_state(orbits, words, at, two + each)
        for field in (one + each, two + each):
            words[at + orbits[field]] ^= differ << np.uint64(orbits[field + 1])


BATCH: Final = 512
"""Number of steps to look up together, so that their memory accesses overlap."""

EXACT: Final = 32
TAG: Final = np.uint64(EXACT)
NUMBER: Final = np.uint64((1 << EXACT) - 1)

MORE: Final = 0
DONE: Final = 1
NO_ROOM: Final = 2
NO_CHAINS: Final = 3
"""Results of a part of a search.

The search is not finished, it is finished, there is no room for states, or there is no room for steps.
"""

EXPANDED, MET, STEPS, LEVEL, DEPTH, KEPT, RECENT, UNTIL = range(8)
"""Indices into the array that describes the progress of a search.

The array holds the number of expanded states, of states found, and of steps.  Then it holds the number of states up
to the end of the current level, the depth of this level, and the number of states whose steps are kept.  The last two
items are the start and the end of the range of states whose steps are in the window.
"""


def initial_progress() -> Numbers:
    return np.array([0, 1, 0, 1, 0, 0, 0, 0], np.int64)


class Visited(NamedTuple):
    """The numbered states that were visited, and a hash table to look them up.

    A slot holds the number of a state plus one and, in its higher bits, the tag of the state.  If ``exact`` is true,
    a state is a single word of at most :data:`EXACT` bits and serves as its own tag, so comparing the tags is enough.
    """

    states: Words
    slots: Words
    exact: bool


class Steps(NamedTuple):
    """The steps of consecutive states.

    The steps of state ``n`` begin at the index ``first[n]`` of ``to`` and ``labels``.
    """

    first: NDArray[np.uint32]
    to: NDArray[np.uint32]
    labels: NDArray[np.uint32]


class KnownGraph(NamedTuple):
    expansion: Expansion
    visited: Visited
    steps: Steps
    window: Steps
    progress: Numbers


@lean_inner
def mixed(words: Words, at: Number, width: Width) -> np.uint64:
    found = np.uint64(0)
    for each in range(len(width)):
        found = (found ^ words[at + each]) * SPREAD
        found ^= found >> FOLD
    return found * SPREAD


@lean_inner
def slot_of(hashed: np.uint64, slots: Words) -> np.uint64:
    return hashed >> np.uint64(20) & np.uint64(slots.shape[0] - 1)


@lean_inner
def tag_of(hashed: np.uint64, words: Words, at: Number, visited: Visited) -> np.uint64:
    return words[at] if visited.exact else hashed >> TAG


@lean
def rehash(visited: Visited, count: Number, width: Width) -> None:
    states, slots, _ = visited
    last = np.uint64(slots.shape[0] - 1)
    for state in range(count):
        hashed = mixed(states, state * len(width), width)
        slot = slot_of(hashed, slots)
        while slots[slot]:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = tag_of(hashed, states, state * len(width), visited) << TAG | np.uint64(state + 1)


@lean_inner
def numbered(words: Words, at: Number, hashed: np.uint64, visited: Visited, count: Number, width: Width) -> Number:
    states, slots, exact = visited
    last = np.uint64(slots.shape[0] - 1)
    tag = tag_of(hashed, words, at, visited)
    slot = slot_of(hashed, slots)
    while slots[slot]:
        if slots[slot] >> TAG == tag:
            found = np.int64(slots[slot] & NUMBER) - 1
            if exact or same_words(states, found * len(width), words, at, width):
                return found
        slot = (slot + np.uint64(1)) & last
    copy_words(words, at, states, count * len(width), width)
    slots[slot] = tag << TAG | np.uint64(count + 1)
    return count


@lean_inner
def count_level(progress: Numbers) -> None:
    if progress[EXPANDED] == progress[LEVEL]:
        progress[LEVEL] = progress[MET]
        progress[DEPTH] += 1


@lean_inner
def made(expansion: Expansion, states: Words, state: Number, width: Width, step: Number) -> Number:
    space = expansion.space
    found = expand(expansion, states, state, width, step)
    if expansion.orbits[0]:
        _, words, _ = written(space, width)
        for each in range(step, found):
            represent(expansion.orbits, space, words + each * len(width))
    return found


@lean_inner
def again(expansion: Expansion, visited: Visited, steps: Steps, state: Number, width: Width, free: Number) -> Number:
    space = expansion.space
    _, words, labels = written(space, width)
    found = made(expansion, visited.states, state, width, ZERO)
    for step in range(found):
        at = words + step * len(width)
        steps.to[free + step] = numbered(space, at, mixed(space, at, width), visited, ZERO, width)
        steps.labels[free + step] = space[labels + step]
    return found


@lean
def explore(  # noqa: C901  (one loop: calls of compiled functions are slow)
    expansion: Expansion, visited: Visited, window: Steps, progress: Numbers, ahead: Words, width: Width
) -> Number:
    states, slots, exact = visited
    space = expansion.space
    part, words, labels = written(space, width)
    begin, end = progress[EXPANDED], progress[EXPANDED] + window.first.shape[0] - 1
    taken: Number = 0
    progress[RECENT], progress[UNTIL] = begin, begin
    window.first[0] = 0
    while progress[EXPANDED] < progress[MET]:
        if taken + part > window.to.shape[0] or progress[EXPANDED] >= end:
            return MORE
        count_level(progress)
        state, count = progress[EXPANDED], progress[MET]
        found: Number = ZERO
        while state < progress[LEVEL] and state < end and found < BATCH:
            following = made(expansion, states, state, width, found)
            if following == FULL:
                if found:
                    break
                return NO_CHAINS
            found = following
            state += 1
            window.first[state - begin] = taken + found
        if (count + found) * len(width) > states.shape[0] or 3 * (count + found) > 2 * slots.shape[0]:
            return NO_ROOM
        touched = np.uint64(0)
        for step in range(found):
            ahead[step] = mixed(space, words + step * len(width), width)
            touched += slots[slot_of(ahead[step], slots)]
        if not exact:
            for step in range(found):
                there = slots[slot_of(ahead[step], slots)] & NUMBER
                if there:
                    touched += states[np.int64(there - np.uint64(1)) * len(width)]
        ahead[-1] = touched
        for step in range(found):
            to = numbered(space, words + step * len(width), ahead[step], visited, count, width)
            if to == count:
                count += 1
            window.to[taken + step] = to
            window.labels[taken + step] = space[labels + step]
        taken += found
        progress[EXPANDED], progress[MET], progress[UNTIL] = state, count, state
        progress[STEPS] += found
    return DONE
