"""A client path is a shortest sequence of steps by which a client can reach a cell of a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsm.conformance.client_paths import Need, client_paths
from fsm.conformance.executor import Execution
from fsm.conformance.lookup import Simulated
from fsm.conformance.oracle import Oracle, oracle
from fsm.language.library import load
from fsm.machine import Cannot, Machine, Moves
from fsm.sut import Stimulus

MACHINES = (
    "cri-container",
    "cri-pod",
    "container-status",
    "pod-sandbox",
    "nri-container",
    "nri-pod",
    "plugin-container",
)
Cell = tuple[str, str]


def _met(judge: Oracle, steps: tuple[Stimulus, ...]) -> list[set[Cell]]:
    """Take the steps on a simulated implementation, and return the cells that each step newly covers."""
    table = judge.plan.table
    execution = Execution(judge, Simulated(table.machine))
    met: list[set[Cell]] = []
    for step in steps:
        execution.take(step)
        edges = [edge for edge in judge.plan.edges if execution.cover.took(edge)]
        cells = {(table.rows[row].name, table.states[state]) for edge in edges for row, state in edge.cells}
        met.append(cells.difference(*met))
    return met


@pytest.mark.parametrize("name", MACHINES)
def test_the_steps_meet_the_cell(name: str) -> None:
    machine = load(name)
    judge = oracle(machine)
    for cell, path in client_paths(machine).items():
        if path.steps:
            *before, last = _met(judge, path.steps)

            assert (cell in last, cell in set().union(*before)) == (True, False), (cell, path)


def test_without_the_last_but_one_step_it_is_another_cell() -> None:
    machine = load("cri-container")
    path = client_paths(machine)["start", "exited"]

    (*_, last) = _met(oracle(machine), (*path.steps[:-2], path.steps[-1]))

    assert last == {("start", "running")}


def _nearest(machine: Machine) -> dict[Cell, int]:
    """Return the number of calls that it takes to reach each cell if every call has its first outcome."""
    calls = [
        event
        for event in machine.events.values()
        if event.kind == "call" or (event.name == "exit" and machine.entity == "container")
    ]
    makes = "CreateContainer" if machine.entity == "container" else "RunPodSandbox"
    found: dict[Cell, int] = {}
    level, seen, depth = {machine.initial}, {machine.initial}, 0
    while level:
        depth += 1
        after = set()
        for state in sorted(level):
            for event in calls:
                cell = event.cells[state]
                if event.rpc == makes and state != machine.initial:
                    continue
                if isinstance(cell, Cannot) or (event.kind != "call" and not isinstance(cell, Moves)):
                    continue
                found.setdefault((event.name, state), depth)
                to = state
                while isinstance(cell, Moves):
                    outcome = cell.outcomes[0]
                    to = outcome.to
                    if not outcome.begins:
                        break
                    cell = event.ends[to]
                    found.setdefault((f"…{event.name}", to), depth)
                after.add(to)
        level, seen = after - seen, seen | after
    return found


@pytest.mark.parametrize("name", MACHINES[:4])
def test_no_path_is_shorter(name: str) -> None:
    machine = load(name)

    assert _nearest(machine) == {
        cell: len(path.steps) for cell, path in client_paths(machine).items() if not path.needs
    }


@pytest.mark.parametrize(
    ("name", "cell", "needs"),
    [
        ("cri-container", ("exit", "created"), [Need.CANNOT]),
        ("cri-container", ("exit", "exited"), [Need.FAULT]),
        ("cri-container", ("create", "running"), [Need.SAME_ID]),
        ("cri-container", ("stop", "unknown-running"), [Need.RESTART]),
        ("cri-container", ("start", "exited-removing"), [Need.OVERLAP]),
        ("container-status", ("…start", "exited-starting"), [Need.FAILURE]),
        ("container-status", ("status", "exited-starting"), [Need.FAILURE, Need.OVERLAP]),
        ("cri-pod", ("exit", "ready"), [Need.FAULT]),
        ("cri-pod", ("create-container", "stopped"), []),
    ],
)
def test_what_a_cell_needs(name: str, cell: Cell, needs: list[Need]) -> None:
    assert list(client_paths(load(name))[cell].needs) == needs


def test_a_state_that_nothing_leads_to() -> None:
    machine = load("cri-pod")
    states = {**machine.states, "nowhere": replace(machine.states["stopped"], name="nowhere")}
    events = {
        name: replace(event, cells={**event.cells, "nowhere": event.cells["stopped"]})
        for name, event in machine.events.items()
    }

    path = client_paths(replace(machine, states=states, events=events))["stop", "nowhere"]

    assert (path.steps, path.needs) == ((), (Need.NEVER,))
