"""Which copies of a system have a say in what becomes of others.

A system has far more states than any question about it needs.  What a
question asks of a few copies is answered by its *cone*: those copies, and all
that may have a say in what becomes of them (Clarke, Grumberg and Peled, *Model
Checking*, 1999, section 13.1).  All others can be left out, and nothing is
lost: whatever they do, they can neither further nor prevent what is in the cone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fsm.machine.conditions import All, At, Not, Some
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from fsm.machine.conditions import Condition
    from fsm.machine.table import Table, Way
    from fsm.product.system import JointEvent, JointWay, PartStep, System


def cone(
    system: System, digits: Iterable[int], *, asked: Collection[str] = (), outputs: Collection[int] = ()
) -> frozenset[int]:
    """The copies that have a say in what becomes of *digits*.

    And in whether and how the events *asked* for go, and in what is heard of
    the copies in *outputs*.
    """
    found = {*digits, *outputs}
    for digit in outputs:
        found |= read(system.parts[system.copies[digit].part].heard)
    hindering = _Hindering(system=system, tables=tables_of(system))
    ways = [(joint, way) for joint in system.events.values() for way in joint.ways]
    before: set[int] | None = None
    while found != before:
        before = set(found)
        for joint, way in ways:
            found |= hindering.needed(joint, way, found, asked=joint.name in asked)
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hindering:
    """Which steps may keep others from being taken."""

    system: System
    tables: Mapping[str, Table]
    _known: dict[tuple[str, str, bool, frozenset[str]], tuple[bool, bool]] = field(default_factory=dict)

    def needed(self, joint: JointEvent, way: JointWay, found: set[int], *, asked: bool) -> set[int]:
        """The copies that have a say in what *way* does to those in *found*, or in how it goes if it is *asked* for."""
        inside = [number for number, step in enumerate(way.steps) if step.copy.digit in found]
        if not inside and not asked:
            return set()
        needed = set(read(joint.when) | read(way.when))
        last = len(way.steps) if asked else max(inside)
        for number, step in enumerate(way.steps):
            blocks, fails = self.hinders(step)
            hinders = blocks or (fails and number < last and joint.kind == "call" and not step.goes_on)
            if hinders:
                needed.add(step.copy.digit)
            if hinders or step.copy.digit in found:
                needed |= read(step.when)
        return needed

    def hinders(self, step: PartStep) -> tuple[bool, bool]:
        """Whether there is a state in which *step* cannot be taken, and one in which it may reply an error."""
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
    """The digits of the copies whose states *condition* asks for."""
    match condition:
        case Not(of=inner):
            return read(inner)
        case All(of=parts) | Some(of=parts):
            return frozenset().union(*map(read, parts))
        case At(copies=copies):
            return frozenset(copies)
        case _:
            return frozenset()
