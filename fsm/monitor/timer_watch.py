"""Check the timers of a machine on recordings with times.

For each running timer, the watch keeps the earliest and the latest time at which it may have started.  A timer is
violated only if every time in between is too late or too early, beyond its tolerance.  If only some of them are, the
timer is undecided at this observation, which is counted.  Without times, a timer decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.findings import Cause, TimeLimit
from fsm.machine.timers import Timer
from fsm.monitor.diagnosis import Explained
from fsm.trace import Line, Observation, nanoseconds, seen_at

REMEMBERED: Final = 65_536
"""Maximum number of entities whose timers are followed.  Nothing is decided about the timers of older entities."""


@dataclass(slots=True, kw_only=True)
class Running:
    """A timer that may be running.

    ``earliest`` and ``latest`` bound the time at which it started, and are ``None`` if they are unknown.
    ``restarting`` counts calls in progress that may restart it, the first of which was requested at ``asked``, and
    ``unbounded`` is true if it may restart unobserved at any time.
    """

    line: Line
    earliest: int | None = None
    latest: int | None = None
    restarting: int = 0
    asked: int | None = None
    unbounded: bool = False

    @property
    def open(self) -> bool:
        """Whether the timer may have started or restarted at a time that is not known yet."""
        return self.latest is None or bool(self.restarting) or self.unbounded

    def late(self, now: int, timer: Timer) -> bool:
        return self.latest is not None and not self.open and now - self.latest > timer.latest


@dataclass(slots=True, kw_only=True)
class Watched:
    """The timers of an entity after its last observation."""

    seen: Observation
    line: Line
    running: dict[str, Running] = field(default_factory=dict)


class TimerWatch:
    """Tracks the timers of each entity. ``undecided`` counts the observations that do not decide a timer."""

    def __init__(self, dynamics: Dynamics) -> None:
        table = self._table = dynamics.table
        self._timers = table.machine.timers
        self._unseen = {table.rows[row].event.name for row in dynamics.unseen}
        self._words = {word: event.name for word, event in table.machine.words().items()}
        self._entities: dict[str, Watched] = {}
        self._last: int | None = None
        self.undecided = Counter[str]()

    def notice(
        self, seen: Observation, place: Line, before: Configurations, after: Configurations, *, legal: bool
    ) -> Explained | None:
        """Process an observation that leads from one belief to the next, and return the timer violation, if any."""
        known = self._entities.get(seen.entity)
        now, event = seen_at(seen), self._words.get(seen.event, "")
        self._last = now if self._last is None or (now is not None and now > self._last) else self._last
        if not legal:  # the belief after a violation is only a guess
            self._entities.pop(seen.entity, None)
            return None
        found = None
        entry = known or Watched(seen=seen, line=place)
        for name, timer in self._timers.items():
            running = entry.running.get(name)
            if running is not None and found is None:
                found = self._broken(timer, running, seen, event, before, after)
            if (
                left := self._advanced(timer, running, entry if known else None, seen, place, before, after)
            ) is not None:
                entry.running[name] = left
            else:
                entry.running.pop(name, None)
        entry.seen, entry.line = seen, place
        self._entities.pop(seen.entity, None)
        self._entities[seen.entity] = entry  # the entity that was not seen for the longest time comes first
        if len(self._entities) > REMEMBERED:
            del self._entities[next(iter(self._entities))]
        return found

    @property
    def notes(self) -> Counter[str]:
        return Counter({f"timer {name} not decided": count for name, count in self.undecided.items()})

    def forget(self, entity: str) -> None:
        """Forget the timers of *entity* or, if it is empty, of all entities, because observations are missing."""
        for each in [entity] if entity else [*self._entities]:
            self._entities.pop(each, None)

    def finish(self) -> Iterator[tuple[Observation, Line, Explained]]:
        """Yield the violations of timers that should have fired before the last time of the recording."""
        for entry in self._entities.values():
            for name, running in entry.running.items():
                timer = self._timers[name]
                if self._last is not None and self._fires_visibly(timer) and running.late(self._last, timer):
                    yield entry.seen, entry.line, self._explained(timer, running, frozenset(), early=False)

    def _fires_visibly(self, timer: Timer) -> bool:
        return timer.event not in self._unseen and not (timer.restarts & self._unseen)

    def _runs(self, timer: Timer, those: Configurations) -> set[bool]:
        """Return whether *timer* runs in some of the configurations, does not run in some, or both."""
        return {self._table.states[each.state] in timer.states for each in those}

    def _broken(
        self,
        timer: Timer,
        running: Running,
        seen: Observation,
        event: str,
        before: Configurations,
        after: Configurations,
    ) -> Explained | None:
        now = seen_at(seen)
        if now is None or not self._fires_visibly(timer) or self._runs(timer, before) != {True}:
            return None
        fires = event == timer.event and not seen.phase
        if fires and running.earliest is not None and now - running.earliest < timer.earliest:
            return self._explained(timer, running, after, early=True)
        acted = self._acted(seen, event)
        if acted is not None and running.late(acted, timer):
            return self._explained(timer, running, after, early=False)
        earliest = running.earliest
        if (fires and earliest is None) or (earliest is not None and now - earliest > timer.latest):
            self.undecided[timer.name] += 1
        return None

    def _acted(self, seen: Observation, event: str) -> int | None:
        """Return the earliest time at which the event of an observation may have happened."""
        known = self._entities.get(seen.entity)
        call = bool(event) and self._table.machine.events[event].kind == "call"
        if call and not seen.phase:  # a whole call, which is recorded when it is over
            return nanoseconds(seen.start) if seen.start is not None else seen_at(known.seen) if known else None
        return nanoseconds(seen.start) if seen.start is not None else seen_at(seen)

    def _advanced(
        self,
        timer: Timer,
        running: Running | None,
        entry: Watched | None,
        seen: Observation,
        place: Line,
        before: Configurations,
        after: Configurations,
    ) -> Running | None:
        now, event = seen_at(seen), self._words.get(seen.event, "")
        runs = self._runs(timer, after)
        if True not in runs:
            return None
        acted = self._acted(seen, event)
        ran, fires = running is not None, event == timer.event and not seen.phase
        rows = self._table.rows
        pending = (sum(rows[call.row].event.name in timer.restarts for call in each.pending) for each in after)
        going = max(pending) - (seen.phase == "request" and event in timer.restarts)
        if running is None:
            entered = acted if event else (seen_at(entry.seen) if entry else None)
            outside = entry is not None or fires or True not in self._runs(timer, before)
            running = Running(line=place, earliest=entered if outside else None, restarting=going, asked=entered)
        elif fires:
            running = Running(line=place, earliest=acted, restarting=going, asked=acted, unbounded=running.unbounded)
        if event in timer.restarts and (ran or seen.phase == "request" or not (entry or seen.phase)):
            self._restart(running, seen, place, acted, now)
        if running.latest is None and runs == {True} and not running.restarting:
            running.latest = now
        elif False in runs:
            running.latest = None
        return running

    def _restart(self, running: Running, seen: Observation, place: Line, acted: int | None, now: int | None) -> None:
        match seen.phase:
            case "request":
                running.asked = running.asked if running.restarting else now
                running.restarting += 1
            case "reply" | "" if seen.reply in {"", "ok"}:
                running.earliest = running.asked if seen.phase else acted
                running.restarting = max(0, running.restarting - bool(seen.phase))
                running.latest, running.line = now, place
            case "reply":
                running.restarting = max(0, running.restarting - 1)
            case "lost" | "maybe" | "noticed":
                running.unbounded = True
            case _:
                pass

    def _explained(self, timer: Timer, running: Running, after: Configurations, *, early: bool) -> Explained:
        state = next(each for each in self._table.states if each in timer.states)
        start = running.earliest if early else running.latest
        limit = TimeLimit(
            event=timer.event,
            within=0,
            at=start or 0,
            line=running.line,
            timer=timer.name,
            after=timer.earliest if early else timer.latest,
            early=early,
        )
        return Explained(
            cause=Cause.TIME, illegal=timer.event, before=(state,), clause=timer.clause, after=after, limit=limit
        )
