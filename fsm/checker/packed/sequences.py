"""Compiled counterpart of :mod:`fsm.checker.safety`: search a packed graph for sequences of conditions."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import Successors
from fsm.checker.packed import exploration
from fsm.checker.packed import walk as walks
from fsm.checker.packed.exploration import DEPTH, EXPANDED, MET, STEPS, no_progress
from fsm.checker.packed.facts import ConditionTests, labelled, supported
from fsm.checker.packed.packed_graph import PackedGraph, covered
from fsm.checker.packed.walk import NEVER, SEQUENCE, TWICE, Automaton, Nodes, Product, scan, walk
from fsm.compiled import Number
from fsm.machine.conditions import All, Condition
from fsm.machine.product.joint_moves import Locals
from fsm.machine.property.claims import Counts
from fsm.machine.traversal import LimitError

CHUNK: Final = 1 << 20
"""Maximum number of steps per call of compiled code, so that interrupts are handled without delay."""

PackedNode: TypeAlias = tuple[Locals, int]
"""The states of the copies and the state of the automaton."""

__all__ = ["PackedSearch", "calling_twice", "supported", "through"]


class PackedSearch:
    """A search of the product of *graph* with *automaton*, of *size* states, which begins in state *start*."""

    def __init__(self, graph: PackedGraph, tests: ConditionTests, automaton: Automaton, size: int, start: int) -> None:
        self.graph, self.automaton, self.size = graph, automaton, size
        self.progress = no_progress()
        self._tests = tests
        self.facts = tests.facts()
        self.nodes = Nodes(np.array([start], np.uint32), np.zeros(1, np.uint32), np.zeros(size, np.bool_))
        self.nodes.seen[start] = True
        self._grow()

    def _part(self, limit: int) -> Number:
        """Search up to :data:`CHUNK` more steps of the known part of the graph.  Return why that ended."""
        product = Product(self.facts, self.automaton, self.nodes, self.progress)
        return walk(self.graph.known_part, product, self.graph.vector.shape, CHUNK, limit)

    def _grow(self) -> None:
        """Make room for the nodes of all known states."""
        met, size = int(self.progress[MET]), self.graph.met * self.size
        nodes = Nodes(np.zeros(size, np.uint32), np.zeros(size, np.uint32), np.zeros(size, np.bool_))
        for old, new, known in zip(self.nodes, nodes, (met, met, len(self.nodes.seen)), strict=True):
            new[:known] = old[:known]
        self.nodes = nodes

    def _explore(self, limit: Limit) -> None:
        self.graph.expand(lambda: limit.watch(covered(self.progress)))

    def succeeds(self, limit: Limit) -> bool:
        """Search the whole product.  Return whether the search ended with success.  Raise :class:`LimitError`."""
        while True:
            limit.watch(covered(self.progress))
            match self._part(limit.states):
                case walks.FOUND:
                    return True
                case walks.TOO_MANY:
                    raise LimitError(limit.states)
                case walks.UNKNOWN:
                    self._explore(limit)
                    self.facts = self._tests.facts()
                    self._grow()
                case exploration.DONE:
                    return False

    def run(self, limit: Limit) -> tuple[PackedNode, ...] | None:
        """Return the nodes of a shortest run except the last, or ``None``.  Raise :class:`LimitError`."""
        return tuple(self._path()) if self.succeeds(limit) else None

    def counts(self, path: Sequence[PackedNode] | None = None) -> Counts:
        """Return the size of the search that found *path*, or of one that found nothing if *path* is ``None``."""
        depth = int(self.progress[DEPTH]) if path is None else len(path)
        return Counts(states=int(self.progress[MET]), transitions=int(self.progress[STEPS]), depth=depth)

    def met(self, automaton: int) -> bool:
        return bool((self.nodes.nodes[: self.progress[MET]] % self.size == automaton).any())

    def _path(self) -> Iterator[PackedNode]:
        places = [int(self.progress[EXPANDED])]
        while places[-1]:
            places.append(int(self.nodes.parents[places[-1]]))
        for place in reversed(places):
            state, held = divmod(int(self.nodes.nodes[place]), self.size)
            yield self.graph.locals(state), held


class PackedScan(PackedSearch):
    """A search for an instant at which a single condition holds.  It needs no nodes besides the states."""

    def _part(self, limit: int) -> Number:
        product = self.facts, self.automaton, self.progress
        return scan(self.graph.known_part, *product, self.graph.vector.shape, CHUNK, limit)

    def _grow(self) -> None:
        pass

    def _explore(self, limit: Limit) -> None:  # noqa: ARG002  (the part is small)
        self.graph.further()

    def _path(self) -> Iterator[PackedNode]:
        return ((self.graph.locals(state), 0) for state in self.graph.path(int(self.progress[EXPANDED])))


def through(
    graph: PackedGraph,
    successors: Successors,
    conditions: Sequence[Condition],
    until: Condition | None,
    start: int = 0,
) -> PackedSearch:
    """Return a search for a run through *conditions*, which *until* resets.  The first *start* of them have held."""
    tests = ConditionTests(graph, labelled(graph, successors), [*conditions, *([until] if until else [])])
    first = np.array(tests.first[: len(conditions)], np.int64)
    automaton = Automaton(SEQUENCE, tests.tests, first, until=tests.first[-1] if until else NEVER)
    kind = PackedScan if len(conditions) == 1 else PackedSearch
    return kind(graph, tests, automaton, len(conditions), start)


def calling_twice(graph: PackedGraph, successors: Successors, event: str, once: Condition | None) -> PackedSearch:
    """Return a search for a call of *event* with an effect, right after one that replied ok and made *once* hold."""
    tests = ConditionTests(graph, labelled(graph, successors), [once or All(of=())], event)
    automaton = Automaton(TWICE, tests.tests, np.zeros(0, np.int64), until=tests.first[0])
    return PackedSearch(graph, tests, automaton, 2, 0)
