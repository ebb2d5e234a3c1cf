"""The virtual time of a test, and the timers that run in it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Final

from fsm.conformance.failure import Cover, Failure
from fsm.conformance.plan import Doing, Edge, Plan, Point
from fsm.machine.timers import Clocks, Timer, duration
from fsm.sut import SUT, Clocked, SelfClocked, Stimulus, UntimelyError

_ROUNDED: Final = 1_000  # nanoseconds by which a virtual clock may be inexact


class VirtualTimers(Clocks):
    """The timers of a test.  There are no ``timers`` without a virtual clock, and no times after an unknown step."""

    def __init__(self, plan: Plan, sut: SUT) -> None:
        super().__init__(plan.table.machine)
        self._plan, self._sut = plan, sut if isinstance(sut, Clocked) else None
        self._own = sut if isinstance(sut, SelfClocked) else None
        self.timers = tuple(plan.table.machine.timers.values()) if self._sut else ()
        self._taken = 0  # the nanoseconds that have passed in the last step
        self._slack: dict[str, int] = {}  # by how many nanoseconds a timer may have started later than ``since`` says

    def runs(self, timer: Timer, here: Point | None) -> bool:
        return here is not None and self._plan.table.states[self._plan.valued.bare(here.state)] in timer.states

    def fired(self, step: Stimulus, here: Point | None) -> Timer | None:
        """Return the timer that fires the event of *step* at the point *here*, which may be unknown."""
        of = (each for each in self.timers if each.event == step.event and step.stage == "do")
        return next((each for each in of if here is None or self.runs(each, here)), None)

    def possible(self, timer: Timer, here: Point | None) -> bool:
        """Return whether *timer* runs, and must fire before any other timer may fire, also one that it starts."""
        if timer.name not in self.since or self.over(timer) >= self.quiet(
            each for each in self.timers if each is not timer
        ):
            return False
        window = self.over(timer) - max(0, self.quiet([timer]))
        started = (each for each in self.timers if each is timer or each.name not in self.since)
        fires = Stimulus(timer.event)
        return all(window < each.earliest - each.margin for each in started if self._may_run(each, here, fires))

    def _may_run(self, timer: Timer, here: Point | None, step: Stimulus) -> bool:
        """Return whether *timer* may run after *step* or a stage of it."""
        edges = self._plan.alternatives(here, step.event, step.stage, step.args) if here else ()
        states = [way.to for edge in edges for way in edge.ways]
        known = edges and all(edge.to for edge in edges)
        return not known or any(self.runs(timer, Point(state)) for state in states)

    def over(self, timer: Timer) -> int:
        """Return the time after which *timer* must have fired."""
        return self.left(timer)[1] + self._slack.get(timer.name, 0) + timer.margin

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
        running = (each for each in timers if each.name in self.since)
        return min((each.earliest - self.since[each.name] - each.margin for each in running), default=1 << 62)

    def waited(self, event: str, here: Point | None, time: int) -> tuple[list[tuple[str, str]], Failure]:
        """Return what advancing the clock by *time* tested, and the failure to report if the SUT changed."""
        running = self.fired(Stimulus(event), here)
        of = running or next(each for each in self.timers if each.event == event)
        early = f"earlier than {duration(of.earliest)} after its start" if running else "while it did not run"
        what = f"the timer {of.name} must not fire {early}, but the SUT changed"
        self.advance(time)
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
        return ""

    def note_time(self, step: Stimulus, here: Point | None, waited: int = 0) -> None:
        """Note the time that *step* has taken at the point *here*, also the time for which it has *waited*.

        Raise :class:`UntimelyError` if a timer may have fired in the rest of the time.
        """
        rest = round(self._own.passed() * 10**9) - waited if self._own else 0
        self._taken = waited + (rest if rest > _ROUNDED else 0)
        if self._taken == waited:
            return
        for timer in self.timers:
            ran = self.runs(timer, here)
            quiet = timer.earliest - timer.margin - self.since.get(timer.name, 0)
            unknown = here is None or waited or (ran and timer.name not in self.since)
            if unknown or (quiet <= self._taken and (ran or self._may_run(timer, here, step))):
                raise UntimelyError

    def began(self) -> None:
        """Note the time that a reset has taken."""
        self._taken = round(self._own.passed() * 10**9) if self._own else 0
        self._started()

    def took(self, edge: Edge | None) -> None:
        """Start and stop timers after the step *edge*, or forget all times if it is unknown."""
        if edge is None or edge.to is None:
            self.since = {}
        elif self.timers:
            self.advance(self._taken)
            indices = (self._plan.valued.bare(each) for each in (edge.source.state, *(way.to for way in edge.ways)))
            names = pairwise(self._plan.table.states[each] for each in indices)
            for way, (before, after) in zip(edge.ways, names, strict=True):
                self.move(edge.step.event, before, after, way.reply, begins=way.begins)
            self._started()

    def _started(self) -> None:
        """Let timers that have just started have done so at any time during the last step."""
        started = {name: self._taken for name, since in self.since.items() if not since}
        self.since, self._slack = {**self.since, **started}, {**self._slack, **started}


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
