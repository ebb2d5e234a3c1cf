"""The virtual time of a test, and the timers that run in it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, product

from fsm.conformance.failure import Cover, Failure
from fsm.conformance.plan import Doing, Edge, Plan, Point
from fsm.machine.timers import Clocks, Timer, duration
from fsm.sut import SUT, Clocked, Stimulus


class VirtualTimers(Clocks):
    """The timers of a test.  There are no ``timers`` without a virtual clock, and no times after an unknown step.

    A timer that the event of another one has started may have started earlier than ``since`` says, by up to ``older``
    nanoseconds, because a test sees only that the event has happened within its tolerance.
    """

    def __init__(self, plan: Plan, sut: SUT) -> None:
        super().__init__(plan.table.machine)
        self._plan, self._sut = plan, sut if isinstance(sut, Clocked) else None
        self.timers = tuple(plan.table.machine.timers.values()) if self._sut else ()

    def restart(self) -> None:
        super().restart()
        self.older: dict[str, int] = {}

    def runs(self, timer: Timer, here: Point | None) -> bool:
        return here is not None and self._plan.table.states[self._plan.valued.bare(here.state)] in timer.states

    def fired(self, step: Stimulus, here: Point | None) -> Timer | None:
        """Return the timer that fires the event of *step* at the point *here*, which may be unknown."""
        of = (each for each in self.timers if each.event == step.event and step.stage == "do")
        return next((each for each in of if here is None or self.runs(each, here)), None)

    def possible(self, timer: Timer, here: Point | None) -> bool:
        """Return whether *timer* runs, and must fire before any other timer, or a timer that it starts, may fire."""
        others = (each for each in self.timers if each is not timer)
        if here is None or timer.name not in self.since or self.over(timer) >= self.quiet(others):
            return False
        table, state, older = self._plan.table, self._plan.valued.bare(here.state), self._older(timer)
        row = table.rows[table.row[timer.event]]
        moves = [(table.states[state], table.states[way.to]) for way in table.step(state, row.index) or ()]
        started = (each for each in self.timers for move in moves if each.starts(row.event, *move, (), begins=False))
        return all(older < each.earliest - each.margin for each in started)

    def _older(self, timer: Timer) -> int:
        """Return how long ago *timer* may have fired, if it has fired."""
        return timer.latest + timer.margin - timer.earliest + self.older.get(timer.name, 0)

    def over(self, timer: Timer) -> int:
        """Return the time after which *timer* must have fired."""
        return self.left(timer)[1] + timer.margin

    def room(self, event: str, here: Point | None) -> int:
        """Return the time to wait in which no timer may fire, or the whole time of a timer that does not run."""
        of = [each for each in self.timers if each.event == event]
        running = [each for each in self.timers if self.runs(each, here)]
        if here is None or not of or any(each.name not in self.since for each in running):
            return 0
        whole = 0 if any(each in running for each in of) else max(each.latest + each.margin for each in of)
        return min(whole or self.quiet(running), self.quiet(running))

    def quiet(self, timers: Iterable[Timer]) -> int:
        """Return the time for which none of *timers* may fire."""
        ran = {name: since + self.older.get(name, 0) for name, since in self.since.items()}
        running = (each for each in timers if each.name in ran)
        return min((each.earliest - ran[each.name] - each.margin for each in running), default=1 << 62)

    def waited(self, event: str, here: Point | None, time: int) -> tuple[list[tuple[str, str]], Failure]:
        """Return what advancing the clock by *time* tested, and the failure to report if the SUT changed."""
        running = self.fired(Stimulus(event), here)
        of = running or next(each for each in self.timers if each.event == event)
        early = f"earlier than {duration(of.earliest)} after its start" if running else "while it did not run"
        what = f"the timer {of.name} must not fire {early}, but the SUT changed"
        whole = self.quiet([running]) <= 0 if running else time > of.latest
        tested = [(of.name, "early" if running else "stopped")] if whole else []
        return tested, Failure(broken=what, clause=of.clause)

    def untimely(self, timer: Timer, here: Point | None) -> list[Doing]:
        """Return the event of *timer*, which is impossible at *here*, unless the times are unknown."""
        return [(here, timer.event, "do")] if here is not None and timer.name in self.since else []

    def pass_time(self, time: int) -> str:
        """Let *time* pass, and return the reply, which is empty."""
        if self._sut is not None:
            self._sut.advance(time / 10**9)
        self.advance(time)
        return ""

    def took(self, edge: Edge | None) -> None:
        """Start and stop timers after the step *edge*, or forget all times if it is unknown."""
        if edge is None or edge.to is None:
            self.since = {}
        elif self.timers:
            fired = self.fired(edge.step, edge.source)
            older = self._older(fired) if fired else 0
            indices = (self._plan.valued.bare(each) for each in (edge.source.state, *(way.to for way in edge.ways)))
            names = pairwise(self._plan.table.states[each] for each in indices)
            for way, (before, after) in zip(edge.ways, names, strict=True):
                event = self._plan.table.machine.events[edge.step.event]
                for each in self.timers:
                    if each.starts(event, before, after, way.reply, begins=way.begins):
                        self.older[each.name] = older
                self.move(event.name, before, after, way.reply, begins=way.begins)


def timed_tests(
    plan: Plan, clock: VirtualTimers, edges: Iterable[Edge], cover: Cover
) -> Iterator[tuple[Stimulus, ...]]:
    """Yield tests in which time passes before and after each step, so that timers fire, run on, restart and stop.

    If another timer fires first, time passes at an earlier point of the test.
    """
    for edge, timer in product(edges, clock.timers):
        path = plan.path(plan.start, edge.source, without=cover.avoided)
        wait, ran = Stimulus(timer.event, "wait"), clock.runs(timer, edge.source)
        before = tuple(each.step for each in path or ())
        if path is not None and edge.doing in cover.untimely:
            yield from ((*before[:at], wait, *before[at:], edge.step) for at in range(len(path) + 1))
        elif path is not None and (ran or clock.runs(timer, edge.to)):
            fires = [
                each.step for each in plan.leaving(edge.to or edge.source) if clock.fired(each.step, edge.to) is timer
            ]
            yield (*before, *([wait] if ran else []), edge.step, *(fires[:1] or [wait]))
