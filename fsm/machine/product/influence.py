"""The *cone of influence* of some copies in a system.

It consists of those copies and all copies that may affect them (Clarke, Grumberg and Peled, *Model Checking*, 1999,
section 13.1).  All other copies can be left out, because they neither enable nor prevent anything in the cone.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from fsm.machine.product import read, tables_of
from fsm.machine.product.joint_moves import offered
from fsm.machine.product.system import JointEvent, JointWay, System
from fsm.machine.table import Table


class Influence:
    """Computes cones of influence in *system* from the *tables* of its parts."""

    def __init__(self, system: System, tables: Mapping[str, Table] | None = None) -> None:
        self._system = system
        self.tables = tables or tables_of(system)
        self._read = cache(read)
        self._cones = cache(self._cone)
        self._may_stop = cache(self._stops)

    def cone(self, digits: Iterable[int], mentioned: Iterable[str] = (), outputs: Iterable[int] = ()) -> frozenset[int]:
        """Return the digits of the cone of influence of the copies *digits*.

        Include the copies that affect how events in *mentioned* happen, and the copies in *outputs* with those that
        affect whether their outputs are delivered.
        """
        return self._cones(frozenset(digits), frozenset(mentioned), frozenset(outputs))

    def _cone(self, digits: frozenset[int], mentioned: frozenset[str], outputs: frozenset[int]) -> frozenset[int]:
        system = self._system
        found = {*digits, *outputs}
        for digit in outputs:
            found |= read(system.parts[system.copies[digit].part].heard)
        ways = [(joint, way) for joint in system.events.values() for way in joint.ways]
        before: set[int] | None = None
        while found != before:
            before = set(found)
            for joint, way in ways:
                found |= self._needed(joint, way, found, mentioned=joint.name in mentioned)
        return frozenset(found)

    def _needed(self, joint: JointEvent, way: JointWay, found: set[int], *, mentioned: bool) -> set[int]:
        """Return the copies that affect what *way* does to *found* or, if *mentioned* is true, how the way happens."""
        inside = [number for number, step in enumerate(way.steps) if step.copy.digit in found]
        if not inside and not mentioned:
            return set()
        needed = set(self._read(joint.when) | self._read(way.when))
        last = len(way.steps) if mentioned else max(inside)
        for number, step in enumerate(way.steps):
            disabled, fails = self._may_stop(step.copy.part, step.event, step.outcomes, step.ends)
            blocks = disabled or (fails and number < last and joint.kind == "call" and not step.goes_on)
            if blocks:
                needed.add(step.copy.digit)
            if blocks or step.copy.digit in found:
                needed |= self._read(step.when)
        return needed

    def _stops(self, part: str, event: str, outcomes: frozenset[str], ends: bool) -> tuple[bool, bool]:  # noqa: FBT001
        """Return whether a step is disabled in some state, and whether it may reply with an error in some state."""
        if not event:
            return False, False
        table, without = self.tables[part], self._system.parts[part].without
        row = table.end[table.row[event]] if ends else table.row[event]
        ways = [tuple(offered(table.step(state, row) or (), outcomes, without)) for state in range(len(table.states))]
        return not all(ways), any(reply != "ok" for each in ways for way in each for reply in way.reply)
