"""Machines with data are tested at the boundaries of their guards, and random machines agree with a naive evaluator."""

from __future__ import annotations

import random
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from data_machines import Implementation, defective, differs, drafts
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from machines import machine_of

import fsm
from fsm.conformance.exec.adapter import child
from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError
from fsm.conformance.lookup import Simulated
from fsm.conformance.oracle import oracle
from fsm.conformance.plan import Plan, steps, with_arguments
from fsm.conformance.stateful import shrink
from fsm.conformance.suite import conform, replay
from fsm.errors import InputError
from fsm.language.library import load
from fsm.machine.table import tabulate
from fsm.sut import Stimulus

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.conformance.tested import Tested
    from fsm.machine import Machine

SAFE = "examples/models/safe.toml"
QUICK = settings(max_examples=100, database=None, deadline=None)


def typed(text: str) -> list[Stimulus]:
    events = load(SAFE).events
    return [with_arguments(each, events[each.event]) for each in steps(text)]


MASKED = 2  # defects that hide themselves, because every test that would show them takes the wrong step twice


@pytest.mark.slow
def test_a_right_implementation_passes_and_a_wrong_one_fails() -> None:
    """The planned tests alone find nearly all defects, and only defects."""
    wrong, missed = 0, []
    for number, (draft, machine) in enumerate(islice(drafts(random.Random(7)), 90)):
        assert not conform(machine, partial(Implementation, draft), examples=3, steps=15).failures, draft.text()
        for again in range(3):
            made = defective(random.Random(f"{number} {again}"), draft)
            if differs(draft, made):
                wrong += 1
                found = conform(machine, partial(Implementation, made), examples=0, most=1).failures
                missed += [] if found else [(draft, made, machine)]

    assert wrong > 40
    assert len(missed) <= MASKED
    for _, made, machine in missed:
        assert conform(machine, partial(Implementation, made), examples=200).failures, made.text()


def counter(guard: str, *, update: str = "n + 1", more: str = "scope = true", arguments: str = "") -> Machine:
    return machine_of(f"""
[machine]
name = "counter"
title = "C"
about = "C."
source = "s"
initial = "low"
[states]
low = {{ about = "A." }}
high = {{ about = "B." }}
[data]
n = {{ from = 0, to = 9, {more} }}
[event.add]
kind = "call"
about = "Add."
arguments = {{ {arguments} }}
moves.low = [
  {{ name = "up", to = "high", when = "{guard}" }},
  {{ name = "more", stays = true, when = "otherwise", set = {{ n = "{update}" }} }},
]
ignores = ["high"]
""")


def sides(machine: Machine) -> dict[str, str]:
    tested = conform(machine, lambda: Simulated(machine), examples=0)
    boundaries = tested.oracle.plan.boundaries
    assert boundaries
    return {boundaries.text(side): why for side, why in tested.sides.items()}


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        ("n >= 3", {"n >= 3": "", "not n >= 3": ""}),
        ("n >= 60", {"n >= 60": "impossible, because no declared values satisfy it", "not n >= 60": ""}),
        ("n < 0", {"n < 0": "impossible, because no declared values satisfy it", "not n < 0": ""}),
        ("n - 7 == min(n, 2)", {"n - 7 == min(n, 2)": "", "not n - 7 == min(n, 2)": ""}),
    ],
)
def test_each_side_of_each_guard_is_exercised_or_has_a_reason(guard: str, why: dict[str, str]) -> None:
    assert why == sides(counter(guard, more="saturates = true"))


def test_a_side_that_no_run_reaches_is_not_found() -> None:
    assert sides(counter("n == 5", update="n + 2", more="saturates = true, initial = 0")) == {
        "n == 5": "not found within the scope",
        "not n == 5": "",
    }


def test_a_guard_far_away_is_reached() -> None:
    """The plan climbs to a guard, although a breadth-first search would end before."""
    machine = counter(
        "n >= 400 and a == n and not b", arguments="a = { from = 0, to = 3, scope = true }, b = { type = 'bool' }"
    )
    plan = Plan(tabulate(machine))
    edge = next(each for each in plan.edges if each.ways and each.ways[0].name == "up")

    assert len(plan.path(plan.start, edge.source) or ()) >= 400


@pytest.mark.parametrize("constant", [-2, 5, 1999])
def test_values_at_and_beside_each_constant_are_tried(constant: int) -> None:
    machine = counter(f"a >= {constant}", arguments="a = { from = 0, to = 3, scope = true }")
    tried = {dict(each.step.args)["a"] for each in Plan(tabulate(machine)).edges}

    assert tried >= {0, 1, constant - 1, constant, constant + 1}


@pytest.mark.parametrize(
    ("wrong", "met", "shortest"),
    [
        (lambda code: code >= 57, 40_000, 57),
        (lambda code: code <= -9, -1_000, -9),
        (lambda code: code == 777, 777, 777),
        (lambda code: code % 2 and code > 2, 81, 3),
    ],
)
def test_arguments_are_shrunk(wrong: Callable[[int], bool], met: int, shortest: int) -> None:
    """The test gets shorter, and its arguments smaller, towards 0."""
    machine = load(SAFE)

    class Wrong(Simulated):
        def do(self, event: str, *_: object, **args: int) -> str:
            return super().do(event, **({"code": 2} if event == "enter" and wrong(args["code"]) else args))

    judge = oracle(machine)
    with pytest.raises(FailedError) as failed:
        Execution(judge, Wrong(machine)).replay(typed(f"enter(code=0); shut; enter(code=1); enter(code={met})"))
    found = shrink(lambda: Execution(judge, Wrong(machine)), failed.value.failure)

    assert [f"enter(code={shortest})"] == [str(each) for each in found.steps]
    assert found.repeated is None


def test_the_default_values_are_found_again_without_strategies() -> None:
    machine = load(SAFE)
    tested = conform(machine, lambda: Simulated(machine), examples=20)

    assert not tested.failures
    assert not tested.missed


class Showing(Simulated):
    """A counter that shows its variable, and that shows *wrong* instead of 2."""

    def __init__(self, machine: Machine, wrong: object = 2) -> None:
        super().__init__(machine)
        self.wrong = wrong

    def fields(self) -> dict[str, Any]:
        shown = super()._fields()
        return {name: self.wrong if value == 2 else value for name, value in shown.items()}


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        (2, ""),
        (7, "the SUT shows n = 7, but legal would be: low, n = 2"),
        ("two", "the SUT shows a wrong value: n is 'two', but it must be an integer"),
    ],
)
def test_shown_variables_are_compared(wrong: object, broken: str) -> None:
    machine = counter("n >= 4", more="scope = true, shown = true")
    failures = conform(machine, lambda: Showing(machine, wrong), examples=0).failures

    assert ([broken] if broken else []) == [each.broken for each in failures]


def test_hidden_variables_are_no_fields() -> None:
    machine = counter("n >= 4")

    class Telling(Simulated):
        def fields(self) -> dict[str, Any]:
            return {"n": 0}

    with pytest.raises(InputError, match="FSM601"):
        conform(machine, lambda: Telling(machine), examples=0)


def replayed(text: str) -> Tested:
    machine = load(SAFE)
    return replay(
        machine, lambda: Simulated(machine), [with_arguments(each, machine.events[each.event]) for each in steps(text)]
    )


def test_a_replay_has_arguments() -> None:
    assert replayed("enter(code=7); enter( code = 2 )=right; shut").cover.steps == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("enter", r"enter needs code; write enter\(code=…\)"),
        ("enter(cod=1)", "enter has no argument 'cod'"),
        ("enter(code=1, cod=1)", "enter has no argument 'cod'"),
        ("enter(code=x)", "code is 'x', but it must be an integer"),
        ("enter(7)", "'7' is not an argument; write NAME=VALUE"),
    ],
)
def test_wrong_arguments_of_a_replay_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replayed(text)


def test_races_with_data_are_refused() -> None:
    machine = load(SAFE)
    with pytest.raises(InputError, match="FSM630"):
        conform(machine, lambda: Simulated(machine), threads=2)


@pytest.mark.slow
def test_calls_that_take_time_keep_their_arguments() -> None:
    """The end of a call depends on the arguments with which it began."""
    text = """
[machine]
name = "download"
title = "D"
about = "D."
source = "s"
initial = "idle"
[states]
idle = { about = "A." }
busy = { about = "B." }
[data]
size = { from = 0, to = 3, scope = true }
[event.get]
kind = "call"
about = "Get."
arguments = { bytes = { from = 0, to = 3, scope = true } }
moves.idle = { begins = "busy" }
refuses = { busy = "BUSY" }
ends.busy = [
  { name = "got", to = "idle", when = "bytes <= 2", set = { size = "size + bytes" } },
  { name = "large", to = "idle", when = "bytes > 2", reply = "LARGE" },
]
[event.clear]
kind = "call"
about = "Clear."
moves = { idle = { to = "idle", set = { size = 0 } }, busy = { to = "busy", set = { size = 0 } } }
"""
    machine = machine_of(text)
    other = machine_of(text.replace("bytes <= 2", "bytes <= 1").replace("bytes > 2", "bytes > 1"))
    right, wrong = (conform(machine, partial(Simulated, of), examples=5) for of in (machine, other))

    assert not right.failures
    assert "end get" in {str(each.step) for each in right.oracle.plan.edges}
    assert wrong.failures[0].steps[0].args == (("bytes", 2),)


@rule(code=st.integers(3, 4))
def own_step(self: Any, code: int) -> None:  # noqa: ANN401  (the state machine)
    assert self.do("enter", code=code) in {"WRONG", "BLOCKED", "ALREADY_OPEN"}


@invariant()
def not_blocked(self: Any) -> None:  # noqa: ANN401  (the state machine)
    assert "blocked, failures = 2" not in self.possible(), "it is blocked"


@pytest.mark.slow
def test_functions_may_be_rules_and_invariants() -> None:
    machine = load(SAFE)
    run_state_machine_as_test(fsm.stateful(machine, lambda: Simulated(machine), more=[own_step]), settings=QUICK)
    with pytest.raises(AssertionError, match="it is blocked"):
        run_state_machine_as_test(fsm.stateful(machine, lambda: Simulated(machine), more=[not_blocked]), settings=QUICK)


@pytest.mark.slow
def test_a_subclass_has_its_own_rules() -> None:
    """The test case of the subclass runs the subclass, and prints the coverage."""
    machine = load(SAFE)

    class Own(fsm.stateful(machine, lambda: Simulated(machine))):  # type: ignore[misc]
        @invariant()
        def not_blocked(self) -> None:
            assert "blocked, failures = 2" not in self.possible(), "it is blocked"

    with pytest.raises(AssertionError, match="it is blocked"):
        run_state_machine_as_test(Own, settings=QUICK)
    assert Own.TestCase.__name__ == "Own.TestCase"
    assert Own.TestCase is Own.TestCase


def test_own_steps_need_all_arguments() -> None:
    machine = load(SAFE)

    @rule()
    def forgetful(self: Any) -> None:  # noqa: ANN401  (the state machine)
        self.do("enter")

    with pytest.raises(ValueError, match="enter needs the arguments code"):
        run_state_machine_as_test(fsm.stateful(machine, lambda: Simulated(machine), more=[forgetful]), settings=QUICK)


@pytest.mark.parametrize("strategies", [{"entre": {}}, {"shut": {}}, {"enter": {"cod": st.integers()}}])
def test_strategies_for_unknown_names_are_refused(strategies: dict[str, dict[str, st.SearchStrategy[int]]]) -> None:
    machine = load(SAFE)
    with pytest.raises(ValueError, match="strategies name"):
        fsm.stateful(machine, lambda: Simulated(machine), strategies=strategies)


@pytest.mark.slow
def test_strategies_replace_the_declared_values() -> None:
    machine, seen = load(SAFE), set[int]()

    class Recording(Simulated):
        def do(self, event: str, *_: object, **args: int) -> str:
            seen.update(args.values())
            return super().do(event, **args)

    run_state_machine_as_test(
        fsm.stateful(machine, lambda: Recording(machine), strategies={"enter": {"code": st.just(123_456)}}),
        settings=QUICK,
    )
    assert seen == {0, 1, 2, 3, 123_456}


CHILD = """
import json, sys
print('{"fsm":1,"can":["fields"]}', flush=True)
total = 0
for line in sys.stdin:
    asked = json.loads(line)
    reply = ""
    if asked.get("reset"):
        total = 0
    if asked.get("do") == "add":
        total += asked["args"]["a"] * (1 if asked["args"]["b"] == "up" else FACTOR)
        reply = "ok"
    print(json.dumps({"id": asked["id"], "reply": reply, "shows": "low", "fields": {"n": total}}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("factor", [-1, 1])
def test_a_process_gets_the_arguments(factor: int) -> None:
    machine = machine_of("""
[machine]
name = "sum"
title = "S"
about = "S."
source = "s"
initial = "low"
[states]
low = { about = "A.", shows = "low" }
[data]
n = { from = -9, to = 9, scope = true, shown = true, initial = 0 }
[event.add]
kind = "call"
about = "Add."
arguments = { a = { from = 0, to = 3 }, b = { values = ["up", "down"] } }
moves.low = [
  { name = "up", stays = true, when = "b == up", set = { n = "n + a" } },
  { name = "down", stays = true, when = "b == down", set = { n = "n - a" } },
]
""")
    code = CHILD.replace("FACTOR", str(factor))
    tested = conform(machine, lambda: child([sys.executable, "-c", code]), examples=1)
    assert bool(tested.failures) is (factor == 1)
