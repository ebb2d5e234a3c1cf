"""The states that a system can reach and their steps, packed, as far as they were asked for."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fsm.checker.packed import exploration
from fsm.checker.packed.expansion import CHAINS, Numbers, Words, chained_again, no_chains, room
from fsm.checker.packed.exploration import DEPTH, MET, STEPS, Expansion, Steps, Visited, explore, rehash
from fsm.checker.packed.programs import StateVector, Writing
from fsm.machine.traversal import LimitError
from fsm.product import Locals, SystemTable
from fsm.property.claims import Counts

S = TypeVar("S", bound=np.generic)

CHUNK: Final = 1 << 20
"""Steps after which compiled code returns, so that an interruption is met within a part of a second."""

MOST_KEPT: Final = 1 << 20
"""Steps that are kept, of the states that were met first; those of all others are made again when they are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a step is, but for the states: row of its event, name of its way, replies and outputs."""

    row: int
    name: str
    reply: tuple[str, ...]
    emits: tuple[str, ...]


class PackedGraph:
    """The states of *table*, numbered breadth first in the model's order, and their steps.

    Raises :class:`~fsm.checker.packed.programs.TooWideError` for a state that does not fit.
    """

    def __init__(self, table: SystemTable, *, most_kept: int = MOST_KEPT) -> None:
        self.table = table
        self.vector = StateVector(table)
        self.labels: list[Label | None] = []
        """By the number of its chain; ``None`` for a chain that is no label yet."""
        self.known: dict[tuple[str, ...], object] = {}
        """What claims know of the labels, by the error codes that they tell apart."""
        self._writing = Writing(table, self.vector)
        self.program = self._writing.program
        self._chains = no_chains(1 << 10)
        self._space = room(1 << 11, self.vector.width)
        self._ahead = np.zeros((1 << 11) + 1, np.uint64)
        self._visited = Visited(states=np.zeros(1 << 12, np.uint64), slots=np.zeros(1 << 12, np.uint32))
        self._visited.states[: self.vector.width] = self.vector.packed(self.vector.initial)
        rehash(self._visited, 1, self.vector.width)
        kept = most_kept + (1 << 11)
        self.steps = Steps(
            first=np.zeros(most_kept + 1, np.int64), to=np.empty(kept, np.uint32), labels=np.empty(kept, np.uint32)
        )
        self.progress = np.array([0, 1, 0, 1, 0, 0], np.int64)
        self._over = False

    @property
    def met(self) -> int:
        return int(self.progress[MET])

    @property
    def states(self) -> Words:
        """The words of the states met so far."""
        return self._visited.states[: self.met * self.vector.width]

    @property
    def found(self) -> tuple[Expansion, Visited, Steps, Numbers]:
        """What compiled code takes of the graph to go through it."""
        return self._expansion, self._visited, self.steps, self.progress

    @property
    def _expansion(self) -> Expansion:
        return Expansion(program=self._flat, chains=self._chains, space=self._space)

    @cached_property
    def _flat(self) -> Numbers:
        return self.program.flat()

    def locals(self, state: int) -> Locals:
        width = self.vector.width
        return self.vector.unpacked(self._visited.states[state * width : (state + 1) * width])

    def counts(self, limit: int) -> Counts:
        """The size of all that can be reached; raises :class:`LimitError` if that is more than *limit* states."""
        while self.met <= limit and self.expand():
            pass
        if self.met > limit:
            raise LimitError(limit)
        return Counts(states=self.met, transitions=int(self.progress[STEPS]), depth=int(self.progress[DEPTH]))

    def expand(self) -> bool:
        """Go on for a while, the longer the more there is; whether there may be more."""
        if self._over:
            return False
        most = min(CHUNK, max(1 << 12, int(self.progress[STEPS])))
        end = int(self.progress[STEPS]) + most
        while True:
            most = end - int(self.progress[STEPS])
            match explore(*self.found, self._ahead, most, self.vector.width):
                case exploration.NO_CHAINS:
                    self._more_room()
                case exploration.NO_ROOM:
                    self._more_states()
                case answer:
                    self._over = answer == exploration.DONE
                    self._label()
                    return not self._over

    def _more_room(self) -> None:
        """Twice the room for steps, and, where it is nearly all taken, for chains."""
        size = 2 * (len(self._ahead) - 1)
        self._space = room(size, self.vector.width)
        self._ahead = np.zeros(size + 1, np.uint64)
        first, to, labels = self.steps
        kept = len(first) - 1 + size
        self.steps = Steps(first=first, to=_grown(to, kept), labels=_grown(labels, kept))
        if 2 * self._chains[0] > self._chains[1]:
            old, self._chains = self._chains, no_chains(2 * int(self._chains[1]))
            chained_again(old, self._chains)

    def _more_states(self) -> None:
        """Room for as much again, where there may be too little."""
        width, met = self.vector.width, self.met
        most = met + len(self._ahead) - 1
        states, slots = self._visited
        if most * width > len(states):
            states = _grown(states, 2 * most * width)
        if 3 * most > 2 * len(slots):
            slots = np.zeros(1 << (3 * most // 2).bit_length(), np.uint32)
            rehash(Visited(states=states, slots=slots), met, width)
        self._visited = Visited(states=states, slots=slots)

    def _label(self) -> None:
        """Read the new chains."""
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


def _grown(array: NDArray[S], size: int) -> NDArray[S]:
    """*array* with room for *size*."""
    grown = np.empty(size, array.dtype)
    grown[: len(array)] = array
    return grown
