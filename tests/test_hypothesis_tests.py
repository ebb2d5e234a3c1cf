"""A machine becomes a Hypothesis state machine for the test suite of an implementation."""

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
    """A door that jams after it has been pushed open three times, although its machine allows a fourth push."""

    def reset(self) -> None:
        """Start again with a count of zero pushes."""
        super().reset()
        self.pushed = 0

    def do(self, event: str) -> str:
        """Perform *event*, and count the pushes that open the door."""
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
    """For an illegal reply, the assertion error contains the report with the violation and its clause."""
    rusty = stateful(door(), lambda: Rusty(door()))

    with pytest.raises(AssertionError, match=r"violation: push replied NOT_FOUND(?s:.*)clause +push-opens .MUST."):
        run_state_machine_as_test(rusty, settings=QUICK)


def test_a_sut_may_be_named() -> None:
    """A SUT can be named by the text that names it on the command line."""
    run_state_machine_as_test(stateful(load("cri-pod"), "model:pod-sandbox"), settings=settings(QUICK, max_examples=1))
