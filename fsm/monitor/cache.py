"""What all monitors of one machine share: how its beliefs move, and what was found out of that.

Recordings judged by one machine lead to the same beliefs again and again.  Where an observation leads, and why it is a
violation, depends on nothing else, so it is remembered, within bounds, for as long as the machine is in use.
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
"""Machines, each with what a trace shows of it, of which anything is remembered."""

KEPT: Final = 100_000
"""Configurations, in all, that are remembered of one of them, before and after each observation."""


class Shared:
    """*machine* under *profile*, how beliefs about it move where a trace shows what was *seen*, and what is known of that.

    ``others`` are the tables of its other profiles.  ``beginning`` is what is possible of an entity in the initial state,
    ``everything`` if nothing is known; ``pairs`` are those that can be exercised.  ``ended`` are the states that nothing leaves that is named on the wire, ``there``,
    as bits, those that do not show what the initial state shows.
    """

    def __init__(self, machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> None:
        require_machine(machine)
        self.described = machine  # so that no other one gets its id
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
        # What is possible if nothing is known but that a call of the row is in progress.
        self.asked = cache(lambda row: self.dynamics.asked(self.everything, row))
        self._size = 0

    def observed(self, before: Configurations, seen: Key, since: int) -> Remainder:
        """What :meth:`Dynamics.observed` finds, remembered."""
        at = (before, seen, since)
        found = self._kept.get(at)
        if found is None:
            found = self.dynamics.observed(before, seen, since)
            self._make_room(before, found.configurations)
            self._kept[at] = found
        return found

    def explain(self, scene: Scene) -> Explained:
        """What :func:`explain` finds of a *scene* of this machine, remembered."""
        led = (scene.led.event, scene.led.shows, scene.led.met) if scene.led else None
        at = (scene.before, scene.since, scene.seen, led, scene.again)
        found = self._explained.get(at)
        if found is None:
            found = explain(scene)
            self._make_room(scene.before, found.after, *(left for _, left in found.edits))
            self._explained[at] = found
        return found

    def _make_room(self, *more: Configurations) -> None:
        """Forget all that was found out so far, rather than remember too much."""
        self._size += 1 + sum(map(len, more))
        if self._size > KEPT:
            self._kept.clear()
            self._explained.clear()
            self._size = 0


_SHARED: Final[OrderedDict[tuple[object, ...], Shared]] = OrderedDict()


def shared(machine: Machine, profile: str | None, seen: frozenset[str] | None, *, outputs: bool) -> Shared:
    """What the monitors of *machine* share, by its *profile* and by what a trace shows of it."""
    at = (id(machine), profile, seen, outputs)  # to compare it with another machine takes longer than it saves
    found = _SHARED.pop(at, None) or Shared(machine, profile, seen, outputs=outputs)
    _SHARED[at] = found  # behind all others: the first is the one that was not used for longest
    if len(_SHARED) > MACHINES:
        _SHARED.popitem(last=False)
    return found


def _ended(table: Table, state: int) -> bool:
    """Whether no call, and nothing else that is named on the wire, leaves *state*."""
    named = [row for row in table.rows if row.event.rpc]
    ways = [table.step(state, row.index) for row in named]
    return bool(named) and all(each is not None and all(way.to == state for way in each) for each in ways)
