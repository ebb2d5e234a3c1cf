"""Parts that wait for each other are found, both in known deadlocks and in every state of two systems."""

from __future__ import annotations

from itertools import product as every

import pytest

from fsm.language.library import load_system
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import WaitsFor, waiting

DEADLOCKS = [
    (
        "nri-locks",
        {"call": "has-one", "update": "has-one"},
        [("call", "call-asks", ("update",)), ("update", "update-is-made", ("call",))],
    ),
    (
        "plugin-sync",
        {"call.1": "waiting-within", "plugin": "waiting"},
        [("plugin", "is-synchronised", ("call.1",)), ("call.1", "goes-on.1", ("plugin",))],
    ),
]


@pytest.mark.parametrize(("name", "states", "expected"), DEADLOCKS, ids=[each[0] for each in DEADLOCKS])
def test_a_deadlock(name: str, states: dict[str, str], expected: list[tuple[str, str, tuple[str, ...]]]) -> None:
    assert list(waiting(load_system(name), states)) == [WaitsFor(*each) for each in expected]


@pytest.mark.parametrize(("name", "states"), [each[:2] for each in DEADLOCKS], ids=[each[0] for each in DEADLOCKS])
def test_what_can_go_on_does_not_wait(name: str, states: dict[str, str]) -> None:
    system = load_system(name)

    for copy, state in states.items():
        assert list(waiting(system, {copy: state})) == []


def test_only_what_has_to_happen_counts() -> None:
    """A plugin that waits for its own update is deadlocked only if there is no timeout."""
    system, states = load_system("plugin-updates"), {"asked": "sent", "update": "sent", "plugin": "joined"}

    assert list(waiting(system, states)) == []
    assert list(waiting(system, states, ["answers", "update-is-made", "plugin-reads"])) == [
        WaitsFor("asked", "answers", ("update",)),
        WaitsFor("update", "update-is-made", ("asked",)),
    ]


@pytest.mark.parametrize("name", ["nri-locks", "plugin-sync"])
def test_what_waits_has_begun_and_cannot_go_on(name: str) -> None:
    system = load_system(name)
    table = SystemTable(system)
    machines = [table.table_of(copy.part) for copy in system.copies]
    met = 0
    for here in every(*(range(len(each.states)) for each in machines)):
        states = {copy.name: machines[copy.digit].states[here[copy.digit]] for copy in system.copies}
        moved = {digit for row in table.joint for *_, to in table.effects(here, row.joint.name) for digit, _ in to}
        able = {copy.name for copy in system.copies if copy.digit in moved}
        resting = {copy.name for copy in system.copies if states[copy.name] == system.parts[copy.part].initial}
        found = list(waiting(system, states))
        met += bool(found)
        assert {each.copy for each in found}.isdisjoint(able | resting)
        assert all(each.others and each.copy not in each.others for each in found)
    assert met
