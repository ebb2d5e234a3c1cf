"""Each step of a counterexample is explained by the cells and conditions that cause it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from fsm.checker import examine
from fsm.language.library import claims
from fsm.machine import Machine
from fsm.machine.conditions import At, predicate
from fsm.machine.evidence import Refuted, Run, UsedCell, used_cells
from fsm.machine.product import read
from fsm.machine.table import UNSPECIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fsm.machine.conditions import Atom
    from fsm.machine.product.system import System


def counterexamples(name: str, profile: str | None) -> Iterator[tuple[Machine | System, Run]]:
    stated = claims(name)
    for each in examine(stated, profile).checked:
        if isinstance(each.verdict, Refuted) and each.verdict.run is not None:
            yield stated.machine.under(profile), each.verdict.run


def is_possible(machine: Machine, cell: UsedCell) -> bool:
    step = cell.step
    ways = machine.step(step.source, step.event, ends=step.ends)
    if ways is None:
        return step.outcome == UNSPECIFIED
    event = machine.events[step.event]
    clause = (event.ends if step.ends else event.cells)[step.source].clause
    return clause == cell.clause and any((way.name, way.to) == (step.outcome, step.target) for way in ways)


@pytest.mark.parametrize("profile", [None, "containerd-1.6"])
def test_each_step_of_a_machine_rests_on_its_cell(profile: str | None) -> None:
    found = [
        (machine, cell)
        for machine, run in counterexamples("container-status", profile)
        for step in run.steps
        for cell in used_cells(machine, step)
    ]

    assert found
    for machine, cell in found:
        assert isinstance(machine, Machine)
        assert is_possible(machine, cell)
        elsewhere = msgspec.structs.replace(cell.step, outcome="elsewhere")
        assert not is_possible(machine, UsedCell(step=elsewhere, clause=cell.clause))
    assert any(cell.deviation for _, cell in found) == (profile is not None)


def at(states: Mapping[int, str]) -> Callable[[Atom], Callable[[None], bool]]:
    def of_atom(atom: Atom) -> Callable[[None], bool]:
        assert isinstance(atom, At)
        found = [states[copy] in atom.states for copy in atom.copies]
        holds = all(found) if atom.every else any(found)
        return lambda _: holds

    return of_atom


@pytest.mark.parametrize("name", ["nri-setup", "shared-ids", "pod-records"])
def test_each_step_of_a_system_rests_on_cells_and_conditions(name: str) -> None:
    conditions = 0
    for system, run in counterexamples(name, None):
        assert not isinstance(system, Machine)
        states = {copy.digit: system.parts[copy.part].initial for copy in system.copies}
        machines = {copy.name: system.parts[copy.part].machine for copy in system.copies}
        steps = (*run.steps, *run.cycle)
        shown = {each.digit for step in steps for each in step.done}  # the run mentions only some of the copies
        for step in steps:
            joint, *cells = used_cells(system, step)
            moments = [states]  # the condition of a step refers to the states after the earlier steps
            for each in step.done:
                moments.append({**moments[-1], each.digit: each.target})
            for condition in (each for each in joint.conditions if read(each) <= shown):
                assert any(predicate(condition, at(moment))(None) for moment in moments), condition
                conditions += 1
            assert joint.clause == system.events[step.event].clause
            done = [each for each in step.done if each.event]
            assert [cell.step for cell in cells] == done
            assert all(is_possible(machines[each.copy], cell) for each, cell in zip(done, cells, strict=True))
            states |= {each.digit: each.target for each in step.done}
    assert conditions
