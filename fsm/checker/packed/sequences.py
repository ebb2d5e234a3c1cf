"""Search a packed graph for sequences of conditions.

This module is the compiled counterpart of :mod:`fsm.checker.safety`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, cast

import numpy as np

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import Instant, Successors, holds
from fsm.checker.packed import exploration
from fsm.checker.packed import walk as walks
from fsm.checker.packed.expansion import REJECTED
from fsm.checker.packed.exploration import DEPTH, EXPANDED, MET, STEPS, initial_progress
from fsm.checker.packed.packed_graph import PackedGraph, covered
from fsm.checker.packed.programs import Tests, array, first_test
from fsm.checker.packed.walk import (
    BUSY_BIT,
    NEVER,
    Automaton,
    Facts,
    Nodes,
    PackedProduct,
    mark,
    walk,
)
from fsm.compiled import Number
from fsm.machine.claims import Counts
from fsm.machine.conditions import (
    All,
    At,
    Atom,
    Condition,
    Emits,
    Happens,
    In,
    Not,
    Replies,
    SilentOn,
    Some,
    StateChanges,
    atoms,
)
from fsm.machine.product import read
from fsm.machine.product.system import Locals
from fsm.machine.table import Way
from fsm.machine.traversal import LimitError

MOST: Final = BUSY_BIT
"""Maximum number of atoms about states, and also of other atoms.

The bits of atoms about states are below :data:`BUSY_BIT`.
"""
MOVED: Final = 2 * (MOST + 1)
"""Bit for a change of state."""


def _is_supported(graph: PackedGraph, conditions: Iterable[Condition]) -> bool:
    found = {each for condition in conditions for each in atoms(condition)}
    return (
        len(found) <= MOST
        and not any(isinstance(each, In | SilentOn) for each in found)
        and all(read(each) <= graph.table.cone for each in found)
    )


class LabelledInstants:
    def __init__(self, graph: PackedGraph, successors: Successors) -> None:
        self._graph = graph
        self._successors = successors
        self._holding: dict[Atom, list[bool]] = {}
        self.instants: list[Instant] = []
        self.rows: list[tuple[int, int, int]] = []
        """The index of the first instant and the numbers of replies and of instants per reply, for each label."""

    def grow(self) -> None:
        for label in self._graph.labels[len(self.rows) :]:
            if label is None:
                self.rows.append((0, 0, 0))
                continue
            way = Way(index=-1, name=label.name, to=0, reply=label.reply, emits=label.emits)
            steps = [self._successors.step(0, label.row, way, reply) for reply in self._successors.replies(way)]
            self.rows.append((len(self.instants), len(steps), len(steps[0].instants)))
            self.instants += [instant for step in steps for instant in step.instants]

    def holding(self, atom: Atom) -> list[bool]:
        known = self._holding.setdefault(atom, [])
        if len(known) < len(self.instants):
            known += map(holds(atom, self._successors.table), self.instants[len(known) :])
        return known


def labelled(graph: PackedGraph, successors: Successors) -> LabelledInstants:
    if successors.codes not in graph.known:
        graph.known[successors.codes] = LabelledInstants(graph, successors)
    return cast("LabelledInstants", graph.known[successors.codes])


class ConditionTests:
    def __init__(
        self, graph: PackedGraph, instants: LabelledInstants, conditions: Sequence[Condition], *, busy: bool
    ) -> None:
        self._graph = graph
        self._labelled = instants
        self._rows: list[tuple[int, int, int]] = []
        self._bits: dict[Atom, int] = {}
        self.first = [first_test(each, self._test) for each in conditions]
        self.tests = array(self._rows or [(0, 0, 0)], 3)
        states = Tests(graph.table, graph.vector)
        self._at = [
            array([(states.atom(each), bit) for each, bit in self._bits.items() if is_at(each, before=before)], 2)
            for before in (False, True)
        ]
        if busy and (test := states.busy()) != REJECTED:
            self._at[0] = np.concatenate([self._at[0], array([(test, BUSY_BIT)], 2)])
        moves = any(isinstance(each, StateChanges) for condition in conditions for each in atoms(condition))
        self._needs_bare = moves and bool(graph.table.timed)
        self._bare = np.zeros(0, np.uint64)
        program = graph.program._replace(tests=array(states.rows, 6), members=np.array(states.members, np.int64))
        self._program = program.flat()
        self._marked = [np.zeros(0, np.uint32) for _ in range(2)]
        self._done = 0
        self._instants = np.zeros(0, np.uint64)

    def _test(self, atom: Atom, yes: int, no: int) -> int:
        free = len(self._bits) + (0 if isinstance(atom, At) else MOST + 1)
        bit = MOVED if isinstance(atom, StateChanges) else self._bits.setdefault(atom, free)
        self._rows.append((bit, yes, no))
        return len(self._rows) - 1

    def facts(self) -> Facts:
        graph, known = self._graph, self._labelled
        known.grow()
        for each, tests in enumerate(self._at):
            if each and not len(tests):
                continue
            if graph.met > len(self._marked[each]):
                self._marked[each].resize(3 * graph.met // 2, refcheck=False)
            mark(self._program, graph.states, graph.vector.width, tests, self._done, graph.met, self._marked[each])
        if self._needs_bare:
            done, end = self._done * graph.vector.width, len(graph.states)
            if end > len(self._bare):
                self._bare.resize(3 * end // 2, refcheck=False)
            self._bare[done:end] = graph.vector.bare(graph.states[done:])
        self._done = graph.met
        if len(known.instants) > len(self._instants):
            self._instants = np.zeros(len(known.instants), np.uint64)
            for atom, bit in self._bits.items():
                if not isinstance(atom, At):
                    self._instants |= np.array(known.holding(atom), np.uint64) << np.uint64(bit)
        first, replies, outputs = (np.ascontiguousarray(column) for column in array(known.rows, 3).T)
        return Facts(
            after=self._marked[0],
            before=self._marked[1],
            moved=np.uint64(1 << MOVED),
            bare=self._bare,
            instants=self._instants,
            first=first,
            replies=replies,
            outputs=outputs,
        )


def is_at(atom: Atom, *, before: bool) -> bool:
    return isinstance(atom, At) and atom.before == before


CHUNK: Final = 1 << 20
"""Maximum number of steps per call of compiled code, so that interrupts are handled without delay."""

PackedNode: TypeAlias = tuple[Locals, int]


class PackedSearch:
    """A search of the product of *graph* and *automaton*.

    The automaton has *size* states and begins in the state *start*.
    """

    def __init__(self, graph: PackedGraph, tests: ConditionTests, automaton: Automaton, size: int, start: int) -> None:
        self.graph, self.automaton, self.size = graph, automaton, size
        self.progress = initial_progress()
        self._tests = tests
        self.facts = tests.facts()
        room = graph.met * size
        # Zeros use no memory until they are written, so a search that ends early stays small.
        self.nodes = Nodes(np.zeros(room, np.uint32), np.zeros(room, np.uint32), np.zeros(room, np.bool_))
        self.nodes.nodes[0] = start
        self.nodes.seen[start] = True

    def _part(self, limit: int) -> Number:
        product = PackedProduct(self.facts, self.automaton, self.nodes, self.progress)
        return walk(self.graph.known_graph, product, self.graph.vector.shape, CHUNK, limit)

    def _grow(self) -> None:
        size = self.graph.met * self.size
        if size > len(self.nodes.seen):
            for array in self.nodes:
                array.resize(5 * size // 4, refcheck=False)

    def succeeds(self, limit: Limit) -> bool:
        while True:
            limit.watch(covered(self.progress))
            match self._part(limit.states):
                case walks.FOUND:
                    return True
                case walks.TOO_MANY:
                    raise LimitError(limit.states)
                case walks.UNKNOWN:
                    self.graph.further()
                    self.facts = self._tests.facts()
                    self._grow()
                case exploration.DONE:
                    return False

    def run(self, limit: Limit) -> tuple[PackedNode, ...] | None:
        """Return the nodes of a shortest run without its last node, or ``None`` if there is no such run.

        Raise :class:`LimitError` if the limit is reached.
        """
        return tuple(self._path()) if self.succeeds(limit) else None

    def counts(self, path: Sequence[PackedNode] | None = None) -> Counts:
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


def through(
    graph: PackedGraph,
    successors: Successors,
    conditions: Sequence[Condition],
    until: Condition | None,
    start: int = 0,
) -> PackedSearch | None:
    """Return a search for a run through *conditions*, or ``None`` if packed states do not support this search.

    The sequence starts over when *until* holds.  *start* is the number of conditions that have already held.
    """
    asked = [*conditions, *([until] if until else [])]
    if not _is_supported(graph, asked):
        return None
    tests = ConditionTests(graph, labelled(graph, successors), asked, busy=False)
    first = np.array(tests.first[: len(conditions)], np.int64)
    automaton = Automaton(tests.tests, first, tests.first[-1] if until else NEVER, twice=False)
    return PackedSearch(graph, tests, automaton, len(conditions), start)


def calling_twice(
    graph: PackedGraph, successors: Successors, event: str, once: Condition | None
) -> PackedSearch | None:
    """Return a search for a repeated call of *event* that still has an effect.

    The first call must succeed, *once* must hold at its reply, and the second call must follow directly.  Return
    ``None`` if packed states do not support this search.
    """
    called, succeeds = Happens(event=event), Replies(event=event, reply="ok")
    granted = All(of=(called, succeeds, *([once] if once else [])))
    changes = Some(of=(Not(of=succeeds), Not(of=Emits(output="")), StateChanges()))
    if not _is_supported(graph, [granted, changes]):
        return None
    tests = ConditionTests(graph, labelled(graph, successors), [granted, called, changes], busy=True)
    automaton = Automaton(tests.tests, np.array(tests.first, np.int64), NEVER, twice=True)
    return PackedSearch(graph, tests, automaton, 2, 0)
