"""Simulated traces are legal, and the same seed yields the same trace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import counter_text, door, edited, job, machine_of
from random_machines import WIDEST, machines

from fsm.language.library import load, names
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor
from fsm.verdict import Fails

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.trace import Observation

SEEDS = st.integers(0, 10_000)
OVERLAPS = st.integers(1, WIDEST)


def simulated(machine: Machine, seed: int, length: int, entities: int = 1, overlap: int = 1) -> list[Observation]:
    return list(simulate(machine, seed=seed, length=length, entities=entities, overlap=overlap))


def accepts(machine: Machine, trace: list[Observation]) -> bool:
    """Return whether the monitor accepts *trace*, which begins before its entities exist."""
    monitor = Monitor(machine, fresh=True)
    monitor.feed(trace, range(1, len(trace) + 1))
    return not isinstance(monitor.judgement().verdict, Fails)


@given(machines(), SEEDS, st.integers(1, 3), OVERLAPS)
def test_every_trace_is_legal(machine: Machine, seed: int, entities: int, overlap: int) -> None:
    """The monitor accepts every simulated trace, including overlapping calls."""
    assert accepts(machine, simulated(machine, seed, 30, entities, overlap))


@given(machines(), SEEDS, OVERLAPS)
def test_every_short_trace_is_legal_by_brute_force(machine: Machine, seed: int, overlap: int) -> None:
    """The naive interpreter, which tries every order, also accepts every short simulated trace."""
    trace = simulated(machine, seed, 4, overlap=overlap)

    assert naive.first_unexplained(machine, trace, fresh=True) is None


@pytest.mark.parametrize("overlap", [1, 2, 3])
@pytest.mark.parametrize("name", names())
def test_every_trace_of_a_shipped_machine_is_legal(name: str, overlap: int) -> None:
    assert accepts(load(name), simulated(load(name), overlap, 150 // overlap, entities=5, overlap=overlap))


@given(machines(), SEEDS)
def test_each_step_is_a_step_of_the_machine(machine: Machine, seed: int) -> None:
    """With one call at a time and no hidden events, every observation follows from the cell of a shown state."""
    if any(event.kind == "hidden" or event.interrupts for event in machine.events.values()):
        return
    here = {machine.initial}
    asked: set[str] = set()
    for each in simulated(machine, seed, 20):
        match each.phase:
            case "request":
                asked = {each.event}
            case "lost":
                asked = set()
                return
            case _:
                reaches = between(machine, here, asked)
                asked -= {each.event}
                here = {state for state in reaches if machine.states[state].shows == each.shows}

        assert here


def between(machine: Machine, here: set[str], asked: set[str]) -> set[str]:
    signals = [event.name for event in machine.events.values() if event.kind == "signal"]
    found = set(here)
    for _ in machine.states:
        for state in tuple(found):
            for event in (*signals, *asked):
                found |= {way.to for way in naive.ways(machine, state, event) or ()}
                found |= {way.to for way in naive.ends(machine, state, event)}
    return found


@given(machines(), SEEDS, OVERLAPS)
def test_the_same_seed_gives_the_same_trace(machine: Machine, seed: int, overlap: int) -> None:
    """So a trace can be reproduced from its seed."""
    first, second = (simulated(machine, seed, 20, 2, overlap) for _ in range(2))

    assert first == second


def test_another_seed_gives_another_trace() -> None:
    assert 10 == len({tuple(map(repr, simulated(door(), seed, 30))) for seed in range(10)})


@given(machines(), SEEDS, st.integers(1, 3), OVERLAPS)
def test_every_request_is_answered_lost_or_interrupted(
    machine: Machine, seed: int, entities: int, overlap: int
) -> None:
    """There are never more calls in progress than requested; without interruptions none is left at the end."""
    waiting: Counter[str] = Counter()
    interrupts = {event.name for event in machine.events.values() if event.interrupts}
    for each in simulated(machine, seed, 30, entities, overlap):
        waiting[each.entity] += {"request": 1, "reply": -1, "lost": -1}.get(each.phase, 0)

        assert waiting[each.entity] <= overlap or interrupts
    assert interrupts or not any(waiting.values())


@pytest.mark.parametrize("length", [0, 1, 7, 100])
def test_is_as_long_as_asked(length: int) -> None:
    trace = simulated(door(), 1, length, entities=2, overlap=2)

    assert length <= len(trace) <= length + 4
    assert all(each.phase in {"reply", "lost"} for each in trace[length:])


def test_names_entities_after_the_machine() -> None:
    trace = simulated(job(), 1, 60, entities=3)

    assert {"task-1", "task-2", "task-3"} == {each.entity for each in trace}
    assert {"task"} == {each.of for each in trace}


def test_uses_every_outcome_in_the_end() -> None:
    seen = {(each.event, each.reply) for each in simulated(job(), 1, 3_000, entities=20, overlap=2)}
    expected = {
        ("make", "ok"), ("make", "EXISTS"), ("make", "BUSY"), ("start", "ok"), ("start", "UNKNOWN"),
        ("start", "NOT_FOUND"), ("exit", ""), ("crash", ""),
    }  # fmt: skip

    assert expected <= seen
    assert "warp" not in {each.event for each in simulated(door(), 1, 300)}


SILENT = edited(
    edited(counter_text(to=1), 'n0 = { to = "n1", emits = ["tick"] }', 'n0 = "n1"'),
    'refuses = { n1 = "FULL" }',
    'silent = ["n1"]',
).replace('moves   = { "*" = "n0" }\nignores = ["n0"]', 'silent  = ["*"]')
HIDDEN = f"""{SILENT}
[event.hum]
kind    = "hidden"
about   = "It is not observed."
ignores = ["*"]
"""


@pytest.mark.parametrize("text", [SILENT, HIDDEN], ids=["silent", "hidden"])
def test_ends_where_nothing_more_can_be_observed(text: str) -> None:
    trace = simulated(machine_of(text), 1, 100, entities=3)

    assert {"request": 3, "reply": 3} == Counter(each.phase for each in trace)
