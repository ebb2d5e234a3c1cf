"""The kinds of states in shipped models agree with their events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from machines import DOOR, edited, machine_of

from fsm.language.library import load, names
from fsm.machine.traversal import closure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine

ONCE_MORE = {
    "nri-container": "a runtime may relay anything at any time, and lists say what they like",
    "nri-pod": "a runtime may relay anything at any time",
    "plugin-container": "a list that is synchronised replaces what a plugin was told",
    "plugin-view": "what is relayed of an id may begin once more",
    "service-run": "Run may be called again",
}
"""The reasons why some final states can become active again without returning to the initial state first."""


def moves(machine: Machine, state: str) -> Iterator[str]:
    """Yield the other states that *state* can change to without an interruption."""
    for event in machine.events.values():
        for ends in (False, True):
            ways = () if event.interrupts else machine.step(state, event.name, ends=ends) or ()
            yield from (way.to for way in ways if way.to != state)


def revived(machine: Machine) -> list[str]:
    def goes_on(state: str) -> Iterator[str]:
        return (to for to in moves(machine, state) if to != machine.initial)

    active = {name for name, state in machine.states.items() if state.kind == "active"}
    final = [name for name, state in machine.states.items() if state.kind == "final"]
    return [name for name in final if any(each in active for each in closure([name], goes_on))]


def stuck(machine: Machine) -> list[str]:
    pending = [name for name, state in machine.states.items() if state.kind == "pending"]
    return [name for name in pending if not any(moves(machine, name))]


@pytest.mark.parametrize("name", names())
def test_final_is_final_and_pending_is_not(name: str) -> None:
    """Final states never become active again and pending states can be left, apart from known exceptions."""
    machine = load(name)

    assert bool(revived(machine)) == (name in ONCE_MORE)
    assert stuck(machine) == []


@pytest.mark.parametrize("name", names())
def test_every_machine_has_a_kind_for_most_states(name: str) -> None:
    """Only the initial state has the kind initial, and at most one state has no kind."""
    machine = load(name)
    kinds = [state.kind for state in machine.states.values()]

    assert [state.name for state in machine.states.values() if state.kind == "initial"] == [machine.initial]
    assert kinds.count(None) <= 1
    assert len({*kinds} - {None}) > 1


def test_a_false_kind_is_found() -> None:
    final = machine_of(edited(DOOR, 'shows = "OPEN"', 'shows = "OPEN", kind = "final"'))
    both = machine_of(
        edited(DOOR, 'shows = "OPEN"', 'shows = "OPEN", kind = "active"')
        .replace('shown as closed.", shows = "CLOSED"', 'shown as closed.", shows = "CLOSED", kind = "final"')
        .replace('"Taken away."', '"Taken away.", kind = "pending"')
    )

    assert (revived(final), stuck(final)) == ([], [])
    assert (revived(both), stuck(both)) == (["ajar"], ["gone"])
