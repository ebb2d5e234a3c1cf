"""Results shared by all monitors of one machine: how its beliefs move, and what was found out from that.

Recordings judged by one machine lead to the same beliefs again and again.  The effect of an observation, and the
explanation of a violation, depend on nothing else, so they are cached, within bounds, while the machine is in use.
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
"""Machines, each with the signals that a trace shows, for which results are cached."""

KEPT: Final = 100_000
"""Total number of configurations cached for one machine, before and after each observation."""


class Shared:
    """The dynamics of *machine* under *profile* if a trace shows the signals *seen*, with cached results.

    ``others`` are the tables of the other profiles.  ``beginning`` are the configurations of an entity in the initial
    state, ``everything`` those of an unknown entity.  ``pairs`` are the reachable (row, state) pairs.  ``ended`` are
    the states that no event named on the wire leaves.  ``there`` are, as bits, the states that show something else than
    the initial state.
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
        # The configurations if only a call of the row is known to be in progress.
        self.asked = cache(lambda row: self.dynamics.asked(self.everything, row))
        self._size = 0

    def observed(self, before: Configurations, seen: Key, since: int) -> Remainder:
        """Return the result of :meth:`Dynamics.observed`, cached."""
        at = (before, seen, since)
        found = self._kept.get(at)
        if found is None:
            found = self.dynamics.observed(before, seen, since)
            self._make_room(before, found.configurations)
            self._kept[at] = found
        return found

    def explain(self, scene: Scene) -> Explained:
        """Return the result of :func:`explain` for a *scene* of this machine, cached."""
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
    """Return what all monitors of *machine* under *profile* share if a trace shows the signals *seen*."""
    at = (id(machine), profile, seen, outputs)  # by identity: comparing machines costs more than it saves
    found = _SHARED.pop(at, None) or Shared(machine, profile, seen, outputs=outputs)
    _SHARED[at] = found  # moved to the end: the least recently used is first
    if len(_SHARED) > MACHINES:
        _SHARED.popitem(last=False)
    return found


def _ended(table: Table, state: int) -> bool:
    """Check that no event named on the wire leaves *state*."""
    named = [row for row in table.rows if row.event.rpc]
    ways = [table.step(state, row.index) for row in named]
    return bool(named) and all(each is not None and all(way.to == state for way in each) for each in ways)
