"""The cone of influence: which copies of a system affect others.

A question about a few copies is answered on their *cone*: those copies, and all that may affect them (Clarke, Grumberg
and Peled, *Model Checking*, 1999, section 13.1).  All others can be left out without loss: they can neither enable nor
prevent what happens in the cone.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cache

from fsm.machine.conditions import At, Condition, atoms
from fsm.machine.table import Table, Way, tabulate
from fsm.product.system import JointEvent, JointWay, System


def cone(
    system: System, digits: Iterable[int], *, mentioned: Collection[str] = (), outputs: Collection[int] = ()
) -> frozenset[int]:
    """The copies that affect those in *digits*, how the events *mentioned* go, or whether *outputs* of copies are delivered."""
    found = {*digits, *outputs}
    for digit in outputs:
        found |= read(system.parts[system.copies[digit].part].heard)
    blocking = _Blocking(system)
    ways = [(joint, way) for joint in system.events.values() for way in joint.ways]
    before: set[int] | None = None
    while found != before:
        before = set(found)
        for joint, way in ways:
            found |= blocking.needed(joint, way, found, mentioned=joint.name in mentioned)
    return frozenset(found)


class _Blocking:
    """Which steps may prevent others from being taken."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._tables = tables_of(system)
        self._may_stop = cache(self._stops)

    def needed(self, joint: JointEvent, way: JointWay, found: set[int], *, mentioned: bool) -> set[int]:
        """The copies that affect what *way* does to those in *found*, or, if its event is *mentioned*, how it goes."""
        inside = [number for number, step in enumerate(way.steps) if step.copy.digit in found]
        if not inside and not mentioned:
            return set()
        needed = set(read(joint.when) | read(way.when))
        last = len(way.steps) if mentioned else max(inside)
        for number, step in enumerate(way.steps):
            disabled, fails = self._may_stop(step.copy.part, step.event, step.outcomes, step.ends)
            blocks = disabled or (fails and number < last and joint.kind == "call" and not step.goes_on)
            if blocks:
                needed.add(step.copy.digit)
            if blocks or step.copy.digit in found:
                needed |= read(step.when)
        return needed

    def _stops(self, part: str, event: str, outcomes: frozenset[str], ends: bool) -> tuple[bool, bool]:  # noqa: FBT001  (a key)
        """Whether a step is disabled in some state, and whether it may reply an error in some state."""
        if not event:
            return False, False
        table, without = self._tables[part], self._system.parts[part].without
        row = table.end[table.row[event]] if ends else table.row[event]
        ways = [tuple(offered(table, state, row, outcomes, without)) for state in range(len(table.states))]
        return not all(ways), any(way.reply and "ok" not in way.reply for each in ways for way in each)


def offered(table: Table, state: int, row: int, outcomes: frozenset[str], without: frozenset[str]) -> Iterator[Way]:
    """The ways in which a step that is *row* of *table* may go in *state*, by *outcomes* if any are given."""
    for way in table.step(state, row) or ():
        if way.name not in without and (not outcomes or way.name in outcomes):
            yield way


def tables_of(system: System) -> dict[str, Table]:
    """The table of the machine of each part."""
    known: dict[int, Table] = {}
    return {name: known.setdefault(id(part.machine), tabulate(part.machine)) for name, part in system.parts.items()}


def read(condition: Condition | None) -> frozenset[int]:
    """The digits of the copies whose states *condition* depends on."""
    parts = atoms(condition) if condition else ()
    return frozenset(digit for part in parts if isinstance(part, At) for digit in part.copies)
