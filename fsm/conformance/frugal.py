"""An order of tests that takes few costly steps.

A tour that reaches every edge by a shortest path from the start repeats the same costly steps again and again. Here,
the next test continues where the last one ended if it can, and otherwise begins at the start. Costly steps are taken
only if cheap steps lead to no untested edge. The SUT must show its state, because there are no distinguishing runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from fsm.conformance.failure import Failure
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.traversal import BreadthFirst
from fsm.sut import Stimulus

PATIENCE: Final = 3
"""Number of failures of one kind after which their event is no longer tested."""


class Route(NamedTuple):
    """Edges to take in order, from the start if ``anew`` is true and otherwise from the current point."""

    anew: bool
    edges: tuple[Edge, ...]


class FrugalTour:
    """Finds routes that together take all *edges* of *plan*, with few costly events and no avoided edges.

    One outcome of a costly event is enough at each point, provided that its other outcomes occur at other points.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("examples/models/washer.toml")), overlaps=False)
    >>> route = FrugalTour(plan, plan.edges, lambda event: event == "power-cut").route(plan.start)
    >>> route.anew, len(route.edges)
    (False, 10)
    """

    def __init__(
        self,
        plan: Plan,
        edges: Iterable[Edge],
        costly: Callable[[str], bool],
        avoided: Callable[[Edge], bool] = lambda _: False,
    ) -> None:
        self.plan = plan
        self._points = tuple(dict.fromkeys(each.source for each in plan.edges))
        self._left = {(each.source, each.step) for each in edges}
        self._all = len(self._left)
        self._due = False
        self._seen: set[Stimulus] = set()
        self._met: dict[Stimulus, list[Point]] = {}
        self._costly = cache(costly)
        self._avoided = avoided
        self._failures: Counter[tuple[object, ...]] = Counter()
        self._failed: set[object] = set()
        self._cheap: dict[Point, tuple[Edge, ...]] = {}
        self._dear: dict[Point, tuple[Edge, ...]] = {}
        self.look()

    @property
    def done(self) -> int:
        """Number of edges that have been taken or tried."""
        return self._all - len(self._left)

    def took(self, edge: Edge) -> None:
        """Record that *edge* was taken or cannot be taken."""
        self._left.discard((edge.source, edge.step))
        self._due = self._costly(edge.step.event)
        if not self._due:
            return
        self._seen.add(edge.step)
        for each in self.plan.alternatives(edge.source, edge.step.event, edge.step.stage):
            if each.step in self._seen:
                self._left.discard((each.source, each.step))
            else:
                self._met.setdefault(each.step, []).append(each.source)
        self._left -= {(each, edge.step) for each in self._met.pop(edge.step, ())}

    def look(self) -> None:
        """Recompute which edges may be taken."""
        for point in self._points:
            edges = [
                each
                for each in self.plan.leaving(point)
                if self._failed.isdisjoint({each.step.event, (each.source, each.step)}) and not self._avoided(each)
            ]
            self._cheap[point] = tuple(each for each in edges if not self._costly(each.step.event))
            self._dear[point] = tuple(each for each in edges if self._costly(each.step.event))

    def failed(self, edge: Edge, failure: Failure) -> None:
        """Record that *edge* led to *failure*. Avoid it and, after repeated failures of this kind, its event."""
        self._failed.add((edge.source, edge.step))
        self._failures[failure.kind] += 1
        if self._failures[failure.kind] >= PATIENCE:
            self._failed.add(edge.step.event)
        self.look()

    def route(self, here: Point | None) -> Route | None:
        """Return the next route, from *here* if possible and otherwise from the start; ``None`` if nothing is left."""
        starts = tuple(dict.fromkeys(each for each in (here, self.plan.start) if each in self._cheap))
        cheap = any(self._is_left(each) for edges in self._cheap.values() for each in edges)
        for find in (
            *((self._cheaply, self._at_some_cost) if cheap else ()),
            partial(self._nearest, (self._dear,)),
            self._without_more,
            partial(self._nearest, (self._cheap, self._dear)),
        ):
            for start in starts:
                if edges := find(start):
                    return Route(start != here, edges)
        return None

    def _is_left(self, edge: Edge) -> bool:
        return (edge.source, edge.step) in self._left

    def _cheaply(self, start: Point) -> tuple[Edge, ...]:
        return self._follow(start, self._worth([start]))

    def _worth(self, starts: Iterable[Point]) -> dict[Point, tuple[int, Edge | None]]:
        """For each point, return the most untested edges on a path of cheap steps, and that path's first edge."""
        worth: dict[Point, tuple[int, Edge | None]] = {}
        for point in self._last_first(starts):
            best, onward, loops = 0, None, 0
            for each in self._cheap[point]:
                left = self._is_left(each)
                if each.to == point:
                    loops += left
                elif each.to in worth and (found := worth[each.to][0] + left) > best:
                    best, onward = found, each
            worth[point] = best + loops, onward
        return worth

    def _last_first(self, starts: Iterable[Point]) -> list[Point]:
        """Return the points reachable from *starts* by cheap steps, in depth-first postorder."""
        seen, order = set(starts), []
        stack = [(each, iter(self._cheap[each])) for each in seen]
        while stack:
            point, edges = stack[-1]
            following = next((each.to for each in edges if each.to is not None and each.to not in seen), None)
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
            path += (each for each in self._cheap[point] if each.to == point and self._is_left(each))
            onward = worth[point][1]
            if onward is None or onward.to is None:
                break
            path.append(onward)
            point = onward.to
        return tuple(path)

    def _at_some_cost(self, start: Point) -> tuple[Edge, ...]:
        """Return a path by costly steps to the point with the most untested edges ahead, and on along those edges.

        The first costly step is the nearest one that leads there, preferably an untested one.
        """
        worth = self._worth(self._points)
        leads = self._leads(sorted((each for each in worth if worth[each][0]), key=lambda each: -worth[each][0]))
        before: BreadthFirst[Point, Edge] = BreadthFirst([start], lambda point: filter(_known, self._cheap[point]))
        there = [each for point in before.exhausted().depth for each in self._dear[point] if each.to in leads]
        first = next(filter(self._is_left, there), there[0] if there else None)
        if first is None or first.to is None:
            return ()
        costly: BreadthFirst[Point, Edge] = BreadthFirst(
            [first.to], lambda point: filter(_known, self._dear[point])
        ).exhausted()
        best = leads[first.to]
        return (*before.path_to(first.source), first, *costly.path_to(best), *self._follow(best, worth))

    def _leads(self, best_first: Iterable[Point]) -> dict[Point, Point]:
        """For each point, return the first point in *best_first* that costly steps reach from it, if there is one."""
        into: dict[Point, list[Point]] = {}
        for point in self._points:
            for each in self._dear[point]:
                if each.to is not None:
                    into.setdefault(each.to, []).append(point)
        leads: dict[Point, Point] = {}
        for best in best_first:
            todo = [best]
            while todo:
                point = todo.pop()
                if point not in leads:
                    leads[point] = best
                    todo += into.get(point, ())
        return leads

    def _without_more(self, start: Point) -> tuple[Edge, ...]:
        """Return the shortest path of cheap steps from *start* to an untested costly step, including that step.

        Return an empty path right after a costly step, unless *start* is the start of the plan.
        """
        if self._due and start != self.plan.start:
            return ()
        search: BreadthFirst[Point, Edge] = BreadthFirst([start], lambda point: filter(_known, self._cheap[point]))
        for point in search.exhausted().depth:
            for each in self._dear[point]:
                if self._is_left(each):
                    return (*search.path_to(point), each)
        return ()

    def _nearest(self, kinds: Iterable[Mapping[Point, tuple[Edge, ...]]], start: Point) -> tuple[Edge, ...]:
        """Return the shortest path from *start*, using the edges in *kinds*, that ends with an untested edge."""
        search: BreadthFirst[Point, Edge] = BreadthFirst(
            [start], lambda point: (each for edges in kinds for each in edges[point] if each.to is not None)
        )
        found = next((each for each in search if self._is_left(each)), None)
        return search.path(found) if found is not None else ()


def _known(edge: Edge) -> bool:
    return edge.to is not None
