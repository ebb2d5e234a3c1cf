"""How calls may end, whether they take time or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.building.ends import found_in

if TYPE_CHECKING:
    from fsm.table import Table, Way


def finals(table: Table, state: int, row: int, *, displaced: bool = False) -> tuple[Way, ...] | None:
    """Every way in which an event of *row* that acts in *state* may end, its ends included; ``None``: any.

    With *displaced* also those to which others may move a call that has begun.
    """
    ways = table.step(state, row)
    if ways is None or not any(way.begins for way in ways):
        return ways
    event = table.rows[row].event
    begun = {way.to for way in ways if way.begins}
    more = begun
    while more := {to.to for each in begun for to in table.step(each, table.end[row]) or () if to.begins} - begun:
        begun |= more
    if displaced:
        begun |= {table.states.index(name) for name in found_in(table.machine, event)}
        if any(table.states[each] not in event.ends for each in begun):
            return None
    ends = [way for each in sorted(begun) for way in table.step(each, table.end[row]) or ()]
    return tuple(way for way in (*ways, *ends) if not way.begins)
