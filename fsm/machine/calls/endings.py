"""Ends of calls, whether or not they take time."""

from collections.abc import Iterable, Iterator

from fsm.machine import Cell, Event, Machine, Moves, outcomes
from fsm.machine.table import Table, Way
from fsm.machine.traversal import closure


def finals(table: Table, state: int, row: int, *, displaced: bool = False) -> tuple[Way, ...] | None:
    """Return the ways in which an event of *row* taken in *state* may end, or ``None`` if any end is possible.

    If *displaced* is true, other events may have moved the entity while the call was in progress.
    """
    ways = table.step(state, row)
    if ways is None or not any(way.begins for way in ways):
        return ways
    event = table.rows[row].event
    end = table.end[row]
    first = [way.to for way in ways if way.begins]
    begun = {*closure(first, lambda each: [way.to for way in table.step(each, end) or () if way.begins])}
    if displaced:
        begun |= {table.states.index(name) for name in found_in(table.machine, event)}
        if any(table.states[each] not in event.ends for each in begun):
            return None
    ends = [way for each in sorted(begun) for way in table.step(each, end) or ()]
    return tuple(way for way in (*ways, *ends) if not way.begins)


def begun_in(event: Event) -> dict[str, int]:
    """Return the states that a call of *event* enters when it begins, each mapped to its line in the model."""
    found: dict[str, int] = {}
    for cell in (*event.cells.values(), *event.ends.values()):
        for way in cell.outcomes if isinstance(cell, Moves) else ():
            if way.begins:
                found.setdefault(way.to, cell.line)
    return found


def found_in(machine: Machine, event: Event) -> set[str]:
    """Return the states the entity may be in during a call of *event*, including states that other events lead to."""
    begun = begun_in(event)
    alone = _reached(machine, event, begun, twice=False)
    # If a second call of the event can begin in one of these states, its end may move the entity as well.
    twice = any(way.begins for state in alone for way in outcomes(event.cells[state], state, event.kind) or ())
    return _reached(machine, event, begun, twice=True) if twice else alone


def _reached(machine: Machine, event: Event, begun: Iterable[str], *, twice: bool) -> set[str]:
    """Return the states reachable from *begun* while a call of *event* is in progress.

    If *twice* is true, another call of *event* may end in the meantime.
    """

    def leads(state: str) -> Iterator[str]:
        for cell, other in _beside(machine, event, state, twice=twice):
            ways = outcomes(cell, state, other.kind)
            yield from machine.states if ways is None else (way.to for way in ways if way.to in machine.states)

    return {*closure((state for state in begun if state in machine.states), leads)}


def _beside(machine: Machine, event: Event, state: str, *, twice: bool) -> Iterator[tuple[Cell, Event]]:
    """Yield the cells that may apply in *state* while a call of *event* stays in progress, with their events."""
    for other in machine.events.values():
        if not other.interrupts:
            yield other.cells[state], other
            if state in other.ends and (other is not event or twice):
                yield other.ends[state], other
