"""The graph of the reachable states of a system in packed form, which is explored on demand."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fsm.checker.breadth_first import Limit
from fsm.checker.packed import exploration
from fsm.checker.packed.expansion import CHAINS, MEMO, Expansion, Words, empty_chains, empty_memo, reinsert_chains, room
from fsm.checker.packed.exploration import (
    DEPTH,
    EXACT,
    EXPANDED,
    KEPT,
    MET,
    RECENT,
    STEPS,
    UNTIL,
    KnownGraph,
    Steps,
    Visited,
    encode_orbits,
    explore,
    initial_progress,
    rehash,
    unfolded_counts,
)
from fsm.checker.packed.programs import StateVector, Writing
from fsm.compiled import Numbers
from fsm.machine.claims import Counts
from fsm.machine.product import SystemTable
from fsm.machine.product.system import Locals
from fsm.machine.traversal import Explored, LimitError

WINDOW: Final = 1 << 16
"""Maximum number of states and steps per call of compiled code, so that interrupts are handled without delay."""

MOST_KEPT: Final = 1 << 19
"""Maximum number of steps to keep.  The steps of later states are recomputed when needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    row: int
    name: str
    reply: tuple[str, ...]
    emits: tuple[str, ...]


class PackedGraph:
    """The packed states of *table* in breadth-first order, and their steps in the model's order.

    Raise ``TooWideError`` if a state needs too many words.
    """

    def __init__(self, table: SystemTable, *, most_kept: int = MOST_KEPT, window: int = WINDOW) -> None:
        self.table = table
        self.vector = StateVector(table)
        self.labels: list[Label | None] = []
        """The label of each chain, or ``None`` if the chain is incomplete."""
        self.known: dict[tuple[str, ...], object] = {}
        """Data that claims derive from the labels, by distinguished error codes."""
        self._writing = Writing(table, self.vector)
        self.program = self._writing.program
        self._chains = empty_chains(1 << 10)
        self._memo = empty_memo(self._writing.memo - MEMO, window)
        self._orbits = encode_orbits(table.orbits, self.vector)
        self._space = room(1 << 11, self.vector.width)
        self._ahead = np.zeros((1 << 11) + 1, np.uint64)
        exact = self.vector.bits <= EXACT
        self._visited = Visited(states=np.zeros(1 << 12, np.uint64), slots=np.zeros(1 << 12, np.uint64), exact=exact)
        self._visited.states[: self.vector.width] = self.vector.packed(self.vector.initial)
        rehash(self._visited, 1, self.vector.shape)
        self.steps = empty_steps(1, 1 << 11)
        self.window = empty_steps(window, max(window, 1 << 11))
        self.progress = initial_progress()
        self._most_kept = most_kept
        self._kept = 0
        self._over = False
        self._degrees: list[NDArray[np.uint32]] = []
        """The number of steps of each state, recorded only if the states are representatives."""

    @property
    def met(self) -> int:
        return int(self.progress[MET])

    @property
    def states(self) -> Words:
        return self._visited.states[: self.met * self.vector.width]

    @property
    def known_graph(self) -> KnownGraph:
        return KnownGraph(self._expansion, self._visited, self.steps, self.window, self.progress)

    @property
    def _expansion(self) -> Expansion:
        return Expansion(
            program=self._flat_program, chains=self._chains, memo=self._memo, space=self._space, orbits=self._orbits
        )

    @cached_property
    def _flat_program(self) -> Numbers:
        return self.program.flat()

    def locals(self, state: int) -> Locals:
        width = self.vector.width
        return self.vector.unpacked(self._visited.states[state * width : (state + 1) * width])

    def counts(self, limit: Limit) -> Counts:
        while self.met <= limit.states and self.expand(lambda: limit.watch(covered(self.progress))):
            pass
        if self.met > limit.states:
            raise LimitError(limit.states)
        depth = int(self.progress[DEPTH])
        if self.table.orbits:
            words = self.states.reshape(self.met, self.vector.width)
            states, transitions = unfolded_counts(self.table.orbits, self.vector, words, np.concatenate(self._degrees))
            return Counts(states=states, transitions=transitions, depth=depth, representatives=self.met)
        return Counts(states=self.met, transitions=int(self.progress[STEPS]), depth=depth)

    def locals_of(self, digit: int) -> set[int]:
        while self.expand():  # earlier searches may not have explored the whole graph
            pass
        words, at = self.states.reshape(self.met, self.vector.width), self.vector.fields[digit]
        return set(np.unique(words[:, at.word] >> np.uint64(at.shift) & np.uint64(at.mask)).tolist())

    def within(self, states: int, steps: int) -> bool:
        while self.met <= states and self.expand():
            pass
        return self.met <= states and int(self.progress[STEPS]) <= steps

    def expand(self, watch: Callable[[], None] = lambda: None) -> bool:
        """Explore until the number of steps has doubled, and return whether there may be more states to explore.

        *watch* is called regularly, and may raise an exception to stop the exploration.
        """
        end = 2 * int(self.progress[STEPS])
        watch()
        while self.further() and self.progress[STEPS] < end:
            watch()
        return not self._over

    def further(self) -> bool:
        while not self._over:
            before = int(self.progress[EXPANDED])
            answer = explore(self._expansion, self._visited, self.window, self.progress, self._ahead, self.vector.shape)
            if self.progress[EXPANDED] > before:
                if self.table.orbits:
                    count = int(self.progress[UNTIL] - self.progress[RECENT])
                    self._degrees.append(np.diff(self.window.first[: count + 1]))
                self._keep()
            if answer == exploration.NO_CHAINS:
                self._enlarge_space()
            elif answer == exploration.NO_ROOM:
                self._enlarge_states()
            self._over = answer == exploration.DONE
            if self.progress[EXPANDED] > before:
                self._label()
                break
        return not self._over

    def _keep(self) -> None:
        state, until = int(self.progress[RECENT]), int(self.progress[UNTIL])
        first, to, labels = self.window
        count = int(first[until - state])
        if self.progress[KEPT] != state or self._kept + count > self._most_kept:
            return
        room = len(self._ahead) - 1
        if self._kept + count + room > len(self.steps.to) or until >= len(self.steps.first):
            _grow_steps(self.steps, 2 * until + 1, 2 * (self._kept + count) + room)
        self.steps.first[state : until + 1] = first[: until - state + 1] + np.uint32(self._kept)
        self.steps.to[self._kept : self._kept + count] = to[:count]
        self.steps.labels[self._kept : self._kept + count] = labels[:count]
        self._kept += count
        self.progress[KEPT] = until

    def _enlarge_space(self) -> None:
        size = 2 * (len(self._ahead) - 1)
        self._space = room(size, self.vector.width)
        self._ahead = np.zeros(size + 1, np.uint64)
        _grow_steps(self.steps, 0, self._kept + size)
        if size > len(self.window.to):
            self.window = empty_steps(len(self.window.first) - 1, size)
            self.progress[RECENT] = self.progress[UNTIL]
        if 2 * self._chains[0] > self._chains[1]:
            old, self._chains = self._chains, empty_chains(2 * int(self._chains[1]))
            reinsert_chains(old, self._chains)

    def _enlarge_states(self) -> None:
        width, met = self.vector.width, self.met
        most = met + len(self._ahead) - 1
        states, slots, _ = self._visited
        if most * width > len(states):
            states.resize(5 * most * width // 4, refcheck=False)
        if 3 * most > 2 * len(slots):
            self._visited = self._visited._replace(slots=np.zeros(0, np.uint64))
            del slots
            size = 1 << (3 * most // 2).bit_length()
            self._visited = self._visited._replace(slots=np.zeros(size, np.uint64))
            rehash(self._visited, met, self.vector.shape)

    def _label(self) -> None:
        count, written = int(self._chains[0]), self._writing
        chains = self._chains[CHAINS : CHAINS + 2 * count].reshape(count, 2).tolist()
        for before, last in chains[len(self.labels) :]:
            if last >= 0:
                self.labels.append(None)
                continue
            emits: list[str] = []
            link = before
            while link >= 0:
                link, output = chains[link]
                emits.insert(0, written.outputs.listed[output])
            row, name = written.names.listed[~link]
            self.labels.append(Label(row=row, name=name, reply=written.replies.listed[~last], emits=tuple(emits)))


def covered(progress: Numbers) -> Explored:
    met = int(progress[MET])
    return Explored(met, int(progress[DEPTH]), met - int(progress[EXPANDED]))


def empty_steps(states: int, steps: int) -> Steps:
    return Steps(
        first=np.zeros(states + 1, np.uint32), to=np.zeros(steps, np.uint32), labels=np.zeros(steps, np.uint32)
    )


def _grow_steps(steps: Steps, first: int, size: int) -> None:
    for array, least in zip(steps, (first, size, size), strict=True):
        if least > len(array):
            array.resize(least, refcheck=False)
