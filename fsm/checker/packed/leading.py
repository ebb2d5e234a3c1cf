"""Prove leads-to claims on a packed graph.  :mod:`fsm.checker.liveness` finds the counterexamples."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import Successors
from fsm.checker.packed import exploration
from fsm.checker.packed import walk as walks
from fsm.checker.packed.exploration import DEPTH, MET, STEPS, no_progress
from fsm.checker.packed.facts import ConditionTests, labelled, supported
from fsm.checker.packed.fair_cycles import SOURCE_MET, Claimed, Links, circles, link, wait
from fsm.checker.packed.packed_graph import PackedGraph, covered
from fsm.checker.packed.sequences import CHUNK, first_node, more_nodes
from fsm.machine.property.claims import Counts, Fair, LeadsTo
from fsm.machine.traversal import LimitError

MOST_FAIR: Final = 64
"""Maximum number of fairness conditions of a claim, each of which takes one bit."""


class Waiting:
    """Product of *graph* with one bit, which says whether the target of *claim* is due."""

    def __init__(self, graph: PackedGraph, successors: Successors, claim: LeadsTo, *, due: bool) -> None:
        self._graph = graph
        self._claim = claim
        instants = labelled(graph, successors)
        self._tests = ConditionTests(graph, instants, [claim.source.means, claim.target.means])
        source, target = self._tests.first
        self._claimed = Claimed(tests=self._tests.tests, source=source, target=target)
        self._progress = no_progress()
        self._held = np.zeros(1, np.int64)
        self._nodes = first_node(int(due), 2)
        self._grow()

    def _grow(self) -> None:
        self._facts = self._tests.facts()
        self._nodes = more_nodes(self._nodes, int(self._progress[MET]), 2 * self._graph.met)

    @property
    def source_met(self) -> bool:
        """Whether the source has held at an instant of a step."""
        return bool(self._held[0] & SOURCE_MET)

    def explore(self, limit: Limit) -> Counts:
        """Explore the whole product and return its size.  Raise :class:`LimitError` if it exceeds *limit*."""
        graph = self._graph

        def watch() -> None:
            limit.watch(covered(self._progress))

        while True:
            watch()
            product = self._facts, self._claimed, self._nodes, self._progress, self._held
            match wait(*graph.found, *product, graph.vector.shape, CHUNK, limit.states):
                case walks.TOO_MANY:
                    raise LimitError(limit.states)
                case walks.UNKNOWN:
                    graph.expand(watch)
                    self._grow()
                case exploration.DONE:
                    break
        counts = (int(self._progress[each]) for each in (MET, STEPS, DEPTH))
        return Counts(**dict(zip(("states", "transitions", "depth"), counts, strict=True)))

    def stays_due(self, limit: Limit) -> bool:
        """Check whether a fair run stops or continues forever while the target is due."""
        fair = self._claim.fair
        links = self._links(limit)
        if not len(links.enabled):
            return False
        of_all, weakly, strongly = (
            np.uint64(sum(1 << bit for bit, each in enumerate(fair) if wanted(each)))
            for wanted in (lambda _: True, lambda each: not each.strongly, lambda each: each.strongly)
        )
        return bool(((links.enabled & of_all) == 0).any()) or bool(circles(links, weakly, strongly))

    def _links(self, limit: Limit) -> Links:
        graph, found = self._graph, self._nodes.nodes[: int(self._progress[MET])]
        waiting = (found[found % 2 == 1] // 2).astype(np.int64)
        number = np.zeros(graph.met, np.uint32)
        number[waiting] = np.arange(len(waiting), dtype=np.uint32)
        fair = self._fair()
        links = _no_links(len(waiting), 2 * len(waiting) + 1)
        done = 0
        while done < len(waiting):
            limit.watch(covered(self._progress))
            end = min(done + CHUNK, len(waiting))
            program = self._facts, self._claimed, fair, waiting, number
            done = int(link(*graph.found, *program, done, end, links, graph.vector.shape))
            if done < end:
                links = _more_links(links)
        return links

    def _fair(self) -> NDArray[np.uint64]:
        rows = self._graph.table.rows
        return np.array(
            [
                sum(
                    1 << bit
                    for bit, each in enumerate(self._claim.fair)
                    if label is not None and _takes(each, rows[label.row].event.name, label.name)
                )
                for label in self._graph.labels
            ],
            np.uint64,
        )


def _takes(fair: Fair, event: str, outcome: str) -> bool:
    return not fair.ends and fair.event == event and fair.outcome in {"", outcome}


def _no_links(states: int, room: int) -> Links:
    return Links(
        first=np.zeros(states + 1, np.int64),
        to=np.zeros(room, np.uint32),
        take=np.zeros(room, np.uint64),
        enabled=np.zeros(states, np.uint64),
    )


def _more_links(links: Links) -> Links:
    size = 2 * len(links.to)
    to, take = np.zeros(size, np.uint32), np.zeros(size, np.uint64)
    to[: len(links.to)], take[: len(links.take)] = links.to, links.take
    return links._replace(to=to, take=take)


def leads_to(
    graph: PackedGraph, successors: Successors, claim: LeadsTo, limit: Limit, *, due: bool
) -> tuple[bool, bool, Counts] | None:
    """Return whether *claim* fails, whether its source was met, and the size of the search.

    Return ``None`` if the claim cannot be decided on packed states.  This includes systems whose calls take time,
    because their calls may end in ways that are not steps of the graph.
    """
    conditions = [claim.source.means, claim.target.means]
    if graph.table.takes_time or len(claim.fair) > MOST_FAIR or not supported(graph, conditions):
        return None
    waiting = Waiting(graph, successors, claim, due=due)
    counts = waiting.explore(limit)
    return waiting.stays_due(limit), waiting.source_met, counts
