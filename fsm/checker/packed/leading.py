"""Prove leads-to claims on a packed graph.  :mod:`fsm.checker.liveness` finds the counterexamples."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import Successors
from fsm.checker.packed.expansion import REJECTED, Width
from fsm.checker.packed.exploration import MET, KnownGraph
from fsm.checker.packed.packed_graph import PackedGraph, covered
from fsm.checker.packed.sequences import CHUNK, PackedSearch, through
from fsm.checker.packed.walk import Automaton, Facts, advanced, facts_at_all_instants, steps_of
from fsm.compiled import Number, Numbers, compiled, inner, lean
from fsm.machine.claims import Counts, Fair, LeadsTo
from fsm.machine.conditions import All, Not, Some


class Links(NamedTuple):
    """A graph of the states in which a claim's target is due.  A link is a step after which the target is still due.

    The links of node ``n`` begin at the index ``first[n]`` of ``to`` and ``take``.  ``to`` holds the node at the end of
    each link.  ``take`` has a bit for each fairness condition that the step satisfies, and ``enabled`` has a bit for
    each fairness condition that is enabled in the node.
    """

    first: Numbers
    to: NDArray[np.uint32]
    take: NDArray[np.uint64]
    enabled: NDArray[np.uint64]


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
    """Write the links of the states ``waiting[begin:end]`` while there is room.

    *automaton* leaves state 1 when the target holds.  *fair* holds the bits of the fairness conditions that each label
    satisfies, and *number* maps states to their indices in *waiting*.  Return the index of the first state whose links
    did not fit, or *end* if all of them did.
    """
    free = links.first[begin]
    for place in range(begin, end):
        state = waiting[place]
        all_to, all_labels, first, stop = steps_of(graph, state, width)
        enabled = np.uint64(0)
        for step in range(first, stop):
            label, to = all_labels[step], np.int64(all_to[step])
            enabled |= fair[label]
            base = facts_at_all_instants(facts, state, to, width)
            at, count = facts.first[label], facts.outputs[label]
            for _ in range(facts.replies[label]):
                if advanced(automaton, 1, base, facts, at, count):
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
    links: Links, alive: NDArray[np.bool_], component: Numbers
) -> Number:
    """Find the strongly connected components of the nodes in *alive*, and return their number.

    The component of each node is written to *component*.  The algorithm was published by Tarjan (1972).
    """
    size = links.first.shape[0] - 1
    order, low = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    going, at, open_ = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    met, found, opened = 0, 0, 0
    component[:] = -1
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
                    if component[to] < 0:
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
                    component[member] = found
                    if member == node:
                        break
                found += 1
            depth -= 1
            if depth >= 0:
                low[going[depth]] = min(low[going[depth]], low[node])
    return found


@compiled
def has_fair_cycle(links: Links, weakly: np.uint64, strongly: np.uint64) -> bool:  # noqa: C901  (calls are slow)
    """Return whether there is a fair cycle.

    In the component of a fair cycle, each condition in *weakly* is satisfied by a link or disabled in some node.
    Each condition in *strongly* is satisfied by a link or disabled in every node.
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


MOST_FAIR: Final = 64


def can_stay_due(waiting: PackedSearch, fair: Sequence[Fair], limit: Limit) -> bool:
    """Return whether the target stays due in some fair run, finite or infinite."""
    links = _links(waiting, fair, limit)
    if not len(links.enabled):
        return False
    every, strongly = (1 << len(fair)) - 1, _bits(each.strongly for each in fair)
    stops = bool(((links.enabled & np.uint64(every)) == 0).any())
    return stops or bool(has_fair_cycle(links, np.uint64(every & ~strongly), np.uint64(strongly)))


def _links(waiting: PackedSearch, fair: Sequence[Fair], limit: Limit) -> Links:
    graph, found = waiting.graph, waiting.nodes.nodes[: int(waiting.progress[MET])]
    states = (found[found % 2 == 1] // 2).astype(np.int64)
    number = np.zeros(graph.met, np.uint32)
    number[states] = np.arange(len(states), dtype=np.uint32)
    rows = graph.table.rows
    satisfied = [
        _bits(label is not None and _fair_matches(each, rows[label.row].event.name, label.name) for each in fair)
        for label in graph.labels
    ]
    until_target = waiting.automaton._replace(conditions=np.full(2, REJECTED, np.int64))
    program = waiting.facts, until_target, np.array(satisfied, np.uint64), states, number
    count, room, done = len(states), 2 * len(states) + 1, 0
    arrays = np.zeros(count + 1, np.int64), np.zeros(room, np.uint32), np.zeros(room, np.uint64)
    links = Links(*arrays, np.zeros(count, np.uint64))
    while done < count:
        limit.watch(covered(waiting.progress))
        end = min(done + CHUNK, count)
        done = int(link(graph.known_graph, *program, done, end, links, graph.vector.shape))
        if done < end:
            for array in (links.to, links.take):
                array.resize(2 * len(array), refcheck=False)
    return links


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << bit for bit, flag in enumerate(flags) if flag)


def _fair_matches(fair: Fair, event: str, outcome: str) -> bool:
    return not fair.ends and fair.event == event and fair.outcome in {"", outcome}


def holds(
    graph: PackedGraph, successors: Successors, claim: LeadsTo, limit: Limit, *, due: bool
) -> tuple[bool, Counts] | None:
    """Try to prove on packed states that every fair run reaches the target of *claim* once the target is due.

    The source makes the target due; if *due* is true, it is due from the beginning.  If the proof succeeds, return
    whether the target is ever due, and the size of the search; else return ``None``.  A claim cannot be proved on
    packed states if calls of the system take time, because calls may end in ways that are not steps of the graph.
    """
    source, target = claim.source.means, claim.target.means
    if graph.table.timed or len(claim.fair) > MOST_FAIR:
        return None
    # The automaton is in state 1 while the target is due, because the second condition never holds.
    waiting = through(graph, successors, [All(of=(source, Not(of=target))), Some(of=())], target, start=int(due))
    if waiting is None:
        return None
    waiting.succeeds(limit)
    return None if can_stay_due(waiting, claim.fair, limit) else (waiting.met(1), waiting.counts())
