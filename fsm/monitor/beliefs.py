"""Beliefs about entities, the steps between beliefs, and results that all monitors of a machine share."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from fsm.machine import Machine
from fsm.machine.calls.belief import Remainder, dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.valued import MOST, ValuedTable, with_data
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import Table, tabulate
from fsm.monitor.diagnosis import Explained, Scene, explain, likely
from fsm.trace import Key

MACHINES: Final = 32
"""Maximum number of :class:`Shared` results to cache."""

KEPT: Final = 100_000


class Shared:
    """The dynamics of *machine* under *profile* for traces that show the signals in *seen*, with cached results.

    ``others`` are the tables of the other profiles. ``beginning`` contains the configurations that are possible for
    an entity in the initial state, and ``everything`` the configurations that are possible for an unknown entity.
    ``pairs`` contains the reachable (row, state) pairs. ``ended`` contains the states that no event with an RPC name
    changes. ``there`` is a bit set of the states that show a different value than the initial state.
    """

    def __init__(self, machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> None:
        self.described = machine  # Keep the machine alive, so that its id is not reused.
        self.machine = machine.under(profile)
        table = tabulate(self.machine)
        self.dynamics = dynamics(with_data(table), shown=seen, outputs=outputs, timed=True)
        self.others = tuple(tabulate(machine.under(other)) for other in machine.profiles if other != profile)
        self.pairs = reachable_pairs(replace(table, data=None))
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
        self.asked = cache(lambda row: self.dynamics.forgotten(self.dynamics.asked(self.everything, row)))

    @property
    def full(self) -> bool:
        """Whether there are too many different values, so that further values are unknown."""
        return isinstance(self.dynamics.table, ValuedTable) and len(self.dynamics.table.known) >= MOST

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
    found = _SHARED.pop(at, None)
    if found is None or machine.data:  # the values of another recording must not use up the room for values
        found = Shared(machine, profile, seen, outputs=outputs)
    _SHARED[at] = found  # Move the result to the end, so that the least recently used result comes first.
    if len(_SHARED) > MACHINES:
        _SHARED.popitem(last=False)
    return found


def _stays(table: Table, state: int, row: int) -> bool:
    ways = table.step(state, row)
    return ways is not None and all(way.to == state and not way.updates for way in ways)


@dataclass(slots=True, eq=False)
class Belief:
    """A set of configurations, and the steps that observations take from it. Equal beliefs are the same object.

    ``since`` is a bit set of the states that the entity may have been in since it was created. A call whose request was
    not recorded may have acted in any of these states. ``rests`` is true if nothing is known about the entity, or if no
    reply is awaited and the entity is in the initial state or in a state that it never leaves. ``timed`` is true if a
    timer or time limit may be running. Several of them may have started first, at the same time (start 0); ``limit`` is
    the shortest of their times in nanoseconds. ``number`` is the index in ``Beliefs.listed``.
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
    """The step that an observation takes from one belief to the next.

    ``to`` is the next belief, ``kind`` is the kind of the observation, and ``cells`` are the cells that explain it.
    ``plain`` is true if there is nothing to report and the entity stays alive. ``leads`` is true if the observation
    may move entities or show their state. At least one deviation of each group in ``tolerated`` certainly occurred.
    ``starts`` maps the starts of the timers and time limits in ``to`` to their numbers in the previous belief, or to
    :data:`NOW`. ``taken`` counts how often the step was taken.
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


def certain(configurations: Configurations) -> tuple[tuple[tuple[str, ...], ...], Configurations]:
    """Return groups of deviations that certainly occurred, and the configurations without these deviations.

    At least one deviation of each group occurred. A deviation on which all configurations depend is a group of its
    own. If all configurations also depend on other deviations, these other deviations form one more group.
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
