"""Choose the sequences of steps, called tours, that the tests of a plan take.

Different states may look the same. A test therefore follows each step with a few short runs that only the right state
answers correctly, as in the W-method (T. S. Chow, *Testing software design modeled by finite-state machines*, 1978).
Outcomes that can be arranged count as inputs. A SUT that passes and has no more states than the machine is correct. A
frugal tour takes only a few of the steps that the SUT declares costly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from fsm.conformance.failure import Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.traversal import BreadthFirst, closure
from fsm.sut import Stimulus

_Pair: TypeAlias = "tuple[Point, Point]"

_Next: TypeAlias = "tuple[Edge, Point | None]"
"""An edge, and the point that a SUT at the wrong point reaches by it, or ``None`` if its answer gives it away."""


class _Predecessor(NamedTuple):
    to: _Pair
    edge: Edge


@dataclass(kw_only=True)
class DistinguishingSequences:
    """Short runs that distinguish points by replies, by states if ``shown``, and by outputs if ``emitted``."""

    oracle: Oracle
    shown: bool = True
    emitted: bool = True
    _runs: dict[Point, tuple[tuple[Edge, ...], ...]] = field(default_factory=dict)

    def runs(self, point: Point) -> tuple[tuple[Edge, ...], ...]:
        """Return runs from *point* that rule out every other point that can be distinguished from it."""
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
        alternatives = self.oracle.plan.alternatives(other, edge.step.event, edge.step.stage)
        named = [each for each in alternatives if each.step.expected == edge.step.expected]
        found = set()
        for each in named or alternatives:
            if each.to is None:
                return {other}
            if self.oracle.fits(edge, self.oracle.expected_response(each, shown=self.shown, emitted=self.emitted)):
                found.add(each.to)
        return found

    @cached_property
    def _first_steps(self) -> dict[_Pair, _Next]:
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
        one, other = pair
        for edge in self.oracle.plan.leaving(one):
            if edge.to is None or not self.oracle.plan.alternatives(other, edge.step.event, edge.step.stage):
                continue
            answers = self._answers(edge, other)
            if not answers:
                apart.setdefault(pair, (edge, None))
            elif len(answers) == 1 and edge.to not in answers:
                leads.setdefault((edge.to, min(answers)), []).append(_Predecessor(pair, edge))


MOST_FAILURES: Final = 3  # number of failures of one kind after which their event is avoided


_Edges: TypeAlias = dict[Point, tuple[Edge, ...]]


class FrugalTour:
    """Finds routes that take all given edges with few costly events. ``left`` holds the point and step of those left.

    At each point, one outcome of a costly event is enough if the other outcomes occur at other points. Edges that
    have failed, or for which *avoided* returns true, are not taken.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("examples/models/washer.toml")), overlaps=False)
    >>> route = FrugalTour(plan, plan.edges, lambda event: event == "power-cut").route(plan.start)
    >>> len(route)
    10
    """

    def __init__(
        self,
        plan: Plan,
        edges: Iterable[Edge],
        costly: Callable[[str], bool],
        avoided: Callable[[Edge], bool] = lambda _: False,
    ) -> None:
        self.plan = plan
        targets = (edge.to for edge in plan.edges if edge.to is not None)
        self._points = tuple(dict.fromkeys([*(edge.source for edge in plan.edges), *targets]))
        self.left = {(edge.source, edge.step) for edge in edges}
        self._after_costly = False
        self._seen: set[Stimulus] = set()
        self._missed: dict[Stimulus, list[Point]] = {}
        self._costly = cache(costly)
        self._avoided = avoided
        self._failures: Counter[tuple[object, ...]] = Counter()
        self._failed: set[object] = set()
        self._cheap: _Edges = {}
        self._dear: _Edges = {}
        self.look()

    def took(self, edge: Edge) -> None:
        self.left.discard((edge.source, edge.step))
        self._after_costly = self._costly(edge.step.event)
        if not self._after_costly:
            return
        self._seen.add(edge.step)
        for other in self.plan.alternatives(edge.source, edge.step.event, edge.step.stage):
            if other.step in self._seen:
                self.left.discard((other.source, other.step))
            else:
                self._missed.setdefault(other.step, []).append(other.source)
        self.left -= {(point, edge.step) for point in self._missed.pop(edge.step, ())}

    def look(self) -> None:
        for point in self._points:
            edges = [
                edge
                for edge in self.plan.leaving(point)
                if self._failed.isdisjoint({edge.step.event, (edge.source, edge.step)}) and not self._avoided(edge)
            ]
            self._cheap[point] = tuple(edge for edge in edges if not self._costly(edge.step.event))
            self._dear[point] = tuple(edge for edge in edges if self._costly(edge.step.event))

    def failed(self, edge: Edge, failure: Failure) -> None:
        """Avoid *edge*, which led to *failure*, and its event everywhere once such failures occurred often."""
        self._failed.add((edge.source, edge.step))
        self._failures[failure.kind] += 1
        if self._failures[failure.kind] >= MOST_FAILURES:
            self._failed.add(edge.step.event)
        self.look()

    def route(self, here: Point | None) -> tuple[Edge, ...]:
        """Return the next edges to take, from the point *here* or from the start of the plan. There may be none."""
        starts = dict.fromkeys(point for point in (here, self.plan.start) if point in self._cheap)
        cheap = any(self._is_left(edge) for edges in self._cheap.values() for edge in edges)
        finders: list[Callable[[Point], tuple[Edge, ...]]] = [self._cheap_path, self._costly_path] if cheap else []
        finders.append(partial(self._path_to_nearest, (self._dear,)))
        finders.append(self._to_costly_step)
        finders.append(partial(self._path_to_nearest, (self._cheap, self._dear)))
        return next(filter(None, (find(start) for find in finders for start in starts)), ())

    def _is_left(self, edge: Edge) -> bool:
        return (edge.source, edge.step) in self.left

    def _cheap_path(self, start: Point) -> tuple[Edge, ...]:
        return self._follow(start, self._untested_ahead([start]))

    def _untested_ahead(self, starts: Iterable[Point]) -> dict[Point, tuple[int, Edge | None]]:
        worth: dict[Point, tuple[int, Edge | None]] = {}
        for point in self._postorder(starts):
            best, onward, loops = 0, None, 0
            for edge in self._cheap[point]:
                left = self._is_left(edge)
                if edge.to == point:
                    loops += left
                elif edge.to in worth and (untested := worth[edge.to][0] + left) > best:
                    best, onward = untested, edge
            worth[point] = best + loops, onward
        return worth

    def _postorder(self, starts: Iterable[Point]) -> list[Point]:
        seen, order = set(starts), []
        stack = [(point, iter(self._cheap[point])) for point in seen]
        while stack:
            point, edges = stack[-1]
            following = next((edge.to for edge in edges if edge.to is not None and edge.to not in seen), None)
            if following is None:
                order.append(point)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self._cheap[following])))
        return order

    def _follow(self, start: Point, worth: dict[Point, tuple[int, Edge | None]]) -> tuple[Edge, ...]:
        path: list[Edge] = []
        point = start
        while worth[point][0]:
            path += (edge for edge in self._cheap[point] if edge.to == point and self._is_left(edge))
            onward = worth[point][1]
            if onward is None or onward.to is None:
                break
            path.append(onward)
            point = onward.to
        return tuple(path)

    def _costly_path(self, start: Point) -> tuple[Edge, ...]:
        """Return a path over the nearest costly step to the point with most untested edges ahead, and these edges.

        Costly steps that have not been tested are preferred.
        """
        worth = self._untested_ahead(self._points)
        leads = self._best_targets(
            sorted((point for point in worth if worth[point][0]), key=lambda point: -worth[point][0])
        )
        cheap = self._search(start, self._cheap).exhausted()
        leading = [edge for point in cheap.depth for edge in self._dear[point] if edge.to in leads]
        first = next(filter(self._is_left, leading), leading[0] if leading else None)
        if first is None or first.to is None:
            return ()
        best = leads[first.to]
        costly = self._search(first.to, self._dear).exhausted()
        return (*cheap.path_to(first.source), first, *costly.path_to(best), *self._follow(best, worth))

    def _best_targets(self, best_first: Iterable[Point]) -> dict[Point, Point]:
        into: dict[Point, list[Point]] = {}
        for point in self._points:
            for edge in self._dear[point]:
                if edge.to is not None:
                    into.setdefault(edge.to, []).append(point)
        leads: dict[Point, Point] = {}

        def new_sources(point: Point) -> Iterator[Point]:
            return (source for source in into.get(point, ()) if source not in leads)

        for best in best_first:
            leads |= dict.fromkeys(closure({best} - leads.keys(), new_sources), best)
        return leads

    def _to_costly_step(self, start: Point) -> tuple[Edge, ...]:
        if self._after_costly and start != self.plan.start:
            return ()
        search = self._search(start, self._cheap).exhausted()
        left = (edge for point in search.depth for edge in self._dear[point] if self._is_left(edge))
        return next(((*search.path_to(edge.source), edge) for edge in left), ())

    def _path_to_nearest(self, kinds: tuple[_Edges, ...], start: Point) -> tuple[Edge, ...]:
        search = self._search(start, *kinds)
        return next((search.path(edge) for edge in search if self._is_left(edge)), ())

    @staticmethod
    def _search(start: Point, *kinds: _Edges) -> BreadthFirst[Point, Edge]:
        return BreadthFirst(
            [start], lambda point: (edge for edges in kinds for edge in edges[point] if edge.to is not None)
        )
