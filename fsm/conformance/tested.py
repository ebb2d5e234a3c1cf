"""The results of testing one implementation: its failures and its coverage."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property

from fsm.conformance.boundaries import GuardSide
from fsm.conformance.failure import Cover, Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import IDLE, Edge, Plan, Point
from fsm.conformance.race_runs import Race, RaceSearch
from fsm.machine.findings import Covered
from fsm.machine.table import Way
from fsm.machine.traversal import BreadthFirst
from fsm.sut import StimulusStage
from fsm.verdict import Fails, Holds, Unknown


class Obstacle(IntEnum):
    """A reason why a plan cannot force a pair to occur. Reasons that are easier to remove have smaller values."""

    NONE = 0
    CHOICE = 1  # The environment chooses the outcome.
    AMBIGUITY = 2  # The observations do not determine the state of the entity.
    SUPPORT = 3  # The SUT does not support an event.
    OVERLAP = 4  # A call is in progress, and the SUT has no begin() and end().
    CALLS = 5  # Several calls are in progress.
    TIME = 6  # Another timer fires first.
    DATA = 7  # The plan found no values with which the pair occurs.


def obstacles(oracle: Oracle, cover: Cover) -> Mapping[tuple[int, int], Obstacle]:
    plan = oracle.plan
    full = plan if plan.overlaps and not plan.never else Plan(plan.table, valued=plan.valued)
    ways = cache(lambda point: [(edge, [*_obstacles_of(edge, oracle, cover)]) for edge in full.planned(point)])
    found: dict[tuple[int, int], Obstacle] = {}

    def onward(point: Point) -> Iterator[Edge]:
        return (edge for edge, before in ways(point) if edge.to is not None and before[-1] <= least)

    for least in Obstacle:
        search: BreadthFirst[Point, Edge] = BreadthFirst([full.start], onward)
        for edge, before in (each for point in search.exhausted().depth for each in ways(point)):
            for pair, obstacle in zip(edge.cells, before, strict=False):
                if obstacle <= least:
                    found.setdefault(pair, least)
    return found


def _obstacles_of(edge: Edge, oracle: Oracle, cover: Cover) -> Iterator[Obstacle]:
    never = any((edge.step.event, outcome) in oracle.plan.never for outcome in edge.step.expected or ("",))
    if edge.step.stage != "do" and not oracle.plan.overlaps:
        first = Obstacle.OVERLAP
    elif edge.doing in cover.unsupported:
        first = Obstacle.SUPPORT
    elif edge.doing in cover.untimely:
        first = Obstacle.TIME
    elif never:
        first = Obstacle.CHOICE
    else:
        first = Obstacle.NONE if oracle.sure(edge.source) else Obstacle.AMBIGUITY
    yield first
    arranged = (edge.source, edge.step) in cover.arranged
    seen = oracle.expected_response(edge, shown=cover.shown, emitted=cover.heard) if edge.to is not None else None
    certain = frozenset(edge.cells) if arranged or seen is None else oracle.certain(edge, seen)
    known = [pair in certain for pair in edge.cells[1:]]
    known.append(seen is None or (arranged and not oracle.dynamics.unseen) or oracle.leads(edge, seen))
    for number, is_known in enumerate(known, 1):
        chosen = Obstacle.CHOICE if any(edge.choice[:number]) and not arranged else Obstacle.NONE
        yield max(first, chosen, Obstacle.NONE if is_known else Obstacle.AMBIGUITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonconforming(Fails):
    """The SUT does not conform. There is a failure for each cause, or a ``race``, or both."""

    failures: tuple[Failure, ...]
    race: Race | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    event: str
    stage: StimulusStage
    states: tuple[str, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Tested:
    """The results of testing a SUT: its coverage, and the shortest failure of each cause.

    ``reachable`` holds the (row, state) pairs that some run can exercise. ``obstacles`` holds the reasons
    why the plan cannot force some of them. ``ways`` lists all outcomes; it is empty after a replay.

    Testing may have been partial. ``shortened`` is true if only a part of the plan was requested, ``skipped`` if
    failures prevented the random tests, and ``stopped`` if the maximum number of failures was reached. ``methods``
    lists methods that the machine needs and the SUT lacks. ``misnamed`` maps methods that look misspelled to the
    right names.

    ``configurations`` is the number of configurations in which the tests took all events, and the number of all
    configurations within the scopes, or 0 if there are too many or no data.

    If another model judged the tests, ``judge`` is its name and ``covered`` its coverage. ``told`` counts the
    events that the SUT sent, or is ``None`` if they were not checked. ``waited`` names what the SUT has waited for in
    real time, so that the tests may not be reproducible.
    """

    sut: str
    oracle: Oracle
    cover: Cover
    failures: tuple[Failure, ...]
    reachable: tuple[tuple[int, int], ...]
    obstacles: Mapping[tuple[int, int], Obstacle] = field(default_factory=dict)
    shortened: bool = False
    skipped: bool = False
    methods: tuple[str, ...] = ()
    misnamed: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[Way, ...] = ()
    races: RaceSearch | None = None
    stopped: bool = False
    judge: str = ""
    covered: tuple[Covered, ...] = ()
    told: int | None = None
    waited: str = ""
    configurations: tuple[int, int] = (0, 0)

    @property
    def race(self) -> Race | None:
        return self.races.race if self.races is not None else None

    @property
    def verdict(self) -> Holds | Nonconforming | Unknown:
        """The verdict on the SUT. It *holds* if no test failed and every pair that the plan can force was exercised."""
        if self.failures or self.race is not None:
            return Nonconforming(failures=self.failures, race=self.race)
        return Unknown(why=self.unknown) if self.unknown else Holds()

    @property
    def unknown(self) -> str:
        """The reason why tests without a failure do not prove that the SUT conforms, or an empty string."""
        if not (self.cover.cells or self.cover.ambiguous):
            return "nothing could be tested"
        if self.shortened:
            return "only a part of the plan was requested"
        if "outputs" in self.methods:
            return "outputs were not compared"
        if meant := [each for each in self.misnamed.values() if each in self.methods]:
            return f"the SUT has no {meant[0]}"
        return "the tests missed pairs that the SUT could have reached" if self.missed else ""

    @property
    def reached(self) -> tuple[tuple[int, int], ...]:
        """The pairs that the tests exercised in a known state."""
        return tuple(pair for pair in self.reachable if self.cover.cells[pair])

    @property
    def share(self) -> float:
        """The percentage of reachable pairs that the tests exercised."""
        return 100 * len(self.reached) / max(len(self.reachable), 1)

    @property
    def uncompared(self) -> tuple[tuple[int, int], ...]:
        """The exercised pairs whose outputs were never compared, if there are outputs and the SUT reports them."""
        emits = any(way.emits for way in self.oracle.plan.table.ways) and "outputs" not in self.methods
        return tuple(pair for pair in self.reached if emits and not self.cover.compared[pair])

    @property
    def missed(self) -> tuple[tuple[int, int], ...]:
        """The pairs that the plan could have forced but the tests did not exercise."""
        return self.unreached.get(Obstacle.NONE, ())

    @property
    def unreached(self) -> Mapping[Obstacle, tuple[tuple[int, int], ...]]:
        """Untested pairs by obstacle. A pair that was exercised only in an uncertain state counts as ambiguous."""
        found: dict[Obstacle, list[tuple[int, int]]] = {}
        for pair in (pair for pair in self.reachable if not self.cover.cells[pair]):
            obstacle = self.obstacles.get(pair, Obstacle.DATA if self.oracle.plan.boundaries else Obstacle.CALLS)
            ambiguous = obstacle is not Obstacle.NONE and self.cover.ambiguous[pair]
            found.setdefault(Obstacle.AMBIGUITY if ambiguous else obstacle, []).append(pair)
        return {obstacle: tuple(pairs) for obstacle, pairs in sorted(found.items())}

    @cached_property
    def sides(self) -> Mapping[GuardSide, str]:
        """The sides of the comparisons in guards, each with the reason why it was not exercised, or an empty text."""
        plan = self.oracle.plan
        planned = {side for edge in plan.edges for side in plan.sides(edge)}
        return {
            side: "" if self.cover.sides[side] else "missed" if side in planned else plan.boundaries.unmet(side)
            for side in (plan.boundaries.sides if plan.boundaries else ())
            if side[:2] in self.reachable and plan.boundaries
        }

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        states: dict[tuple[str, StimulusStage, str], dict[str, None]] = {}
        table = self.oracle.plan.valued
        for (point, event, stage), why in self.cover.unsupported.items():
            state = table.states[point.state]
            during = f"{state} during {table.rows[point.call].event.name}" if point.call != IDLE else state
            states.setdefault((event, stage, why), {})[during] = None
        supported = self.cover.supported
        return tuple(
            LeftOut(event=event, stage=stage, states=tuple(where) if (event, stage) in supported else (), why=why)
            for (event, stage, why), where in sorted(states.items())
        )

    @property
    def unseen(self) -> tuple[tuple[int, int, str], ...]:
        """Outcomes that never occurred, although other outcomes of the same cell did, as (row, state, name) tuples.

        Deviations are left out. So are outcomes that the SUT cannot bring about or has excluded from the tests.
        """
        table, tried = self.oracle.plan.table, {*self.oracle.plan.never, *self.unarranged}
        came = {table.origin[way] for way in self.cover.ways}
        return tuple(
            (*table.origin[way.index], way.name)
            for way in self.ways
            if table.origin[way.index] in came and way.index not in self.cover.ways and way.deviation is None
            if (table.rows[table.origin[way.index][0]].event.name, way.name) not in tried
        )

    @property
    def unarranged(self) -> tuple[tuple[str, str], ...]:
        table = self.oracle.plan.table
        came = {(table.rows[table.origin[way][0]].event.name, table.ways[way].name) for way in self.cover.ways}
        return tuple(sorted(self.cover.unarranged - came))
