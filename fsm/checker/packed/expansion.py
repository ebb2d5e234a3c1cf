"""Compute the steps from a packed state, in the model's order.

This module is the compiled counterpart of :meth:`fsm.machine.product.SystemTable.step`.  It executes the moves that
:mod:`.programs` encodes.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fsm.compiled import Number, Numbers, lean, lean_inner

Words: TypeAlias = NDArray[np.uint64]
Width: TypeAlias = tuple[int, ...]
"""A tuple with one item per word of a state.  The compiler knows its length, so looping over it costs nothing."""

ACCEPTED: Final = -1
REJECTED: Final = -2
"""Special values in place of the number of the next test.  They mean that the condition is true or false."""

FULL: Final = -1

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(32)


class Program(NamedTuple):
    """The joint events of a system, encoded as integers.

    Each array is a table with these columns.  A condition is stored as its first test, and a range as two indices.

    * ``tests``: the word, shift and mask of a local state; the start of a set of states in ``members``; the next test
      if the local state is in the set, and the next test if it is not
    * ``events``: the guard condition; the range in ``paths``; whether two outcomes may be equal; the range in ``reads``
      for the copies that the event depends on; the start in ``kept`` of the masks, one for each word, of the bits that
      the event keeps; the start in the memo of the outcomes for all combinations of states of these copies, or -1
    * ``reads``: the word, shift and mask of a local state, and the factor of this state in the index of the memo
    * ``paths``: the guard condition, name, reply, and the range in ``moves``
    * ``moves``: the guard condition, condition for delivering outputs, word, shift, mask, start in ``cells``
    * ``cells``: the first option of each local state
    * ``options``: target state, the error that ends the event or -1, range in ``emitted`` of its outputs
    """

    tests: Numbers
    members: Numbers
    events: Numbers
    paths: Numbers
    moves: Numbers
    cells: Numbers
    options: Numbers
    emitted: Numbers
    reads: Numbers
    kept: Numbers

    def flat(self) -> Numbers:
        """Return all arrays as a single array.

        A call of a compiled function with many arguments would be slow.
        """
        parts = [part.ravel() for part in self]
        ends = np.cumsum([OFFSETS, *map(len, parts)])
        return np.concatenate([ends[:-1], [len(self.events)], *parts])


OFFSETS: Final = len(Program._fields) + 1
"""Length of the header of a flat program.

The header holds the start of each part and the number of events.
"""

CHAINS: Final = 2
"""Length of the header of a chain array, which holds the number of chains and the capacity of the array.

The name, outputs and reply of a step form a linked chain of rows.  A row has two numbers.  The first is the number of
the previous row, or ``~name`` in the first row of a chain.  The second is an output, or ``~reply`` in the last row.
A hash table of the rows comes after the rows.
"""


def empty_chains(size: int) -> Numbers:
    chains = np.full(CHAINS + 4 * size, FULL, np.int64)
    chains[:CHAINS] = 0, size
    return chains


MEMO: Final = 3
"""Length of the header of a memo.

The header holds the used length, the total length, and the length of the table that follows.  The table has an item
for each combination of states of the copies that an event depends on.  The item is the index of the outcomes, or 0.
At that index is the number of outcomes, followed by the label of each outcome and the words of its state.
"""


def empty_memo(table: int, size: int) -> Numbers:
    memo = np.zeros(MEMO + table + size, np.int64)
    memo[:MEMO] = MEMO + table, len(memo), table
    return memo


def room(size: int, width: int) -> Words:
    """Return scratch space for *size* steps.

    The first two areas hold the runs before and after a move, and swap these roles after each move.  The third area
    holds the runs that have ended.  A run consists of the words of its state, the last row of its chain of outputs, and
    the error that ended it.  The last two areas hold the words and the labels of the steps.
    """
    return np.zeros(size * (4 * width + 7), np.uint64)


class Expansion(NamedTuple):
    program: Numbers
    chains: Numbers
    memo: Numbers
    space: Words
    orbits: Numbers


@lean_inner
def written(space: Words, width: Width) -> tuple[Number, Number, Number]:
    part = space.shape[0] // (4 * len(width) + 7)
    words = 3 * part * (len(width) + 2)
    return part, words, words + part * len(width)


@lean_inner
def same_words(one: Words, at: Number, other: Words, place: Number, width: Width) -> bool:
    same = True
    for each in range(len(width)):
        same &= one[at + each] == other[place + each]
    return same


@lean_inner
def copy_words(words: Words, at: Number, to: Words, place: Number, width: Width) -> None:
    for each in range(len(width)):
        to[place + each] = words[at + each]


@lean_inner
def accepted(program: Numbers, test: Number, words: Words, at: Number) -> bool:
    tests, members = program[0], program[1]
    while test >= 0:
        row = tests + 6 * test
        local = np.int64((words[at + program[row]] >> np.uint64(program[row + 1])) & np.uint64(program[row + 2]))
        test = program[row + 4] if program[members + program[row + 3] + local] else program[row + 5]
    return test == ACCEPTED


@lean_inner
def extend_chain(chains: Numbers, before: Number, last: Number) -> Number:
    size = chains[1]
    slots = CHAINS + 2 * size
    mask = 2 * size - 1
    slot = np.int64(((np.uint64(before) * SPREAD ^ np.uint64(last)) * SPREAD) >> FOLD) & mask
    while chains[slots + slot] >= 0:
        found = chains[slots + slot]
        if chains[CHAINS + 2 * found] == before and chains[CHAINS + 2 * found + 1] == last:
            return found
        slot = (slot + 1) & mask
    found = chains[0]
    if found == size:
        return FULL
    chains[CHAINS + 2 * found] = before
    chains[CHAINS + 2 * found + 1] = last
    chains[slots + slot] = found
    chains[0] = found + 1
    return found


@lean
def reinsert_chains(old: Numbers, new: Numbers) -> None:
    for each in range(old[0]):
        extend_chain(new, old[CHAINS + 2 * each], old[CHAINS + 2 * each + 1])


@lean_inner
def _follow(  # noqa: C901, PLR0912  (one loop: calls of compiled functions are slow)
    expansion: Expansion, part: Number, row: Number, width: Width
) -> tuple[Number, Number, Number]:
    program, chains, _, space, _ = expansion
    cells, options, emitted = program[5], program[6], program[7]
    size = len(width) + 2
    going: Number = 0
    following, ended = part * size, 2 * part * size
    count, over = 1, 0
    for move in range(program[4] + 6 * program[row + 3], program[4] + 6 * program[row + 4], 6):
        when, heard, word = program[move], program[move + 1], program[move + 2]
        shift, mask = np.uint64(program[move + 3]), np.uint64(program[move + 4])
        kept = ~(mask << shift)
        found = 0
        for here in range(going, going + count * size, size):
            if when != ACCEPTED and not accepted(program, when, space, here):
                if found == part:
                    return FULL, FULL, FULL
                copy_words(space, here, space, following + found * size, width)
                space[following + found * size + len(width)] = space[here + len(width)]
                found += 1
                continue
            cell = cells + program[move + 5] + np.int64((space[here + word] >> shift) & mask)
            first, last = program[cell], program[cell + 1]
            if first == last:
                continue
            delivered = heard == ACCEPTED or accepted(program, heard, space, here)
            for option in range(options + 4 * first, options + 4 * last, 4):
                chain: Number = np.int64(space[here + len(width)])
                if delivered:
                    for each in range(program[option + 2], program[option + 3]):
                        chain = extend_chain(chains, chain, program[emitted + each])
                        if chain == FULL:
                            return FULL, FULL, FULL
                failed = program[option + 1] >= 0
                at: Number = over if failed else found
                if at == part:
                    return FULL, FULL, FULL
                at = (ended if failed else following) + at * size
                copy_words(space, here, space, at, width)
                space[at + word] = (space[here + word] & kept) | np.uint64(program[option]) << shift
                space[at + len(width)] = np.uint64(chain)
                if failed:
                    space[at + len(width) + 1] = np.uint64(program[option + 1])
                    over += 1
                else:
                    found += 1
        going, following = following, going
        count = found
        if count == 0:
            break
    return count, over, going


@lean_inner
def _is_repeated(space: Words, words: Number, labels: Number, first: Number, step: Number, width: Width) -> bool:
    here = words + step * len(width)
    for other in range(first, step):
        same_label = space[labels + other] == space[labels + step]
        if same_label and same_words(space, words + other * len(width), space, here, width):
            return True
    return False


@lean_inner
def _key(program: Numbers, row: Number, words: Words, here: Number) -> Number:
    key: Number = 0
    for read in range(program[8] + 4 * program[row + 4], program[8] + 4 * program[row + 5], 4):
        local = (words[here + program[read]] >> np.uint64(program[read + 1])) & np.uint64(program[read + 2])
        key += np.int64(local) * program[read + 3]
    return key


@lean_inner
def _remember(expansion: Expansion, place: Number, row: Number, first: Number, step: Number, width: Width) -> None:
    program, _, memo, space, _ = expansion
    needs = 1 + (step - first) * (len(width) + 1)
    free = memo[0]
    if free + needs > memo[1]:
        return
    _, words, labels = written(space, width)
    memo[free] = step - first
    at = free + 1
    for each in range(first, step):
        memo[at] = np.int64(space[labels + each])
        for word in range(len(width)):
            written_here = ~np.uint64(program[program[9] + program[row + 6] + word])
            memo[at + 1 + word] = np.int64(space[words + each * len(width) + word] & written_here)
        at += len(width) + 1
    memo[place] = free
    memo[0] = free + needs


@lean_inner
def expand(  # noqa: C901  (one loop: calls of compiled functions are slow)
    expansion: Expansion, states: Words, state: Number, width: Width, step: Number
) -> Number:
    """Write the steps from *state* to the scratch space, beginning at the index *step*.

    Return the index after the last step, or ``FULL`` if there is not enough space.
    """
    program, _, memo, space, _ = expansion
    part, words, labels = written(space, width)
    here = state * len(width)
    for event in range(program[10]):
        row = program[2] + 8 * event
        place = program[row + 7]
        if place < 0:
            step = _expand_row(expansion, states, here, row, width, step)
            if step == FULL:
                return FULL
            continue
        place += _key(program, row, states, here)
        known = memo[place]
        if known == 0:
            first = step
            step = _expand_row(expansion, states, here, row, width, step)
            if step == FULL:
                return FULL
            _remember(expansion, place, row, first, step, width)
            continue
        count = memo[known]
        if step + count > part:
            return FULL
        if count == 0:
            continue
        kept, size = program[9] + program[row + 6], len(width) + 1
        if count == 1:  # the usual case, for which a loop would be slow
            for word in range(len(width)):
                same = states[here + word] & np.uint64(program[kept + word])
                space[words + step * len(width) + word] = same | np.uint64(memo[known + 2 + word])
            space[labels + step] = np.uint64(memo[known + 1])
            step += 1
            continue
        for word in range(len(width)):
            same = states[here + word] & np.uint64(program[kept + word])
            for each in range(count):
                space[words + (step + each) * len(width) + word] = same | np.uint64(
                    memo[known + 2 + each * size + word]
                )
        for each in range(count):
            space[labels + step + each] = np.uint64(memo[known + 1 + each * size])
        step += count
    return step


@lean_inner
def _expand_row(expansion: Expansion, states: Words, here: Number, row: Number, width: Width, step: Number) -> Number:
    program, chains, _, space, _ = expansion
    part, words, labels = written(space, width)
    size = len(width) + 2
    ended = 2 * part * size
    if program[row] != ACCEPTED and not accepted(program, program[row], states, here):
        return step
    first = step
    for path in range(program[row + 1], program[row + 2]):
        way = program[3] + 5 * path
        if program[way] != ACCEPTED and not accepted(program, program[way], states, here):
            continue
        copy_words(states, here, space, 0, width)
        space[len(width)] = np.uint64(~program[way + 1])
        count, over, going = _follow(expansion, part, way, width)
        if count == FULL or step + count + over > part:
            return FULL
        for run in range(count + over):
            failed = run >= count
            at = ended + (run - count) * size if failed else going + run * size
            reply = np.int64(space[at + len(width) + 1]) if failed else program[way + 2]
            label = extend_chain(chains, np.int64(space[at + len(width)]), ~reply)
            if label == FULL:
                return FULL
            copy_words(space, at, space, words + step * len(width), width)
            space[labels + step] = np.uint64(label)
            if not (program[row + 3] and _is_repeated(space, words, labels, first, step, width)):
                step += 1
    return step
