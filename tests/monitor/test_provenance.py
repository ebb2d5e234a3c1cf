"""Explanations of beliefs agree with a second opinion on the states, derivations and excluded states."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import msgspec
import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import machine_of
from random_machines import random_machine, random_seen, random_trace
from thorough import amount

from fsm.language.library import load
from fsm.machine.findings import Cause
from fsm.machine.table import UNSPECIFIED
from fsm.monitor import Monitor
from fsm.monitor.provenance import Derivation, Provenance, provenance
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fsm.machine import Machine
    from fsm.machine.evidence import UsedCell


def chain(
    machine: Machine, trace: list[Observation], *, fresh: bool = True, seen: frozenset[str] | None = None
) -> Iterator[tuple[tuple[str, ...], list[Provenance]]]:
    """For each observation, yield the states before it and the explanations of the states after it."""
    monitor = Monitor(machine, fresh=fresh, seen=seen)
    for line, each in enumerate(trace, 1):
        before = tuple(state for state in machine.states if state in monitor.states("e"))
        yield before, [*map(provenance, monitor.follow(each, line).get("e", ()))]


def is_possible(machine: Machine, use: UsedCell) -> bool:
    step = use.step
    found = naive.ends(machine, step.source, step.event) if step.ends else naive.ways(machine, step.source, step.event)
    if step.outcome == UNSPECIFIED:
        # Any state may follow a silent cell, and a call may end without a change if the model defines no end for it.
        return found is None or (step.ends and not found and step.source == step.target)
    return any((way.to, way.outcome) == (step.target, step.outcome) for way in found or ())


def is_derivation(machine: Machine, before: Collection[str], derivation: Derivation) -> bool:
    """Check that possible steps lead from a state before the observation to the state of *derivation*."""
    moves = [use for use in derivation.uses if use.known != "confirmed"]
    sources = [use.step.source for use in moves] or [derivation.state]
    targets = [use.step.target for use in moves] or [derivation.state]
    linked = sources[1:] == targets[:-1] and sources[0] in before and targets[-1] == derivation.state
    return linked and all(is_possible(machine, use) for use in derivation.uses)


def random_input(seed: int) -> tuple[Machine, list[Observation], frozenset[str] | None, bool]:
    chance = random.Random(seed)
    machine = random_machine(chance)
    names = {name for event in machine.events.values() for name in (event.name, event.rpc)} | {""}
    trace = [
        msgspec.structs.replace(each, entity="e")
        for each in random_trace(chance, machine, lost=True)
        if each.event in names and (each.event or each.shows or each.phase == "gap")
    ]
    return machine, trace, random_seen(chance, machine), chance.random() < 0.7


def belief_agrees(seed: int) -> int:
    machine, trace, seen, fresh = random_input(seed)
    asking = naive.Asking(machine, seen, once=False)
    opinions = naive.beliefs(asking, trace, fresh=fresh)
    unobserved = 0
    for (before, found), (situations, after), each in zip(
        chain(machine, trace, fresh=fresh, seen=seen), opinions, trace, strict=False
    ):
        if not found:
            assert each.phase == "gap"
            continue
        (one,) = found
        assert one.legal == bool(after)
        unasked = each.phase in {"reply", "lost"} and {here.state for here in situations} == {*machine.states}
        assert unasked or {here.state for here in situations} == {*before}
        explained = {
            state: bool(asking.explains({here for here in situations if here.state == state}, each))
            for state in {here.state for here in situations}
        }
        assert {state for state, legal in explained.items() if not legal} == {each.state for each in one.ruled_out}
        if one.legal:
            assert {here.state for here in after} == {*one.after} == {each.state for each in one.derivations}
        for derivation in one.derivations:
            assert is_derivation(machine, explained, derivation), derivation
            unobserved += any(use.known in {"unobserved", "in progress"} for use in derivation.uses)
        for other in one.ruled_out:
            assert other.clause or other.cause in {None, Cause.STATE}
            assert one.legal or other.clause or other.cause is None
    return unobserved


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=amount(300, night=20_000), deadline=None)
def test_beliefs_are_those_of_the_second_opinion(seed: int) -> None:
    """A second opinion confirms the states around each observation, the states ruled out, and each derivation."""
    with patch("fsm.monitor.provenance.TRIED", 10_000_000):  # the search for derivations usually ends earlier
        belief_agrees(seed)


def test_a_cached_explanation_is_the_one_that_would_be_computed() -> None:
    """A cache serves many entities, so steps with different explanations must have different keys."""
    hits = 0
    for seed in range(60):
        machine, trace, seen, fresh = random_input(seed)
        monitor, known = Monitor(machine, fresh=fresh, seen=seen), dict[object, Provenance]()
        for entity in ("e", "f", "g"):
            for line, each in enumerate(trace, 1):
                for step in monitor.follow(msgspec.structs.replace(each, entity=entity), line).get(entity, ()):
                    size = len(known)
                    assert provenance(step, known) == provenance(step)
                    hits += len(known) == size

    assert hits > 100


def test_unobserved_steps_occur_in_random_derivations() -> None:
    assert sum(map(belief_agrees, range(100))) > 100


DOOR = machine_of("""
[machine]
name = "lift"
title = "A lift"
about = "It rises, and may fail."
source = "none"
initial = "down"
[states]
down = { about = "Down." }
rising = { about = "Rises." }
up = { about = "Up." }
broken = { about = "Broken." }
[event.raise]
kind = "call"
about = "Raise it."
moves.down = { begins = "rising" }
ends.rising = { to = "up" }
refuses = { rising = "BUSY", up = "BUSY" }
silent = ["broken"]
[event.fail]
kind = "hidden"
about = "It breaks."
moves = { up = "broken", rising = "broken" }
cannot = ["down", "broken"]
[event.ring]
kind = "signal"
about = "It rings."
ignores = ["up", "down"]
cannot = ["rising", "broken"]
""")


def explained(*trace: Observation) -> Provenance:
    *_, (_, [last]) = chain(DOOR, list(trace))
    return last


ASKED = Observation(entity="e", event="raise", phase="request")
RAISED = Observation(entity="e", event="raise", reply="ok")
RANG = Observation(entity="e", event="ring")


def told(found: Provenance) -> dict[str, list[tuple[str, str, str, str]]]:
    return {
        each.state: [(use.known, use.step.event, use.step.source, use.step.target) for use in each.uses]
        for each in found.derivations
    }


def test_a_call_in_progress_may_have_acted_and_a_hidden_event_may_have_followed() -> None:
    begun = ("in progress", "raise", "down", "rising")

    assert told(explained(ASKED)) == {
        "down": [],
        "rising": [begun],
        "up": [begun, ("in progress", "raise", "rising", "up")],
        "broken": [begun, ("unobserved", "fail", "rising", "broken")],
    }


def test_a_whole_call_is_observed_with_each_of_its_steps() -> None:
    begun, ended = ("observed", "raise", "down", "rising"), ("observed", "raise", "rising", "up")

    assert told(explained(RAISED)) == {
        "up": [begun, ended],
        "broken": [begun, ended, ("unobserved", "fail", "up", "broken")],
    }


def test_a_signal_rules_out_states_in_which_it_cannot_happen() -> None:
    found = explained(RAISED, RANG)

    assert told(found)["up"] == [("observed", "ring", "up", "up")]
    assert [(each.state, each.cause, bool(each.clause)) for each in found.ruled_out] == [("broken", Cause.EVENT, True)]


def test_a_reply_rules_out_states_in_which_the_call_goes_on() -> None:
    found = explained(ASKED, Observation(entity="e", event="raise", phase="reply", reply="BUSY"))

    assert [(each.state, each.cause, bool(each.clause)) for each in found.ruled_out] == [
        ("down", None, False),
        ("rising", None, False),
        ("up", Cause.REPLY, True),
    ]
    assert (found.after, found.note) == (("broken",), "unspecified")


def test_a_silent_cell_is_named() -> None:
    """A silent cell, which allows anything, is named as the reason only if there is no other reason."""
    found = explained(RAISED, Observation(entity="e", shows="broken"), RAISED)

    assert {each.state for each in found.derivations} == {*DOOR.states}
    assert all(each.uses[0].step.outcome == UNSPECIFIED for each in found.derivations)


def test_an_assumed_restart_is_a_step_of_its_own() -> None:
    machine = load("cri-container")
    trace = [
        Observation(entity="e", event="create", reply="ok"),
        Observation(event="restart", phase="assumed", start=1, end=2),
        Observation(entity="e", shows="CONTAINER_UNKNOWN"),
    ]
    seen = frozenset(event.name for event in machine.events.values() if event.kind == "signal") | {"restart"}
    *_, (_, (assumed, looked)) = chain(machine, trace, seen=seen)

    assert (assumed.event, looked.event) == ("restart", "")
    assert told(assumed)["unknown-created"] == [("unobserved", "restart", "created", "unknown-created")]
    assert looked.needed == (("assumed restart",),)


def test_a_deviation_is_a_reason_only_if_there_is_no_other() -> None:
    machine = load("container-status").under("containerd-1.6")
    stop = Observation(entity="e", event="stop", reply="NOT_FOUND")
    ((_, [found]),) = chain(machine, [stop])

    ((use,),) = [each.uses for each in found.derivations]
    assert (use.deviation.name, use.deviation.profile) == ("stop-of-removed", "containerd-1.6")  # type: ignore[union-attr]
    assert found.needed == (("stop-of-removed",),)


LAMP = """
[machine]
name = "lamp"
title = "A lamp"
about = "It warms up, in time."
source = "none"
initial = "off"
[states]
off = { about = "Off." }
warm = { about = "Warms up." }
on = { about = "On." }
[event.switch]
kind = "signal"
about = "Switch it on."
moves.off = [{ name = "warm", to = "warm", within = 10 }, { name = "on", to = "on" }]
ignores = ["warm", "on"]
[event.blink]
kind = "signal"
about = "It blinks."
ignores = ["off", "warm", "on"]
"""


@pytest.mark.parametrize(("alternative", "legal"), [(', { name = "on", to = "on" }', True), ("", False)])
def test_a_state_that_was_not_left_in_time_is_ruled_out(alternative: str, legal: bool) -> None:  # noqa: FBT001
    machine = machine_of(LAMP.replace(', { name = "on", to = "on" }', alternative))
    trace = [
        Observation(entity="e", event="switch", at=1_000_000_000),
        Observation(entity="e", event="blink", at=20_000_000_000),
    ]
    *_, (before, [found]) = chain(machine, trace)

    assert "warm" in before
    assert [(each.state, each.cause, bool(each.clause)) for each in found.ruled_out] == [
        ("warm", Cause.TIME, not legal)
    ]
    assert found.legal == legal


@pytest.mark.parametrize("defect", ["reversed", "cut", "elsewhere", "another outcome"])
def test_a_wrong_derivation_is_noticed(defect: str) -> None:
    right = next(each for each in explained(ASKED).derivations if each.state == "up")
    first, second = right.uses
    wrong = {
        "reversed": (second, first),
        "cut": (second,),
        "elsewhere": (first, replace(second, step=msgspec.structs.replace(second.step, target="broken"))),
        "another outcome": (first, replace(second, step=msgspec.structs.replace(second.step, outcome="failed"))),
    }[defect]

    assert is_derivation(DOOR, ["down"], right)
    assert not is_derivation(DOOR, ["down"], replace(right, uses=wrong))
