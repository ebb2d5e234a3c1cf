"""Compute the steps that observations take from beliefs, and diagnose illegal steps."""

from collections import Counter
from typing import Final, NamedTuple

from fsm.machine.calls.configuration import Configurations, bits
from fsm.machine.calls.unobserved import TooManyError
from fsm.monitor.beliefs import Belief, Beliefs, BeliefStep, Shared, certain, numbered
from fsm.monitor.diagnosis import Explained, Scene
from fsm.monitor.entities import NONE, Life, explain_overdue
from fsm.trace import Key, Line, Observation, key

NOTHING: Final = "nothing observed"

TOO_MANY: Final = "too many possibilities"
"""The note on an observation that makes the entity's state unknown, so that the monitor stops following it."""


class BeliefMove(NamedTuple):
    """A ``step`` of an entity in ``scene``. ``before`` includes the states that a time limit has ruled out."""

    before: Configurations
    scene: Scene
    step: BeliefStep


class Stepping:
    """Computes the steps of one monitor.

    *everything* is the belief about an unknown entity. Events in *anew* create or interrupt an entity, so their steps
    are never plain. If *own* is true, the trace was written for this machine, and missing replies are noted.
    ``followed`` collects the steps of each entity in order, unless it is ``None``.
    """

    def __init__(self, shared: Shared, beliefs: Beliefs, everything: Belief, anew: set[str], *, own: bool) -> None:
        self._shared, self._dynamics, self._own = shared, shared.dynamics, own
        self._beliefs, self._everything, self._anew = beliefs, everything, anew
        self.followed: dict[str, list[BeliefMove]] | None = None
        self.notes = Counter[str]()

    def next(self, entity: str, life: Life, seen: Observation, place: Line | None = None) -> BeliefStep:
        before = life.belief
        step = self._step_in_time(life, seen, place) if place else self._take(before, seen, life)
        if self.followed is not None:
            scene = self._make_scene(life.belief, key(seen), life)
            self.followed.setdefault(entity, []).append(BeliefMove(before.configurations, scene, step))
        return step

    def _step_in_time(self, life: Life, seen: Observation, place: Line) -> BeliefStep:
        """Return the step of *life* for *seen*. It breaks a time limit only if nothing else explains *seen*."""
        if not life.starts and not life.late:
            return self._take(life.belief, seen, life)
        what, known = key(seen), len(life.late)
        left = life.passes(self._dynamics, seen)
        later = len(life.late) > known
        late = (each._replace(configurations=self._dynamics.after(each.configurations, what)) for each in life.late)
        life.late = tuple(each for each in late if each.configurations)
        if left:
            life.belief = self._beliefs.belief(left, life.belief.since)
        step = self._take(life.belief, seen, life) if left or not life.late else None
        if step is not None and not (step.explained and life.late):
            if later and not step.explained:
                self.notes["states that were left in time or too late"] += 1
            kept, within = step.to.configurations, self._dynamics.covering.within
            life.late = tuple(each for each in life.late if not within(each.configurations, kept))
            return step
        broken = max(life.late, key=lambda each: each.start.at or 0)
        life.late = ()
        return self._violation(life.belief, what, explain_overdue(self._dynamics.table, broken, place))

    def _take(self, before: Belief, seen: Observation, life: Life) -> BeliefStep:
        what = key(seen)
        step = before.next.get(what)
        if step is None:
            try:
                self._beliefs.charge(before)
                step = self._legal_step(before, what)
            except TooManyError:
                step = BeliefStep(to=self._everything, kind=self._beliefs.kinds[what], note=TOO_MANY)
            if step is None:
                return self._violation(before, what, self._shared.explain(self._make_scene(before, what, life)))
            self._beliefs.remember(before, what, step)
        step.taken += 1
        return step

    def _make_scene(self, before: Belief, what: Key, life: Life) -> Scene:
        kinds = self._beliefs.kinds.listed
        return Scene(
            dynamics=self._dynamics,
            before=self._with_request(before, what)[0],
            since=before.since,
            seen=what,
            led=None if life.led == NONE else kinds[life.led],
            again=life.last != NONE and bool(what.event) and kinds[life.last].event == what.event,
            others=self._shared.others,
        )

    def _with_request(self, before: Belief, seen: Key) -> tuple[Configurations, str]:
        """Return the configurations before *seen*, and a note if the request of its call is missing.

        A call without a request may have begun in any state.
        """
        if not self._dynamics.unasked(before.configurations, seen):
            return before.configurations, ""
        return self._shared.asked(self._dynamics.row(seen.event)), "reply without request"

    def _legal_step(self, before: Belief, seen: Key) -> BeliefStep | None:
        start, note = self._with_request(before, seen)
        kept = self._shared.observed(start, seen, before.since)
        if not kept.configurations:
            return None
        tolerated, left = certain(kept.configurations)
        configurations, starts = numbered(left)
        since, initial = bits(configurations), self._dynamics.table.initial
        if note:
            since = self._everything.since
        elif kept.cells and {state for _, state in kept.cells} == {initial} and not since >> initial & 1:
            since |= kept.passed & self._shared.there  # The observation created the entity.
        else:
            since |= before.since | kept.passed
        to = self._beliefs.belief(configurations, since)
        if seen == Key():
            note = NOTHING
        elif not note and kept.unspecified and seen.phase != "maybe":
            note = "unspecified"
        elif not note and self._own and self._lacks_reply(seen):
            note = "reply not recorded"
        return BeliefStep(
            to=to,
            kind=self._beliefs.kinds[seen],
            plain=not (note or tolerated or to.rests or to.timed or before.timed or seen.event in self._anew),
            leads=self.leads(seen),
            cells=kept.cells,
            tolerated=tolerated,
            note=note,
            starts=starts,
        )

    def _lacks_reply(self, seen: Key) -> bool:
        return not seen.reply and seen.phase in {"", "reply"} and self._dynamics.calls(self._dynamics.row(seen.event))

    def leads(self, seen: Key) -> bool:
        moves = not seen.event or seen.shows or seen.met or self._dynamics.rules.moves(self._dynamics.row(seen.event))
        return seen.phase != "request" and bool(moves)

    def _violation(self, before: Belief, seen: Key, explained: Explained) -> BeliefStep:
        left, starts = numbered(explained.after)
        to = self._beliefs.belief(left, before.since | bits(left))
        kind = self._beliefs.kinds[seen]
        return BeliefStep(to=to, kind=kind, leads=self.leads(seen), explained=explained, starts=starts)
