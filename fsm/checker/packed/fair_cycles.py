"""Find fair runs of a packed graph on which a target stays due forever.

The search runs on the product of the graph with one bit, which says whether the target is due.  This is the compiled
counterpart of :mod:`fsm.checker.liveness`, which then finds the run itself.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed.expansion import Width
from fsm.checker.packed.exploration import KnownGraph
from fsm.checker.packed.walk import DUE, TARGET_MET, Automaton, Facts, after, held_by_all, steps_of
from fsm.compiled import Number, Numbers, compiled, inner, lean


class Links(NamedTuple):
    """Links between nodes on which the target stays due.  Those of node ``n`` begin at ``first[n]``.

    ``to`` holds the target of each link, and ``take`` the bits of the fairness conditions that it satisfies.
    ``enabled`` holds the bits of the fairness conditions enabled in each node.
    """

    first: Numbers
    to: NDArray[np.uint32]
    take: NDArray[np.uint64]
    enabled: NDArray[np.uint64]


def no_links(states: int) -> Links:
    """Return arrays with room for two links of each of this many *states*."""
    first, room = np.zeros(states + 1, np.int64), 2 * states + 1
    return Links(first, np.zeros(room, np.uint32), np.zeros(room, np.uint64), np.zeros(states, np.uint64))


@lean
def link(
    graph: KnownGraph,
    facts: Facts,
    automaton: Automaton,
    fair: NDArray[np.uint64],
    waiting: Numbers,
    number: NDArray[np.uint32],
    begin: Number,
    end: Number,
    links: Links,
    width: Width,
) -> Number:
    """Write the links of the waiting states with indices *begin* to *end* while there is room.

    *fair* holds the bits of the fairness conditions that each label satisfies.  *number* maps states to their indices
    in *waiting*.  Return the index of the first state without room, or *end* if there was room for all.
    """
    free = links.first[begin]
    for place in range(begin, end):
        state = waiting[place]
        all_to, all_labels, first, stop = steps_of(graph, state, width)
        enabled = np.uint64(0)
        for step in range(first, stop):
            label, to = all_labels[step], np.int64(all_to[step])
            enabled |= fair[label]
            base = held_by_all(facts, state, to)
            at, count = facts.first[label], facts.outputs[label]
            for _ in range(facts.replies[label]):
                if after(facts, automaton, 1, base, at, count) & (DUE | TARGET_MET) == DUE:
                    if free == links.to.shape[0]:
                        return place
                    links.to[free] = number[to]
                    links.take[free] = fair[label]
                    free += 1
                at += count
        links.enabled[place] = enabled
        links.first[place + 1] = free
    return end


@inner
def _components(  # noqa: C901, PLR0912  (one loop instead of recursion)
    links: Links, alive: NDArray[np.bool_], of: Numbers
) -> Number:
    """Write the strongly connected component of each *alive* node (Tarjan, 1972) to *of*.  Return their number."""
    size = links.first.shape[0] - 1
    order, low = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    going, at, open_ = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    met, found, opened = 0, 0, 0
    of[:] = -1
    for root in range(size):
        if not alive[root] or order[root] >= 0:
            continue
        depth = 0
        going[0] = root
        while depth >= 0:
            node = going[depth]
            if order[node] < 0:
                order[node] = low[node] = met
                met += 1
                at[node] = links.first[node]
                open_[opened] = node
                opened += 1
            further: Number = -1
            while at[node] < links.first[node + 1]:
                to = np.int64(links.to[at[node]])
                if alive[to]:
                    if order[to] < 0:
                        further = to
                        break
                    if of[to] < 0:
                        low[node] = min(low[node], low[to])
                at[node] += 1
            if further >= 0:
                depth += 1
                going[depth] = further
                continue
            if low[node] == order[node]:
                while True:
                    opened -= 1
                    member = open_[opened]
                    of[member] = found
                    if member == node:
                        break
                found += 1
            depth -= 1
            if depth >= 0:
                low[going[depth]] = min(low[going[depth]], low[node])
    return found


@compiled
def circles(links: Links, weakly: np.uint64, strongly: np.uint64) -> bool:  # noqa: C901  (one loop: calls are slow)
    """Check whether there is a fair cycle.

    In its component, each *weakly* fair condition is satisfied by a link or disabled in some node, and each *strongly*
    fair condition is satisfied by a link or disabled in every node.
    """
    size = links.first.shape[0] - 1
    alive, of = np.ones(size, np.bool_), np.zeros(size, np.int64)
    left = size
    while left:
        count = _components(links, alive, of)
        taken, always = np.zeros(count, np.uint64), np.full(count, ~np.uint64(0), np.uint64)
        closed, starved = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for node in range(size):
            if alive[node]:
                always[of[node]] &= links.enabled[node]
                for each in range(links.first[node], links.first[node + 1]):
                    if of[links.to[each]] == of[node]:
                        closed[of[node]] = True
                        taken[of[node]] |= links.take[each]
        left = 0
        for node in range(size):
            if alive[node]:
                those = of[node]
                if not closed[those] or always[those] & weakly & ~taken[those]:
                    alive[node] = False
                elif links.enabled[node] & strongly & ~taken[those]:
                    alive[node] = False
                    starved[those] = True
        for node in range(size):
            if alive[node]:
                if not starved[of[node]]:
                    return True
                left += 1
    return False
