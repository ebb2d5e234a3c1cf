"""The order of tests in which few steps are taken that cost much.

A tour from test to test, each the shortest way from the beginning, takes the same costly steps again and again.  Here the
next test goes on from where the last one ended, or from the beginning, whichever leads to more by steps that cost little;
costly ones are taken when no others are left.  It is for a SUT that shows its state: no distinguishing runs are made.
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
"""Failures of a kind after which their event is not aimed at any more."""


class Route(NamedTuple):
    """Edges to take one after the other, from the point at hand, or ``anew`` from the beginning."""

    anew: bool
    edges: tuple[Edge, ...]


class FrugalTour:
    """Routes that together take every one of *edges* of *plan*, *costly* events seldom, and *avoided* edges never.

    Of a costly event with several outcomes one is enough at each point, if the others come at another.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("cri-pod")), overlaps=False)
    >>> route = FrugalTour(plan, plan.edges, lambda event: event == "restart").route(plan.start)
    >>> route.anew, len(route.edges)
    (False, 37)
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
        """How many edges were taken, or tried."""
        return self._all - len(self._left)

    def took(self, edge: Edge) -> None:
        """*edge* was taken, or cannot be."""
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
        """Look anew at what is avoided."""
        for point in self._points:
            edges = [
                each
                for each in self.plan.leaving(point)
                if self._failed.isdisjoint({each.step.event, (each.source, each.step)}) and not self._avoided(each)
            ]
            self._cheap[point] = tuple(each for each in edges if not self._costly(each.step.event))
            self._dear[point] = tuple(each for each in edges if self._costly(each.step.event))

    def failed(self, edge: Edge, failure: Failure) -> None:
        """*edge* has led to *failure*: it is not taken again, nor its event if that fails again and again."""
        self._failed.add((edge.source, edge.step))
        self._failures[failure.kind] += 1
        if self._failures[failure.kind] >= PATIENCE:
            self._failed.add(edge.step.event)
        self.look()

    def route(self, here: Point | None) -> Route | None:
        """What to do next at *here*; ``None`` if nothing is left.

        It is anew from where only what the plan leaves out leads to.
        """
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
        """A path of cheap steps from *start* with as many edges that are left as there are on one, cycles being cut."""
        return self._follow(start, self._worth([start]))

    def _worth(self, starts: Iterable[Point]) -> dict[Point, tuple[int, Edge | None]]:
        """How many edges that are left are on one path of cheap steps from each point, and how that goes on."""
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
        """The points that cheap steps lead to from *starts*, each after those that it leads to."""
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
        """The shortest way from *start* to a costly step, if possible one that is left, by which most is led to."""
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
        """For each point from which costly steps lead to some of the points *best_first*, the first of these."""
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
        """The shortest way from *start* to a point with a step that is left, by cheap steps only, unless costly ones are due."""
        if self._due and start != self.plan.start:
            return ()
        search: BreadthFirst[Point, Edge] = BreadthFirst([start], lambda point: filter(_known, self._cheap[point]))
        for point in search.exhausted().depth:
            for each in self._dear[point]:
                if self._is_left(each):
                    return (*search.path_to(point), each)
        return ()

    def _nearest(self, kinds: Iterable[Mapping[Point, tuple[Edge, ...]]], start: Point) -> tuple[Edge, ...]:
        """The shortest way from *start*, by steps of these *kinds*, to one that is left."""
        search: BreadthFirst[Point, Edge] = BreadthFirst(
            [start], lambda point: (each for edges in kinds for each in edges[point] if each.to is not None)
        )
        found = next((each for each in search if self._is_left(each)), None)
        return search.path(found) if found is not None else ()


def _known(edge: Edge) -> bool:
    return edge.to is not None
