"""Compute the belief about an entity after each observation, and diagnose illegal observations.

Most entities have a belief that other entities have had before, so processing an observation is usually just a
look-up. Beliefs that are no longer needed are forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from fsm.machine.calls import CUT, LOST
from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.findings import Assumed
from fsm.machine.timers import Timer
from fsm.machine.traversal import Numbering
from fsm.monitor.beliefs import Belief, BeliefStep, Shared, certain
from fsm.monitor.diagnosis import Explained, Scene
from fsm.monitor.grouping import Assumptions, depends_on_assumption
from fsm.monitor.life import Life, Times, explain_untimely, latest, numbered, undecided_text
from fsm.trace import NEVER, Key, Line, Observation, nanoseconds, seen_at

NOTHING: Final = "nothing observed"

TOO_MANY: Final = "too many possibilities"
"""The note on an observation with too many possibilities, after which the entity's state is unknown."""

INTERNED: Final = 200_000
"""Maximum number of configurations and steps to cache, in addition to the configurations in use."""

FEW: Final = 64
"""Steps are always computed if the belief has at most this many configurations, plus one for each state."""

TRIED: Final = 56_000
"""The initial budget for steps from large beliefs. A step costs as much as the belief has configurations."""

EACH: Final = 25
"""Number of configurations that each computed step adds to the budget."""

CALLS: Final = 4
"""Number of calls in progress that cost as much as one more configuration."""


class BeliefMove(NamedTuple):
    """A ``step`` of an entity in ``scene``. ``before`` includes configurations that a time limit has ruled out."""

    before: Configurations
    scene: Scene
    step: BeliefStep


class Beliefs:
    """The beliefs about entities of a machine, kept for reuse, and the steps between these beliefs.

    ``everything`` is the belief about an unknown entity. An entity that has not been seen yet is unknown, unless
    *fresh* is true. *anew* names the events that create or interrupt an entity; steps of these events are never
    ``plain``. If *own* is true, the trace was written for this machine, and missing replies are noted. ``listed``
    contains the beliefs by number, and ``kinds`` numbers the kinds of observations. ``generation`` changes when beliefs
    and kinds are renumbered, and when an existing belief is marked with ``rests``. ``followed`` collects the steps of
    each entity in order, unless it is ``None``.
    """

    def __init__(self, shared: Shared, anew: set[str], *, fresh: bool, own: bool) -> None:
        self._shared, self._dynamics, self._anew, self._own = shared, shared.dynamics, anew, own
        self.covered, self.notes = Counter[tuple[int, int]](), Counter[str]()
        self.followed: dict[str, list[BeliefMove]] | None = None
        self.listed: list[Belief] = []
        self.kinds: Numbering[Key] = Numbering()
        self.generation = self._size = 0
        self._end = NEVER  # the last time of the recording, if the machine has timers
        self._known: dict[tuple[Configurations, int], Belief] = {}
        self._room = INTERNED
        self._few, self._tried = FEW + len(self._dynamics.table.states), -TRIED
        self.everything = self.belief(shared.everything, rests=not fresh)

    def belief(self, configurations: Configurations, since: int | None = None, *, rests: bool = False) -> Belief:
        since = self._dynamics.bits(configurations) if since is None else since
        known = self._known.get((configurations, since))
        if known is None:
            timers, clocks = self._dynamics.timers, [clock for each in configurations for clock in each.clocks]
            known = self._known[configurations, since] = Belief(
                configurations,
                since,
                number=len(self.listed),
                limit=min((timers[each.timer].latest for each in clocks if not each.last), default=None)
                if timers
                else None,
                timed=bool(clocks),
                rests=self._rests(configurations),
            )
            self.listed.append(known)
            self._size += len(configurations)
        if rests and not known.rests:
            known.rests = True
            self.generation += 1
        return known

    def _charge(self, before: Belief) -> None:
        tried = sum(1 + len(each.pending) // CALLS for each in before.configurations)
        self._tried += (tried if tried > self._few else 0) - EACH
        if self._tried > 0 and tried > self._few:
            raise TooManyError

    def full(self) -> bool:
        return self._size + len(self.kinds) > self._room

    def forget(self, held: Iterable[Belief]) -> None:
        """Forget all steps, kinds and beliefs except for the beliefs in *held*, which are renumbered."""
        self.count()
        for belief in self._known.values():
            belief.next.clear()
        self._known = {(belief.configurations, belief.since): belief for belief in held}
        self.listed[:] = self._known.values()
        for number, belief in enumerate(self.listed):
            belief.number = number
        self.kinds = Numbering()
        self.generation += 1
        self._size = sum(len(configurations) for configurations, _ in self._known)
        self._room = self._size + INTERNED

    def count(self) -> None:
        for belief in self._known.values():
            for step in belief.next.values():
                for cell in step.cells:
                    self.covered[cell] += step.taken
                step.taken = 0

    def _rests(self, configurations: Configurations) -> bool:
        for each in configurations:
            waiting = tuple(call for call in each.pending if call.stage > LOST and call.stage != CUT)
            ended = self._dynamics.table.bare(each.state) in self._shared.ended and not (waiting or each.clocks)
            if not ended and each._replace(pending=waiting) not in self._shared.beginning:
                return False
        return True

    def next(self, entity: str, life: Life, seen: Observation, place: Line | None = None) -> BeliefStep:
        before, what = life.belief, self._dynamics.key(seen)
        step = self._step_in_time(life, seen, what, place) if place else self._take(before, what, life)
        if self.followed is not None:
            scene = self._make_scene(life.belief, what, life)
            self.followed.setdefault(entity, []).append(BeliefMove(before.configurations, scene, step))
        return step

    def assume(self, life: Life, seen: Observation, place: Line, assumptions: Assumptions) -> None:
        """Take into account the events that may have happened before *seen*."""
        if seen.phase == "assumed":
            life.own = (Assumed(observation=seen, file=place.file, line=place.number),)
        if life.assumed == assumptions.number:
            return
        if not depends_on_assumption(life.belief.configurations):
            life.rested = life.assumed
        for each in assumptions.since(life.assumed):
            life.moves(self.next(seen.entity, life, each), seen, place)
        life.assumed = assumptions.number

    def _step_in_time(self, life: Life, seen: Observation, what: Key, place: Line) -> BeliefStep:
        """Return the step for *seen*, which breaks a timer or time limit only if nothing else explains *seen*."""
        timers = self._dynamics.timers
        if timers is None or not (timers.named or life.starts or life.untimely):
            return self._take(life.belief, what, life)
        known, times = len(life.untimely), self._times(life, seen)
        if timers.named:
            life.times, self._end = times, max(self._end, NEVER if times.end is None else times.end)
        left, doubtful = life.passes(timers, times), set[Timer]()
        if life.untimely:
            doubtful.update(timers[each.timer] for each in life.untimely[known:])
            moved = (
                each._replace(configurations=self._dynamics.after(each.configurations, what)) for each in life.untimely
            )
            life.untimely = tuple(each for each in moved if each.configurations)
        if left and doubtful:
            life.belief = self.belief(left, life.belief.since)
        step = self._take(life.belief, what, life) if left or not life.untimely else None
        if step is not None and not (step.explained and life.untimely):
            if not step.explained:
                doubtful.update(life.undecided(timers, left, times))
                for text in {undecided_text(each) for each in doubtful}:
                    self.notes[text] += 1
            if life.untimely:
                kept, within = step.to.configurations, self._dynamics.covering.within
                life.untimely = tuple(each for each in life.untimely if not within(each.configurations, kept))
            return step
        explained, life.untimely = explain_untimely(self._dynamics.table, timers, life.untimely, place), ()
        return self._violation(life.belief, what, explained)

    def _times(self, life: Life, seen: Observation) -> Times:
        end, at, row = latest(seen), nanoseconds(seen.at), self._dynamics.row(seen.event)
        acted = end
        if seen.start is not None:
            acted = seen.start
            at = at if seen.phase else acted
        elif seen.phase in {"answered", "maybe", "noticed", "assumed"}:
            acted = None  # the event may have happened much earlier
        elif not seen.phase and self._dynamics.calls(row):  # a whole call, which is recorded when it is over
            acted = seen_at(life.seen.observation) if life.seen else None
        named = row >= 0 and not seen.phase
        return Times(at, end, acted, self._dynamics.table.rows[row].event.name if named else "")

    def overdue(self, life: Life) -> Explained | None:
        """Return the violation of a timer that should have fired before the end of the recording, if any."""
        if (timers := self._dynamics.timers) is None or life.seen is None:
            return None
        ended = replace(life, untimely=())
        if ended.passes(timers, Times(None, None, self._end)):
            return None
        return explain_untimely(self._dynamics.table, timers, ended.untimely, life.seen.place)

    def _take(self, before: Belief, what: Key, life: Life) -> BeliefStep:
        step = before.next.get(what)
        if step is None:
            try:
                self._charge(before)
                step = self._legal_step(before, what)
            except TooManyError:
                step = BeliefStep(to=self.everything, kind=self.kinds[what], note=TOO_MANY)
            if step is None:
                return self._violation(before, what, self._shared.explain(self._make_scene(before, what, life)))
            before.next[what] = step
            self._size += 1
        step.taken += 1
        return step

    def _make_scene(self, before: Belief, what: Key, life: Life) -> Scene:
        kinds = self.kinds.listed
        return Scene(
            dynamics=self._dynamics,
            before=self._with_request(before, what)[0],
            since=before.since,
            seen=what,
            # Explanations do not depend on the cleared fields, so clearing them lets more scenes share an explanation.
            led=None if life.led < 0 else kinds[life.led]._replace(phase="", reply="", output="", emits=None),
            again=life.last >= 0 and bool(what.event) and kinds[life.last].event == what.event,
            others=self._shared.others,
        )

    def _with_request(self, before: Belief, seen: Key) -> tuple[Configurations, str]:
        """Return the configurations before *seen*, and a note if its request is missing.

        A call without a request may have begun in any state.
        """
        if not self._dynamics.unasked(before.configurations, seen):
            return before.configurations, ""
        return self._shared.asked(self._dynamics.place(seen)), "reply without request"

    def _legal_step(self, before: Belief, seen: Key) -> BeliefStep | None:
        start, note = self._with_request(before, seen)
        kept = self._shared.observed(start, seen, before.since)
        if not kept.configurations:
            return None
        tolerated, left = certain(kept.configurations)
        configurations, starts = numbered(left)
        since, table, cells = self._dynamics.bits(configurations), self._dynamics.table, kept.cells
        initial = table.bare(table.initial)
        if table.data:
            cells = frozenset((table.rows[row].index, table.bare(state)) for row, state in cells)
        row, calls = self._dynamics.row, self._dynamics.calls
        if note:
            since = self.everything.since
        elif cells and {state for _, state in cells} == {initial} and not since >> initial & 1:
            since |= kept.passed & self._shared.there  # The observation created the entity.
        else:
            since |= before.since | kept.passed
        to = self.belief(configurations, since)
        if seen == Key():
            note = NOTHING
        elif not note and kept.unspecified and seen.phase != "maybe":
            note = "unspecified"
        elif not note and self._own and not seen.reply and seen.phase in {"", "reply"} and calls(row(seen.event)):
            note = "reply not recorded"
        return BeliefStep(
            to=to,
            kind=self.kinds[seen],
            plain=not (note or tolerated or to.rests or to.timed or before.timed or seen.event in self._anew),
            leads=self.leads(seen),
            cells=cells,
            tolerated=tolerated,
            note=note,
            starts=starts,
        )

    def leads(self, seen: Key) -> bool:
        moves = not seen.event or seen.shows or seen.met or self._dynamics.rules.moves(self._dynamics.row(seen.event))
        return seen.phase != "request" and bool(moves)

    def _violation(self, before: Belief, seen: Key, explained: Explained) -> BeliefStep:
        left, starts = numbered(self._dynamics.forgotten(explained.after))
        to, kind = self.belief(left, before.since | self._dynamics.bits(left)), self.kinds[seen]
        return BeliefStep(to=to, kind=kind, leads=self.leads(seen), explained=explained, starts=starts)
