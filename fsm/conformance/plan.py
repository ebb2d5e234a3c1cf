"""Enumerate the steps that a test can take, and find the shortest path to each of them.

A *point* is where an entity can be in a test: its state, its data, and the call left in progress, if there is one. A
*step* is a whole event, or one stage of a call that takes time, together with its arguments and the outcomes that the
test expects.

A machine with data may have too many points and steps to take them all. The nearest points are then searched breadth
first. From there, the plan climbs to each outcome that has not been found, always from the point whose values are
nearest to its guard (B. Korel, *Automated software test data generation*, 1990). Only steps with a goal of their own
are tested.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import filterfalse
from typing import Final, NamedTuple, TypeAlias, cast

from fsm.conformance.boundaries import Arguments, Boundaries, Goal, GuardSide
from fsm.machine import Event
from fsm.machine.calls.valued import ValuedTable, with_data
from fsm.machine.guards import encoded
from fsm.machine.table import Table, Way
from fsm.machine.terms import Values
from fsm.machine.traversal import BreadthFirst
from fsm.sut import Stimulus, StimulusStage

_STEP: Final = re.compile(
    r"(?:(?P<stage>begin|end|wait)\s+|crash@(?P<point>\d+)\s+)?(?P<event>[^\s=,;()]+)"
    r"(?:\(\s*(?P<args>[^()]*)\))?(?:\s*=\s*(?P<expected>[^\s=][^=]*))?"
)
_ARGUMENT: Final = re.compile(r"(?P<name>[^\s=]+)\s*=\s*(?P<value>[^\s=]+)")

IDLE: Final = -1  # value of :attr:`Point.call` if no call is in progress

MOST_POINTS: Final = 300  # maximum number of points of a machine with data to search breadth first
MOST_CLIMBED: Final = 150  # maximum number of points to search for one outcome
MOST_CELLS: Final = 1 << 22  # tests may take this number of steps that differ in their data
OFTEN: Final = 2  # number of tests of each possible mistake in an update, because the values may hide it
MOST_EDGES: Final = 5_000  # if there are more edges, paths follow only those that the search and the tests need


class Point(NamedTuple):
    """A point in a test: the index of the state of the entity, and the row of the call in progress or :data:`IDLE`.

    Both are those of :attr:`Plan.valued`.
    """

    state: int
    call: int = IDLE


def steps(text: str) -> tuple[Stimulus, ...]:
    """Parse steps that are separated by ``;``. Raise :class:`ValueError` if *text* contains anything else.

    Arguments are texts; :func:`with_arguments` gives them their types.

    >>> [each.stage for each in steps("create; begin start=begins; crash@2 stop=stopped,kept")]
    ['do', 'begin', 'crash']
    >>> steps("pay(amount=3, cash=true)=paid")[0].args
    (('amount', '3'), ('cash', 'true'))
    """
    found = []
    for part in filter(None, map(str.strip, text.split(";"))):
        match = _STEP.fullmatch(part)
        if match is None:
            form = (
                "write EVENT, 'begin EVENT', 'end EVENT', 'wait EVENT' or 'crash@N EVENT', with =OUTCOME if it matters"
            )
            raise ValueError(f"{part!r} is not a step; {form}")
        stage = cast("StimulusStage", match["stage"] or ("crash" if match["point"] else "do"))
        outcomes = tuple(each.strip() for each in (match["expected"] or "").split(",") if each.strip())
        args = tuple(map(_argument, filter(None, map(str.strip, (match["args"] or "").split(",")))))
        found.append(Stimulus(match["event"], stage, outcomes, int(match["point"] or 0), args))
    return tuple(found)


def _argument(text: str) -> tuple[str, str]:
    match = _ARGUMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an argument; write NAME=VALUE, as in pay(amount=3)")
    return match["name"], match["value"]


def with_arguments(step: Stimulus, event: Event) -> Stimulus:
    """Give the arguments of *step*, which are texts, the types that *event* declares, or raise ``ValueError``."""
    given = dict(step.args)
    encoded(event, dict.fromkeys(given.keys() - event.arguments.keys()))  # raises ValueError if there are any
    if missing := [name for name in event.arguments if name not in given and step.stage not in {"end", "wait"}]:
        raise ValueError(f"{step.event} needs {', '.join(missing)}; write {step.event}({missing[0]}=…)")
    known = {name: each for name, each in event.arguments.items() if name in given}
    return step._replace(args=tuple((name, each.read(str(given[name]))) for name, each in known.items()))


Doing: TypeAlias = tuple[Point, str, StimulusStage]  # the point, the event, and the stage of the event


class Edge(NamedTuple):
    """A step from one point to another. ``to`` is ``None`` if the model does not specify the step.

    For each stage of the step, ``cells`` contains the (row, state) pair that the stage exercises, without its data,
    and ``choice`` says whether the stage has several outcomes to choose from. ``ways`` contains the stages' outcomes
    from the table, except that an unspecified last stage has no outcome.
    """

    source: Point
    step: Stimulus
    ways: tuple[Way, ...]
    to: Point | None
    cells: tuple[tuple[int, int], ...]
    choice: tuple[bool, ...]

    @property
    def doing(self) -> Doing:
        return self.source, self.step.event, self.step.stage


EdgeTest: TypeAlias = Callable[[Edge], bool]


class Plan:
    """All steps that a test of *table* can take.

    Unless *overlaps* is true, no calls are left in progress. Outcomes for which ``never(event, outcome)`` is true are
    skipped. ``valued`` is *table* with the data in its states and rows, which plans can share.
    ``boundaries`` chooses the arguments of
    events, and is ``None`` if the machine has no data.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("examples/models/washer.toml")))
    >>> aim = next(each for each in plan.edges if str(each.step) == "finish")
    >>> [str(edge.step) for edge in plan.path(plan.start, aim.source)]
    ['start=begins,started']
    >>> [str(each.step) for each in Plan(tabulate(load("examples/models/safe.toml"))).edges[:4]]
    ['enter(code=0)', 'enter(code=1)', 'enter(code=2)', 'enter(code=3)']
    """

    def __init__(
        self,
        table: Table,
        *,
        overlaps: bool = True,
        never: Callable[[str, str], bool] = lambda *_: False,
        valued: Table | None = None,
    ) -> None:
        self.table = table
        self.valued = valued or with_data(table, MOST_CELLS)
        self.boundaries = Boundaries(table, table.data) if table.data else None
        self.overlaps = overlaps
        self.start = Point(self.valued.initial)
        self.leaving = cache(lambda point: tuple(filterfalse(self._is_skipped, self._edges(point))))
        self._never = cache(never)
        self._skipped: dict[tuple[str, str], None] = {}
        self.alternatives = cache(self._alternatives)
        self.by_step = cache(lambda point: {edge.step: edge for edge in self.leaving(point)})
        self._from = cache(self._search)
        self.sides = cache(self._sides)
        self._arguments = cache(self._arguments_at)

    def stage(self, step: Stimulus, number: int) -> str:
        if self.table.row[step.event] not in self.table.end:
            return ""
        return "end" if number or step.stage == "end" else "begin"

    def _is_skipped(self, edge: Edge) -> bool:
        never = [outcome for outcome in edge.step.expected or ("",) if self._never(edge.step.event, outcome)]
        self._skipped.update(dict.fromkeys((edge.step.event, outcome) for outcome in never))
        return bool(never)

    @property
    def never(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._skipped)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All reachable edges or, with data, those with a goal of their own. Edges nearer to the start come first."""
        if self.boundaries is not None:
            return tuple(self._chosen)
        return tuple(edge for point in self._from(self.start).depth for edge in self.leaving(point))

    @cached_property
    def _explored(self) -> dict[Point, Edge | None]:
        return _Exploration(self).explored

    @cached_property
    def _chosen(self) -> Mapping[Edge, frozenset[Goal]]:
        """The edges to test if there are data, each with its goals that are not those of enough edges before."""
        met = Counter[Goal]()
        chosen = {}
        for edge in (edge for point in self._explored for edge in self.leaving(point)):
            goals = frozenset(self._goals(edge))
            if new := frozenset(each for each in goals if met[each] < (OFTEN if each[0] == "mistake" else 1)):
                met.update(goals)
                chosen[edge] = new
        return chosen

    @cached_property
    def _kept(self) -> Mapping[Point, tuple[Edge, ...]]:
        """The edges that paths may follow if there are data, by their sources."""
        kept: dict[Point, dict[Stimulus, Edge]] = {}
        if sum(len(self.leaving(point)) for point in self._explored) <= MOST_EDGES:
            for point in self._explored:
                onward = (edge for edge in self.leaving(point) if edge.to is None or edge.to in self._explored)
                kept[point] = {edge.step: edge for edge in onward}
        for edge in self._chosen:
            back: Edge | None = edge
            while back is not None and back.step not in kept.setdefault(back.source, {}):
                kept[back.source][back.step] = back
                back = self._explored[back.source]
        return {point: tuple(edges.values()) for point, edges in kept.items()}

    def _goals(self, edge: Edge) -> Iterator[Goal]:
        yield "step", self.bare(edge.source), edge.step[:2], tuple(self.original(way).index for way in edge.ways)
        for place, state, frame, way, after in self._frames(edge) if self.boundaries else ():
            yield from self.boundaries.goals(place, state, frame, way, after) if self.boundaries else ()

    def mistaken(self, edge: Edge) -> Iterator[tuple[Goal, Point]]:
        """Yield the points to which *edge* leads if its last outcome has one of the mistakes for which it is tested."""
        *_, (row, _, frame, way, after) = self._frames(edge)
        for why, values in self.boundaries.mistakes(row, frame, way, after) if self.boundaries else ():
            if edge.to is not None and isinstance(self.valued, ValuedTable) and why in self._chosen.get(edge, ()):
                yield why, edge.to._replace(state=self.valued.number(self.valued.bare(edge.to.state), values))

    def _frames(self, edge: Edge) -> Iterator[tuple[int, int, Values, Way | None, Values]]:
        """Yield the row, the state, the values and arguments, the outcome, and the values after it, of each stage."""
        row = edge.source.call if edge.step.stage == "end" else self.row(edge.step)
        given = self.valued.called.listed[row][1] if isinstance(self.valued, ValuedTable) else ()
        values = [self.valued.settled(each)[1] for each in (edge.source.state, *(way.to for way in edge.ways))]
        ways = [*map(self.original, edge.ways), None]
        for (place, state), way, before, after in zip(
            edge.cells, ways, values, [*values[1:], values[-1]], strict=False
        ):
            yield place, state, before + given, way, after

    def original(self, way: Way) -> Way:
        """Return the outcome *way* without its data."""
        if self.boundaries is None:
            return way
        row, state = self.valued.origin[way.index]
        ways = self.table.step(self.valued.bare(state), self.valued.rows[row].index) or ()
        return next(each for each in ways if (each.name, each.deviation) == (way.name, way.deviation))

    def _sides(self, edge: Edge) -> frozenset[GuardSide]:
        return frozenset(each for each in self._goals(edge) if isinstance(each, GuardSide))

    def row(self, step: Stimulus) -> int:
        """Return the row of *valued* for the event of *step* and its arguments."""
        return self.valued.placed(self.table.row[step.event], dict(step.args))

    def bare(self, point: Point) -> Point:
        """Return *point* as a state and row of the machine's own table."""
        call = point.call if point.call == IDLE else self.valued.rows[point.call].index
        return Point(self.valued.bare(point.state), call)

    def wanted(self, point: Point, step: Stimulus) -> Edge | None:
        """Return the edge for *step* at *point*. If there is only one outcome, the outcomes in *step* are ignored."""
        edges = self.by_step(point)
        if step.args:
            known = filterfalse(self._is_skipped, self.alternatives(point, step.event, step.stage, step.args))
            edges = {edge.step: edge for edge in known}
        return edges.get(step) or edges.get(Stimulus(*step[:2], args=step.args))

    def planned(self, point: Point) -> tuple[Edge, ...]:
        """Return the edges at *point* that paths may follow."""
        return self.leaving(point) if self.boundaries is None else self._kept.get(point, ())

    def onward(self, point: Point) -> Iterator[Edge]:
        return (edge for edge in self.planned(point) if edge.to is not None)

    def _alternatives(self, point: Point, event: str, stage: StimulusStage, args: Arguments = ()) -> tuple[Edge, ...]:
        table = self.valued
        step = Stimulus(event, stage, args=args)
        row = self.row(step)
        if stage == "end" and point.call != IDLE and table.agree(point.call, row):
            row = point.call
        first = table.end[row] if stage == "end" else row
        left = IDLE if stage == "end" or table.rows[row].event.interrupts else point.call
        edges = [self._edge(point, step, stages, left) for stages in self._stage_sequences(first, point.state)]
        if stage != "do":
            ways = [way for way in table.step(point.state, first) or () if way.begins]
            edges += [self._edge(point, step, ((first, point.state, way),), row) for way in ways]
        return tuple(edges)

    def path(self, source: Point, target: Point, *, without: EdgeTest = lambda _: False) -> tuple[Edge, ...] | None:
        if source == target:
            return ()
        search = self._from(source)
        if target in search.depth and any(map(without, search.path_to(target))):
            search = self._search(source, without)
        return search.path_to(target) if target in search.depth else None

    def _search(self, source: Point, without: EdgeTest = lambda _: False) -> BreadthFirst[Point, Edge]:
        return BreadthFirst([source], lambda point: filterfalse(without, self.onward(point))).exhausted()

    def _edges(self, point: Point) -> Iterator[Edge]:
        table = self.valued
        for row in table.rows:
            if row.ends:
                continue
            name = row.event.name
            for args in self._arguments(row.index, point.state):
                yield from self.alternatives(point, name, "do", args)
                if self.overlaps and point.call == IDLE and row.index in table.end:
                    begun = self.alternatives(point, name, "begin", args)
                    yield from (edge for edge in begun if edge.to is not None and edge.to.call != IDLE)
        if point.call != IDLE:
            end, step = table.end[point.call], Stimulus(table.rows[point.call].event.name, "end")
            for way in table.step(point.state, end) or ():
                yield self._edge(point, step, ((end, point.state, way),), point.call if way.begins else IDLE)

    def _arguments_at(self, row: int, state: int) -> tuple[Arguments, ...]:
        if self.boundaries is None or not isinstance(self.valued, ValuedTable):
            return ((),)
        return tuple(self.boundaries.arguments(row, self.valued.bare(state), self.valued.settled(state)[1]))

    def _edge(self, point: Point, step: Stimulus, stages: tuple[_Stage, ...], left: int) -> Edge:
        table = self.valued
        ways = tuple(way for _, _, way in stages if way is not None)
        choice = tuple(len(table.step(state, row) or ()) > 1 for row, state, _ in stages)
        return Edge(
            source=point,
            step=step._replace(expected=tuple(way.name for way in ways) if any(choice) else ()),
            ways=ways,
            to=Point(ways[-1].to, left) if len(ways) == len(stages) else None,
            cells=tuple((table.rows[row].index, table.bare(state)) for row, state, _ in stages),
            choice=choice,
        )

    def _stage_sequences(self, row: int, state: int) -> Iterator[tuple[_Stage, ...]]:
        table = self.valued
        todo: list[tuple[tuple[_Stage, ...], int, int]] = [((), row, state)]
        while todo:
            before, row, state = todo.pop(0)
            ways = table.step(state, row)
            if ways is None:
                yield (*before, (row, state, None))
            for way in ways or ():
                stages = (*before, (row, state, way))
                end = row if table.rows[row].ends else table.end.get(row, row)
                if not way.begins:
                    yield stages
                elif all((end, way.to) != stage[:2] for stage in stages):
                    todo.append((stages, end, way.to))


_Stage: TypeAlias = "tuple[int, int, Way | None]"


class _Exploration:
    """The ``explored`` points of a machine with data, from which the plan takes steps, with the edges to them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._found: dict[Point, Edge | None] = {plan.start: None}
        self._met: set[int] = set()
        self.explored: dict[Point, Edge | None] = {}
        queue = deque([plan.start])
        while queue and len(self.explored) < MOST_POINTS:
            queue.extend(self._explore(queue.popleft()))
        before = -1
        while before < len(self._met):
            before = len(self._met)
            for way in plan.table.ways:
                self._climb(way)

    def _explore(self, here: Point) -> Iterator[Point]:
        self.explored[here] = self._found[here]
        for edge in self._plan.leaving(here):
            self._met.update(self._plan.original(way).index for way in edge.ways)
            if edge.to is not None and edge.to not in self._found:
                self._found[edge.to] = edge
                yield edge.to

    def _climb(self, way: Way) -> None:
        queue = sorted(self._distances(way, self._found))
        for _ in range(MOST_CLIMBED):
            if not queue or way.index in self._met:
                return
            for each in [*self._distances(way, self._explore(heappop(queue)[2]))]:
                heappush(queue, each)

    def _distances(self, way: Way, points: Iterable[Point]) -> Iterator[tuple[int, int, Point]]:
        """Yield the distance of each unexplored point in the state of *way* from its guard, with a number."""
        (row, state), plan = self._plan.table.origin[way.index], self._plan
        for number, point in enumerate(points, len(self._found)):
            if point not in self.explored and plan.valued.bare(point.state) == state and plan.boundaries:
                yield plan.boundaries.distance(way.when, row, plan.valued.settled(point.state)[1]), number, point
