"""Bit tests for conditions on the instants of a packed graph.

Atoms about the states of copies are evaluated once per packed state, and all other atoms once per label.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np

from fsm.checker.instants import Instant, Successors, holds
from fsm.checker.packed.expansion import REJECTED, Words
from fsm.checker.packed.packed_graph import PackedGraph
from fsm.checker.packed.programs import Tests, array, first_test
from fsm.checker.packed.walk import BUSY_BIT, Facts, mark
from fsm.machine.conditions import At, Atom, Condition, Emits, Happens, In, Replies, SilentOn, StateChanges, atoms
from fsm.machine.product import read
from fsm.machine.table import Way

MOST: Final = BUSY_BIT
"""Maximum number of atoms about states, and of others.  The former use the lowest bits, below :data:`BUSY_BIT`."""
MOVED: Final = 2 * (MOST + 1)
"""Bit for a change of state.  The bits above it describe the calls of one event."""
CALLS, GRANTED, EMITTING = MOVED + 1, MOVED + 2, MOVED + 3


def supported(graph: PackedGraph, conditions: Iterable[Condition]) -> bool:
    """Check whether *conditions* can be tested on *graph*."""
    found = {each for condition in conditions for each in atoms(condition)}
    return (
        len(found) <= MOST
        and not any(isinstance(each, In | SilentOn) for each in found)
        and all(read(each) <= graph.table.cone for each in found)
    )


class LabelledInstants:
    """The instants of each label of *graph*, with the replies that *successors* distinguishes."""

    def __init__(self, graph: PackedGraph, successors: Successors) -> None:
        self._graph = graph
        self._successors = successors
        self._instants: list[Instant] = []
        self._holding: dict[Atom, list[bool]] = {}
        self._rows: list[tuple[int, int, int]] = []
        self.rows = array([], 3)
        """For each label, its first instant, its number of replies and its number of outputs."""

    @property
    def count(self) -> int:
        return len(self._instants)

    def grow(self) -> None:
        """Add the labels that the graph has met since the last call."""
        new = self._graph.labels[len(self._rows) :]
        for label in new:
            if label is None:
                self._rows.append((0, 0, 0))
                continue
            way = Way(index=-1, name=label.name, to=0, reply=label.reply, emits=label.emits)
            steps = [self._successors.step(0, label.row, way, reply) for reply in self._successors.replies(way)]
            self._rows.append((len(self._instants), len(steps), len(steps[0].instants)))
            self._instants += [instant for step in steps for instant in step.instants]
        if new:
            self.rows = array(self._rows, 3)

    def holding(self, atom: Atom) -> list[bool]:
        """Return for each instant whether *atom* holds.  *atom* must not be about states."""
        known = self._holding.setdefault(atom, [])
        if len(known) < len(self._instants):
            known += map(holds(atom, self._successors.table), self._instants[len(known) :])
        return known


def labelled(graph: PackedGraph, successors: Successors) -> LabelledInstants:
    """Return the instants of the labels of *graph*, cached for each set of codes that *successors* distinguishes."""
    if successors.codes not in graph.known:
        graph.known[successors.codes] = LabelledInstants(graph, successors)
    return cast("LabelledInstants", graph.known[successors.codes])


class ConditionTests:
    """Bit tests for *conditions*, which must be :func:`supported`, and facts about the states and labels of *graph*."""

    def __init__(
        self, graph: PackedGraph, instants: LabelledInstants, conditions: Sequence[Condition], event: str = ""
    ) -> None:
        self._graph = graph
        self._event = event
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
        if event and (busy := states.busy()) != REJECTED:
            self._at[0] = np.concatenate([self._at[0], array([(busy, BUSY_BIT)], 2)])
        moves = event or any(isinstance(each, StateChanges) for condition in conditions for each in atoms(condition))
        self._bare = np.zeros(1 if moves and graph.table.takes_time else 0, np.uint64)
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
        """Return the facts about all states and labels known so far."""
        graph, known = self._graph, self._labelled
        known.grow()
        for each, tests in enumerate(self._at):
            if each and not len(tests):
                continue
            if graph.met > len(self._marked[each]):
                self._marked[each].resize(3 * graph.met // 2, refcheck=False)
            mark(self._program, graph.states, graph.vector.width, tests, self._done, graph.met, self._marked[each])
        if len(self._bare):
            self._bare = np.append(self._bare, graph.vector.bare(graph.states[self._done * graph.vector.width :]))
            self._bare[0] = graph.vector.width
        self._done = graph.met
        if known.count > len(self._instants):
            self._instants = self._instant_facts()
        first, replies, outputs = (np.ascontiguousarray(column) for column in known.rows.T)
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

    def _instant_facts(self) -> Words:
        known = self._labelled
        held = [(bit, known.holding(atom)) for atom, bit in self._bits.items() if not isinstance(atom, At)]
        if self._event:
            held.append((CALLS, known.holding(Happens(event=self._event))))
            held.append((GRANTED, known.holding(Replies(event=self._event, reply="ok"))))
            held.append((EMITTING, [not silent for silent in known.holding(Emits(output=""))]))
        instants = np.zeros(known.count, np.uint64)
        for bit, holding in held:
            instants |= np.array(holding, np.uint64) << np.uint64(bit)
        return instants


def is_at(atom: Atom, *, before: bool) -> bool:
    """Check whether *atom* is about the states of copies after a step or, if *before* is true, before it."""
    return isinstance(atom, At) and atom.before == before
