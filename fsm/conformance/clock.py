"""The virtual time of a test, and the timers that run in it."""

from collections.abc import Iterable, Iterator
from itertools import product

from fsm.conformance.failure import Cover
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.timers import Clocks, Timer
from fsm.sut import SUT, Clocked, Stimulus


class Clock:
    """Follows the timers of a test if *sut* has a virtual clock.  ``clocks`` is ``None`` if the times are unknown."""

    def __init__(self, plan: Plan, sut: SUT) -> None:
        self._plan, self._sut = plan, sut if isinstance(sut, Clocked) else None
        self.timers = tuple(plan.table.machine.timers.values()) if self._sut else ()
        self.restart()

    def restart(self) -> None:
        self.clocks: Clocks | None = Clocks(self._plan.table.machine)

    def runs(self, timer: Timer, here: Point | None) -> bool:
        return here is not None and self._plan.table.states[self._plan.valued.bare(here.state)] in timer.states

    def fired(self, step: Stimulus, here: Point | None) -> Timer | None:
        """Return the timer that fires the event of *step* at the point *here*, if there is one."""
        of = (each for each in self.timers if each.event == step.event and step.stage == "do")
        return next((each for each in of if here is None or self.runs(each, here)), None)

    def possible(self, timer: Timer) -> bool:
        """Return whether *timer* must fire before any other timer may fire."""
        others = [each for each in self.timers if each is not timer]
        return self.clocks is not None and self.over(timer) < self._room(others)

    def over(self, timer: Timer) -> int:
        """Return the time after which *timer* must have fired."""
        return self.clocks.left(timer)[1] + timer.margin if self.clocks else 0

    def room(self, event: str, here: Point | None) -> int:
        """Return the time to wait in which no timer may fire.  It is at most the whole time of a timer that is off."""
        of = [each for each in self.timers if each.event == event]
        whole = max((each.latest + each.margin for each in of if not self.runs(each, here)), default=0)
        running = any(self.runs(each, here) for each in of)
        room = self._room(self.timers)
        return 0 if here is None or not of or self.clocks is None else room if running else min(whole, room)

    def _room(self, timers: Iterable[Timer]) -> int:
        since = self.clocks.since if self.clocks else {}
        return min(
            (each.earliest - since[each.name] - each.margin for each in timers if each.name in since), default=1 << 62
        )

    def waited(self, event: str) -> Iterator[tuple[str, str]]:
        """Yield what has been tested after a step has waited for *event*."""
        for each in (each for each in self.timers if each.event == event):
            runs = self.clocks is not None and each.name in self.clocks.since
            if not runs or self._room([each]) <= 0:
                yield each.name, "early" if runs else "stopped"

    def advance(self, time: int) -> None:
        if self._sut is not None and self.clocks is not None:
            self._sut.advance(time / 10**9)
            self.clocks.advance(time)

    def took(self, edge: Edge | None) -> list[tuple[str, str]]:
        """Restart and stop timers after the step *edge*, and return what has been tested."""
        states, at = self._plan.table.states, edge.source.state if edge else 0
        if edge is None or edge.to is None:
            self.clocks = None
        timer = self.fired(edge.step, edge.source) if edge else None
        for way in edge.ways if edge else ():
            before, after = (states[self._plan.valued.bare(each)] for each in (at, way.to))
            if self.clocks is not None and edge is not None:
                self.clocks.move(edge.step.event, before, after, way)
            at = way.to
        return [(timer.name, "fired")] if timer else []


def waiting(here: Point, timer: Timer) -> Edge:
    """Return the step at *here* that lets time pass without letting *timer* fire."""
    return Edge(here, Stimulus(timer.event, "wait"), (), here, (), ())


def timed_tests(plan: Plan, clock: Clock, edges: Iterable[Edge], cover: Cover) -> Iterator[tuple[Stimulus, ...]]:
    """Yield tests in which time passes before and after each step, so that timers fire, run on, restart and stop.

    If another timer fires first, time passes at an earlier point of the test.
    """
    for edge, timer in product(edges, clock.timers):
        path = plan.path(plan.start, edge.source, without=cover.avoided)
        wait, ran = waiting(edge.source, timer).step, clock.runs(timer, edge.source)
        before = tuple(each.step for each in path or ())
        if path is not None and edge.doing in cover.untimely:
            yield from ((*before[:at], wait, *before[at:], edge.step) for at in range(len(path) + 1))
        elif path is not None and (ran or clock.runs(timer, edge.to)):
            onward = plan.leaving(edge.to) if edge.to else ()
            fires = [each.step for each in onward if clock.fired(each.step, edge.to) is timer]
            yield (*before, *([wait] if ran else []), edge.step, *(fires[:1] or [wait]))
