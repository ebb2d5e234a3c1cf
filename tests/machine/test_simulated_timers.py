"""Simulations of machines with timers have times, and the monitor finds them legal."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import random_timers
from machines import machine_of

from fsm.language.library import load
from fsm.machine import Machine
from fsm.machine.findings import Illegal
from fsm.machine.simulation import simulate
from fsm.monitor import Monitor
from fsm.trace import Observation, seen_at


def is_illegal(machine: Machine, trace: list[Observation]) -> bool:
    monitor = Monitor(machine, fresh=True, every=True)
    monitor.feed(trace, range(1, len(trace) + 1))
    return isinstance(monitor.judgement().verdict, Illegal)


def simulated(of: random_timers.TimedMachine, seed: int) -> list[Observation]:
    return [*simulate(machine_of(of.model()), seed=seed, length=60, entities=1 + seed % 3, overlap=1 + seed % 2)]


@pytest.mark.parametrize("second", [0, 7])
def test_simulated_traces_are_legal_and_their_times_increase(second: int) -> None:
    fired = 0
    for seed in range(60):
        of = replace(random_timers.machine(random.Random(seed)), second=second)
        trace = simulated(of, seed)
        times = [seen_at(each) for each in trace]
        assert None not in times
        assert times == sorted(times, key=lambda time: time or 0)
        assert not is_illegal(machine_of(of.model()), trace), of.model()
        fired += sum(each.event in {"fire", "late"} for each in trace)
    assert fired > 300


@pytest.mark.parametrize("change", [-5, 5])
def test_traces_of_a_machine_with_another_time_are_often_illegal(change: int) -> None:
    illegal = 0
    for seed in range(60):
        of = replace(random_timers.machine(random.Random(seed)), tolerance=0, restarts="")
        other = replace(of, after=max(1, of.after + change))
        illegal += is_illegal(machine_of(of.model()), simulated(other, seed))
    assert illegal > 20


def test_machines_without_timers_have_no_times() -> None:
    assert {seen_at(each) for each in simulate(load("examples/models/door.toml"), seed=1)} == {None}
