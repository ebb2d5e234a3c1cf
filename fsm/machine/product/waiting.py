"""Waiting at the end of a system's run: copies that could move if others were in other states."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from fsm.machine.product import JointPath, JointRow, SystemTable, read
from fsm.machine.product.joint_moves import Locals
from fsm.machine.product.system import System


class WaitsFor(NamedTuple):
    """*copy* waits for *others*: if one of them, or all, were in another state, the joint *event* would move it."""

    copy: str
    event: str
    others: tuple[str, ...]


def waiting(system: System, states: Mapping[str, str], events: Collection[str] = ()) -> Iterator[WaitsFor]:
    """Yield, for each copy that no joint event can move, what it waits for; *events* limits the joint events.

    Copies, by name, are in *states*, the others in their initial ones.  A copy in its initial state, or that has done
    its work, waits for nothing.

    >>> from fsm.language.library import load_system
    >>> [each.copy for each in waiting(load_system("nri-locks"), {"call": "has-one", "update": "has-one"})]
    ['call', 'update']
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
    """Return the copies whose states keep *row* from moving the copy *digit*; none if it would not move anyway."""
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
