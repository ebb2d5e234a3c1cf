"""What to do next to find out whether a SUT is where it should be.

Two states may show the same.  After each step of a test what follows is one
of a few short runs that only the right state answers so: the states are told
apart as in the W-method (T. S. Chow, *Testing software design modeled by
finite-state machines*, 1978), outcomes that can be arranged counted as inputs.
A SUT that has no more states than the machine, and passes, is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fsm.machine.traversal import BreadthFirst
from fsm.sut import Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.conformance.oracle import Oracle
    from fsm.conformance.plan import Edge, Point

_Pair: TypeAlias = "tuple[Point, Point]"

_Next: TypeAlias = "tuple[Edge, Point | None]"
"""An edge, and where a SUT is after it that was elsewhere; ``None`` if it has answered wrongly."""


class _Led(NamedTuple):
    """A pair that *edge* leads to one that is known to be told apart."""

    to: _Pair
    edge: Edge


@dataclass(kw_only=True)
class Telling:
    """Which runs tell the points of *oracle*'s plan apart, by all that is seen of a SUT.

    What state it is in is seen if it is ``shown``, its outputs if they are ``heard``; replies always.
    """

    oracle: Oracle
    shown: bool = True
    heard: bool = True
    _runs: dict[Point, tuple[tuple[Edge, ...], ...]] = field(default_factory=dict)
    _first: dict[_Pair, _Next] | None = None

    def runs(self, point: Point) -> tuple[tuple[Edge, ...], ...]:
        """Runs from *point* that together tell it from every other point that can be told from it."""
        found = self._runs.get(point)
        if found is None:
            found = self._runs[point] = tuple(self._found(point))
        return found

    def _found(self, point: Point) -> Iterator[tuple[Edge, ...]]:
        others = {other for other in self._points() if (point, other) in self._apart()}
        while others:
            other = min(others)
            run = self._run(point, other)
            yield run
            others = {each for each in others if not self._tells(run, each)} - {other}

    def _points(self) -> list[Point]:
        plan = self.oracle.plan
        return list(dict.fromkeys([plan.start, *(edge.target for edge in plan.edges if edge.target is not None)]))

    def _run(self, point: Point, other: Point) -> tuple[Edge, ...]:
        """The shortest run from *point* that a SUT at *other* answers wrongly."""
        run = []
        following: _Next | None = self._apart()[point, other]
        while following is not None:
            edge, after = following
            run.append(edge)
            following = self._apart().get((edge.target, after)) if after is not None and edge.target else None
        return tuple(run)

    def _tells(self, run: tuple[Edge, ...], other: Point) -> bool:
        """Whether a SUT at *other* certainly answers *run* wrongly."""
        here = {other}
        for edge in run:
            here = {to for each in here for to in self._answers(edge, each)}
            if not here:
                return True
        return False

    def _answers(self, edge: Edge, other: Point) -> set[Point]:
        """Where a SUT at *other* may be after the step of *edge*, if it answers as is right there."""
        going = self.oracle.plan.going(other, edge.step.event, edge.step.stage)
        named = [each for each in going if each.step.expected == edge.step.expected]
        found = set()
        for each in named or going:
            if each.target is None:
                return {other}
            last = each.ways[-1]
            seen = Response(
                reply=None if last.begins else next(iter(last.reply), ""),
                shows=self.oracle.plan.table.shows[each.target.state] if self.shown else "",
                outputs=tuple(output for way in each.ways for output in way.emits) if self.heard else None,
            )
            if self.oracle.fits(edge, seen):
                found.add(each.target)
        return found

    def _apart(self) -> dict[_Pair, _Next]:
        """For each pair that is seen to be the same and can be told apart, how a shortest run begins."""
        if self._first is None:
            leads: dict[_Pair, list[_Led]] = {}
            self._first = {}
            for pair in self._alike():
                self._look(pair, self._first, leads)
            back: BreadthFirst[_Pair, _Led] = BreadthFirst(self._first, lambda known: leads.get(known, ()))
            for led in back:
                self._first.setdefault(led.to, (led.edge, back.node[1]))
        return self._first

    def _alike(self) -> Iterator[_Pair]:
        shows = self.oracle.plan.table.shows
        for one, other in product(self._points(), repeat=2):
            if one != other and not (self.shown and shows[one.state] != shows[other.state]):
                yield one, other

    def _look(self, pair: _Pair, apart: dict[_Pair, _Next], leads: dict[_Pair, list[_Led]]) -> None:
        """What one step says of *pair*: that it is *apart*, or to which other pair it *leads*."""
        one, other = pair
        for edge in self.oracle.plan.leaving(one):
            if edge.target is None or not self.oracle.plan.going(other, edge.step.event, edge.step.stage):
                continue
            answers = self._answers(edge, other)
            if not answers:
                apart.setdefault(pair, (edge, None))
            elif len(answers) == 1 and edge.target not in answers:
                leads.setdefault((edge.target, min(answers)), []).append(_Led(pair, edge))
