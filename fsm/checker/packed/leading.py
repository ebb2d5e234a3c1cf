"""Prove leads-to claims on a packed graph.  :mod:`fsm.checker.liveness` finds the counterexamples."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import Successors
from fsm.checker.packed.exploration import HELD, MET
from fsm.checker.packed.facts import ConditionTests, labelled, supported
from fsm.checker.packed.fair_cycles import Links, circles, link, no_links
from fsm.checker.packed.packed_graph import PackedGraph, covered
from fsm.checker.packed.sequences import CHUNK, PackedSearch
from fsm.checker.packed.walk import LEADS_TO, SOURCE_MET, Automaton
from fsm.machine.property.claims import Counts, Fair, LeadsTo

MOST_FAIR: Final = 64
"""Maximum number of fairness conditions of a claim, each of which takes one bit."""


class Waiting(PackedSearch):
    """Product of *graph* with one bit, which says whether the target of *claim* is due."""

    def __init__(self, graph: PackedGraph, successors: Successors, claim: LeadsTo, *, due: bool) -> None:
        self._fair = claim.fair
        tests = ConditionTests(graph, labelled(graph, successors), [claim.source.means, claim.target.means])
        source, target = tests.first
        super().__init__(graph, tests, Automaton(LEADS_TO, tests.tests, np.array([source]), target), 2, int(due))

    @property
    def source_met(self) -> bool:
        """Whether the source has held at an instant of a step."""
        return bool(self.progress[HELD] & SOURCE_MET)

    def stays_due(self, limit: Limit) -> bool:
        """Check whether a fair run stops or continues forever while the target is due."""
        links = self._links(limit)
        if not len(links.enabled):
            return False
        every, strongly = (1 << len(self._fair)) - 1, _bits(each.strongly for each in self._fair)
        stops = bool(((links.enabled & np.uint64(every)) == 0).any())
        return stops or bool(circles(links, np.uint64(every & ~strongly), np.uint64(strongly)))

    def _links(self, limit: Limit) -> Links:
        graph, found = self.graph, self.nodes.nodes[: int(self.progress[MET])]
        waiting = (found[found % 2 == 1] // 2).astype(np.int64)
        number = np.zeros(graph.met, np.uint32)
        number[waiting] = np.arange(len(waiting), dtype=np.uint32)
        rows = graph.table.rows
        fair = [
            _bits(label is not None and _takes(each, rows[label.row].event.name, label.name) for each in self._fair)
            for label in graph.labels
        ]
        program = self.facts, self.automaton, np.array(fair, np.uint64), waiting, number
        links, done = no_links(len(waiting)), 0
        while done < len(waiting):
            limit.watch(covered(self.progress))
            end = min(done + CHUNK, len(waiting))
            done = int(link(graph.known_part, *program, done, end, links, graph.vector.shape))
            if done < end:
                more = np.zeros_like(links.to), np.zeros_like(links.take)
                links = links._replace(to=np.append(links.to, more[0]), take=np.append(links.take, more[1]))
        return links


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << bit for bit, flag in enumerate(flags) if flag)


def _takes(fair: Fair, event: str, outcome: str) -> bool:
    return not fair.ends and fair.event == event and fair.outcome in {"", outcome}


def holds(
    graph: PackedGraph, successors: Successors, claim: LeadsTo, limit: Limit, *, due: bool
) -> tuple[bool, Counts] | None:
    """If *claim* holds, return whether its source was met, and the size of the search.

    Return ``None`` if the claim fails or cannot be decided on packed states.  The latter includes systems whose calls
    take time, because their calls may end in ways that are not steps of the graph.
    """
    conditions = [claim.source.means, claim.target.means]
    if graph.table.takes_time or len(claim.fair) > MOST_FAIR or not supported(graph, conditions):
        return None
    waiting = Waiting(graph, successors, claim, due=due)
    waiting.succeeds(limit)
    return None if waiting.stays_due(limit) else (waiting.source_met, waiting.counts())
