"""The cone of influence: which copies of a system affect others.

A question about a few copies is answered on their *cone*: those copies, and all that may affect them (Clarke, Grumberg
and Peled, *Model Checking*, 1999, section 13.1).  All others can be left out without loss: they can neither enable nor
prevent what happens in the cone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fsm.machine.conditions import At, Condition, atoms
from fsm.machine.table import Table, Way, tabulate
from fsm.product.system import JointEvent, JointWay, PartStep, System


def cone(
    system: System, digits: Iterable[int], *, mentioned: Collection[str] = (), outputs: Collection[int] = ()
) -> frozenset[int]:
    """The copies that affect those in *digits*, how the events *mentioned* go, or whether *outputs* of copies are delivered."""
    found = {*digits, *outputs}
    for digit in outputs:
        found |= read(system.parts[system.copies[digit].part].heard)
    blocking = _Blocking(system=system, tables=tables_of(system))
    ways = [(joint, way) for joint in system.events.values() for way in joint.ways]
    before: set[int] | None = None
    while found != before:
        before = set(found)
        for joint, way in ways:
            found |= blocking.needed(joint, way, found, mentioned=joint.name in mentioned)
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocking:
    """Which steps may prevent others from being taken."""

    system: System
    tables: Mapping[str, Table]
    _known: dict[tuple[str, str, bool, frozenset[str]], tuple[bool, bool]] = field(default_factory=dict)

    def needed(self, joint: JointEvent, way: JointWay, found: set[int], *, mentioned: bool) -> set[int]:
        """The copies that affect what *way* does to those in *found*, or, if its event is *mentioned*, how it goes."""
        inside = [number for number, step in enumerate(way.steps) if step.copy.digit in found]
        if not inside and not mentioned:
            return set()
        needed = set(read(joint.when) | read(way.when))
        last = len(way.steps) if mentioned else max(inside)
        for number, step in enumerate(way.steps):
            disabled, fails = self.may_stop(step)
            blocks = disabled or (fails and number < last and joint.kind == "call" and not step.goes_on)
            if blocks:
                needed.add(step.copy.digit)
            if blocks or step.copy.digit in found:
                needed |= read(step.when)
        return needed

    def may_stop(self, step: PartStep) -> tuple[bool, bool]:
        """Whether *step* is disabled in some state, and whether it may reply an error in some state."""
        if not step.event:
            return False, False
        key = (step.copy.part, step.event, step.ends, step.outcomes)
        found = self._known.get(key)
        if found is None:
            table, without = self.tables[step.copy.part], self.system.parts[step.copy.part].without
            row = table.end[table.row[step.event]] if step.ends else table.row[step.event]
            ways = [tuple(offered(table, state, row, step, without)) for state in range(len(table.states))]
            fails = any(way.reply and "ok" not in way.reply for each in ways for way in each)
            found = self._known[key] = (not all(ways), fails)
        return found


def offered(table: Table, state: int, row: int, step: PartStep, without: frozenset[str]) -> Iterator[Way]:
    """The ways in which *step*, which is *row* of *table*, may go in *state*."""
    for way in table.step(state, row) or ():
        if way.name not in without and (not step.outcomes or way.name in step.outcomes):
            yield way


def tables_of(system: System) -> dict[str, Table]:
    """The table of the machine of each part."""
    known: dict[int, Table] = {}
    return {name: known.setdefault(id(part.machine), tabulate(part.machine)) for name, part in system.parts.items()}


def read(condition: Condition | None) -> frozenset[int]:
    """The digits of the copies whose states *condition* depends on."""
    parts = atoms(condition) if condition else ()
    return frozenset(digit for part in parts if isinstance(part, At) for digit in part.copies)
