"""Mutants of conditions and updates are errors that the language accepts, and tests and properties notice them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from machines import machine_of

from fsm.conformance.lookup import Simulated
from fsm.conformance.suite import conform
from fsm.language.library import load, specification
from fsm.machine import Moves
from fsm.machine.conditions import truth
from fsm.machine.terms import evaluator
from fsm.mutation import mutants
from fsm.mutation.outcomes import mutation_outcomes

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.mutation import Mutant

SAFE = load("examples/models/safe.toml")
ORDER = load("examples/order/order.toml")
COUNTER = machine_of("""\
[machine]
name = "counter"
title = "A counter"
about = "Counts in steps."
source = "a test"
initial = "on"

[states]
on = { about = "" }
off = { about = "" }

[data]
n = { from = 0, to = 3, shown = true }
mode = { values = ["slow", "quick", "idle"], shown = true }
loud = { type = "bool", shown = true }

[event.add]
kind = "call"
about = ""
arguments = { step = { from = 1, to = 2 }, times = { from = 1, to = 2 } }
moves.on = [
  { name = "counted", stays = true, when = "n < 2 and step == 1", set = { n = "n + step", mode = "quick" } },
  { name = "full", to = "off", when = "n == 2 and step == 1", set = { loud = true }, reply = "FULL" },
  { name = "other", stays = true, when = "otherwise" },
]
refuses = { off = "OFF" }
""")


def about_data(machine: Machine) -> list[Mutant]:
    """Return the mutants of *machine* that differ from it only in conditions and updates."""

    def bare(of: Machine) -> object:
        cells = ((name, state, cell) for name, event in of.events.items() for state, cell in event.cells.items())
        return [
            (name, state, [(way.to, way.reply) for way in cell.outcomes] if isinstance(cell, Moves) else type(cell))
            for name, state, cell in cells
        ]

    return [each for each in mutants(machine) if bare(each.machine) == bare(machine)]


def test_each_kind_of_error_is_made() -> None:
    names = {each.name for each in about_data(COUNTER)}

    assert {
        "add in on: not step == 1",
        "add in on: n < 3 instead of n < 2",
        "add in on: n < 1 instead of n < 2",
        "add in on: times == 1 instead of step == 1",
        "add/full in on: drops condition 2",
        "add/counted in on: does not set n",
        "add/counted in on: sets n to n + times",
        "add/counted in on: sets mode to slow",
        "add/counted in on: sets mode to idle",
        "add/full in on: sets loud to false",
    } <= names


@pytest.mark.parametrize("machine", [SAFE, ORDER, COUNTER])
def test_mutants_are_accepted_by_the_language_and_differ_from_the_original(machine: Machine) -> None:
    """All values in the ranges are tried: one condition holds for them, and no update leaves its range."""
    found = about_data(machine)
    assert len({each.name for each in found}) == len(found) > 0
    for mutant in found:
        event = mutant.machine.events[mutant.event]
        known = {**machine.data, **event.arguments}
        places = {name: place for place, name in enumerate(known)}
        cell, own = (of.events[mutant.event].cells[mutant.state] for of in (mutant.machine, machine))
        assert isinstance(cell, Moves)
        assert cell != own
        for values in product(*(range(each.low, each.high + 1) for each in known.values())):
            ways = [way for way in cell.outcomes if way.when is None or truth(way.when.means, places)(values)]
            assert len(ways) == 1, (mutant.name, values)
            for update in ways[0].updates:
                assert machine.data[update.variable].has(evaluator(update.term, places)(values)), mutant.name


@pytest.mark.parametrize("machine", [SAFE, COUNTER])
def test_the_planned_tests_notice_every_error_in_data_that_can_be_seen(machine: Machine) -> None:
    passing = {
        each.name
        for each in about_data(machine)
        if not conform(machine, lambda of=each: Simulated(of.machine), examples=0, most=1).failures  # type: ignore[misc]
    }
    assert passing == set()
    assert not conform(machine, lambda: Simulated(machine), examples=0).failures


@pytest.mark.slow
def test_the_planned_tests_notice_every_error_in_the_data_of_an_order() -> None:
    for each in about_data(ORDER):
        assert conform(ORDER, lambda of=each: Simulated(of.machine), examples=0, most=1).failures, each.name  # type: ignore[misc]


def test_properties_are_measured() -> None:
    stated = specification("examples/properties/safe.toml")
    names = {each.name for each in about_data(SAFE)}
    found = [each for each in mutation_outcomes(SAFE, stated.properties) if each.mutant.name in names]
    killed = {each.mutant.name for each in found if each.killers}

    assert "enter in locked: failures < 1 instead of failures < 2" in killed
    assert names - killed
