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
from fsm.checker.packed.walk import NEVER, Automaton, Nodes, scan, walk
from fsm.compiled import Numbers
from fsm.machine.conditions import All, Condition
from fsm.machine.product.joint_moves import Locals
from fsm.machine.property.claims import Counts
from fsm.machine.traversal import LimitError

CHUNK: Final = 1 << 20
"""Maximum number of steps per call of compiled code, so that interrupts are handled without delay."""

PackedNode: TypeAlias = tuple[Locals, int]
"""The states of the copies and the state of the automaton."""

__all__ = ["PackedSearch", "calling_twice", "supported", "through"]


def first_node(start: int, size: int) -> Nodes:
    """Return arrays with only the first node, for an automaton of *size* states that begins in *start*."""
    nodes = Nodes(np.array([start], np.uint32), np.zeros(1, np.uint32), np.zeros(size, np.bool_))
    nodes.seen[start] = True
    return nodes


def more_nodes(before: Nodes, met: int, size: int) -> Nodes:
    """Copy the *met* nodes in *before* to arrays with room for *size* nodes."""
    nodes = Nodes(np.zeros(size, np.uint32), np.zeros(size, np.uint32), np.zeros(size, np.bool_))
    for old, new, known in zip(before, nodes, (met, met, len(before.seen)), strict=True):
        new[:known] = old[:known]
    return nodes


class PackedScan:
    """A search of *graph* for an instant at which the only condition of *automaton* holds."""

    def __init__(self, graph: PackedGraph, tests: ConditionTests, automaton: Automaton) -> None:
        self._graph = graph
        self._tests = tests
        self._automaton = automaton
        self._progress = no_progress()

    def run(self, limit: Limit) -> tuple[PackedNode, ...] | None:
        """Like :meth:`PackedSearch.run`."""
        graph = self._graph
        facts = self._tests.facts()
        while True:
            limit.watch(covered(self._progress))
            product = facts, self._automaton, self._progress
            match scan(*graph.found, *product, graph.vector.shape, CHUNK, limit.states):
                case walks.FOUND:
                    return tuple((graph.locals(state), 0) for state in graph.path(int(self._progress[EXPANDED])))
                case walks.TOO_MANY:
                    raise LimitError(limit.states)
                case walks.UNKNOWN:
                    graph.further()
                    facts = self._tests.facts()
                case exploration.DONE:
                    return None

    def counts(self, path: Sequence[PackedNode] | None) -> Counts:
        """Like :meth:`PackedSearch.counts`."""
        return _counts(self._progress, path)


class PackedSearch:
    """A search of the product of *graph* with an automaton of *size* states that begins in state *start*."""

    def __init__(self, graph: PackedGraph, tests: ConditionTests, automaton: Automaton, size: int, start: int) -> None:
        self._graph = graph
        self._tests = tests
        self._automaton = automaton
        self._size = size
        self._progress = no_progress()
        self._nodes = first_node(start, size)
        self._grow()

    def _grow(self) -> None:
        self._facts = self._tests.facts()
        self._nodes = more_nodes(self._nodes, int(self._progress[MET]), self._graph.met * self._size)

    def run(self, limit: Limit) -> tuple[PackedNode, ...] | None:
        """Return the nodes of a shortest run except the last, or ``None``.  Raise :class:`LimitError`."""
        graph = self._graph

        def watch() -> None:
            limit.watch(covered(self._progress))

        while True:
            product = self._facts, self._automaton, self._nodes, self._progress
            watch()
            match walk(*graph.found, *product, graph.vector.shape, CHUNK, limit.states):
                case walks.FOUND:
                    return tuple(self._path())
                case walks.TOO_MANY:
                    raise LimitError(limit.states)
                case walks.UNKNOWN:
                    graph.expand(watch)
                    self._grow()
                case exploration.DONE:
                    return None

    def counts(self, path: Sequence[PackedNode] | None) -> Counts:
        """Return the size of the search that found *path*, or of one that found nothing if *path* is ``None``."""
        return _counts(self._progress, path)

    def met(self, automaton: int) -> bool:
        """Check whether any node with this state of the *automaton* was met."""
        return bool((self._nodes.nodes[: self._progress[MET]] % self._size == automaton).any())

    def _path(self) -> Iterator[PackedNode]:
        place = int(self._progress[EXPANDED])
        places = [place]
        while place:
            place = int(self._nodes.parents[place])
            places.append(place)
        for each in reversed(places):
            state, held = divmod(int(self._nodes.nodes[each]), self._size)
            yield self._graph.locals(state), held


def _counts(progress: Numbers, path: Sequence[PackedNode] | None) -> Counts:
    depth = int(progress[DEPTH]) if path is None else len(path)
    return Counts(states=int(progress[MET]), transitions=int(progress[STEPS]), depth=depth)


def through(
    graph: PackedGraph, successors: Successors, conditions: Sequence[Condition], until: Condition | None, start: int = 0
) -> PackedSearch | PackedScan:
    """Return a search for a run through *conditions*, which *until* resets.  The first *start* of them have held."""
    tests = ConditionTests(graph, labelled(graph, successors), [*conditions, *([until] if until else [])])
    first = np.array(tests.first[: len(conditions)], np.int64)
    automaton = Automaton(tests=tests.tests, conditions=first, until=tests.first[-1] if until else NEVER)
    if len(conditions) == 1:
        return PackedScan(graph, tests, automaton)
    return PackedSearch(graph, tests, automaton, len(conditions), start)


def calling_twice(graph: PackedGraph, successors: Successors, event: str, once: Condition | None) -> PackedSearch:
    """Return a search for a call of *event* with an effect, right after one that replied ok and made *once* hold."""
    tests = ConditionTests(graph, labelled(graph, successors), [once or All(of=())], event)
    automaton = Automaton(tests=tests.tests, conditions=np.zeros(0, np.int64), until=tests.first[0])
    return PackedSearch(graph, tests, automaton, 2, 0)
