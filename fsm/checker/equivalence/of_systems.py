"""Equivalence of systems with the same parts, by their joint events, replies, outputs and what copies show."""

from collections.abc import Collection
from operator import itemgetter

from fsm.checker.equivalence.partition import refine, saturated
from fsm.machine import ANY_ERROR
from fsm.machine.graph import Graph
from fsm.machine.product import SystemTable
from fsm.machine.product.joint_moves import Locals
from fsm.machine.product.system import JointEvent
from fsm.machine.traversal import Numbering


class StepsOf:
    """Effects of a system's joint events in every state of *graph*, for comparing systems of the same copies."""

    def __init__(self, graph: Graph[SystemTable]) -> None:
        self.table = graph.table
        self._reached = [graph.table.locals(state) for state in graph.depth]
        self._samples: dict[tuple[int, ...], tuple[Locals, ...]] = {}

    def same(self, other: SystemTable, *, named: bool = False) -> bool:
        """Check whether each joint event of *other* has the same effects in every state.

        If *named* is true, outcomes must also have the same names.  Joint events that are the same object in both
        systems are not compared unless all of them are.  The running time is linear in the states, and the first
        difference ends it.
        """
        mine, others = self.table.system.events, other.system.events
        if self.table.row.keys() != other.row.keys():
            return False
        return all(
            self._alike(other, name, _differing(mine[name], others[name]), named=named)
            or self._alike(other, name, frozenset(), named=named)
            for name in [name for name in mine if mine[name] is not others[name]] or list(mine)
            if name in self.table.row
        )

    def _alike(self, other: SystemTable, event: str, ways: frozenset[str], *, named: bool) -> bool:
        """Check whether the outcomes *ways* of *event*, or all of them if *ways* is empty, have the same effects."""
        digits = {*self.table.concerns(event, ways), *other.concerns(event, ways)}
        return all(
            _effects(self.table, sample, event, ways, named=named) == _effects(other, sample, event, ways, named=named)
            for sample in self._sampled(tuple(sorted(digits)))
        )

    def _sampled(self, digits: tuple[int, ...]) -> tuple[Locals, ...]:
        """Return one reachable state for each combination of states of *digits*, which is enough to compare effects."""
        found = self._samples.get(digits)
        if found is None:
            values = itemgetter(*digits) if digits else lambda _: ()
            found = self._samples[digits] = tuple({values(each): each for each in self._reached}.values())
        return found


def _differing(one: JointEvent, other: JointEvent) -> frozenset[str]:
    """Return the names of the outcomes that differ between two joint events, or none if their guards differ, too."""
    if one.when != other.when:
        return frozenset()
    first, second = ({way.name: way for way in each.ways} for each in (one, other))
    return frozenset(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _effects(of: SystemTable, at: Locals, event: str, ways: frozenset[str], *, named: bool) -> Collection[object]:
    effects = of.effects(at, event, ways)
    return effects if named else {each[1:] for each in effects}


def bisimilar_systems(first: Graph[SystemTable], second: Graph[SystemTable]) -> bool:
    """Check whether the two systems are weakly bisimilar."""
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
