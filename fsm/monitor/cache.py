"""Cache the effects of observations and the explanations of violations, for all monitors of a machine.

They depend only on the belief and a few observations, and recordings lead to the same beliefs again and again.
"""

from collections import OrderedDict
from functools import cache
from typing import Final

from fsm.errors import require_machine
from fsm.machine import Machine
from fsm.machine.calls.belief import Remainder, dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.pairs import reachable_pairs
from fsm.machine.table import Table, tabulate
from fsm.monitor.diagnosis import Explained, explain
from fsm.monitor.scene import Scene
from fsm.trace import Key

MACHINES: Final = 32
"""Maximum number of :class:`Shared` results to cache, for different machines, profiles or shown signals."""

KEPT: Final = 100_000
"""Maximum number of configurations to cache for one machine.  Those before and after an observation both count."""


class Shared:
    """The dynamics of *machine* under *profile* for traces that show the signals *seen*, with cached results.

    ``others`` are the tables of the other profiles.  ``beginning`` holds the configurations of an entity in the initial
    state, and ``everything`` those of an unknown entity.  ``pairs`` holds the reachable (row, state) pairs.  ``ended``
    holds the states that no event with an RPC name leaves.  ``there`` is a bit set of the states that show something
    other than the initial state does.
    """

    def __init__(self, machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> None:
        require_machine(machine)
        self.described = machine  # keeps the machine alive, so that its id is not reused
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
        # Configurations that are possible if all that is known is that a call of this row is in progress.
        self.asked = cache(lambda row: self.dynamics.asked(self.everything, row))
        self._size = 0

    def observed(self, before: Configurations, seen: Key, since: int) -> Remainder:
        """Call :meth:`Dynamics.observed`, or return its cached result."""
        found = self._kept.get((before, seen, since))
        if found is None:
            found = self.dynamics.observed(before, seen, since)
            self._make_room(before, found.configurations)
            self._kept[before, seen, since] = found
        return found

    def explain(self, scene: Scene) -> Explained:
        """Call :func:`explain` for a *scene* of this machine, or return its cached result."""
        led = (scene.led.event, scene.led.shows, scene.led.met) if scene.led else None
        at = (scene.before, scene.since, scene.seen, led, scene.again)
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
    """Return the results that monitors of *machine* under *profile* share if their traces show the signals *seen*."""
    at = (id(machine), profile, seen, outputs)  # by identity, because comparing machines costs more than it saves
    found = _SHARED.pop(at, None) or Shared(machine, profile, seen, outputs=outputs)
    _SHARED[at] = found  # moved to the end, so that the least recently used comes first
    if len(_SHARED) > MACHINES:
        _SHARED.popitem(last=False)
    return found


def _ended(table: Table, state: int) -> bool:
    named = [row for row in table.rows if row.event.rpc]
    ways = [table.step(state, row.index) for row in named]
    return bool(named) and all(each is not None and all(way.to == state for way in each) for each in ways)
