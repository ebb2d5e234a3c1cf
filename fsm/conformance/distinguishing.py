"""Distinguishing sequences: short runs that show whether a SUT is in the right state.

Different states may look the same. So each step of a test is followed by a few short runs that only the right state
answers correctly, as in the W-method (T. S. Chow, *Testing software design modeled by finite-state machines*, 1978).
Outcomes that can be arranged count as inputs. A SUT that passes and has no more states than the machine is correct.
"""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple, TypeAlias

from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Edge, Point
from fsm.machine.traversal import BreadthFirst

_Pair: TypeAlias = "tuple[Point, Point]"

_Next: TypeAlias = "tuple[Edge, Point | None]"
"""An edge, and where it takes a SUT that is at the other point, or ``None`` if that SUT answers wrongly."""


class _Predecessor(NamedTuple):
    """A pair of points, and an edge that leads from it to a pair that can be distinguished."""

    to: _Pair
    edge: Edge


@dataclass(kw_only=True)
class DistinguishingSequences:
    """Runs that distinguish the points of a plan by replies, states (if ``shown``) and outputs (if ``emitted``)."""

    oracle: Oracle
    shown: bool = True
    emitted: bool = True
    _runs: dict[Point, tuple[tuple[Edge, ...], ...]] = field(default_factory=dict)

    def runs(self, point: Point) -> tuple[tuple[Edge, ...], ...]:
        """Return runs from *point* that together rule out every other point that can be distinguished from it."""
        if point not in self._runs:
            found = []
            others = {other for other in self._points() if (point, other) in self._first_steps}
            while others:
                other = min(others)
                found.append(run := self._run(point, other))
                others = {each for each in others if not self._distinguishes(run, each)} - {other}
            self._runs[point] = tuple(found)
        return self._runs[point]

    def _points(self) -> list[Point]:
        plan = self.oracle.plan
        return list(dict.fromkeys([plan.start, *(edge.to for edge in plan.edges if edge.to is not None)]))

    def _run(self, point: Point, other: Point) -> tuple[Edge, ...]:
        """Return the shortest run from *point* that a SUT at *other* answers wrongly."""
        edge, after = self._first_steps[point, other]
        return (edge, *self._run(edge.to, after)) if edge.to is not None and after is not None else (edge,)

    def _distinguishes(self, run: tuple[Edge, ...], other: Point) -> bool:
        here = {other}
        for edge in run:
            here = {to for each in here for to in self._answers(edge, each)}
            if not here:
                return True
        return False

    def _answers(self, edge: Edge, other: Point) -> set[Point]:
        """Return the points to which the step of *edge* takes a SUT at *other* that responds as *edge* predicts."""
        alternatives = self.oracle.plan.alternatives(other, edge.step.event, edge.step.stage)
        named = [each for each in alternatives if each.step.expected == edge.step.expected]
        found = set()
        for each in named or alternatives:
            if each.to is None:
                return {other}
            if self.oracle.fits(edge, self.oracle.foreseen(each, shown=self.shown, emitted=self.emitted)):
                found.add(each.to)
        return found

    @cached_property
    def _first_steps(self) -> dict[_Pair, _Next]:
        """Maps each pair of points that runs can distinguish to the first step of a shortest such run."""
        apart: dict[_Pair, _Next] = {}
        leads: dict[_Pair, list[_Predecessor]] = {}
        shows = self.oracle.plan.table.shows
        for one, other in product(self._points(), repeat=2):
            if one != other and not (self.shown and shows[one.state] != shows[other.state]):
                self._compare((one, other), apart, leads)
        back: BreadthFirst[_Pair, _Predecessor] = BreadthFirst(apart, lambda known: leads.get(known, ()))
        for each in back:
            apart.setdefault(each.to, (each.edge, back.node[1]))
        return apart

    def _compare(self, pair: _Pair, apart: dict[_Pair, _Next], leads: dict[_Pair, list[_Predecessor]]) -> None:
        """Add to *apart* a step that distinguishes *pair*. Add to *leads* the pairs that other steps lead to."""
        one, other = pair
        for edge in self.oracle.plan.leaving(one):
            if edge.to is None or not self.oracle.plan.alternatives(other, edge.step.event, edge.step.stage):
                continue
            answers = self._answers(edge, other)
            if not answers:
                apart.setdefault(pair, (edge, None))
            elif len(answers) == 1 and edge.to not in answers:
                leads.setdefault((edge.to, min(answers)), []).append(_Predecessor(pair, edge))
