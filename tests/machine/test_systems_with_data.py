"""Systems whose parts have data do what the same systems without data do, in which states carry the values."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from brute_force.steps import Configuration, SystemModel
from naive_data import written
from naive_systems import random_trace
from random_data_machines import BEYOND
from unrolled_systems import DataJudge, UnrolledSystem, random_system_with_data

from fsm.machine.graph import explore
from fsm.machine.guards import DataEffects
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable
from fsm.machine.product.composition import Composition
from fsm.machine.terms import Read
from fsm.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from naive_systems import Seen

    from fsm.machine.product.system import JointEvent, System

SEEDS, TRACES = 100, 8
FEWEST, LARGEST = 6, 300
"""The minimum and maximum number of configurations of a random system."""


class Trial(NamedTuple):
    """A random system and the same system without data, with the steps of its reachable configurations."""

    system: System
    unrolled: UnrolledSystem
    steps: dict[Configuration, set[object]]


@cache
def trial(seed: int) -> Trial | None:
    system = random_system_with_data(random.Random(f"systems with data {seed}"))
    if system is None or max(len(way.steps) for joint in system.events.values() for way in joint.ways) > 5:
        return None
    unrolled = UnrolledSystem(system)
    found = steps_in_scope(unrolled)
    return Trial(system, unrolled, found) if found and len(found) >= FEWEST else None


def trials() -> Iterator[Trial]:
    return filter(None, map(trial, range(SEEDS)))


def steps_in_scope(unrolled: UnrolledSystem) -> dict[Configuration, set[object]] | None:
    """Return the steps with arguments and values in their scopes."""
    model = SystemModel(unrolled.plain)
    wide = {name for name, joint in unrolled.plain.events.items() if f"a={BEYOND}" in name}
    beyond = {
        (copy.digit, state)
        for copy in unrolled.system.copies
        for state, values in unrolled.parts[copy.part].values.items()
        if values.get("t") == BEYOND
    }
    steps: dict[Configuration, set[object]] = {}
    going = [model.initial]
    for here in going:  # the list grows
        if len(steps) > LARGEST:
            return None
        steps[here] = set()
        for step in model.steps(here):
            if step.event in wide or step.unwritten:
                continue
            if any((digit, state) in beyond for digit, (state, _) in enumerate(step.target)):
                continue
            steps[here].add((step.event, step.outcome, frozenset(step.among), step.emits, step.target))
            if step.target not in steps and step.target not in going:
                going.append(step.target)
    return steps


def located(table: SystemTable, state: int) -> Configuration:
    values, found = iter(table.values(state)), []
    for copy, local in zip(table.system.copies, table.locals(state), strict=False):
        part, data = table.table_of(copy.part), table.system.parts[copy.part].machine.data.values()
        now = {each.name: each.written(value) for each in data if (value := next(values)) is not None}
        calls = part.calls(local) if isinstance(part, InProgress) else ()
        begun = tuple(sorted(written(part.rows[call].event.name, {}) for call in calls))
        found.append((written(part.states[local], now), begun))
    return tuple(found)


def taken_steps(system: System) -> dict[Configuration, set[object]]:
    table = SystemTable(system)
    graph = explore(table)
    found: dict[Configuration, set[object]] = {located(table, state): set() for state in graph.depth}
    for each in graph.transitions:
        way, event = each.way, table.rows[each.row].event
        for given in way.given or [()]:
            ranges = [
                [value] if value is not None else range(of.low, of.high + 1)
                for of, value in zip(event.arguments.values(), given, strict=True)
            ]
            for values in product(*ranges):
                named = zip(event.arguments.items(), values, strict=True)
                name = written(event.name, {each: of.written(value) for (each, of), value in named})
                step = name, way.name, frozenset(way.reply), way.emits, located(table, way.to)
                found[located(table, each.source)].add(step)
    return found


def differences() -> int:
    return sum(taken_steps(made.system) != made.steps for made in trials())


def test_a_system_does_what_the_same_system_without_data_does() -> None:
    """The configurations and steps are the same, and steps out of a scope are left out."""
    kinds = Counter(
        word
        for made in trials()
        for word, there in {
            "arguments": any(joint.arguments for joint in made.system.events.values()),
            "conditions": any(
                condition is not None
                for joint in made.system.events.values()
                for condition in (joint.when, *(way.when for way in joint.ways))
            ),
            "copies": any(len(part.copies) > 1 for part in made.system.parts.values()),
            "calls": any(calls for here in made.steps for _, calls in here),
        }.items()
        if there
    )

    assert differences() == 0
    assert min(kinds.values()) > 5, kinds


def test_a_composition_that_forgets_earlier_steps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Composition, "_value", lambda _self, _run, name: Read(name=name))
    assert differences()


def test_a_search_that_does_not_test_guards_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    after = DataEffects._after  # noqa: SLF001

    def unguarded(self: DataEffects, way: object, row: int, frame: tuple[int, ...]) -> object:
        return after(self, way, row, frame) or frame[: len(self.variables)]  # type: ignore[arg-type]

    monkeypatch.setattr(DataEffects, "_after", unguarded)
    assert differences()


# -- as one machine --------------------------------------------------------------------


class Judged(NamedTuple):
    """A random system with traces, and the number of the first illegal line of each."""

    system: System
    judge: DataJudge
    traces: tuple[tuple[Seen, ...], ...]
    expected: tuple[int | None, ...]


def hidden_events(chance: random.Random, system: System) -> System:
    def hidden(joint: JointEvent) -> JointEvent:
        hides = joint.kind == "signal" and not joint.arguments and chance.random() < 0.3
        return replace(joint, kind="hidden") if hides else joint

    return replace(system, events={name: hidden(joint) for name, joint in system.events.items()})


@cache
def judged(seed: int) -> Judged | None:
    if (made := trial(seed)) is None:
        return None
    chance = random.Random(f"judged {seed}")
    system = hidden_events(chance, made.system)
    judge = DataJudge(UnrolledSystem(system))
    traces = tuple(tuple(judge.specified(random_trace(chance, judge))) for _ in range(TRACES))
    return Judged(system, judge, traces, tuple(map(judge.first_illegal, traces)))


def wrong_verdicts(change: Callable[[System], System] = lambda system: system) -> int:
    found = 0
    for made in filter(None, map(judged, range(SEEDS))):
        monitor = Monitor(change(made.system), fresh=True)
        for entity, (trace, expected) in enumerate(zip(made.traces, made.expected, strict=True)):
            told = [made.judge.told(seen, f"e{entity}") for seen in trace]
            found += next((line for line, seen in enumerate(told) if monitor.observe(seen)), None) != expected
    return found


def test_the_monitor_agrees_with_a_naive_judge() -> None:
    verdicts = [expected is None for made in map(judged, range(SEEDS)) if made for expected in made.expected]

    assert wrong_verdicts() == 0
    assert min(verdicts.count(True), verdicts.count(False)) > 30


def without_conditions(system: System) -> System:
    events = {
        name: replace(joint, when=None, ways=tuple(replace(way, when=None) for way in joint.ways))
        for name, joint in system.events.items()
    }
    return replace(system, events=events)


def test_a_monitor_without_joint_conditions_is_noticed() -> None:
    assert wrong_verdicts(without_conditions)


def test_a_monitor_that_takes_what_cannot_happen_as_unspecified_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemTable, "satisfiable", lambda *_: False)
    assert wrong_verdicts()
