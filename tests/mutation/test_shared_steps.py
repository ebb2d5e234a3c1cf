"""The mutants of a system can share steps without changing the results."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from fsm.checker.equivalence import StepsOf
from fsm.language.library import composition, load_system
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable
from fsm.mutation import joint_mutants

if TYPE_CHECKING:
    from fsm.machine.graph import Graph
    from fsm.machine.product.system import Locals

SYSTEMS = ("plugin-sync", "shared-ids", "late-updates")


def steps(table: SystemTable, before: Locals, *, named: bool) -> set[object]:
    state = table.number(before)
    ways = ((name, way) for name, row in table.row.items() for way in table.step(state, row))
    return {(name, way.name if named else "", way.reply, way.emits, table.locals(way.to)) for name, way in ways}


def taken(graph: Graph[SystemTable], other: SystemTable, *, named: bool) -> bool:
    everywhere = [graph.table.locals(state) for state in graph.depth]
    return graph.table.row.keys() == other.row.keys() and all(
        steps(graph.table, each, named=named) == steps(other, each, named=named) for each in everywhere
    )


class NearSteps(StepsOf):
    """A faulty comparison, which compares steps only in states that differ in the first relevant copy."""

    def _sample_states(self, digits: tuple[int, ...]) -> tuple[Locals, ...]:
        return super()._sample_states(digits[:1])


@cache
def asked(name: str) -> tuple[Graph[SystemTable], list[tuple[str, SystemTable, bool, bool]]]:
    system = load_system(name)
    graph = explore(SystemTable(system))
    found = []
    for mutant in joint_mutants(system, composition(system)):
        other = SystemTable(mutant.change(system), tables={part: graph.table.table_of(part) for part in system.parts})
        same, same_named = (taken(graph, other, named=named) for named in (False, True))
        found.append((mutant.name, other, same, same_named))
    return graph, found


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_same_steps_as_taken_one_by_one(name: str) -> None:
    graph, mutants = asked(name)
    known = StepsOf(graph)

    for mutant, other, same, same_named in mutants:
        assert (same, same_named) == (known.same(other), known.same(other, named=True)), mutant


def test_a_comparison_in_fewer_states_is_caught() -> None:
    """A comparison in too few states is noticed, as some mutants differ only if two copies are in certain states."""
    wrong = [
        mutant
        for name in SYSTEMS
        for graph, mutants in [asked(name)]
        for mutant, other, same, _ in mutants
        if NearSteps(graph).same(other) != same
    ]

    assert wrong
