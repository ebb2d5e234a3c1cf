"""Blocked copies at the end of a system's run, and the copies they are waiting for."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from fsm.machine.product import JointPath, JointRow, SystemTable, read
from fsm.machine.product.joint_moves import Locals
from fsm.machine.product.system import System


class WaitsFor(NamedTuple):
    """``copy`` waits for ``others``, whose states keep the joint ``event`` from moving it."""

    copy: str
    event: str
    others: tuple[str, ...]


def waiting(system: System, states: Mapping[str, str], events: Collection[str] = ()) -> Iterator[WaitsFor]:
    """Yield what each blocked copy waits for.  A copy is blocked if no joint event can move it.

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
    """Return the copies whose states keep *row* from moving the copy *digit*, or none if it could not move anyway."""
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
