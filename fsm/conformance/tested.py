"""What tests of one implementation have found, and what they have covered."""

from dataclasses import dataclass

from fsm.conformance.cover import Cover
from fsm.conformance.failure import Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import IDLE
from fsm.conformance.race_runs import Race, RaceSearch
from fsm.machine.table import Way
from fsm.sut import StimulusStage
from fsm.verdict import Covered, Fails, Holds, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonconforming(Fails):
    """What a SUT did is not legal: ``failures`` by cause, each the shortest that was found, or a ``race``."""

    failures: tuple[Failure, ...]
    race: Race | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """An event, or a stage of it, that a SUT does not support in some ``states``, or anywhere if there are none."""

    event: str
    stage: StimulusStage
    states: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What tests of a SUT have found: ``failures`` by cause, each the shortest that was found.

    ``reachable`` are the cells, by (row, state), that a test of this SUT could meet at all, ``ways`` their outcomes, if all are
    looked for; ``beyond`` the cells that need what the SUT has not: to be met while a call is in progress.  ``races`` is what several threads at once found.  A test
    ``stopped`` when it had found as many failures as are looked for, and has not tested the rest.  If another model was the
    ``judge``, there is what tests have ``covered`` of it.  ``told`` counts the events that were sent, where they were followed.
    """

    sut: str
    oracle: Oracle
    cover: Cover
    failures: tuple[Failure, ...]
    reachable: tuple[tuple[int, int], ...]
    beyond: tuple[tuple[int, int], ...]
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
        """Whether all that was tested is legal; unknown where nothing could be tested."""
        if self.failures or self.race is not None:
            return Nonconforming(failures=self.failures, race=self.race)
        return Holds() if self.cover.cells else Unknown(why="nothing could be tested")

    @property
    def missed(self) -> tuple[tuple[int, int], ...]:
        return tuple(cell for cell in self.reachable if not self.cover.cells[cell])

    @property
    def closed(self) -> tuple[tuple[int, int], ...]:
        """The cells missed to which no way leads but by what the SUT does not support, or what never came."""
        closed = self.cover.closed(self.oracle.plan)
        return tuple(cell for cell in self.missed if cell in closed)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the SUT does not support: an event once, if nowhere; else where, as far as that was not met otherwise."""
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
        """The outcomes that never came where others did, by row and state; a deviation need not come."""
        table, tried = self.oracle.plan.table, {*self.never, *self.unarranged}
        came = {table.origin[way] for way in self.cover.ways}
        return tuple(
            (*table.origin[way.index], way.name)
            for way in self.ways
            if table.origin[way.index] in came and way.index not in self.cover.ways and way.deviation is None
            if (table.rows[table.origin[way.index][0]].event.name, way.name) not in tried
        )

    @property
    def never(self) -> tuple[tuple[str, str], ...]:
        """The outcomes that were not tried, since only what no test controls brings them about, each with its event."""
        return self.oracle.plan.never

    @property
    def unarranged(self) -> tuple[tuple[str, str], ...]:
        """Outcomes that the SUT could not arrange, and that did not occur by themselves, each with its event."""
        table = self.oracle.plan.table
        came = {(table.rows[table.origin[way][0]].event.name, table.ways[way].name) for way in self.cover.ways}
        return tuple(sorted(self.cover.unarranged - came))
