"""Store each belief once, together with the steps that lead from it.

Most observations find an entity in a belief that other entities have had before, so processing them needs only a
look-up. Beliefs that are no longer needed are forgotten.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from fsm.errors import require_machine
from fsm.machine import Machine
from fsm.machine.calls import CUT, LOST
from fsm.machine.calls.belief import Remainder, dynamics
from fsm.machine.calls.configuration import FRESH, Configurations, bits
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import Table, tabulate
from fsm.machine.traversal import Numbering
from fsm.monitor.diagnosis import Explained, Scene, explain, likely
from fsm.trace import Key

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
        self.ended = frozenset(state for state in range(len(table.states)) if _ended(table, state))
        self.there = sum(1 << at for at, shows in enumerate(table.shows) if shows != table.shows[table.initial])
        self._kept: dict[tuple[Configurations, Key, int], Remainder] = {}
        self._explained: dict[tuple[object, ...], Explained] = {}
        # These configurations are possible if the only known fact is that a call of this row is in progress.
        self.asked = cache(lambda row: self.dynamics.asked(self.everything, row))
        self._size = 0

    def observed(self, before: Configurations, seen: Key, since: int) -> Remainder:
        found = self._kept.get((before, seen, since))
        if found is None:
            found = self.dynamics.observed(before, seen, since)
            self._make_room(before, found.configurations)
            self._kept[before, seen, since] = found
        return found

    def explain(self, scene: Scene) -> Explained:
        at = scene.key
        found = self._explained.get(at)
        if found is None:
            found = explain(scene)
            self._make_room(scene.before, found.after, *(left for _, left in found.edits))
            self._explained[at] = found
        return found

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


def _ended(table: Table, state: int) -> bool:
    named = [row for row in table.rows if row.event.rpc]
    ways = [table.step(state, row.index) for row in named]
    return bool(named) and all(each is not None and all(way.to == state for way in each) for each in ways)


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


class Beliefs:
    """All beliefs that entities of a machine have or may have again.

    ``listed`` holds the beliefs, each at the index that is its number. ``kinds`` numbers the kinds of observations.
    ``generation`` changes when they are renumbered, and when another belief is marked as at rest.
    """

    def __init__(self, shared: Shared) -> None:
        self.covered: Counter[tuple[int, int]] = Counter()
        self.listed: list[Belief] = []
        self.kinds: Numbering[Key] = Numbering()
        self.generation = 0
        self._ways = shared.dynamics.table.ways
        self._initial = shared.beginning
        self._ended = shared.ended
        self._known: dict[tuple[Configurations, int], Belief] = {}
        self._size = 0
        self._room = INTERNED
        self._few = FEW + len(shared.dynamics.table.states)
        self._tried = -TRIED

    def belief(self, configurations: Configurations, since: int | None = None, *, rests: bool = False) -> Belief:
        since = bits(configurations) if since is None else since
        known = self._known.get((configurations, since))
        if known is None:
            due = [each.due for each in configurations if each.due]
            known = self._known[configurations, since] = Belief(
                configurations,
                since,
                number=len(self.listed),
                limit=min((self._ways[each.way].within for each in due if not each.start), default=None),
                timed=bool(due),
                rests=self._rests(configurations),
            )
            self.listed.append(known)
            self._size += len(configurations)
        if rests and not known.rests:
            known.rests = True
            self.generation += 1
        return known

    def remember(self, before: Belief, seen: Key, step: BeliefStep) -> None:
        before.next[seen] = step
        self._size += 1

    def charge(self, before: Belief) -> None:
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
            settled = each._replace(
                pending=tuple(call for call in each.pending if call.stage > LOST and call.stage != CUT)
            )
            if settled not in self._initial and (settled.pending or each.due or each.state not in self._ended):
                return False
        return True


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


def numbered(configurations: Configurations) -> tuple[Configurations, tuple[int, ...]]:
    starts = tuple(sorted({each.due.start for each in configurations if each.due} - {FRESH}))
    number = {start: at for at, start in enumerate(starts)} | {FRESH: FRESH}
    return frozenset(
        each._replace(due=each.due._replace(start=number[each.due.start])) if each.due else each
        for each in configurations
    ), starts
