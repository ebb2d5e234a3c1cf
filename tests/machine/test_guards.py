"""Conditions on data are parsed, evaluated and solved as a simple enumeration does."""

from __future__ import annotations

import random
from itertools import product

import pytest
from brute_force.data import DataModel, Given, data_of, evaluated, in_domain, possible, updated
from brute_force.steps import outcomes_of
from machines import SAFE, machine_of
from random_data import NUMBERS, random_condition, random_data_machine, random_term

from fsm.language.build.grammar import ConditionError, GuardGrammar
from fsm.language.library import load
from fsm.language.write import toml
from fsm.machine import Cell, Moves
from fsm.machine.conditions import All, Compare, Not, Some, truth, truth_within
from fsm.machine.driver import CannotHappenError, Driver
from fsm.machine.guards import consistent, may_agree, solution
from fsm.machine.terms import Constant, Read, Value, Variable, bounds, evaluator

CASES = 3_000
DATA = {
    each.name: each
    for each in (
        Variable(name="n", high=2),
        Variable(name="m", low=-1, high=1, initial=-1),
        Variable(name="x", high=3),
        Variable(name="b", truth=True),
        Variable(name="c", truth=True),
        Variable(name="w", words=("red", "blue", "grey"), high=2),
        Variable(name="v", words=("red", "blue", "grey"), high=2),
    )
}


def names_for(chance: random.Random) -> list[str]:
    return chance.sample(sorted(DATA), chance.randint(1, 4))


def frames(names: list[str]) -> list[dict[str, int]]:
    ranges = (range(DATA[name].low, DATA[name].high + 1) for name in names)
    return [dict(zip(names, values, strict=True)) for values in product(*ranges)]


def naive(text: str, frame: dict[str, int]) -> object:
    return evaluated(text, {name: DATA[name].written(value) for name, value in frame.items()})


@pytest.mark.parametrize("part", range(4))
def test_conditions_are_parsed_evaluated_and_solved_as_by_enumeration(part: int) -> None:
    met = {True: 0, False: 0}
    for number in range(CASES // 4):
        chance = random.Random(f"{part}/{number}")
        names = names_for(chance)
        text = random_condition(chance, names, 3)
        means = GuardGrammar(text=text, data=DATA).condition().means
        test = truth(means, {name: place for place, name in enumerate(names)})
        solutions = []
        for frame in frames(names):
            expected = naive(text, frame)
            assert expected == test(tuple(frame.values())), (text, frame)
            assert expected == truth_within(means, {name: (value, value) for name, value in frame.items()}), text
            solutions += [frame] if expected else []
        found = solution(means, ranges := {name: (DATA[name].low, DATA[name].high) for name in names})
        assert not solutions or consistent(means, ranges), text
        met[found is not None] += 1
        assert (found is None) == (not solutions), text
        assert found is None or any(found.items() <= frame.items() for frame in solutions), text

    assert min(met.values()) > CASES // 100


def test_a_range_decides_only_what_is_the_same_in_all_of_it() -> None:
    decided = 0
    for number in range(CASES):
        chance = random.Random(number)
        names = names_for(chance)
        text = random_condition(chance, names, 2)
        means = GuardGrammar(text=text, data=DATA).condition().means
        box = {}
        for name in names:
            low, high = sorted(chance.choices(range(DATA[name].low, DATA[name].high + 1), k=2))
            box[name] = (low, high)
        inside = [each for each in frames(names) if all(low <= each[name] <= high for name, (low, high) in box.items())]
        if (found := truth_within(means, box)) is not None:
            decided += 1
            assert {found} == {naive(text, frame) for frame in inside}, (text, box)

    assert decided > CASES // 4


def test_an_unknown_value_decides_only_what_is_the_same_for_all_its_values() -> None:
    decided = unknown = 0
    for number in range(CASES):
        chance = random.Random(number)
        names = names_for(chance)
        text = random_condition(chance, names, 2)
        means = GuardGrammar(text=text, data=DATA).condition().means
        hidden = set(chance.sample(names, chance.randint(1, len(names))))
        known = chance.choice(frames(names))
        values: tuple[Value, ...] = tuple(None if name in hidden else known[name] for name in names)
        found = truth(means, {name: place for place, name in enumerate(names)})(values)
        alike = [
            each for each in frames(names) if all(each[name] == known[name] for name in names if name not in hidden)
        ]
        results = {naive(text, frame) for frame in alike}
        if found is None:
            unknown += 1
        else:
            decided += 1
            assert results == {found}, (text, values)

    assert min(decided, unknown) > CASES // 20


def test_terms_have_the_values_of_python_and_stay_in_their_bounds() -> None:
    for number in range(CASES):
        chance = random.Random(number)
        names = [name for name in sorted(NUMBERS & DATA.keys()) if chance.random() < 0.7] or ["n"]
        text = random_term(chance, names, 3)
        term = GuardGrammar(text=text, data=DATA).term(())
        low, high = bounds(term, {name: (DATA[name].low, DATA[name].high) for name in names})
        evaluate = evaluator(term, {name: place for place, name in enumerate(names)})
        for frame in frames(names):
            value = evaluate(tuple(frame.values()))
            assert value is not None
            assert value == naive(text, frame)
            assert low <= value <= high


def compare(name: str, value: int) -> Compare:
    return Compare(comparison="==", left=Read(name=name), right=Constant(value=value))


PARSED = [
    ("n == 1", compare("n", 1)),
    ("not n == 1 and b", All(of=(Not(of=compare("n", 1)), compare("b", 1)))),
    ("n == 1 or m == 0 and b", Some(of=(compare("n", 1), All(of=(compare("m", 0), compare("b", 1)))))),
    ("(n == 1 or m == 0) and b", All(of=(Some(of=(compare("n", 1), compare("m", 0))), compare("b", 1)))),
    ("w == grey", compare("w", 2)),
    ("b == false", compare("b", 0)),
    ("m == -1", compare("m", -1)),
    ("n==1", compare("n", 1)),
]


@pytest.mark.parametrize(("text", "means"), PARSED)
def test_operators_bind_as_written(text: str, means: object) -> None:
    assert means == GuardGrammar(text=text, data=DATA).condition().means


@pytest.mark.parametrize(
    "text",
    [
        "n == red",
        "w == 1",
        "w < blue",
        "b + 1 == 2",
        "b == 1",
        "w == b",
        "n == b",
        "min(w, 1) == 1",
        "n",
        "w",
        "green == w",
        "w == green",
        "n === 1",
        "n == 1 == 2",
        "n < 1 < 2",
        "n == 1)",
        "min(n, 1, 2) == 1",
        "min == 1",
        "n == --1",
        "n == 1.5",
        "n == 0x1",
        "n == '1'",
        "n ** 2 == 1",
        "__import__ == n",
        "n == １",  # noqa: RUF001  (a digit, but not of ASCII)
        "n == 1 \x00",
        "(" * 100_000,
        "not " * 100_000 + "b",
        "min(" * 100_000,
        "n" + " + n" * 100_000 + " == 1",
        "n == " + "9" * 10_000,
    ],
    ids=lambda text: text[:20],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        GuardGrammar(text=text, data=DATA).condition()


def test_large_ranges_are_decided_without_enumeration() -> None:
    ranges = dict.fromkeys("nmx", (-(10**15), 10**15))
    text = "n < m or n == m or n > m"
    covered = GuardGrammar(text=text, data=DATA).condition().means

    assert solution(Not(of=covered), ranges) is None
    sums = {"n": (0, 20_000), "m": (1, 20_000), "x": (0, 20_000)}
    for text, expected in (("n + m < x and n + m > 20000", False), ("n + m < x and n + m > 19998", True)):
        means = GuardGrammar(text=text, data=DATA).condition().means
        assert consistent(means, sums) == expected
        assert (solution(means, sums) is not None) == expected
    found = solution(GuardGrammar(text="n == 123456789 and m > 5", data=DATA).condition().means, ranges)
    assert found is not None
    assert found["n"] == 123456789
    assert found["m"] > 5


def test_arguments_agree_if_none_is_known_to_differ() -> None:
    assert may_agree([(1, None)], [(None, 2)])
    assert not may_agree([(1, 2)], [(1, 3), (0, 2)])
    assert may_agree([], [(1,)])


def test_machines_are_written_and_read_again() -> None:
    for number in range(150):
        machine = random_data_machine(random.Random(number))
        again = machine_of(toml(machine))
        assert machine.data == again.data
        for name, event in machine.events.items():
            assert event.arguments == again.events[name].arguments
            assert [*map(_written, event.cells.values())] == [*map(_written, again.events[name].cells.values())]
            assert {state: _written(end) for state, end in event.ends.items()} == {
                state: _written(end) for state, end in again.events[name].ends.items()
            }


def _written(cell: Cell) -> object:
    if not isinstance(cell, Moves):
        return cell.__class__
    updates = [[(update.variable, update.term) for update in way.updates] for way in cell.outcomes]
    return [(way.name, way.to, way.reply, way.when, way.chosen) for way in cell.outcomes], updates


# -- the driver ------------------------------------------------------------------------------


def test_the_driver_does_what_a_naive_interpreter_does() -> None:
    """It computes with concrete values, also beyond the scopes that the checker searches."""
    taken = beyond = 0
    for number in range(200):
        chance = random.Random(number)
        machine = random_data_machine(chance)
        driver, model = Driver(machine).position(), DataModel(machine, beyond=True)
        state, values = machine.initial, data_of(model.initial)[0]
        going: list[tuple[str, Given]] = []
        for _ in range(12):
            event = chance.choice(list(machine.events.values()))
            mine = [given for name, given in going if name == event.name]
            ends = bool(mine) and chance.random() < 0.7
            given = (
                chance.choice(mine) if ends else tuple(_any_value(chance, each) for each in event.arguments.values())
            )
            cell = event.ends.get(state) if ends else event.cells[state]
            outcomes = (cell.outcomes if ends else outcomes_of(event, state)) if cell else ()  # type: ignore[union-attr]
            frame = dict(zip((*machine.data, *event.arguments), (*values, *given), strict=True))
            known = all(map(_may_be, event.arguments.values(), given))
            expected = [each for each in possible(outcomes or (), frame) if known]
            arguments = dict(zip(event.arguments, given, strict=True))
            if not expected:
                with pytest.raises(CannotHappenError):
                    driver.outcomes(event.name, ends=ends, **arguments)
                continue
            assert expected == list(driver.outcomes(event.name, ends=ends, **arguments))
            outcome = chance.choice(expected)
            assert outcome == driver.take(event.name, outcome.name, ends=ends, effect=None, **arguments)
            state, values = outcome.to, updated(machine, outcome, frame)
            if ends:
                going.remove((event.name, given))
            going = [] if event.interrupts else going
            going += [(event.name, given)] if outcome.begins else []
            assert (state, dict(zip(machine.data, values, strict=True))) == (driver.state, driver.data)
            taken += 1
            beyond += not all(map(in_domain, machine.data.values(), values))

    assert taken > 800
    assert beyond > 5


def _any_value(chance: random.Random, variable: Variable) -> int | bool | str:
    return variable.written(chance.randint(variable.low, variable.high + (2 if variable.number else 0)))


def _may_be(variable: Variable, value: int | bool | str) -> bool:  # noqa: FBT001  (a value)
    return variable.beyond == "scope" or in_domain(variable, value)


TWO = (
    SAFE
    + """
[event.wait]
kind = "call"
about = "Waits, and then sets the number of failures."
arguments = { seconds = { from = 0, to = 2 } }
moves = { locked = { begins = "locked" } }
refuses = { "*" = "NOT_LOCKED" }
ends = { locked = { stays = true, set = { failures = "seconds" } } }
"""
)


def test_a_call_ends_with_its_own_arguments() -> None:
    safe = Driver(machine_of(TWO)).position()
    safe.take("wait", seconds=2)
    safe.take("wait", seconds=1)

    with pytest.raises(ValueError, match="2 different calls of wait"):
        safe.take("wait", ends=True)
    with pytest.raises(ValueError, match="no call of wait"):
        safe.take("wait", ends=True, seconds=0)
    safe.take("wait", ends=True, seconds=2)
    assert safe.data == {"failures": 2}
    safe.take("wait", ends=True)
    assert safe.data == {"failures": 1}


def test_a_missing_argument_is_unknown() -> None:
    safe = Driver(load("examples/models/safe.toml")).position()

    assert [each.name for each in safe.outcomes("enter")] == ["right", "wrong"]  # either may apply
    safe.take("enter", "wrong", code=1_999)
    assert safe.data == {"failures": 1}
    with pytest.raises(ValueError, match="enter has no argument 'cod'; arguments: code"):
        safe.take("enter", cod=1)
    with pytest.raises(ValueError, match="code is '1', but it must be an integer"):
        safe.take("enter", code="1")
    with pytest.raises(ValueError, match="code is True"):
        safe.take("enter", code=True)
