"""Enumerate the steps that a test can take, and find the shortest path to each of them.

A *point* is where an entity can be in a test: its state, and the call left in progress, if there is one. A *step* is a
whole event, or one stage of a call that takes time, together with the outcomes that the test expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import filterfalse
from typing import Final, NamedTuple, TypeAlias, cast

from fsm.machine.table import Table, Way
from fsm.machine.traversal import BreadthFirst
from fsm.sut import Stimulus, StimulusStage

_STEP: Final = re.compile(
    r"(?:(?P<stage>begin|end)\s+|crash@(?P<point>\d+)\s+)?(?P<event>[^\s=,;]+)(?:\s*=\s*(?P<expected>[^\s=][^=]*))?"
)

IDLE: Final = -1  # value of :attr:`Point.call` if no call is in progress


class Point(NamedTuple):
    """A point in a test: the index of the state of the entity, and the row of the call in progress or :data:`IDLE`."""

    state: int
    call: int = IDLE


def steps(text: str) -> tuple[Stimulus, ...]:
    """Parse steps that are separated by ``;``. Raise :class:`ValueError` if *text* contains anything else.

    >>> [each.stage for each in steps("create; begin start=begins; crash@2 stop=stopped,kept")]
    ['do', 'begin', 'crash']
    """
    found = []
    for part in filter(None, map(str.strip, text.split(";"))):
        match = _STEP.fullmatch(part)
        if match is None:
            form = "write EVENT, 'begin EVENT', 'end EVENT' or 'crash@N EVENT', with =OUTCOME if it matters"
            raise ValueError(f"{part!r} is not a step; {form}")
        stage = cast("StimulusStage", match["stage"] or ("crash" if match["point"] else "do"))
        outcomes = tuple(each.strip() for each in (match["expected"] or "").split(",") if each.strip())
        found.append(Stimulus(match["event"], stage, outcomes, int(match["point"] or 0)))
    return tuple(found)


Doing: TypeAlias = tuple[Point, str, StimulusStage]  # the point, the event, and the stage of the event


class Edge(NamedTuple):
    """A step from one point to another. ``to`` is ``None`` if the model does not specify the step.

    For each stage of the step, ``cells`` contains the (row, state) pair that the stage exercises, and ``choice`` says
    whether the stage has several outcomes to choose from. ``ways`` contains the stages' outcomes from the table, except
    that an unspecified last stage has no outcome.
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
    skipped.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> plan = Plan(tabulate(load("examples/models/washer.toml")))
    >>> aim = next(each for each in plan.edges if str(each.step) == "finish")
    >>> [str(edge.step) for edge in plan.path(plan.start, aim.source)]
    ['start=begins,started']
    """

    def __init__(
        self, table: Table, *, overlaps: bool = True, never: Callable[[str, str], bool] = lambda *_: False
    ) -> None:
        self.table = table
        self.overlaps = overlaps
        self.start = Point(table.initial)
        self.leaving = cache(lambda point: tuple(filterfalse(self._is_skipped, self._edges(point))))
        self._never = cache(never)
        self._skipped: dict[tuple[str, str], None] = {}
        self.alternatives = cache(self._alternatives)
        self.by_step = cache(lambda point: {edge.step: edge for edge in self.leaving(point)})
        self._from = cache(self._search)

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
        """All reachable edges. Edges nearer to the start come first."""
        return tuple(edge for point in self._from(self.start).depth for edge in self.leaving(point))

    def wanted(self, point: Point, step: Stimulus) -> Edge | None:
        """Return the edge for *step* at *point*. If there is only one outcome, the outcomes in *step* are ignored."""
        edges = self.by_step(point)
        return edges.get(step) or edges.get(Stimulus(*step[:2]))

    def onward(self, point: Point) -> Iterator[Edge]:
        return (edge for edge in self.leaving(point) if edge.to is not None)

    def _alternatives(self, point: Point, event: str, stage: StimulusStage) -> tuple[Edge, ...]:
        row = self.table.row[event]
        first = self.table.end[row] if stage == "end" else row
        left = IDLE if stage == "end" or self.table.rows[row].event.interrupts else point.call
        edges = [self._edge(point, stage, stages, left) for stages in self._stage_sequences(first, point.state)]
        if stage != "do":
            ways = [way for way in self.table.step(point.state, first) or () if way.begins]
            edges += [self._edge(point, stage, ((first, point.state, way),), row) for way in ways]
        return tuple(edges)

    def path(self, source: Point, target: Point, *, without: EdgeTest = lambda _: False) -> tuple[Edge, ...] | None:
        search = self._from(source)
        if target in search.depth and any(map(without, search.path_to(target))):
            search = self._search(source, without)
        return search.path_to(target) if target in search.depth else None

    def _search(self, source: Point, without: EdgeTest = lambda _: False) -> BreadthFirst[Point, Edge]:
        return BreadthFirst([source], lambda point: filterfalse(without, self.onward(point))).exhausted()

    def _edges(self, point: Point) -> Iterator[Edge]:
        for row in self.table.rows:
            if row.ends:
                continue
            yield from self.alternatives(point, row.event.name, "do")
            if self.overlaps and point.call == IDLE and row.index in self.table.end:
                begun = self.alternatives(point, row.event.name, "begin")
                yield from (edge for edge in begun if edge.to is not None and edge.to.call == row.index)
        if point.call != IDLE:
            end = self.table.end[point.call]
            for way in self.table.step(point.state, end) or ():
                yield self._edge(point, "end", ((end, point.state, way),), point.call if way.begins else IDLE)

    def _edge(self, point: Point, stage: StimulusStage, stages: tuple[_Stage, ...], left: int) -> Edge:
        ways = tuple(way for _, _, way in stages if way is not None)
        event = self.table.rows[stages[0][0]].event.name
        choice = tuple(len(self.table.step(state, row) or ()) > 1 for row, state, _ in stages)
        return Edge(
            source=point,
            step=Stimulus(event, stage, tuple(way.name for way in ways) if any(choice) else ()),
            ways=ways,
            to=Point(ways[-1].to, left) if len(ways) == len(stages) else None,
            cells=tuple((row, state) for row, state, _ in stages),
            choice=choice,
        )

    def _stage_sequences(self, row: int, state: int) -> Iterator[tuple[_Stage, ...]]:
        todo: list[tuple[tuple[_Stage, ...], int, int]] = [((), row, state)]
        while todo:
            before, row, state = todo.pop(0)
            ways = self.table.step(state, row)
            if ways is None:
                yield (*before, (row, state, None))
            for way in ways or ():
                stages = (*before, (row, state, way))
                end = row if self.table.rows[row].ends else self.table.end.get(row, row)
                if not way.begins:
                    yield stages
                elif all((end, way.to) != stage[:2] for stage in stages):
                    todo.append((stages, end, way.to))


_Stage: TypeAlias = "tuple[int, int, Way | None]"
