"""Plan all steps in all configurations of a machine with data, if it has only few configurations."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import product
from math import prod
from typing import Final

from fsm.conformance.failure import Cover
from fsm.conformance.plan import MOST_EDGES, Edge, Plan, Point
from fsm.machine.calls.valued import ValuedTable
from fsm.machine.traversal import BreadthFirst, LimitError

FEW: Final = 500  # maximum number of configurations
FEW_ARGUMENTS: Final = 32  # maximum number of combinations of arguments that are tried for what they lead to
DISTINGUISHED: Final = 150  # maximum number of configurations that tests distinguish
BEYOND: Final = 2  # values at most this far beyond a scope are included


class CompletePlan(Plan):
    """All steps of *plan* in all configurations. There are none if the machine has no data or many configurations.

    A configuration is a point whose values are in the ranges of the variables, or a little beyond a scope.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.table, overlaps=plan.overlaps, valued=plan.valued)
        self.leaving, self.alternatives = plan.leaving, plan.alternatives
        self._steps = cache(self._steps_from)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(edge for edges in self._everywhere.values() for edge in edges)

    def planned(self, point: Point) -> tuple[Edge, ...]:
        return self._everywhere.get(point, ())

    @property
    def mistakable(self) -> Iterator[Point]:
        """All states with all values in the ranges, reachable or not, unless there are too many."""
        ranges = [range(each.low, each.high + 1) for each in (self.table.data.variables if self.table.data else ())]
        if isinstance(self.valued, ValuedTable) and self.valued.size * prod(map(len, ranges)) <= DISTINGUISHED:
            for state, values in product(self.valued.anywhere, product(*ranges)):
                yield Point(self.valued.number(state, values))

    def taken(self, cover: Cover) -> tuple[int, int]:
        """Return the number of configurations within the scopes in which all events were taken, and their number.

        What the SUT does not support is not required.
        """
        within = [point for point in self._everywhere if self._is_near(0, point)]
        done = 0
        for point in within:
            edges = [edge for edge in self.onward(point) if not cover.avoided(edge)]
            took = {edge.step._replace(expected=()) for edge in edges if cover.took(edge)}
            done += all(edge.step._replace(expected=()) in took for edge in edges)
        return done, len(within)

    @cached_property
    def _everywhere(self) -> Mapping[Point, tuple[Edge, ...]]:
        for beyond in (BEYOND, 0) if self.boundaries else ():
            with suppress(LimitError):
                search = BreadthFirst([self.start], partial(self._near, beyond), limit=FEW)
                found = {point: self._steps(point) for point in search.exhausted().depth}
                if sum(map(len, found.values())) <= MOST_EDGES:
                    return found
        return {}

    def _near(self, beyond: int, point: Point) -> Iterable[Edge]:
        return (edge for edge in self._steps(point) if edge.to is not None and self._is_near(beyond, edge.to))

    def _is_near(self, beyond: int, point: Point) -> bool:
        pairs = zip(self.valued.values(point.state), self.table.data.variables if self.table.data else (), strict=True)
        return all(value is None or each.low - beyond <= value <= each.high + beyond for value, each in pairs)

    def _steps_from(self, point: Point) -> tuple[Edge, ...]:
        """Return the edges of the plan, and one edge to each further point to which other declared arguments lead."""
        found = {edge.to: edge for edge in self._with_declared_arguments(point) if edge.to is not None}
        known = {edge.to for edge in self.leaving(point)}
        return *self.leaving(point), *(edge for to, edge in found.items() if to not in known)

    def _with_declared_arguments(self, point: Point) -> Iterator[Edge]:
        for event in self.table.machine.events.values():
            ranges = [range(each.low, each.high + 1) for each in event.arguments.values()]
            for given in product(*ranges) if 1 < prod(map(len, ranges)) <= FEW_ARGUMENTS else ():
                pairs = zip(event.arguments.items(), given, strict=True)
                args = tuple((name, each.written(value)) for (name, each), value in pairs)
                yield from self.alternatives(point, event.name, "do", args)
