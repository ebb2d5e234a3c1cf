"""Store each belief once, together with the steps that lead from it.

Most observations find an entity in a belief that other entities have had before, so processing them needs only a
look-up. The other steps are computed, and illegal ones are diagnosed. Beliefs that are no longer needed are forgotten.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from fsm.errors import require_machine
from fsm.machine import Machine
from fsm.machine.calls import CUT, LOST
from fsm.machine.calls.belief import Remainder, dynamics
from fsm.machine.calls.configuration import Configurations, bits
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import Table, tabulate
from fsm.machine.traversal import Numbering
from fsm.monitor.diagnosis import Explained, Scene, explain, likely
from fsm.monitor.entities import NONE, Life, explain_overdue, numbered
from fsm.trace import Key, Line, Observation, key

MACHINES: Final = 32
"""Maximum number of :class:`Shared` results to cache."""

KEPT: Final = 100_000


class Shared:
    """The dynamics of *machine* under *profile* and cached results, for traces that show the signals in *seen*.

    ``others`` are the tables of the other profiles. ``beginning`` holds the configurations of an entity in the
    initial state, and ``everything`` those of an unknown entity. ``pairs`` holds the reachable (row, state) pairs.
    ``ended`` holds the states that no event with an RPC name changes. ``there`` is a bit set of the states that do
    not show the same value as the initial state.
    """

    def __init__(self, machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> None:
        require_machine(machine)
        self.described = machine  # This reference keeps the machine alive, so that its id is not reused.
        self.machine = machine.under(profile)
        table = tabulate(self.machine)
        self.dynamics = dynamics(table, shown=seen, outputs=outputs, timed=True)
        self.others = tuple(tabulate(machine.under(other)) for other in machine.profiles if other != profile)
        self.pairs = reachable_pairs(table)
        self.deviations = {way.deviation.name: way.deviation for way in table.ways if way.deviation is not None}
        self.beginning = self.dynamics.beginning()
        self.everything = self.dynamics.everything()
        named = [row.index for row in table.rows if row.event.rpc]
        self.ended = frozenset(
            state for state in range(len(table.states)) if named and all(_stays(table, state, row) for row in named)
        )
        self.there = sum(1 << at for at, shows in enumerate(table.shows) if shows != table.shows[table.initial])
        self._kept: dict[tuple[Configurations, Key, int], Remainder] = {}
        self._explained: dict[Scene, Explained] = {}
        self._size = 0
        # These configurations are possible if the only known fact is that a call of this row is in progress.
        self.asked = cache(lambda row: self.dynamics.asked(self.everything, row))

    def observed(self, before: Configurations, seen: Key, since: int) -> Remainder:
        at = before, seen, since
        if at not in self._kept:
            found = self.dynamics.observed(before, seen, since)
            self._make_room(before, found.configurations)
            self._kept[at] = found
        return self._kept[at]

    def explain(self, scene: Scene) -> Explained:
        if scene not in self._explained:
            found = explain(scene)
            self._make_room(scene.before, found.after, *(left for _, left in found.edits))
            self._explained[scene] = found
        return self._explained[scene]

    def _make_room(self, *more: Configurations) -> None:
        self._size += 1 + sum(map(len, more))
        if self._size > KEPT:
            self._kept.clear()
            self._explained.clear()
            self._size = 0


_SHARED: Final[OrderedDict[tuple[object, ...], Shared]] = OrderedDict()


def shared(machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> Shared:
    at = (id(machine), profile, seen, outputs)  # comparing the contents of machines would be slow
    found = _SHARED.pop(at, None) or Shared(machine, profile, seen, outputs=outputs)
    _SHARED[at] = found  # Move the result to the end, so that the least recently used result comes first.
    if len(_SHARED) > MACHINES:
        _SHARED.popitem(last=False)
    return found


def _stays(table: Table, state: int, row: int) -> bool:
    ways = table.step(state, row)
    return ways is not None and all(way.to == state for way in ways)


NOTHING: Final = "nothing observed"

TOO_MANY: Final = "too many possibilities"
"""The note on an observation that makes the entity's state unknown, so that the monitor stops following it."""

INTERNED: Final = 200_000
"""Maximum number of configurations and steps to cache, not counting the configurations in use."""

FEW: Final = 64
"""Steps from beliefs with at most this many configurations, plus one per state, are always computed."""

TRIED: Final = 56_000
"""Initial budget for steps from large beliefs. A step costs the number of configurations in the belief."""

EACH: Final = 25
"""Number of configurations that each computed step adds to the budget."""

CALLS: Final = 4
"""Number of calls in progress that cost as much as one more configuration."""


@dataclass(slots=True, eq=False)
class Belief:
    """A set of configurations that is stored only once, and the step that each observation takes from it.

    ``since`` is a bit set of the states that the entity may have been in since it was created. A call whose request
    was not recorded may have acted in any of them. ``rests`` is true if nothing is known about the entity. It is also
    true if no reply is awaited and the entity is in the initial state or in a state that it never leaves. ``timed``
    is true if the entity may be in a state with a time limit. ``limit`` is the shortest time limit, in seconds, that
    began at start 0, the oldest start. ``number`` is the index in ``Beliefs.listed``.
    """

    configurations: Configurations
    since: int
    number: int
    limit: int | None
    timed: bool
    rests: bool
    next: dict[Key, BeliefStep] = field(default_factory=dict)

    def states(self, table: Table) -> frozenset[str]:
        return frozenset(table.states[each.state] for each in likely(self.configurations))


@dataclass(slots=True, eq=False)
class BeliefStep:
    """The step from one belief to the next on an observation, and the number of times it was taken.

    ``to`` is the next belief, ``kind`` is the kind of the observation, and ``cells`` are the cells that explain it.
    ``plain`` is true if there is nothing to report and the entity stays alive. ``leads`` is true if the observation
    may move entities or show their state. At least one deviation of each group in ``tolerated`` certainly occurred.
    ``starts`` maps the starts of the time limits in ``to`` to their numbers in the previous belief, or to
    :data:`NOW`.
    """

    to: Belief
    kind: int
    plain: bool = False
    leads: bool = False
    cells: frozenset[tuple[int, int]] = frozenset()
    explained: Explained | None = None
    tolerated: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    starts: tuple[int, ...] = ()
    taken: int = 0

    @property
    def quiet(self) -> bool:
        return not (self.note or self.tolerated or self.explained)


class BeliefMove(NamedTuple):
    """A ``step`` of an entity in ``scene``. ``before`` includes the states that a time limit has ruled out."""

    before: Configurations
    scene: Scene
    step: BeliefStep


class Beliefs:
    """All beliefs that entities of a machine have or may have again, and the steps between them.

    ``everything`` is the belief about an unknown entity. Unless *fresh* is true, an entity that is not yet seen is
    unknown. Events in *anew* create or interrupt an entity, so their steps are never plain. If *own* is true, the
    trace was written for this machine, and missing replies are noted. ``listed`` holds the beliefs, each at the index
    that is its number. ``kinds`` numbers the kinds of observations. ``generation`` changes when they are renumbered,
    and when another belief is marked as at rest. ``followed`` collects the steps of each entity in order, unless it
    is ``None``.
    """

    def __init__(self, shared: Shared, anew: set[str], *, fresh: bool, own: bool) -> None:
        self._shared, self._dynamics, self._anew, self._own = shared, shared.dynamics, anew, own
        self.covered, self.notes = Counter[tuple[int, int]](), Counter[str]()
        self.followed: dict[str, list[BeliefMove]] | None = None
        self.listed: list[Belief] = []
        self.kinds: Numbering[Key] = Numbering()
        self.generation = self._size = 0
        self._known: dict[tuple[Configurations, int], Belief] = {}
        self._room = INTERNED
        self._few, self._tried = FEW + len(self._dynamics.table.states), -TRIED
        self.everything = self.belief(shared.everything, rests=not fresh)

    def belief(self, configurations: Configurations, since: int | None = None, *, rests: bool = False) -> Belief:
        since = bits(configurations) if since is None else since
        known = self._known.get((configurations, since))
        if known is None:
            due = [each.due for each in configurations if each.due]
            known = self._known[configurations, since] = Belief(
                configurations,
                since,
                number=len(self.listed),
                limit=min((self._dynamics.table.ways[each.way].within for each in due if not each.start), default=None),
                timed=bool(due),
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
            ended = each.state in self._shared.ended and not (waiting or each.due)
            if not ended and each._replace(pending=waiting) not in self._shared.beginning:
                return False
        return True

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
            life.belief = self.belief(left, life.belief.since)
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
            led=None if life.led == NONE else kinds[life.led],
            again=life.last != NONE and bool(what.event) and kinds[life.last].event == what.event,
            others=self._shared.others,
        )

    def _with_request(self, before: Belief, seen: Key) -> tuple[Configurations, str]:
        """Return the configurations before *seen*, and a note if its call, which began in any state, has no request."""
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
        row, calls = self._dynamics.row, self._dynamics.calls
        if note:
            since = self.everything.since
        elif kept.cells and {state for _, state in kept.cells} == {initial} and not since >> initial & 1:
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
            cells=kept.cells,
            tolerated=tolerated,
            note=note,
            starts=starts,
        )

    def leads(self, seen: Key) -> bool:
        moves = not seen.event or seen.shows or seen.met or self._dynamics.rules.moves(self._dynamics.row(seen.event))
        return seen.phase != "request" and bool(moves)

    def _violation(self, before: Belief, seen: Key, explained: Explained) -> BeliefStep:
        left, starts = numbered(explained.after)
        to, kind = self.belief(left, before.since | bits(left)), self.kinds[seen]
        return BeliefStep(to=to, kind=kind, leads=self.leads(seen), explained=explained, starts=starts)


def certain(configurations: Configurations) -> tuple[tuple[tuple[str, ...], ...], Configurations]:
    """Return the deviations that certainly occurred, and the configurations without them.

    The deviations are returned in groups, and at least one deviation of each group occurred. A deviation on which all
    configurations depend is a group of its own. In a larger group, each configuration depends on at least one
    deviation.
    """
    everywhere = frozenset.intersection(*(frozenset(each.deviations) for each in configurations))
    certain: list[tuple[str, ...]] = [(name,) for name in sorted(everywhere)]
    left = _without(configurations, everywhere)
    if all(each.deviations for each in left):
        anywhere = frozenset(name for each in left for name in each.deviations)
        certain.append(tuple(sorted(anywhere)))
        left = _without(left, anywhere)
    return tuple(certain), left


def _without(configurations: Configurations, names: frozenset[str]) -> Configurations:
    if not names:
        return configurations
    return frozenset(
        each._replace(deviations=tuple(name for name in each.deviations if name not in names))
        for each in configurations
    )
