"""Choose sequences of steps, called tours, for the tests of a plan.

Different states may look the same. After each step, a test therefore takes a few short runs that distinguish the right
state from all others, as in the W-method (T. S. Chow, *Testing software design modeled by finite-state machines*,
1978). Outcomes that can be arranged count as inputs. A SUT that passes and has no more states than the machine is
correct. With data, runs distinguish the right values from those that a small mistake in an update leads to.

A frugal tour takes only a few of the steps that the SUT declares costly.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import product
from math import inf
from typing import Final, NamedTuple, TypeAlias

from fsm.conformance.complete_plan import DISTINGUISHED, CompletePlan
from fsm.conformance.executor import Execution
from fsm.conformance.failure import Causes, FailedError, Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.calls.valued import ValuedTable
from fsm.machine.terms import Argument
from fsm.machine.traversal import BreadthFirst
from fsm.sut import Costly, Detailed, Emitting, Stimulus

_Pair: TypeAlias = "tuple[Point, Point]"

_Next: TypeAlias = "tuple[Edge, Point | None]"
"""An edge, and the point to which it leads a SUT at the wrong point, or ``None`` if the SUT answers incorrectly."""


class _Predecessor(NamedTuple):
    to: _Pair
    edge: Edge


_TRIED: Final = 30  # maximum number of points to search for a run, if there are data
_VAIN: Final = 3  # number of vain searches after which a mistake in a state is given up

MISSED: Final = 10  # number of failed attempts after which a tour leaves out a step
MOST_FAILURES: Final = 3  # if the SUT has costly events, an event is given up after this number of similar failures
LONGEST: Final = 100  # approximate number of steps of each test in a complete tour
MOST_STEPS: Final = 10_000  # after this number of steps, a complete tour distinguishes no more configurations


@dataclass(kw_only=True)
class DistinguishingSequences:
    """Finds short runs that distinguish points by replies, by states if ``shown``, and by outputs if ``emitted``.

    The values of shown variables are not distinguished by runs if ``detailed`` is true.
    """

    oracle: Oracle
    shown: bool = True
    emitted: bool = True
    detailed: bool = False
    _runs: dict[Point, tuple[tuple[Edge, ...], ...]] = field(default_factory=dict)
    _vain: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def runs(self, edge: Edge) -> tuple[tuple[Edge, ...], ...]:
        """Return runs from the target of *edge* that rule out other points that can be distinguished from it."""
        valued = self.oracle.plan.valued
        if edge.to is None:
            return ()
        if isinstance(valued, ValuedTable) and not isinstance(self.oracle.plan, CompletePlan):
            return self._data_runs(edge, edge.to, valued)
        return self._point_runs(edge.to)

    def _data_runs(self, edge: Edge, to: Point, valued: ValuedTable) -> tuple[tuple[Edge, ...], ...]:
        found: list[tuple[Edge, ...]] = []
        others = {point: why for why, point in self._mistakes(edge, to, valued) if self._vain[why] < _VAIN}
        while others and (run := self._short_run(to, frozenset(others))):
            found.append(run)
            others = {each: why for each, why in others.items() if not self._distinguishes(run, each)}
        self._vain.update(others.values())
        return tuple(found)

    def _mistakes(self, edge: Edge, to: Point, valued: ValuedTable) -> Iterator[tuple[tuple[object, ...], Point]]:
        """Yield the points where the entity may be instead of *to*: in another state, or with another value."""
        state, values = valued.bare(to.state), valued.settled(to.state)[1]
        for other in valued.anywhere:
            if other != state and not (self.shown and valued.shows[other] != valued.shows[state]):
                yield (state, other), to._replace(state=valued.number(other, values))
        hidden = [place for place, each in enumerate(valued.data.variables) if not (self.detailed and each.shown)]
        for why, point in self.oracle.plan.mistaken(edge):
            if why[2] in hidden:
                yield (state, why), point

    def _short_run(self, point: Point, others: frozenset[Point]) -> tuple[Edge, ...]:
        """Return a short run from *point* that distinguishes it from one of *others*, or an empty run."""
        met = {(point, others)}
        queue: deque[tuple[tuple[Edge, ...], Point, frozenset[Point]]] = deque([((), point, others)])
        for _ in range(_TRIED):
            if not queue:
                break
            run, here, those = queue.popleft()
            for edge in self.oracle.plan.leaving(here):
                if edge.to is None or not all(self._possible(edge, each) for each in those):
                    continue
                answers = [self._answers(edge, each) for each in sorted(those)]
                if not all(answers):
                    return (*run, edge)
                left = frozenset[Point]().union(*answers) - {edge.to}
                if left and (edge.to, left) not in met:
                    met.add((edge.to, left))
                    queue.append(((*run, edge), edge.to, left))
        return ()

    def _possible(self, edge: Edge, other: Point) -> bool:
        return bool(self.oracle.plan.alternatives(other, *edge.step[:2], edge.step.args))

    def _point_runs(self, point: Point) -> tuple[tuple[Edge, ...], ...]:
        if point not in self._runs:
            found = []
            others = {other for other in self._others if (point, other) in self._first_steps}
            while others:
                other = min(others)
                found.append(run := self._run(point, other))
                others = {each for each in others if not self._distinguishes(run, each)} - {other}
            self._runs[point] = tuple(found)
        return self._runs[point]

    def _points(self) -> list[Point]:
        plan = self.oracle.plan
        return list(dict.fromkeys([plan.start, *(edge.to for edge in plan.edges if edge.to is not None)]))

    @cached_property
    def _others(self) -> list[Point]:
        plan = self.oracle.plan
        return list(dict.fromkeys([*self._points(), *(plan.mistakable if isinstance(plan, CompletePlan) else ())]))

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
        alternatives = self.oracle.plan.alternatives(other, edge.step.event, edge.step.stage, edge.step.args)
        named = [each for each in alternatives if each.step.expected == edge.step.expected]
        found = set()
        for each in named or alternatives:
            if each.to is None:
                return {other}
            seen = self.oracle.expected_response(each, shown=self.shown, emitted=self.emitted)
            if self.oracle.fits(edge, seen) and (edge.to is None or self._details(edge.to) == self._details(each.to)):
                found.add(each.to)
        return found

    def _details(self, point: Point) -> dict[str, Argument]:
        return self.oracle.plan.valued.visible(point.state) if self.detailed else {}

    @cached_property
    def _first_steps(self) -> dict[_Pair, _Next]:
        apart: dict[_Pair, _Next] = {}
        leads: dict[_Pair, list[_Predecessor]] = {}
        shows = self.oracle.plan.valued.shows
        for one, other in product(self._points(), self._others):
            same = not (self.shown and shows[one.state] != shows[other.state])
            if one != other and same and self._details(one) == self._details(other):
                self._compare((one, other), apart, leads)
        back: BreadthFirst[_Pair, _Predecessor] = BreadthFirst(apart, lambda known: leads.get(known, ()))
        for each in back:
            apart.setdefault(each.to, (each.edge, back.node[1]))
        return apart

    def _compare(self, pair: _Pair, apart: dict[_Pair, _Next], leads: dict[_Pair, list[_Predecessor]]) -> None:
        one, other = pair
        for edge in self.oracle.plan.leaving(one):
            if edge.to is None or not self._possible(edge, other):
                continue
            answers = self._answers(edge, other)
            if not answers:
                apart.setdefault(pair, (edge, None))
            elif len(answers) == 1 and edge.to not in answers:
                leads.setdefault((edge.to, min(answers)), []).append(_Predecessor(pair, edge))


def distinguishing_sequences(walk: Execution) -> DistinguishingSequences:
    emitted, detailed = isinstance(walk.sut, Emitting), isinstance(walk.sut, Detailed)
    return DistinguishingSequences(oracle=walk.oracle, shown=walk.cover.shown, emitted=emitted, detailed=detailed)


class FrugalTour:
    """Finds routes that take all given edges with few costly events.

    ``left`` holds the points and steps of the edges that are left. A route leads to the nearest of these edges, if
    possible along cheap edges only; else along costly edges only, because several of them in a row cost no more than
    one; else along edges of both kinds. At each point, one outcome of a costly event is enough if the other outcomes
    occur at other points. Edges that failed, or for which *avoided* returns true, are not taken.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("examples/models/washer.toml")), overlaps=False)
    >>> [str(each.step) for each in FrugalTour(plan, plan.edges, lambda event: event == "power-cut").route(plan.start)]
    ['start=refused']
    """

    def __init__(
        self,
        plan: Plan,
        edges: Iterable[Edge],
        costly: Callable[[str], bool],
        avoided: Callable[[Edge], bool] = lambda _: False,
        most: float = inf,
    ) -> None:
        self.plan = plan
        self._most = most
        self.left = {(edge.source, edge.step) for edge in edges}
        self._costly = cache(costly)
        self._avoided = avoided
        self._seen: set[Stimulus] = set()
        self._missed: dict[Stimulus, list[Point]] = {}
        self._failures: Counter[tuple[object, ...]] = Counter()
        self._failed: set[object] = set()

    def took(self, edge: Edge) -> None:
        self.left.discard((edge.source, edge.step))
        if not self._costly(edge.step.event):
            return
        self._seen.add(edge.step)
        for other in self.plan.alternatives(edge.source, edge.step.event, edge.step.stage, edge.step.args):
            if other.step in self._seen:
                self.left.discard((other.source, other.step))
            else:
                self._missed.setdefault(other.step, []).append(other.source)
        self.left -= {(point, edge.step) for point in self._missed.pop(edge.step, ())}

    def failed(self, edge: Edge, failure: Failure) -> None:
        """Avoid *edge*, which led to *failure*. After *most* failures of one kind, avoid its event everywhere."""
        self._failed.add((edge.source, edge.step))
        self._failures[failure.kind] += 1
        if self._failures[failure.kind] >= self._most:
            self._failed.add(edge.step.event)

    def route(self, here: Point | None) -> tuple[Edge, ...]:
        """Return the next edges to take, if any, from the point *here* or from the start of the plan."""
        for kinds in ({False}, {True}, {False, True}):
            for start in dict.fromkeys([here or self.plan.start, self.plan.start]):
                search = BreadthFirst([start], partial(self._onward, kinds))
                found = (search.path(edge) for edge in search if (edge.source, edge.step) in self.left)
                if route := next(found, ()):
                    return route
        return ()

    def _onward(self, costly: set[bool], point: Point) -> Iterator[Edge]:
        for edge in self.plan.onward(point):
            failed = not self._failed.isdisjoint({edge.step.event, (edge.source, edge.step)})
            if self._costly(edge.step.event) in costly and not failed and not self._avoided(edge):
                yield edge


def frugal_tour(
    walk: Execution,
    edges: list[Edge],
    causes: Causes,
    advanced: Callable[[int], None] = lambda _: None,
    runs: Callable[[Edge], Sequence[tuple[Edge, ...]]] = lambda _: (),
    longest: float = inf,
) -> None:
    """Take *edges*, each once before each of its *runs*, in tests of about *longest* steps."""
    costly = walk.sut.costly if isinstance(walk.sut, Costly) else lambda _: False
    most = MOST_FAILURES if isinstance(walk.sut, Costly) else inf  # an event that costs nothing is always tried again
    tour = FrugalTour(walk.oracle.plan, edges, costly, walk.cover.avoided, most)
    whole = len(tour.left)
    missed: Counter[Edge] = Counter()
    taken: Counter[Edge] = Counter()
    here: Point | None = None
    while route := tour.route(here):
        advanced(whole - len(tour.left))
        edge = route[0]
        try:
            if edge.source != here or len(walk.trace) > longest:
                walk.restart()
            for edge in route:
                tour.took(edge)
                if not walk.aim(edge):
                    missed[route[-1]] += 1
                    break
            else:
                following = runs(edge)[taken[edge] :]
                taken[edge] += 1
                for each in following[0] if following else ():
                    walk.take(each.step)
                if len(following) > 1:
                    tour.left.add((edge.source, edge.step))
            if missed[route[-1]] == MISSED:
                tour.left.discard((route[-1].source, route[-1].step))
            here = walk.point
        except FailedError as failed:
            here = None
            tour.failed(edge, failed.failure)
            if causes.add(failed.failure):
                break


def complete_tour(walk: Execution, edges: list[Edge], causes: Causes) -> None:
    """Take *edges* of a complete plan, and, while there are not too many steps, runs that distinguish their targets."""
    sequences, most = distinguishing_sequences(walk), walk.cover.steps + MOST_STEPS
    few = len({edge.source for edge in edges}) <= DISTINGUISHED

    def runs(edge: Edge) -> tuple[tuple[Edge, ...], ...]:
        return sequences.runs(edge) if few and walk.cover.steps < most else ()

    frugal_tour(walk, edges, causes, runs=runs, longest=LONGEST)
