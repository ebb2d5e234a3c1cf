"""The virtual time of a test, and the timers that run in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from fsm.conformance.failure import Cover
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.timers import Timer, restarted
from fsm.sut import SUT, Clocked, Stimulus

_MARGIN: Final = 10**6  # number of nanoseconds by which tests stay away from a bound, for SUTs that round


def waiting(here: Point, timer: Timer) -> Edge:
    """Return the step at *here* that lets time pass without letting *timer* fire."""
    return Edge(here, Stimulus(timer.event, "wait"), (), here, (), ())


class Clock:
    """The nanoseconds since the start of each timer that runs, in ``since``, which is ``None`` if they are unknown.

    There are no ``timers`` if *sut* cannot let virtual time pass.
    """

    def __init__(self, plan: Plan, sut: SUT) -> None:
        self._plan, self._clocked = plan, sut if isinstance(sut, Clocked) else None
        self.timers = [*plan.table.machine.timers.values()] if self._clocked else []
        self.restart()

    def restart(self) -> None:
        start = self._plan.start
        self.since: dict[str, int] | None = {each.name: 0 for each in self.timers if self.runs(each, start)}

    def runs(self, timer: Timer, here: Point | None) -> bool:
        return here is not None and self._plan.table.states[self._plan.bare(here).state] in timer.states

    def firing(self, step: Stimulus, here: Point | None) -> Timer | None:
        """Return the timer that fires the event of *step* at the point *here*, if one runs there."""
        those = (each for each in self.timers if each.event == step.event and step.stage in {"do", "wait"})
        return next((each for each in those if self.runs(each, here)), None)

    def pause(self, step: Stimulus, here: Point | None) -> int | None:
        """Return the time to let pass in *step* before its timer may fire, or ``None`` if the step is impossible now.

        The timer must then fire before any other timer may fire.  If it does not run, its whole time passes.
        """
        those = [each for each in self.timers if each.event == step.event and step.stage in {"do", "wait"}]
        timer = self.firing(step, here)
        if not those or (timer is None and step.stage == "do" and here is not None):
            return None if step.stage == "wait" else 0
        if self.since is None or here is None:
            return None
        room = self._quiet(self.timers)
        if step.stage == "do" and timer is not None:
            others = self._quiet(each for each in self.timers if each is not timer)
            return max(0, self._quiet([timer])) if self.over(timer) < others else None
        rest = max(each.latest + _margin(each) for each in those) if timer is None else room
        return min(rest, room) if min(rest, room) > 0 else None

    def _quiet(self, timers: Iterable[Timer]) -> int:
        """Return the time for which none of *timers* may fire."""
        since = self.since or {}
        times = (each.earliest - since[each.name] - _margin(each) for each in timers if each.name in since)
        return min(times, default=10**30)

    def over(self, timer: Timer) -> int:
        """Return the time after which *timer* must have fired."""
        return max(0, timer.latest - (self.since or {}).get(timer.name, 0) + _margin(timer))

    def advance(self, time: int) -> None:
        if self._clocked is not None and self.since is not None:
            self._clocked.advance(time / 10**9)
            self.since = {name: since + time for name, since in self.since.items()}

    def took(self, edge: Edge | None) -> None:
        """Start and stop timers as *edge* does.  The times are unknown after an unknown step."""
        if edge is None or edge.to is None or self.since is None:
            self.since = None
            return
        event, plan = self._plan.table.machine.events[edge.step.event], self._plan
        names = [plan.table.states[plan.valued.bare(each)] for each in (edge.source.state, *(w.to for w in edge.ways))]
        for way, before, after in zip(edge.ways, names, names[1:], strict=False):
            for timer in self.timers:
                restarts = restarted(timer, event, before, after, way)
                if restarts is not None:
                    self.since.pop(timer.name, None)
                    self.since.update({timer.name: 0} if restarts else {})


def timed_tests(plan: Plan, clock: Clock, edges: Iterable[Edge], cover: Cover) -> Iterator[tuple[Stimulus, ...]]:
    """Yield tests that let time pass before and after each step, so that timers fire, run on, restart and stop.

    If a timer can only fire if another one was started later, time passes at an earlier point.
    """
    for edge, timer in product(edges, clock.timers):
        path = plan.path(plan.start, edge.source, without=cover.avoided)
        wait, before = waiting(edge.source, timer).step, tuple(each.step for each in path or ())
        if path is not None and edge.doing in cover.untimely and edge.step.event == timer.event:
            yield from ((*before[:at], wait, *before[at:], edge.step) for at in range(len(path) + 1))
        elif path is not None and (clock.runs(timer, edge.source) or clock.runs(timer, edge.to)):
            fires = [each.step for each in plan.leaving(edge.to or edge.source) if clock.firing(each.step, edge.to) is timer]
            waits = (wait,) if clock.runs(timer, edge.source) else ()
            yield (*before, *waits, edge.step, *(fires[:1] or [wait]))


def _margin(timer: Timer) -> int:
    return min(_MARGIN, timer.after // 1000)
