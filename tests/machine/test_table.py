"""Every cell of a table agrees with an independent reading of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import naive
import pytest
from hypothesis import given
from machines import counter, door, job
from random_machines import machines

from fsm.language.library import load, names
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.table import Table, Way


def agree(machine: Machine) -> None:
    table = tabulate(machine)
    for row in table.rows:
        for number, state in enumerate(table.states):
            expected = (
                naive.ends(machine, state, row.event.name) if row.ends else naive.ways(machine, state, row.event.name)
            )
            found = table.step(number, row.index)

            assert expected == (None if found is None else {way_of(table, way) for way in found}), (state, row.name)


def way_of(table: Table, way: Way) -> naive.Way:
    return naive.Way(table.states[way.to], frozenset(way.reply), way.emits, begins=way.begins, outcome=way.name)


@given(machines())
def test_agrees_with_the_cells_of_any_machine(machine: Machine) -> None:
    """The table of a random machine has exactly the steps that the cells of the machine define."""
    agree(machine)


@pytest.mark.parametrize("name", names())
def test_agrees_with_the_cells_of_shipped_machines(name: str) -> None:
    agree(load(name))


@pytest.mark.parametrize(("machine", "profile"), [(load(name), p) for name in names() for p in load(name).profiles])
def test_agrees_with_the_cells_under_a_profile(machine: Machine, profile: str) -> None:
    agree(machine.under(profile))


@given(machines())
def test_numbers_every_way_once(machine: Machine) -> None:
    """Every way is listed at its own index, and its origin is a cell that contains the way."""
    table = tabulate(machine)
    for index, way in enumerate(table.ways):
        row, state = table.origin[index]

        assert index == way.index
        assert way in (table.step(state, row) or ())


@given(machines())
def test_lists_every_cell_once(machine: Machine) -> None:
    """Every event has a cell in every state, and its end has a cell wherever the call may be in progress."""
    table = tabulate(machine)
    met = [(table.rows[row].name, table.states[state]) for row, state in table.defined()]
    cells = {(event.name, state) for event in machine.events.values() for state in machine.states}
    ends = {(f"…{event.name}", state) for event in machine.events.values() for state in event.ends}

    assert cells | ends == set(met)
    assert len(met) == len(set(met))


def test_distinguishes_silent_from_impossible() -> None:
    table = tabulate(door())

    assert table.step(0, table.row["knock"]) is None
    assert () == table.step(table.states.index("gone"), table.row["slam"])


def test_has_a_row_for_the_ends_of_a_call_that_takes_time() -> None:
    table = tabulate(job())
    start, end = table.row["start"], table.end[table.row["start"]]
    at = table.states.index("starting")

    assert (start + 1, "…start") == (end, table.rows[end].name)
    assert ["checks", "failed"] == [way.name for way in table.step(at, end) or ()]
    assert () == table.step(table.states.index("waiting"), end)
    assert table.cell(table.states.index("waiting"), end) is None


@pytest.mark.parametrize(("reply", "fits"), [("ok", False), ("NOT_FOUND", True), ("WHATEVER", True), ("error", True)])
def test_any_error_stands_for_all_of_them(reply: str, fits: bool) -> None:  # noqa: FBT001  (a table's column)
    table = tabulate(job())
    (way,) = table.step(table.states.index("ended"), table.row["start"]) or ()

    assert fits == way.replies(reply)


def test_keeps_the_order_of_the_model() -> None:
    table = tabulate(counter(to=3))

    assert ("n0", "n1", "n2", "n3") == table.states
    assert {"add": 0, "reset": 1} == dict(table.row)
