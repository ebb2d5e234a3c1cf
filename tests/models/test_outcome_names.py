"""An outcome has the same name in the model, under profiles, in listings, and in tests."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from machines import DOOR, edited, machine_of

from fsm.conformance.plan import Plan
from fsm.language.library import is_system, load, names
from fsm.machine.table import tabulate
from fsm.report import machine_report

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.table import Table

MODELS = [each for each in names() if not is_system(each)]


def arranged(machine: Machine) -> set[tuple[str, str, str]]:
    plan = Plan(tabulate(machine))
    steps = ((edge, number, name) for edge in plan.edges for number, name in enumerate(edge.step.expected))
    return {
        (edge.step.event, plan.stage(edge.step, number), name) for edge, number, name in steps if edge.choice[number]
    }


def listed(machine: Machine) -> set[tuple[str, str, str]]:
    found = json.loads(machine_report.outcomes_json(tabulate(machine), machine.events, machine.states))
    return {(each["event"], each["stage"], each["outcome"]) for each in found}


def named(table: Table) -> dict[tuple[int, int, object], set[str]]:
    found: dict[tuple[int, int, object], set[str]] = defaultdict(set)
    for row, state in table.defined():
        for way in table.step(state, row) or ():
            found[row, state, (way.to, way.reply, way.emits, way.begins)].add(way.name)
    return found


@pytest.mark.parametrize("profile", [None, "*"])
@pytest.mark.parametrize("name", MODELS)
def test_what_a_test_arranges_is_listed_and_unique(name: str, profile: str | None) -> None:
    machine = load(name)
    for each in machine.profiles if profile else [None]:
        under = machine.under(each)
        table = tabulate(under)
        cells = [[way.name for way in table.step(state, row) or ()] for row, state in table.defined()]

        assert arranged(under) <= listed(under), each
        assert [] == [cell for cell in cells if len(cell) != len(set(cell))], each


@pytest.mark.parametrize("name", MODELS)
def test_a_profile_renames_no_outcome(name: str) -> None:
    machine = load(name)
    table = tabulate(machine)
    without = named(table)
    for profile in machine.profiles:
        under = tabulate(machine.under(profile))
        chosen = {(row, state) for row, state in under.defined() if len(under.step(state, row) or ()) > 1}
        renamed = [(each, names) for each, names in named(under).items() if names != without.get(each, names)]

        assert [] == [each for each in renamed if each[0][:2] in chosen], profile


def test_a_deviation_is_called_as_it_is_written() -> None:
    """A deviation without a name has the name of its override."""
    named = edited(DOOR, '{ shut = { to = "shut" } }', '{ shut = { name = "jammed", to = "shut" } }')

    added = [(machine_of(text).under("old").step("shut", "push") or ())[-1].name for text in (DOOR, named)]

    assert ["lock-jams", "jammed"] == added
