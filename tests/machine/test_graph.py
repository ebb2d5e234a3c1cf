"""The reachable part of a machine agrees with a brute-force search, and each shortest path is a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import naive
import pytest
from brute_force.steps import MachineModel, Runs
from hypothesis import given
from machines import DOOR, counter, door, edited, job, machine_of
from random_machines import machines

from fsm.language.library import load, names
from fsm.machine.graph import components, explore
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.graph import Graph
    from fsm.machine.table import Table


def graph_of(machine: Machine) -> Graph[Table]:
    return explore(tabulate(machine))


def moves(machine: Machine) -> set[tuple[str, str, str, str]]:
    """Return the source, event, target and outcome of every step, found by brute force.

    The end of a call is marked with an ellipsis.
    """
    return {
        (here[0][0], f"{'…' * (step.stage in {'ends', 'continues'})}{step.event}", step.target[0][0], step.outcome)
        for here, steps in Runs(MachineModel(machine)).steps.items()
        for step in steps
        if not step.unwritten
    }


def distances(machine: Machine) -> dict[str, int]:
    found: dict[str, int] = {}
    for here, distance in Runs(MachineModel(machine)).depth.items():
        found.setdefault(here[0][0], distance)
    return found


def reaching(machine: Machine) -> dict[str, set[str]]:
    found = {state: {state} | {to for at, _, to, _ in moves(machine) if at == state} for state in machine.states}
    for _ in machine.states:
        found = {state: {far for near in to for far in found[near]} for state, to in found.items()}
    return found


def components_of(graph: Graph[Table]) -> tuple[tuple[str, ...], ...]:
    following: dict[int, list[int]] = {state: [] for state in graph.depth}
    for step in graph.transitions:
        following[step.source].append(step.to)
    found = components(following)
    return tuple(tuple(graph.table.states[state] for state in sorted(each)) for each in reversed(found))


def agree(machine: Machine) -> None:
    graph = graph_of(machine)
    states = graph.table.states
    distance = distances(machine)
    reaches = reaching(machine)

    assert distance == {states[number]: far for number, far in graph.depth.items()}
    assert tuple(state for state in states if state not in distance) == graph.unreachable()
    assert {frozenset(b for b in reaches[a] if a in reaches[b]) for a in distance} == {
        frozenset(each) for each in components_of(graph)
    }
    assert len(distance) == sum(map(len, components_of(graph)))
    for state in distance:
        assert state in ends_of(machine, graph.path(state))
        assert distance[state] == len(graph.path(state))


def ends_of(machine: Machine, path: tuple[str, ...]) -> set[str]:
    """Return the possible states at the end of *path*.

    Its steps have the form ``event/outcome``, or ``…event`` for an end.
    """
    here = {machine.initial}
    for step in path:
        event, outcome = step.removeprefix("…").split("/")
        ways = naive.ends if step.startswith("…") else naive.ways
        here = {way.to for state in here for way in ways(machine, state, event) or () if way.outcome == outcome}
    return here


@given(machines())
def test_agrees_with_brute_force(machine: Machine) -> None:
    """States, distances, shortest paths and components agree."""
    agree(machine)


@pytest.mark.parametrize("name", names())
def test_agrees_with_brute_force_on_shipped_machines(name: str) -> None:
    agree(load(name))


@given(machines())
def test_components_are_in_topological_order(machine: Machine) -> None:
    """No component leads to one before it."""
    found = components_of(graph_of(machine))
    reaches = reaching(machine)
    for index, later in enumerate(found):
        for earlier in found[:index]:
            assert not reaches[later[0]] & set(earlier)


@given(machines())
def test_has_every_transition_of_every_reachable_state_once(machine: Machine) -> None:
    """Each state has one transition for each outcome of its cells and for each possible end of a call in progress."""
    graph = graph_of(machine)
    table = graph.table
    left = [(step.source, step.row, step.way.index) for step in graph.transitions]
    states, rows = table.states, table.rows
    taken = moves(machine)
    ways = [
        way.index
        for way, (row, state) in zip(table.ways, table.origin, strict=True)
        if (states[state], rows[row].name, states[way.to], way.name) in taken
    ]

    assert sorted(ways) == sorted(index for _, _, index in left)


def test_finds_the_far_end_of_a_long_line() -> None:
    graph = graph_of(counter(to=1_000))

    assert 1_000 == graph.depth[1_000]
    assert ("add/done",) * 1_000 == graph.path("n1000")
    assert 1 == len(components_of(graph))


def test_what_cannot_be_undone_is_a_component_of_its_own() -> None:
    assert (("shut", "open", "ajar"), ("gone",)) == components_of(graph_of(door()))
    assert (("absent",), ("waiting", "starting"), ("checking",), ("running",), ("ended",)) == components_of(
        graph_of(job())
    )
    assert () == graph_of(job()).unreachable()


def test_silence_leads_nowhere() -> None:
    graph = graph_of(silent_door())

    assert ("gone",) == graph.unreachable()


def silent_door() -> Machine:
    return machine_of(edited(DOOR, 'moves   = { "*" = "gone" }\nignores = ["gone"]', 'silent  = ["*"]'))


@pytest.mark.parametrize("state", ["nowhere", "", "gone"])
def test_refuses_a_path_to_what_is_not_reachable(state: str) -> None:
    with pytest.raises(ValueError, match=f"state {state!r} is not reachable"):
        graph_of(silent_door()).path(state)
