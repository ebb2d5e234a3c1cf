"""Find the first instant at which a condition holds in any run of a small machine.

Most claims are about a single instant, and a machine has few distinct instants.  They are numbered in breadth-first
order, and the instants at which a condition holds are stored as a bit mask.  Each atom is tested once for each
distinct value of the attribute that it depends on.  The lowest bit that is set is the end of a shortest run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from functools import cache, reduce
from operator import and_, attrgetter, or_
from typing import TYPE_CHECKING, Final, cast

from fsm.checker.breadth_first import Limit, SearchEdge
from fsm.checker.instants import Instant, StepCache, Successors, codes, holds
from fsm.machine import conditions
from fsm.machine.claims import Counts
from fsm.machine.conditions import All, At, Atom, Condition, In, Not, Some
from fsm.machine.traversal import BreadthFirst, LimitError

if TYPE_CHECKING:
    from fsm.machine.evidence import RunStep

MOST: Final = 10_000


def first_instants(stepping: StepCache, asked: Condition) -> FirstInstants | None:
    if stepping.like is not None or stepping.packed is not None:
        return None
    key = codes([asked])
    if key not in stepping.known:
        stepping.known[key] = FirstInstants(stepping.distinguishing(key))
    found = cast("FirstInstants", stepping.known[key])
    return found if found.known else None


class FirstInstants:
    def __init__(self, steps: Successors) -> None:
        self._instants = [steps.beginning]
        self._edges: list[tuple[int, int, RunStep]] = []
        self._edge_of = [-1]
        self._search: BreadthFirst[int, SearchEdge[int]] = BreadthFirst([steps.table.initial], self._successor_edges)
        self._steps = steps
        self.known = self._search_all()
        self._alike = cache(self._groups)
        self._bits = cache(self._bits_of)

    def first(self, condition: Condition, limit: Limit) -> tuple[tuple[RunStep, ...] | None, Counts]:
        bits = self.bits(condition)
        depth = self._search.depth
        if not bits:
            if len(depth) > limit.states:
                raise LimitError(limit.states)
            farthest = next(reversed(depth.values()))
            return None, Counts(states=len(depth), transitions=len(self._edges), depth=farthest)
        if bits & 1:
            return (), Counts(states=1, transitions=0, depth=0)
        number = self._edge_of[(bits & -bits).bit_length() - 1]
        met, source, last = self._edges[number]
        if met > limit.states:
            raise LimitError(limit.states)
        path = (*(edge.taken for edge in self._search.path_to(source)), last)
        return path, Counts(states=met, transitions=number + 1, depth=len(path))

    def bits(self, condition: Condition) -> int:
        every = (1 << len(self._instants)) - 1
        match condition:
            case Not(of=inner):
                return ~self.bits(inner) & every
            case All(of=parts):
                return reduce(and_, map(self.bits, parts), every)
            case Some(of=parts):
                return reduce(or_, map(self.bits, parts), 0)
            case _:
                return self._bits(condition)

    def _search_all(self) -> bool:
        search = self._search
        for edge in search:
            self._edges.append((len(search.depth), search.node, edge.taken))
            if len(self._instants) > MOST:
                return False
        return True

    def _successor_edges(self, state: int) -> Iterator[SearchEdge[int]]:
        for step in self._steps.after(state):
            self._edge_of += [len(self._edges)] * len(step.instants)
            self._instants += step.instants
            yield SearchEdge(taken=step.taken, to=step.way.to)

    def _bits_of(self, atom: Atom) -> int:
        test = holds(atom, self._steps.table)
        return reduce(or_, (bits for each, bits in self._alike(depends(atom)) if test(each)), 0)

    def _groups(self, of: str) -> list[tuple[Instant, int]]:
        size = len(self._instants) // 8 + 1
        groups = defaultdict[Hashable, list[int]](list)
        for number, value in enumerate(map(attrgetter(of), self._instants)):
            groups[value if number else _FIRST].append(number)
        found = []
        for numbers in groups.values():
            bits = bytearray(size)
            for number in numbers:
                bits[number >> 3] |= 1 << (number & 7)
            found.append((self._instants[numbers[0]], int.from_bytes(bits, "little")))
        return found


_FIRST: Final = object()


_DEPENDS: Final[Mapping[type[Atom], str]] = {
    conditions.Emits: "output",
    conditions.EmitsOnly: "outputs",
    conditions.StepEmits: "outputs",
    conditions.Happens: "event",
    conditions.Replies: "reply",
    conditions.StateChanges: "moved",
}


def depends(atom: Atom) -> str:
    if isinstance(atom, In | At) and atom.before:
        return "source"
    return _DEPENDS.get(type(atom), "state")
