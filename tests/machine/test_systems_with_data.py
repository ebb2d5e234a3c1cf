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
from machines import machine_of
from naive_data import written
from naive_systems import random_trace
from random_data_machines import BEYOND
from random_systems import random_claim_text, system_of
from toy_systems import stated_of
from unrolled_systems import DataJudge, UnrolledSystem, random_system_with_data

import fsm
from fsm.checker import decide
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache
from fsm.errors import InputError
from fsm.machine.driver import CannotHappenError
from fsm.machine.evidence import Proved, Refuted, Vacuous
from fsm.machine.graph import explore
from fsm.machine.guards import DataEffects
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable
from fsm.machine.product.composition import Composition
from fsm.machine.product.crowd import Crowd, NoCrowdError
from fsm.machine.terms import Read
from fsm.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from naive_systems import Seen

    from fsm.machine.product.system import JointEvent, System

SEEDS, JUDGED, TRACES = 100, 40, 5
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


def wrong_verdicts(change: Callable[[System], System] = lambda system: system) -> Iterator[tuple[Seen, ...]]:
    for made in filter(None, map(judged, range(JUDGED))):
        monitor = Monitor(change(made.system), fresh=True)
        for entity, (trace, expected) in enumerate(zip(made.traces, made.expected, strict=True)):
            told = [made.judge.told(seen, f"e{entity}") for seen in trace]
            if next((line for line, seen in enumerate(told) if monitor.observe(seen)), None) != expected:
                yield trace


def test_the_monitor_agrees_with_a_naive_judge() -> None:
    verdicts = [expected is None for made in map(judged, range(JUDGED)) if made for expected in made.expected]

    assert not [*wrong_verdicts()]
    assert min(verdicts.count(True), verdicts.count(False)) > 8


def without_conditions(system: System) -> System:
    events = {
        name: replace(joint, when=None, ways=tuple(replace(way, when=None) for way in joint.ways))
        for name, joint in system.events.items()
    }
    return replace(system, events=events)


def test_a_monitor_without_joint_conditions_is_noticed() -> None:
    assert any(wrong_verdicts(without_conditions))


def test_a_monitor_that_takes_what_cannot_happen_as_unspecified_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemTable, "satisfiable", lambda *_: False)
    assert any(wrong_verdicts())


# -- what a system file may say ----------------------------------------------------------

TILL = """
[machine]
name = "till"
title = "A till"
about = "Holds money."
source = "none"
initial = "open"
[states]
open = { about = "Open." }
[data]
cash = { from = 0, to = 2, saturates = true, shown = true }
coin = { values = ["gold", "iron"] }
[event.take]
kind = "call"
about = "Take money."
arguments = { amount = { from = 0, to = 3, scope = true } }
moves.open = { stays = true, set = { cash = "cash + amount", coin = "gold" } }
"""
TILLS = """
[system]
name = "tills"
title = "Tills"
about = "Three tills."
source = "none"
[part.first]
machine = "till"
[part.till]
machine = "till"
count = 2
[event.twice]
kind = "call"
about = "Take money twice."
when = "first.cash < amount"
steps = ["first.take", "first.take"]
[event.both]
kind = "call"
about = "Take money in both tills, if the first has enough."
when = "first.cash >= amount and no till.cash > first.cash"
steps = ["every till.take", { do = "reset first", when = "every till.cash == 2" }]
"""


def tills() -> System:
    return system_of(TILLS, {"till": machine_of(TILL)})


def test_steps_that_follow_each_other_saturate_in_between() -> None:
    """2 after 0 + 3, and 2 again after 2 + 3: a variable never holds more than its range in between."""
    position = fsm.Driver(tills()).position()
    taken = position.take("twice", amount=3)

    assert position.data == {
        "first.cash": 2,
        "first.coin": "gold",
        **dict.fromkeys(("till.1.cash", "till.2.cash"), 0),
        **dict.fromkeys(("till.1.coin", "till.2.coin"), "gold"),
    }
    assert [each.text for each in taken.updates if each.variable == "first.cash"] == [
        "min(max(first.cash + amount, 0), 2) + amount"
    ]


def test_conditions_of_a_system_compare_variables_of_copies_and_arguments() -> None:
    position = fsm.Driver(tills()).position()
    with pytest.raises(CannotHappenError):
        position.take("twice", amount=0)
    position.take("twice", amount=1)
    with pytest.raises(CannotHappenError):
        position.take("both", amount=3)
    position.take("both", amount=2)

    assert [position.data[f"{name}.cash"] for name in ("first", "till.1", "till.2")] == [0, 2, 2]
    with pytest.raises(CannotHappenError):
        position.take("both", amount=0)


@pytest.mark.parametrize(
    ("claim", "verdict", "steps"),
    [
        ('always = "first.cash <= 2"', Proved, 0),
        ('never = "some till.cash > first.cash"', Refuted, 2),
        ('never = "every till.cash == 2 and first.cash == 1"', Vacuous, 0),
        ('never = "some till.cash == 1 and some till.cash == 2"', Proved, 0),
        ('for = "till"\nalways = "till.cash == 0"', Refuted, 2),
        ('always = "first.coin == gold"', Proved, 0),
        ('reachable = "first.cash == 2 then first.cash == 0"', Proved, 0),
    ],
)
def test_claims_about_systems_compare_variables(claim: str, verdict: type, steps: int) -> None:
    system = tills()
    found = decide(stated_of(system, claim), Cones(system=system)).verdict

    assert isinstance(found, verdict)
    assert getattr(found, "length", 0) == steps


def test_more_copies_than_are_searched_are_unknown() -> None:
    system, fewer = (
        system_of(TILLS.replace("count = 2", f"count = {count}"), {"till": machine_of(TILL)}) for count in (3, 2)
    )
    with pytest.raises(NoCrowdError, match="have data"):
        Crowd(system, fewer, "till")


@pytest.mark.parametrize("kind", ["always", "never", "reachable"])
def test_a_cone_decides_as_the_whole_system_does(kind: str) -> None:
    verdicts = Counter[str]()
    for seed, made in enumerate(trials()):
        chance = random.Random(f"{kind} {seed}")
        try:
            stated = stated_of(made.system, random_claim_text(made.system, chance, (kind,)))
        except InputError:
            continue
        found = decide(stated, Cones(system=made.system)).verdict
        whole = decide(stated, StepCache(SystemTable(made.system))).verdict
        verdicts[type(found).__name__] += 1
        assert type(found) is type(whole)

    assert len(verdicts) > 1
