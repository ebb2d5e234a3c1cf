"""Whether systems of the same parts are equivalent, by joint events, their replies and outputs, and what each copy shows."""

from typing import TypeAlias

from fsm.equivalence.partition import refine, saturated
from fsm.machine import ANY_ERROR
from fsm.machine.graph import Graph
from fsm.machine.traversal import Numbering
from fsm.product import Locals, SystemTable

_Steps: TypeAlias = "frozenset[tuple[str, tuple[str, ...], tuple[str, ...], Locals]]"


def same_steps(first: Graph[SystemTable], second: SystemTable, *, named: bool = False) -> bool:
    """Whether in every state that *first* can reach each joint event of *second* does the same.

    With *named* also in ways of the same names.  Both have the same copies.  Only joint events that are not the identical
    object are compared, or all if every one is.  Linear in the states; ends at the first difference.
    """
    table = first.table
    one, other = table.system.events, second.system.events
    if table.row.keys() != second.row.keys():
        return False
    for name in [name for name in table.row if one[name] is not other[name]] or list(table.row):
        digits = {*table.concerns(name), *second.concerns(name)}
        # What it does depends on these digits only: one state for each of their values is enough.
        samples = {tuple(table.locals(state)[digit] for digit in digits): state for state in first.depth}
        for state in samples.values():
            if _steps(table, state, name, named) != _steps(second, second.number(table.locals(state)), name, named):
                return False
    return True


def _steps(table: SystemTable, state: int, event: str, named: bool) -> _Steps:  # noqa: FBT001  (as the caller has it)
    ways = table.step(state, table.row[event])
    return frozenset((way.name if named else "", way.reply, way.emits, table.locals(way.to)) for way in ways)


def bisimilar_systems(first: Graph[SystemTable], second: Graph[SystemTable]) -> bool:
    """Whether the two are weakly bisimilar."""
    hidden: list[list[int]] = []
    seen: list[list[tuple[int, int]]] = []
    labels = Numbering[tuple[object, ...] | None]([None])
    starts = []
    codes = _codes(first) | _codes(second)
    for graph in (first, second):
        table = graph.table
        number = {state: len(hidden) + index for index, state in enumerate(graph.depth)}
        starts.append(number[table.initial])
        for state in graph.depth:
            hidden.append([])
            seen.append([(labels["shows", *table.shows(state)], number[state])])
        for step in graph.transitions:
            event = table.rows[step.row].event
            name = "" if event.kind == "hidden" else event.name
            source, target = number[step.source], number[step.to]
            if not name and not step.way.emits:
                hidden[source].append(target)
                continue
            replies = {*step.way.reply, *(codes if ANY_ERROR in step.way.reply else ())}
            for reply in replies or {""}:
                seen[source].append((labels[name, reply, step.way.emits], target))
    return not refine(saturated(hidden, seen)).separated(*starts)


def _codes(graph: Graph[SystemTable]) -> set[str]:
    return {reply for step in graph.transitions for reply in step.way.reply} - {"ok", ANY_ERROR}
