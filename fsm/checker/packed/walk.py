"""Search the product of a packed graph and the automaton of a sequence in breadth-first order."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed.expansion import ACCEPTED, Width, Words, accepted, same_words, written
from fsm.checker.packed.exploration import (
    DONE,
    EXPANDED,
    KEPT,
    MET,
    MORE,
    RECENT,
    STEPS,
    UNTIL,
    KnownGraph,
    again,
    count_level,
)
from fsm.compiled import Number, Numbers, lean, lean_inner

FOUND: Final = 4
TOO_MANY: Final = 5
UNKNOWN: Final = 6
"""Further results of a part of a search.

The search succeeded, exceeded its limit, or met a state whose steps are not known yet.
"""

ALL_HELD: Final = -1
NEVER: Final = -3
"""Special values in place of a test.  They mean that all conditions have held, or that there is no condition."""

ONE: Final = np.uint64(1)

BUSY_BIT: Final = 29
"""Bit for states with calls in progress, set only if an event is called twice.  Atoms use the lower bits."""

BUSY: Final = np.uint64(1 << BUSY_BIT)


class Facts(NamedTuple):
    """Facts about instants, with one bit per atom.

    ``after`` holds the facts about the target of a step, and ``before`` holds the facts about its source.  ``before``
    is empty if no atom needs it.  The bit ``moved`` is set if the state changes.

    The facts about the instants of label ``n`` begin at the index ``first[n]`` in ``instants``.  The label has
    ``replies[n]`` replies, and ``outputs[n]`` instants for each reply.  If calls take time and a claim needs it,
    ``bare`` holds every state without its calls in progress.
    """

    after: NDArray[np.uint32]
    before: NDArray[np.uint32]
    moved: np.uint64
    bare: Words
    instants: Words
    first: Numbers
    replies: Numbers
    outputs: Numbers


class Automaton(NamedTuple):
    """An automaton for a sequence of conditions, or for an event that is called twice in a row.

    ``tests`` contains the bit tests of all conditions.  A condition is stored as the number of its first test.  The
    sequence of ``conditions`` starts over when the condition ``until`` holds.  If ``twice`` is true, ``conditions``
    says that the first call succeeds, that the event is called again, and that the second call changes something.
    """

    tests: Numbers  # each row: a bit, the next test if the bit is set, and the next test if it is clear
    conditions: Numbers
    until: Number
    twice: bool


class Nodes(NamedTuple):
    """The nodes in the order in which they were found, and the indices of their ``parents``.

    A node is encoded as its state times the size of the automaton, plus the state of the automaton.  The state of the
    automaton is the number of conditions that have held, or a bit that tells whether the first call led to the state.
    """

    nodes: NDArray[np.uint32]
    parents: NDArray[np.uint32]
    seen: NDArray[np.bool_]


class PackedProduct(NamedTuple):
    facts: Facts
    automaton: Automaton
    nodes: Nodes
    progress: Numbers


@lean
def mark(
    program: Numbers,
    states: Words,
    width: Number,
    tests: Numbers,
    done: Number,
    count: Number,
    facts: NDArray[np.uint32],
) -> None:
    for state in range(done, count):
        found = np.uint32(0)
        for test in range(tests.shape[0]):
            if accepted(program, tests[test, 0], states, state * width):
                found |= np.uint32(1) << np.uint32(tests[test, 1])
        facts[state] = found


@lean_inner
def true(tests: Numbers, test: Number, facts: np.uint64) -> bool:
    while test >= 0:
        test = tests[test, 1] if facts >> np.uint64(tests[test, 0]) & ONE else tests[test, 2]
    return test == ACCEPTED


@lean_inner
def facts_at_all_instants(facts: Facts, state: Number, to: Number, width: Width) -> np.uint64:
    before = facts.before[state] if facts.before.shape[0] else np.uint32(0)
    base, bare, size = np.uint64(before | facts.after[to]), facts.bare, len(width)
    same = state == to or (bare.shape[0] and same_words(bare, state * size, bare, to * size, width))
    return base if same else base | facts.moved


@lean_inner
def advanced(automaton: Automaton, held: Number, base: np.uint64, facts: Facts, at: Number, count: Number) -> Number:
    conditions = automaton.conditions
    last = conditions.shape[0] - 1
    for each in range(at, at + count):
        here = base | facts.instants[each]
        if held == last and true(automaton.tests, conditions[last], here):
            return ALL_HELD
        if held > 0 and automaton.until != NEVER and true(automaton.tests, automaton.until, here):
            held = 0
        if held < last and true(automaton.tests, conditions[held], here):
            held += 1
    return held


@lean_inner
def meet(nodes: Nodes, progress: Numbers, node: Number, following: Number, limit: Number) -> Number:
    progress[STEPS] += 1
    if nodes.seen[following]:
        return MORE
    found = progress[MET]
    nodes.seen[following] = True
    nodes.nodes[found] = following
    nodes.parents[found] = node
    progress[MET] = found + 1
    return TOO_MANY if found >= limit else MORE


@lean_inner
def called_twice(product: PackedProduct, edge: tuple[Number, Number, Number], here: np.uint64, limit: Number) -> Number:
    """Follow an edge in a search for two calls in a row.

    *here* holds the facts about the last instant of the step.
    """
    _, automaton, nodes, progress = product
    node, second, to = edge
    tests, conditions = automaton.tests, automaton.conditions
    if second:
        if not true(tests, conditions[1], here):
            return MORE
        if here & BUSY or true(tests, conditions[2], here):
            progress[STEPS] += 1
            return FOUND
    answer = meet(nodes, progress, node, 2 * to, limit)
    if not second and answer == MORE and not here & BUSY and true(tests, conditions[0], here):
        answer = meet(nodes, progress, node, 2 * to + 1, limit)
    return answer


@lean_inner
def steps_of(
    graph: KnownGraph, state: Number, width: Width
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Number, Number]:
    expansion, visited, steps, window, explored = graph
    if state < explored[KEPT]:
        return steps.to, steps.labels, np.int64(steps.first[state]), np.int64(steps.first[state + 1])
    if explored[RECENT] <= state < explored[UNTIL]:
        at = state - explored[RECENT]
        return window.to, window.labels, np.int64(window.first[at]), np.int64(window.first[at + 1])
    free = steps.to.shape[0] - written(expansion.space, width)[0]
    return steps.to, steps.labels, free, free + again(expansion, visited, steps, state, width, free)


@lean
def walk(graph: KnownGraph, product: PackedProduct, width: Width, most: Number, limit: Number) -> Number:
    facts, automaton, nodes, progress = product
    size = 2 if automaton.twice else automaton.conditions.shape[0]
    end = progress[STEPS] + most
    while progress[EXPANDED] < progress[MET]:
        if progress[STEPS] >= end:
            return MORE
        count_level(progress)
        node = progress[EXPANDED]
        state, held = divmod(np.int64(nodes.nodes[node]), size)
        if state >= graph.progress[EXPANDED]:
            return UNKNOWN
        all_to, all_labels, begin, stop = steps_of(graph, state, width)
        for step in range(begin, stop):
            label, to = all_labels[step], np.int64(all_to[step])
            base = facts_at_all_instants(facts, state, to, width)
            at, count = facts.first[label], facts.outputs[label]
            for _ in range(facts.replies[label]):
                if automaton.twice:
                    answer = called_twice(product, (node, held, to), base | facts.instants[at + count - 1], limit)
                else:
                    now = advanced(automaton, held, base, facts, at, count)
                    if now == ALL_HELD:
                        progress[STEPS] += 1
                        return FOUND
                    answer = meet(nodes, progress, node, to * size + now, limit)
                if answer != MORE:
                    return answer
                at += count
        progress[EXPANDED] += 1
    return DONE
