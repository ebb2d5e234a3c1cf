"""A machine is turned into a Hypothesis state machine that tests an implementation."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test
from machines import counter, door, machine_of

from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps
from fsm.conformance.stateful import StepsNote
from fsm.hypothesis_tests import stateful
from fsm.language.library import load

if TYPE_CHECKING:
    from pathlib import Path

QUICK = settings(max_examples=200, database=None, deadline=None)


class Rusty(Simulated):
    """A door that jams after three pushes, although its machine allows a fourth."""

    def reset(self) -> None:
        super().reset()
        self.pushed = 0

    def do(self, event: str) -> str:
        before = self.shows()
        reply = super().do(event)
        self.pushed += event == "push" and before == "CLOSED" and reply == "ok"
        return "NOT_FOUND" if event == "push" and self.pushed > 2 else reply


def test_it_is_a_hypothesis_state_machine() -> None:
    machine = counter()
    kind = stateful(machine, lambda: Simulated(machine))

    assert issubclass(kind, RuleBasedStateMachine)
    run_state_machine_as_test(kind, settings=settings(QUICK, max_examples=10))


def test_what_is_not_legal_is_said_in_words() -> None:
    rusty = stateful(door(), lambda: Rusty(door()))

    with pytest.raises(AssertionError, match=r"violation: push replied NOT_FOUND(?s:.*)clause +push-opens .MUST."):
        run_state_machine_as_test(rusty, settings=QUICK)


def test_a_sut_may_be_named() -> None:
    run_state_machine_as_test(stateful(load("cri-pod"), "model:pod-sandbox"), settings=settings(QUICK, max_examples=1))


ACCOUNT = machine_of("""\
[machine]
name = "account"
title = "An account"
about = "It is closed when it is empty."
source = "a test"
initial = "open"

[data]
balance = { from = 0, to = 3, scope = true, about = "The balance." }

[states]
open = { about = "" }
shut = { about = "", kind = "final" }

[event.put]
kind = "call"
about = ""
arguments.amount = { from = 1, to = 3, scope = true }
moves.open = [
  { name = "few", stays = true, when = "balance + amount < 100", set = { balance = "balance + amount" } },
  { name = "many", stays = true, when = "otherwise", set = { balance = "balance + amount" } },
]
refuses = { shut = "SHUT" }

[event.take]
kind = "call"
about = ""
arguments.amount = { from = 1, to = 3, scope = true }
moves.open = [
  { name = "enough", stays = true, when = "amount <= balance", set = { balance = "balance - amount" } },
  { name = "poor", stays = true, when = "otherwise", reply = "POOR" },
]
refuses = { shut = "SHUT" }

[event.close]
kind = "call"
about = ""
moves.open = [
  { name = "closed", to = "shut", when = "balance == 0" },
  { name = "rich", stays = true, when = "otherwise", reply = "RICH" },
]
refuses = { shut = "SHUT" }
""")


class Account:
    """A correct account."""

    def reset(self) -> None:
        self.balance, self.open = 0, True

    def do(self, event: str, *, amount: int = 0) -> str:
        if not self.open:
            return "SHUT"
        if event == "close":
            self.open = self.balance != 0
            return "RICH" if self.open else "ok"
        if event == "take" and amount > self.balance:
            return "POOR"
        self.balance += amount if event == "put" else -amount
        return "ok"

    def shows(self) -> str:
        return "open" if self.open else "shut"

    def close(self) -> None: ...


@invariant()
def below_150(self: Any) -> None:  # noqa: ANN401  (the state machine)
    assert self.sut.balance < 150


@invariant()
def is_open(self: Any) -> None:  # noqa: ANN401  (the state machine)
    assert self.sut.open


def printed(user_invariant: Any, chance: int) -> list[str]:  # noqa: ANN401  (a decorated function)
    """Return the lines that Hypothesis prints for a broken invariant."""
    kind = seed(chance)(stateful(ACCOUNT, Account, more=[user_invariant]))
    with pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(kind, settings=settings(QUICK, phases=[Phase.generate, Phase.shrink]))
    return [line for note in caught.value.__notes__ for line in note.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("chance", [1, 2, 3, 4])
def test_a_broken_invariant_of_the_user_has_a_short_run_with_its_events(chance: int) -> None:
    (*_, shortest) = (line for line in printed(below_150, chance) if "put(amount=" in line and ": " in line)
    *_, text = shortest.partition(": ")
    found = steps(text)
    assert {each.event for each in found} == {"put"}
    assert len(found) <= 2
    assert sum(int(dict(each.args)["amount"]) for each in found) >= 150

    (*_, shortest) = (line for line in printed(is_open, chance) if ": " in line and "close" in line)
    assert len(steps(shortest.partition(": ")[2])) <= 2


def by_hand(*amounts: int) -> Any:  # noqa: ANN401  (a state machine)
    """Return a state machine that has put *amounts*."""
    state: Any = stateful(ACCOUNT, Account, more=[below_150])()
    state.begin()
    for amount in amounts:
        state.do_put(amount=amount)
    return state


def test_printed_steps_can_be_run_by_hand() -> None:
    state = by_hand(1, 2)
    state.aim(first=0)
    state.teardown()
    assert len(state.walk.trace) >= 1


def noted(state: Any) -> str:  # noqa: ANN401  (a state machine)
    """Return the note on *state* while an assertion has failed."""
    text = ""
    try:
        assert state is None
    except AssertionError:
        text = repr(StepsNote(state))
    return text


def test_steps_are_shortened_only_if_they_break_an_invariant_again() -> None:
    assert noted(by_hand(1, 99, 99)).splitlines() == [
        "steps since the last reset: put(amount=1); put(amount=99); put(amount=99)",
        "these steps also break an invariant: put(amount=51); put(amount=99)",
    ]
    assert noted(by_hand(1, 99)) == "steps since the last reset: put(amount=1); put(amount=99)"


def test_a_strategy_without_the_name_of_an_argument_is_refused() -> None:
    wrong: Any = {"put": st.integers()}
    with pytest.raises(TypeError, match=r"strategies have integers\(\) for 'put'.*as in {'put': {'amount': …}}"):
        stateful(ACCOUNT, Account, strategies=wrong)

    wrong = {"close": st.integers()}
    with pytest.raises(ValueError, match="strategies name 'close'"):
        stateful(ACCOUNT, Account, strategies=wrong)


@pytest.mark.slow
def test_hypothesis_reads_the_constants_of_local_modules_before_the_first_rule_draws(tmp_path: Path) -> None:
    """Otherwise, its health check for slow draws could fail a correct SUT on a slow machine."""
    (tmp_path / "local_module.py").write_text("LIMIT = 777_123\n", encoding="utf-8")
    code = """if True:
        import fsm, local_module
        print(list(__import__("pathlib").Path("stored/constants").glob("*")))
        fsm.stateful(fsm.load("cri-pod"), "model:pod-sandbox")
    """
    environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": "stored", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert ran.stdout == "[]\n"
    found = [each.read_text(encoding="utf-8") for each in (tmp_path / "stored" / "constants").iterdir()]
    assert any("777123" in each for each in found)
