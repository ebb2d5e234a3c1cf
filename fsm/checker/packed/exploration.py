"""States numbered in the order in which a breadth-first search meets them, and their steps."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed.expansion import FOLD, FULL, SPREAD, Width, Words, expand, written
from fsm.checker.packed.representatives import represent
from fsm.compiled import ZERO, Number, Numbers, lean, lean_inner

BATCH: Final = 512
"""Steps that are looked up together, so that the memory is asked for all of them at once."""

EXACT: Final = 32
"""Bits of a tag."""
TAG: Final = np.uint64(EXACT)
NUMBER: Final = np.uint64((1 << EXACT) - 1)

MORE: Final = 0
DONE: Final = 1
NO_ROOM: Final = 2
NO_CHAINS: Final = 3
"""Why a part of a search ended: there is more to do, there is nothing more, there is no room for states, or for steps."""

EXPANDED, MET, STEPS, LEVEL, DEPTH, KEPT, RECENT, UNTIL = range(8)
"""What the progress of a search has: the numbers of states that were expanded, of all states that were met, of steps, and of
the states that are as near as the one expanded next; the distance of these; the number of states whose steps are kept; and from
which to which state the steps are in the window."""


def no_progress() -> Numbers:
    """The progress of a search that has met its first state."""
    return np.array([0, 1, 0, 1, 0, 0, 0, 0], np.int64)


class Expansion(NamedTuple):
    """What steps are made by, and where: the program, the chains of their labels, a memo of them, and a space to write them.

    They lead to representatives of ``orbits``.
    """

    program: Numbers
    chains: Numbers
    memo: Numbers
    space: Words
    orbits: Numbers


class Visited(NamedTuple):
    """States by number, and a hash table: one more than the number of each state, and above that its tag.

    Where a state is a word of :data:`EXACT` bits at most, it is its own tag, and nothing else has to be looked at.
    """

    states: Words
    slots: Words
    exact: bool


class Steps(NamedTuple):
    """The steps of states in a row: from ``first`` of each on, where they lead ``to``, and their labels."""

    first: NDArray[np.uint32]
    to: NDArray[np.uint32]
    labels: NDArray[np.uint32]


@lean_inner
def mixed(words: Words, at: Number, width: Width) -> np.uint64:
    """The hash of the state in *words*."""
    found = np.uint64(0)
    for each in range(len(width)):
        found = (found ^ words[at + each]) * SPREAD
        found ^= found >> FOLD
    return found * SPREAD


@lean_inner
def slot_of(hashed: np.uint64, slots: Words) -> np.uint64:
    """Where a state with this hash is looked for first."""
    return hashed >> np.uint64(20) & np.uint64(slots.shape[0] - 1)


@lean_inner
def tag_of(hashed: np.uint64, words: Words, at: Number, visited: Visited) -> np.uint64:
    """The tag of the state in *words*, which has this hash."""
    return words[at] if visited.exact else hashed >> TAG


@lean
def rehash(visited: Visited, count: Number, width: Width) -> None:
    """Enter the first *count* states in the slots, which are empty."""
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
    """The number of the state that begins *at* this place of *words*; *count* if it is new, and then it is entered."""
    states, slots, exact = visited
    last = np.uint64(slots.shape[0] - 1)
    tag = tag_of(hashed, words, at, visited)
    slot = slot_of(hashed, slots)
    while slots[slot]:
        if slots[slot] >> TAG == tag:
            found = np.int64(slots[slot] & NUMBER) - 1
            same = True
            if not exact:
                for each in range(len(width)):
                    same &= states[found * len(width) + each] == words[at + each]
            if same:
                return found
        slot = (slot + np.uint64(1)) & last
    for each in range(len(width)):
        states[count * len(width) + each] = words[at + each]
    slots[slot] = tag << TAG | np.uint64(count + 1)
    return count


@lean_inner
def count_level(progress: Numbers) -> None:
    """Where the next state is the first that is farther away, what was met until now is as near as it."""
    if progress[EXPANDED] == progress[LEVEL]:
        progress[LEVEL] = progress[MET]
        progress[DEPTH] += 1


@lean_inner
def made(expansion: Expansion, states: Words, state: Number, width: Width, step: Number) -> Number:
    """Write every step from *state* after the first *step* ones, and give their number; or FULL."""
    space = expansion.space
    found = expand(expansion.program, expansion.chains, expansion.memo, space, states, state, width, step)
    if expansion.orbits[0]:
        _, words, _ = written(space, width)
        for each in range(step, found):
            represent(expansion.orbits, space, words + each * len(width))
    return found


@lean_inner
def again(expansion: Expansion, visited: Visited, steps: Steps, state: Number, width: Width, free: Number) -> Number:
    """Write the steps of *state*, which were not kept, from *free* on among those that are, and give their number."""
    space = expansion.space
    _, words, labels = written(space, width)
    found = made(expansion, visited.states, state, width, ZERO)
    for step in range(found):
        at = words + step * len(width)
        steps.to[free + step] = numbered(space, at, mixed(space, at, width), visited, ZERO, width)
        steps.labels[free + step] = space[labels + step]
    return found


@lean
def explore(  # noqa: C901  (one loop: a compiled function is called slowly)
    expansion: Expansion, visited: Visited, window: Steps, progress: Numbers, ahead: Words, width: Width
) -> Number:
    """Go on as far as there is room for steps in the *window*, and write them there; the progress says for how many states."""
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


@lean
def parent(expansion: Expansion, visited: Visited, state: Number, to: Number, width: Width) -> Number:
    """The first state from this *state* on that has a step *to* another."""
    space, states = expansion.space, visited.states
    _, words, _ = written(space, width)
    while True:
        found = made(expansion, states, state, width, ZERO)
        for step in range(found):
            same = True
            for each in range(len(width)):
                same &= space[words + step * len(width) + each] == states[to * len(width) + each]
            if same:
                return state
        state += 1
