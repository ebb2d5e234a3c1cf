"""Small systems are judged, driven and simulated as one machine."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_systems import NaiveJudge, Seen, random_trace
from random_systems import is_small, random_text, system_of, with_more_words

import fsm
from fsm.errors import InputError
from fsm.machine.driver import CannotHappenError, Driver
from fsm.machine.findings import Illegal
from fsm.machine.product.system import JointMove
from fsm.monitor import Monitor
from fsm.trace import Observation, shown_parts, shown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brute_force.steps import Configuration

    from fsm.machine.product.system import System

TRACES = 10
SEEDS = 30


class Trial(NamedTuple):
    """A random system with random traces, some of which a naive judge finds illegal."""

    system: System
    judge: NaiveJudge
    traces: tuple[tuple[Seen, ...], ...]
    expected: tuple[int | None, ...]
    """For each trace, the number of the first illegal line, or ``None``."""


def hidden_events(chance: random.Random, text: str) -> str:
    """Return *text* with some signals hidden."""
    lines = text.split("\n")
    return "\n".join('kind = "hidden"' if '"signal"' in line and chance.random() < 0.3 else line for line in lines)


@cache
def trial(seed: int) -> Trial | None:
    chance = random.Random(f"joint {seed}")
    text, machines = random_text(chance)
    text = with_more_words(chance, text, machines) if chance.random() < 0.5 else text
    try:
        system = system_of(hidden_events(chance, text), machines)
    except InputError:
        return None
    if not is_small(system, states=150, moves=5):
        return None
    judge = NaiveJudge(system)
    traces = tuple(random_trace(chance, judge) for _ in range(TRACES))
    return Trial(system, judge, traces, tuple(map(judge.first_illegal, traces)))


def trials() -> Iterator[Trial]:
    return filter(None, map(trial, range(SEEDS)))


def first_illegal(monitor: Monitor, entity: str, trace: tuple[Seen, ...]) -> int | None:
    for number, seen in enumerate(trace):
        told = Observation(
            entity=entity, event=seen.event, reply=seen.reply, shows=shown_text(seen.shows), emits=seen.emits
        )
        if monitor.observe(told):
            return number
    return None


def disagreements(change: Callable[[System], System] = lambda system: system) -> int:
    """Return in how many traces of random systems the monitor's first violation is not that of the naive judge.

    The monitor is told that the system is ``change(system)``.
    """
    found = 0
    for made in trials():
        monitor = Monitor(change(made.system), fresh=True)
        answers = [first_illegal(monitor, f"e{number}", trace) for number, trace in enumerate(made.traces)]
        found += sum(answer != expected for answer, expected in zip(answers, made.expected, strict=True))
    return found


def test_the_monitor_agrees_with_a_naive_judge() -> None:
    """The first illegal line is the same, in traces with partly shown states, hidden events and wrong lines."""
    verdicts = [expected is None for made in trials() for expected in made.expected]

    assert disagreements() == 0
    assert verdicts.count(True) > 50
    assert verdicts.count(False) > 50


def without_conditions(system: System) -> System:
    events = {
        name: replace(joint, when=None, ways=tuple(replace(way, when=None) for way in joint.ways))
        for name, joint in system.events.items()
    }
    return replace(system, events=events)


def without_errors(system: System) -> System:
    """No error ends a joint event."""
    events = {
        name: replace(
            joint,
            ways=tuple(
                replace(way, steps=tuple(replace(step, goes_on=True) for step in way.steps)) for way in joint.ways
            ),
        )
        for name, joint in system.events.items()
    }
    return replace(system, events=events)


CHANGES = pytest.mark.parametrize("change", [without_conditions, without_errors])


@CHANGES
def test_a_wrong_system_is_noticed(change: Callable[[System], System]) -> None:
    """The differential test fails if conditions of joint events are dropped, or errors do not end them."""
    assert disagreements(change)


def test_a_judge_that_blames_silence_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The differential test fails if what a part is silent about cannot happen."""
    monkeypatch.setattr(JointMove, "unspecified", lambda _move, _local: False)
    assert disagreements()


def illegal_simulations(change: Callable[[System], System] = lambda system: system) -> int:
    """Return how many traces that were simulated from ``change(system)`` are illegal for the system."""
    found = 0
    for number, made in enumerate(trials()):
        monitor = Monitor(made.system, fresh=True)
        for line, seen in enumerate(fsm.simulate(change(made.system), seed=number, length=40, overlap=2, entities=2)):
            monitor.feed([seen], [line])
        found += isinstance(monitor.judgement().verdict, Illegal)
    return found


def test_simulated_traces_are_legal() -> None:
    assert illegal_simulations() == 0


@CHANGES
def test_simulated_traces_of_a_wrong_system_are_not_all_legal(change: Callable[[System], System]) -> None:
    assert illegal_simulations(change)


@given(st.dictionaries(st.from_regex(r"[a-z0-9.-]+", fullmatch=True), st.text(), min_size=1), st.randoms())
def test_a_text_has_what_its_mapping_has(shows: dict[str, str], chance: random.Random) -> None:
    """Any text can be a value. The order of parts does not matter, and a part that is named twice is no mapping."""
    parts = [*shows]
    chance.shuffle(parts)
    text = shown_text({part: shows[part] for part in parts})

    assert shown_parts(text) == shows
    assert shown_text(text) == text
    assert shown_parts(f"{text} {text}") == {}
    assert shown_parts(f"{text} and more") == {}


def joint_name(system: System, here: Configuration) -> str:
    return " ".join(f"{copy.name}={state}" for copy, (state, _) in zip(system.copies, here, strict=True))


def driver_differences(change: Callable[[System], System] = lambda system: system) -> int:
    """Return for how many joint states and events the driver does not offer what the naive interpreter does."""
    found = 0
    for made in trials():
        if any(calls for each in made.judge.configurations for _, calls in each):
            continue
        driver = Driver(change(made.system))
        for here in made.judge.configurations:
            at, steps = joint_name(made.system, here), made.judge.steps(here)
            for event in made.system.events if at in driver.machine.states else ():
                own = [step for step in steps if step.event == event]
                expected = {(joint_name(made.system, step.target), step.among, step.emits) for step in own}
                found += offered(driver, at, event) != expected
            found += at not in driver.machine.states
    return found


def offered(driver: Driver, at: str, event: str) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    try:
        outcomes = driver.position(at).outcomes(event)
    except CannotHappenError:
        return set()
    assert len({each.name for each in outcomes}) == len(outcomes)
    for each in outcomes:
        position = driver.position(at)
        assert position.take(event, each.name).to == position.state
        assert shown_parts(position.shows) == driver.machine.states[each.to].parts
    return {(each.to, each.reply, each.emits) for each in outcomes}


def test_the_driver_agrees_with_a_naive_interpreter() -> None:
    assert driver_differences() == 0


@CHANGES
def test_a_driver_of_a_wrong_system_is_noticed(change: Callable[[System], System]) -> None:
    assert driver_differences(change)
