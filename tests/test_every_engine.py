"""Random machines that combine all features of the language have the same meaning in every engine and in an interpreter.

The interpreter shares no code with fsm. Each comparison must notice defects that are planted in the interpreter.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import combined_suts
import pytest
import spin
from combined_checking import checked, expected, unbounded, unit
from combined_machines import FEATURES, model_text, random_model, random_text
from combined_runs import HIDING, driven, judged, simulated
from interpreter import Interpreter, TooWideError, evaluated, parsed
from machines import machine_of, problems_of
from thorough import amount

from fsm.checker import packing
from fsm.interop.promela import promela
from fsm.language.write import toml
from fsm.report.machine_report import json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from interpreter import Effect, Pairs, Situation, Value

OPEN: Final = FEATURES - HIDING
"""The features of machines of which everything is observed."""


def all_agree(compare: Callable[..., tuple[Any, list[str]]], seeds: range, features: frozenset[str] = FEATURES) -> int:
    """Assert that there is no disagreement, and return how much was compared."""
    done = [compare(f"{seed}", features) for seed in seeds]
    assert [each for _, disagreements in done for each in disagreements] == []
    return sum(sum(count.values()) if isinstance(count, Counter) else count for count, _ in done)


# -- the engines ------------------------------------------------------------------------------


def test_the_same_conditions_and_updates_are_refused() -> None:
    """Faults are values that no condition covers or that several do, and updates that leave a range."""
    codes = Counter[str]()
    for seed in range(amount(100, night=20_000)):
        text = model_text(random_model(random.Random(seed)))
        faults = Interpreter(text).faults()
        assert {each.code for each in problems_of(text)} == faults, text
        codes.update(faults)
    assert codes["FSM145"] > 5


@pytest.mark.slow
def test_the_checker_decides_claims_like_the_interpreter() -> None:
    assert all_agree(checked, range(amount(15, night=2_000))) > 60


@pytest.mark.slow
def test_the_search_with_arrays_decides_claims_like_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the extra 'fast' is not installed")
    monkeypatch.setattr(packing, "MANY", 0)
    assert all_agree(checked, range(10_000, 10_000 + amount(5, night=1_000)), FEATURES - {"slow"}) > 10


@pytest.mark.slow
def test_the_solver_decides_claims_like_the_interpreter() -> None:
    pytest.importorskip("z3", reason="the extra 'smt' is not installed")
    assert all_agree(unbounded, range(amount(5, night=200)), FEATURES - {"slow", "scope", "time"}) > 10


@pytest.mark.slow
def test_every_simulated_run_is_one_of_the_interpreter() -> None:
    assert all_agree(simulated, range(amount(40, night=4_000))) > 500


def test_a_driver_takes_the_steps_of_the_interpreter() -> None:
    assert all_agree(driven, range(amount(80, night=8_000))) > 1_500


def test_recordings_that_hide_nothing_have_the_same_first_violation() -> None:
    assert all_agree(judged, range(amount(80, night=8_000)), OPEN) >= 80


@pytest.mark.slow
def test_recordings_that_hide_something_are_never_accused_wrongly() -> None:
    """Most violations are found at the same observation."""
    done = [judged(f"{seed}") for seed in range(amount(12, night=3_000))]
    assert [each for _, disagreements in done for each in disagreements] == []
    count = sum((count for count, _ in done), Counter[str]())
    assert count["later"] * 2 <= count["illegal"] + 2


@pytest.mark.slow
def test_a_correct_implementation_passes() -> None:
    all_agree(combined_suts.passes, range(amount(3, night=800)), FEATURES - {"silent"})


@pytest.mark.slow
def test_an_implementation_with_a_defect_is_found() -> None:
    """Some defects hide themselves, because every test that would show them takes the wrong step twice."""
    features = OPEN | {"scope", "slow"}
    found = [combined_suts.found(f"{seed}", features) for seed in range(amount(6, night=400))]
    assert found.count(True) > 2
    assert found.count(False) <= len(found) / 10


def test_a_machine_that_is_written_and_read_again_is_the_same() -> None:
    for seed in range(amount(12, night=3_000)):
        text = random_text(random.Random(seed))
        machine = machine_of(text)
        written = toml(machine)
        assert json(machine_of(written)) == json(machine)
        try:
            assert expected(Interpreter(written), 1) == expected(Interpreter(text), 1)
        except TooWideError:
            continue


@pytest.mark.nightly
def test_spin_reaches_as_many_situations(tmp_path: Path) -> None:
    texts = [
        random_text(random.Random(seed), FEATURES - {"slow", "tree", "silent"}) for seed in range(amount(10, night=100))
    ]
    answers = spin.answers([spin.Part(promela(machine_of(text))) for text in texts], tmp_path, safety=True)
    reached = [len(Interpreter(text, tick=unit(text)).reached()) for text in texts]
    assert [each.states for each in answers] == reached


# -- the twins --------------------------------------------------------------------------------


class UpdatesOneAfterAnother(Interpreter):
    def updated(self, data: dict[str, Value], new: Mapping[str, Value], args: Mapping[str, Value]) -> Pairs:
        for name, text in new.items():
            data = {**data, name: self.value(name, text, {**data, **args})}
        return tuple(data.items())


class NothingSaturates(Interpreter):
    def value(self, name: str, text: Value, frame: Mapping[str, Value]) -> Value:  # noqa: ARG002  (as above)
        value: Value = evaluated(parsed(text), frame) if isinstance(text, str) else text
        return value


class NoConditions(Interpreter):
    def chosen(self, outcomes: list[dict[str, Any]], frame: Mapping[str, Value]) -> list[dict[str, Any]]:  # noqa: ARG002
        return outcomes


class NoChoice(Interpreter):
    def chosen(self, outcomes: list[dict[str, Any]], frame: Mapping[str, Value]) -> list[dict[str, Any]]:
        return super().chosen(outcomes, frame)[:1]


class NoHistory(Interpreter):
    def target(self, here: Situation, outcome: Mapping[str, Any]) -> str:
        return super().target(replace(here, memory=()), outcome)


class OtherArguments(Interpreter):
    def effects(self, here: Situation, event: str, args: Pairs, *, ends: bool = False) -> list[Effect] | None:
        return super().effects(here, event, next(self.arguments(event)) if ends else args, ends=ends)


class NoRestarts(Interpreter):
    def clocks(self, here: Situation, leaf: str, event: str, *, acts: bool) -> tuple[tuple[str, int], ...]:  # noqa: ARG002
        return super().clocks(here, leaf, event, acts=False)


class ErrorsRestart(Interpreter):
    def clocks(self, here: Situation, leaf: str, event: str, *, acts: bool) -> tuple[tuple[str, int], ...]:  # noqa: ARG002
        return super().clocks(here, leaf, event, acts=True)


class TimersFireAnyTime(Interpreter):
    def fires(self, here: Situation, event: str) -> bool:  # noqa: ARG002  (as above)
        return True


class TimeForcesNothing(Interpreter):
    def tick(self, here: Situation) -> Situation | None:
        clocks = ((name, min(ticks + 1, self.times[name][1])) for name, ticks in here.clocks)
        return replace(here, clocks=tuple(clocks))


DATA, TIME = FEATURES - {"time", "hidden", "silent"}, FEATURES - {"hidden", "silent", "choice"}
TWINS: Final[list[tuple[Callable[..., tuple[Any, list[str]]], type[Interpreter], frozenset[str], int]]] = [
    # The comparison, the defect, the features of the machines, and a seed from which on the defect is soon noticed.
    (checked, UpdatesOneAfterAnother, DATA, 110),
    (checked, NothingSaturates, DATA, 34),
    (checked, NoConditions, DATA, 0),
    (checked, NoChoice, DATA, 5),
    (checked, NoHistory, DATA, 45),
    (checked, OtherArguments, TIME, 4),
    (checked, NoRestarts, TIME, 53),
    (checked, TimersFireAnyTime, TIME, 4),
    (unbounded, NoConditions, OPEN - {"time"}, 9),
    (unbounded, NothingSaturates, OPEN - {"time"}, 69),
    (simulated, NoChoice, DATA, 0),
    (simulated, ErrorsRestart, TIME, 0),
    (driven, UpdatesOneAfterAnother, DATA, 86),
    (driven, NothingSaturates, DATA, 77),
    (driven, NoConditions, DATA, 0),
    (driven, NoChoice, DATA, 0),
    (driven, NoHistory, DATA, 45),
    (judged, NoConditions, OPEN, 31),
    (judged, NoRestarts, OPEN, 73),
    (judged, ErrorsRestart, OPEN, 13),
    (judged, TimersFireAnyTime, OPEN, 108),
    (judged, TimeForcesNothing, FEATURES, 10),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compare", "twin", "features", "first"), TWINS, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_defect_in_the_interpreter_is_noticed(
    compare: Callable[..., tuple[Any, list[str]]], twin: type[Interpreter], features: frozenset[str], first: int
) -> None:
    found = next((seed for seed in range(first, first + 150) if compare(f"{seed}", features, twin)[1]), None)

    assert found is not None
    assert compare(f"{found}", features)[1] == []
