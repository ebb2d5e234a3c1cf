"""Find the first instant at which a condition holds in any run of a small machine.

Most claims are about a single instant: the initial state or one step.  A small machine has few of these.  They are
listed in breadth-first order, so the first instant at which a condition holds is the end of a shortest run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from fsm.checker.breadth_first import Limit, SearchEdge
from fsm.checker.instants import StepCache, Successors, codes, holds
from fsm.machine.claims import Counts
from fsm.machine.conditions import Condition
from fsm.machine.traversal import BreadthFirst, LimitError

if TYPE_CHECKING:
    from fsm.machine.evidence import RunStep

MOST: Final = 10_000


def first_instants(stepping: StepCache, asked: Condition) -> FirstInstants | None:
    if stepping.like is not None or stepping.packed is not None or stepping.valuations is not None:
        return None
    key = codes([asked])
    if key not in stepping.known:
        stepping.known[key] = FirstInstants(stepping.distinguishing(key))
    found = cast("FirstInstants", stepping.known[key])
    return found if found.known else None


class FirstInstants:
    def __init__(self, steps: Successors) -> None:
        self._steps = steps
        self._instants = [steps.beginning]
        self._edge_of = [-1]
        self._edges: list[tuple[int, int, RunStep]] = []
        self._search: BreadthFirst[int, SearchEdge[int]] = BreadthFirst([steps.table.initial], self._successor_edges)
        for edge in self._search:
            self._edges.append((len(self._search.depth), self._search.node, edge.taken))
            if len(self._instants) > MOST:
                break
        self.known = len(self._instants) <= MOST

    def number(self, condition: Condition) -> int | None:
        """Return the index of the first instant at which *condition* holds, or ``None`` if there is none."""
        test = holds(condition, self._steps.table)
        return next((number for number, at in enumerate(self._instants) if test(at)), None)

    def first(self, condition: Condition, limit: Limit) -> tuple[tuple[RunStep, ...] | None, Counts]:
        number, depth = self.number(condition), self._search.depth
        if number is None:
            if len(depth) > limit.states:
                raise LimitError(limit.states)
            farthest = next(reversed(depth.values()))
            return None, Counts(states=len(depth), transitions=len(self._edges), depth=farthest)
        if number == 0:
            return (), Counts(states=1, transitions=0, depth=0)
        edge = self._edge_of[number]
        met, source, last = self._edges[edge]
        if met > limit.states:
            raise LimitError(limit.states)
        path = (*(edge.taken for edge in self._search.path_to(source)), last)
        return path, Counts(states=met, transitions=edge + 1, depth=len(path))

    def _successor_edges(self, state: int) -> Iterator[SearchEdge[int]]:
        for step in self._steps.after(state):
            self._edge_of += [len(self._edges)] * len(step.instants)
            self._instants += step.instants
            yield SearchEdge(taken=step.taken, to=step.way.to)
