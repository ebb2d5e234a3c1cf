"""A machine is turned into a Hypothesis state machine that tests an implementation."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from machines import counter, door

from fsm.conformance.lookup import Simulated
from fsm.hypothesis_tests import stateful
from fsm.language.library import load

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
