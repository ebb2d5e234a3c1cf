"""Every table of a shipped model equals the stored table, cell by cell.

If a change to the layout of a model file also changes its meaning, a test fails.

``tests/models/tables.json.gz`` contains all machines and systems, with each of their profiles, and all property
files, as they are after building.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from built_tables import AGAIN, differences, machine_table, normal_form, property_table, stored, system_table, tables

from fsm.language.build.grammar import MachineGrammar
from fsm.language.library import claims, load, load_system
from fsm.machine import Ignores, Refuses
from fsm.machine.claims import Always, is_of
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from built_tables import Data

STORED = stored()


@cache
def _built() -> dict[str, Data]:
    return tables()


def test_each_table_is_stored() -> None:
    assert sorted(STORED) == sorted(_built()), AGAIN


@pytest.mark.parametrize("name", STORED)
def test_is_cell_by_cell_as_stored(name: str) -> None:
    assert [] == list(differences(STORED[name], _built()[name], name)), AGAIN


def test_a_cell_that_differs_is_named() -> None:
    machine = load("container-status")
    stop = machine.events["stop"]
    own = stop.cells["absent"]
    assert isinstance(own, Ignores)
    cells = {**stop.cells, "absent": Refuses(codes=("NOT_FOUND",), clause=own.clause)}
    changed = replace(machine, events={**machine.events, "stop": replace(stop, cells=cells)})

    found = list(differences(machine_table(machine), machine_table(changed)))

    assert ['events / stop / cells / absent / is: was "Ignores" and is "Refuses"'] == found[:1]
    assert all(each.startswith("events / stop / cells / absent") for each in found)


def test_an_override_that_is_lost_is_named() -> None:
    machine = load("container-status")
    profile = machine.profiles["containerd-1.6"]
    fewer = replace(profile, overrides=tuple(each for each in profile.overrides if each.name != "stop-of-removed"))
    changed = replace(machine, profiles={**machine.profiles, "containerd-1.6": fewer})

    found = list(differences(machine_table(machine), machine_table(changed)))

    assert [
        "profiles / containerd-1.6 / overrides / stop: stop-of-removed: absent, skipped-created, skipped-exited, skipped-running: is missing"
    ] == found


def test_a_step_that_differs_is_named() -> None:
    system = load_system("nri-setup")
    joint = system.events["set-up"]
    shorter = replace(joint, ways=(replace(joint.ways[0], steps=joint.ways[0].steps[:1]), *joint.ways[1:]))
    changed = replace(system, events={"set-up": shorter})

    (found,) = differences(system_table(system), system_table(changed))

    assert found.startswith("events / set-up / ways / started / steps: was ")


def test_a_claim_that_differs_is_named() -> None:
    stated = claims("pod-records")
    assert is_of(stated, System)
    first = stated.properties[0]
    assert isinstance(first.claim, Always)
    changed = replace(first, claim=replace(first.claim, when=None))

    (found,) = differences(
        property_table(stated), property_table(replace(stated, properties=(changed, *stated.properties[1:])))
    )

    assert found.startswith("properties / failed-run-leaves-no-entry / claim / when: was ")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("not (running or exited)", "not running and not exited", True),
        ("was running or was exited", "was exited or (was running)", True),
        ("stop and (moves and running)", "running and stop and moves", True),
        ("not (stop and moves)", "not stop or stays", True),
        ("running or exited", "running", False),
        ("was running", "running", False),
        ("stop and moves", "stop or moves", False),
        ("emits nothing", "not emits nothing", False),
    ],
)
def test_spellings_of_one_condition_are_equal(one: str, other: str, *, same: bool) -> None:
    machine = load("container-status")

    forms = [
        normal_form(MachineGrammar(text=text, machine=machine).condition().means, machine) for text in (one, other)
    ]

    assert (forms[0] == forms[1]) is same
