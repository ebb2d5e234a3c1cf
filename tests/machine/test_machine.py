"""A machine has outcomes for its events, and a profile can change the outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from machines import DOOR, door, job, machine_of

from fsm.language.library import load, names
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from fsm.machine import Machine

MACHINES = [each for name in names() for each in (load(name), *map(load(name).under, load(name).profiles))]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_step_is_a_step_of_the_table(machine: Machine) -> None:
    table = tabulate(machine)

    for row in table.rows:
        for number, state in enumerate(table.states):
            found, ways = machine.step(state, row.event.name, ends=row.ends), table.step(number, row.index)
            assert (ways is None) == (found is None)
            assert [(way.name, table.states[way.to], way.reply, way.emits) for way in ways or ()] == [
                (each.name, each.to, each.reply, each.emits) for each in found or ()
            ]


def test_a_silent_cell_is_not_one_in_which_nothing_can_happen() -> None:
    machine = load("sandbox-controller")

    assert (None, ()) == (machine.step("ready", "start"), machine.step("ready", "handle"))


@pytest.mark.parametrize(
    ("state", "event", "message"),
    [
        ("bent", "push", "door has no state 'bent'; it has shut, open, ajar, gone"),
        ("shut", "kick", "door has no event 'kick'; it has push, remove, knock, slam, warp"),
    ],
)
def test_a_step_names_what_the_machine_has(state: str, event: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        door().step(state, event)


def test_only_a_call_in_progress_has_an_end() -> None:
    machine = job()

    assert ["starting", "checking"] == [state for state in machine.states if machine.step(state, "start", ends=True)]
    assert () == machine.step("absent", "start", ends=True)


def test_profiles_combine() -> None:
    """Profiles combine in any order.

    Replacements of cells are applied first, and deviations are added afterwards.
    """
    new = '[profile.new]\nabout = "."\n[profile.new.cell.oiled]\nevent = "push"\nabout = "."\n'
    machine = machine_of(DOOR + new + 'moves = { shut = { to = "open", emits = ["Creak"] } }\n')

    for name in ("old+new", "new+old"):
        under = machine.under(name)
        assert [(way.name, way.to) for way in under.step("shut", "push") or ()] == [
            ("done", "open"),
            ("lock-jams", "shut"),
        ]
        assert [way.to for way in under.step("ajar", "push") or ()] == ["open"]
        assert under.profile == name
    assert machine.profiled("old+none") is None


def test_without_a_profile_a_machine_is_as_it_is() -> None:
    machine = door()

    assert machine.under(None) is machine
