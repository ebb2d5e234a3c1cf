"""The *cone of influence* of some copies in a system.

It consists of those copies and all copies that may affect them (Clarke, Grumberg and Peled, *Model Checking*, 1999,
section 13.1).  All other copies can be left out, because they neither enable nor prevent anything in the cone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from fsm.machine.product import JointPath, JointRow, SystemTable, read, tables_of
from fsm.machine.product.system import JointEvent, JointWay, Locals, System, offered
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

        Also include the copies that affect how events in *mentioned* happen, the copies in *outputs*, and the copies
        that affect whether the outputs of the latter are delivered.
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
        """Return the copies that influence how *way* changes *found* or, if *mentioned* is true, how it happens."""
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


class WaitsFor(NamedTuple):
    """``copy`` waits for ``others``, whose states keep the joint ``event`` from moving it."""

    copy: str
    event: str
    others: tuple[str, ...]


def waiting(system: System, states: Mapping[str, str], events: Collection[str] = ()) -> Iterator[WaitsFor]:
    """Yield the copies that each blocked copy waits for.  A copy is blocked if no joint event can move it.

    If *events* is given, consider only those.  *states* maps copy names to states; other copies are in their initial
    state.  A copy that is in its initial state, or in a final or error state, waits for nothing.

    >>> from fsm.language.library import load_system
    >>> house = load_system("examples/models/systems/house.toml")
    >>> [each.others for each in waiting(house, {"alarm": "arming", "door.1": "open"}, ["arm"])]
    [('door.1',)]
    """
    table = SystemTable(system)
    parts = {copy.digit: table.table_of(copy.part).machine for copy in system.copies}
    named = {copy.digit: states.get(copy.name, system.parts[copy.part].initial) for copy in system.copies}
    here: Locals = tuple(table.table_of(copy.part).states.index(named[copy.digit]) for copy in system.copies)
    rows = [row for row in table.joint if not events or row.joint.name in events]
    able = {digit for row in rows for *_, moved in table.effects(here, row.joint.name) for digit, _ in moved}
    for copy in system.copies:
        state = parts[copy.digit].states[named[copy.digit]]
        begun = state.name != system.parts[copy.part].initial and state.kind not in {"final", "error"}
        if begun and copy.digit not in able:
            for row in rows:
                if others := _preventing(table, row, here, copy.digit):
                    yield WaitsFor(copy.name, row.joint.name, tuple(system.copies[each].name for each in others))


def _preventing(table: SystemTable, row: JointRow, here: Locals, digit: int) -> list[int]:
    """Return the copies whose states keep *row* from moving the copy *digit*.  Empty if it could not move anyway."""
    copies, initial = table.system.copies, table.locals(table.initial)
    alone: dict[int, None] = {}
    together: dict[int, None] = {}
    for path in row.paths:
        moves = (move for move in path.moves if move.at == digit)
        if not any(to != here[digit] for move in moves for to, *_ in move.options(here[digit])):
            continue
        asked = {move.at for move in path.moves}.union(read(row.joint.when), read(path.way.when)) - {digit}
        for other in sorted(asked):
            states = range(len(table.table_of(copies[other].part).states))
            if any(_moves(table, row, path, (*here[:other], to, *here[other + 1 :]), digit) for to in states):
                alone[other] = None
            if here[other] != initial[other]:
                together[other] = None
    return list(alone or together)


def _moves(table: SystemTable, row: JointRow, path: JointPath, here: Locals, digit: int) -> bool:
    effects = table.effects(here, row.joint.name, (path.way.name,))
    return any(changed == digit for *_, moved in effects for changed, _ in moved)
