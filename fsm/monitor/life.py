"""The knowledge about an entity, with the times at which its timers and time limits have started.

For each running timer, a belief keeps the earliest and the latest observation at which it may have started. A timer is
violated only if every explanation of the observations is too early or too late, beyond the tolerance. If only some of
them are, or if the start is not known well enough, the observation is counted as undecided. Without times, a timer
decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fsm.machine.calls.clocks import ANYTIME, FRESH, NOW, RunningClock, RunningTimers
from fsm.machine.calls.configuration import Configuration, Configurations
from fsm.machine.findings import Assumed, Cause, TimeLimit
from fsm.machine.table import Table
from fsm.machine.timers import Timer
from fsm.monitor.beliefs import Belief, BeliefStep
from fsm.monitor.diagnosis import Explained
from fsm.trace import Line, Observation, nanoseconds


class Start(NamedTuple):
    """The time in nanoseconds and the line at which a timer or time limit began at the latest.

    ``since`` is the earliest time at which an event on this line may have happened. An unknown time is ``None``.
    """

    at: int | None
    line: int | Line
    since: int | None = None


def latest(seen: Observation) -> int | None:
    """Return the latest time at which *seen* may have happened."""
    return nanoseconds(seen.at) if seen.end is None else seen.end


class LastSeen(NamedTuple):
    """The last observation of an entity of a machine with timers."""

    observation: Observation
    place: Line


class Times(NamedTuple):
    """The times of an observation: the one at which time limits are judged, the latest, and the earliest of its event.

    ``event`` is the name of the event in the machine, if the observation shows exactly when it happened.
    """

    at: int | None
    end: int | None
    acted: int | None
    event: str = ""


class Untimely(NamedTuple):
    """Configurations that are possible only if the timer or time limit ``timer``, which began at ``start``, was broken.

    If ``early`` is true, the event of the timer came too early; else, nothing happened in time.
    """

    timer: int
    start: Start
    early: bool
    configurations: Configurations


def explain_untimely(table: Table, timers: RunningTimers, found: Iterable[Untimely], place: Line) -> Explained:
    broken = max(found, key=lambda each: each.start.at or 0)
    timer, start = timers[broken.timer], broken.start
    state = next(each for each in table.states if each in timer.states)
    return Explained(
        cause=Cause.TIME,
        illegal=timer.event or state,
        before=(state,),
        clause=timer.clause,
        after=frozenset(each._replace(clocks=()) for each in broken.configurations),
        limit=TimeLimit(
            event=timer.event or timer.name,
            after=timer.earliest if broken.early else timer.latest,
            at=(start.since if broken.early else start.at) or 0,
            line=Line.of(start.line, place.file),
            timer=timer.name if timer.event else "",
            early=broken.early,
        ),
    )


def undecided_text(timer: Timer) -> str:
    return f"timer {timer.name} not decided" if timer.event else "states that were left in time or too late"


def numbered(configurations: Configurations) -> tuple[Configurations, tuple[int, ...]]:
    """Renumber the starts of clocks from 0. Return the new configurations and the previous starts in order."""
    found = {start for each in configurations for clock in each.clocks for start in clock[1:]}
    starts = tuple(sorted(found - {FRESH, ANYTIME}))
    number = {start: at for at, start in enumerate(starts)} | {FRESH: FRESH, ANYTIME: ANYTIME}

    def renumbered(each: Configuration) -> Configuration:
        clocks = (RunningClock(timer, number[first], number[last]) for timer, first, last in each.clocks)
        return each._replace(clocks=tuple(clocks))

    return frozenset(renumbered(each) if each.clocks else each for each in configurations), starts


@dataclass(slots=True, eq=False)
class Life:
    """A live entity, with everything that is needed to process its next observation.

    ``last`` is the kind of the last observation, and ``led`` is the kind of the last one that may have moved the entity
    or showed its state. Both ignore requests, and are -1 if there is none. The belief includes the first ``assumed`` of
    the events that may have happened to all entities, and may depend on those from index ``rested`` on. The belief may
    also depend on ``own``, the events assumed only for this entity. ``starts`` are the starts of the clocks in the
    belief. ``untimely`` contains configurations that are possible only if a timer or a time limit was broken, and
    ``seen`` is the last observation if the machine has timers. Then, ``times`` are the times of the next observation.
    """

    belief: Belief
    last: int = -1
    led: int = -1
    assumed: int = 0
    rested: int = 0
    own: tuple[Assumed, ...] = ()
    starts: tuple[Start, ...] = ()
    untimely: tuple[Untimely, ...] = ()
    seen: LastSeen | None = None
    times: Times | None = None

    def moves(self, step: BeliefStep, seen: Observation, line: Line) -> None:
        self.belief = step.to
        at, since = latest(seen), None
        if self.times is not None:
            self.seen, at, since = LastSeen(seen, line), self.times.end, self.times.acted
        if step.starts or self.starts:
            now = Start(at, line, since) if NOW in step.starts else None
            self.starts = tuple(self.starts[each] if each < NOW or now is None else now for each in step.starts)

    def passes(self, timers: RunningTimers, times: Times) -> Configurations:
        """Return the configurations in which nothing is too early or too late. Add the others to ``untimely``."""
        found = defaultdict[tuple[int, Start, bool], set[Configuration]](set)
        for each in self.belief.configurations:
            for clock in each.clocks:
                if (broken := self._broken(timers, clock, each.state, times)) is not None:
                    found[broken].add(each)
                    break
        if not found:
            return self.belief.configurations
        made = [Untimely(*at, frozenset(each._replace(clocks=()) for each in those)) for at, those in found.items()]
        self.untimely = (*self.untimely, *made)
        return self.belief.configurations.difference(*found.values())

    def _broken(
        self, timers: RunningTimers, clock: RunningClock, state: int, times: Times
    ) -> tuple[int, Start, bool] | None:
        timer, now = timers[clock.timer], times.at
        if timer.event:
            # A whole call is recorded when it is over, and may have stopped or restarted the timer at any time before.
            now = times.acted
            passed = self._passed(clock.first, times.end)
            if timer.event == times.event and passed is not None and passed < timer.earliest:
                return clock.timer, self.starts[clock.first], True
        if clock.last == FRESH or not timers.runs(clock.timer, state):
            return None
        at = self.starts[clock.last].at
        late = now is not None and at is not None and now - at > timer.latest
        return (clock.timer, self.starts[clock.last], False) if late else None

    def _passed(self, first: int, now: int | None) -> int | None:
        since = self.starts[first].since if first >= 0 else None
        return None if since is None or now is None else now - since

    def undecided(self, timers: RunningTimers, left: Configurations, times: Times) -> Iterator[Timer]:
        """Yield the timers that run in all of *left*, and may have been broken at the observation."""
        clocks = [clock for here in left for clock in here.clocks]
        for number in timers.named if clocks and times.end is not None else ():
            timer = timers[number]
            passed = [self._passed(each.first, times.end) for each in clocks if each.timer == number]
            unknown = timer.event == times.event and None in passed
            if len(passed) == len(left) and (unknown or any(each and each > timer.latest for each in passed)):
                yield timer
