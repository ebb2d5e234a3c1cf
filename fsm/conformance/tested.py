"""Results of the tests of one implementation: failures and coverage."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fsm.conformance.cover import Cover
from fsm.conformance.failure import Failure
from fsm.conformance.forcing import Obstacle
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import IDLE
from fsm.conformance.race_runs import Race, RaceSearch
from fsm.machine.findings import Covered
from fsm.machine.table import Way
from fsm.sut import StimulusStage
from fsm.verdict import Fails, Holds, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonconforming(Fails):
    """The behaviour of a SUT is not legal: ``failures``, the shortest of each cause, or a ``race``."""

    failures: tuple[Failure, ...]
    race: Race | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An event, or a stage of it, that a SUT does not support in ``states``, or anywhere if there are none."""

    event: str
    stage: StimulusStage
    states: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """Results of the tests of a SUT: ``failures``, the shortest of each cause, and coverage.

    ``reachable`` are the (row, state) pairs that some run can exercise; ``ways`` are all outcomes, empty after a
    replay. ``obstacles`` has the reason why the plan cannot force a pair. ``shortened`` is true if only a part of the
    plan was asked for, ``skipped`` if tests in random order were left out because the plan had found failures, and
    ``stopped`` if the test ended early, with as many failures as are looked for. ``methods`` are the methods that the
    machine needs and the SUT lacks; ``misnamed`` maps methods of the SUT to the ones that they are probably meant to
    be. ``races`` is the search with several threads. If another model judged, ``judge`` is its name, and ``covered``
    its coverage. ``told`` counts the events that the SUT sent, if they were followed.
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

    @property
    def race(self) -> Race | None:
        return self.races.race if self.races is not None else None

    @property
    def verdict(self) -> Holds | Nonconforming | Unknown:
        """*Holds* if every test was legal and covered all that the plan owes; otherwise the failures, or *unknown*."""
        if self.failures or self.race is not None:
            return Nonconforming(failures=self.failures, race=self.race)
        return Unknown(why=self.unknown) if self.unknown else Holds()

    @property
    def unknown(self) -> str:
        """The reason why legal tests do not prove that the SUT conforms; empty if they do."""
        if not (self.cover.cells or self.cover.ambiguous):
            return "nothing could be tested"
        if self.shortened:
            return "only a part of the plan was asked for"
        if "outputs" in self.methods:
            return "outputs were not compared"
        if meant := [each for each in self.misnamed.values() if each in self.methods]:
            return f"the SUT has no {meant[0]}"
        return "pairs were missed that it could have reached" if self.missed else ""

    @property
    def reached(self) -> tuple[tuple[int, int], ...]:
        """The pairs that were exercised while the state was certain."""
        return tuple(pair for pair in self.reachable if self.cover.cells[pair])

    @property
    def share(self) -> float:
        """The percentage of the reachable pairs that were reached."""
        return 100 * len(self.reached) / max(len(self.reachable), 1)

    @property
    def uncompared(self) -> tuple[tuple[int, int], ...]:
        """The reached pairs whose outputs were never seen; empty if the machine has none, or none were ever seen."""
        emits = any(way.emits for way in self.oracle.plan.table.ways) and "outputs" not in self.methods
        return tuple(pair for pair in self.reached if emits and not self.cover.compared[pair])

    @property
    def missed(self) -> tuple[tuple[int, int], ...]:
        """The unreached pairs that the plan can force, and therefore owes."""
        return self.unreached.get(Obstacle.NONE, ())

    @property
    def unreached(self) -> Mapping[Obstacle, tuple[tuple[int, int], ...]]:
        """The unreached pairs by obstacle; pairs exercised only in an uncertain state count as ambiguous."""
        found: dict[Obstacle, tuple[tuple[int, int], ...]] = {}
        for pair in self.reachable:
            obstacle = self.obstacles.get(pair, Obstacle.CALLS)
            if obstacle is not Obstacle.NONE and self.cover.ambiguous[pair]:
                obstacle = Obstacle.AMBIGUITY
            if not self.cover.cells[pair]:
                found[obstacle] = (*found.get(obstacle, ()), pair)
        return dict(sorted(found.items()))

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the SUT does not support: an event or stage with the states, or with none if it is supported nowhere."""
        states: dict[tuple[str, StimulusStage, str], dict[str, None]] = {}
        table = self.oracle.plan.table
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
        """The outcomes, by row and state, that never occurred although others of their cell did; no deviations."""
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
        """Outcomes that the SUT could not arrange and that did not occur by themselves, each with its event."""
        table = self.oracle.plan.table
        came = {(table.rows[table.origin[way][0]].event.name, table.ways[way].name) for way in self.cover.ways}
        return tuple(sorted(self.cover.unarranged - came))
