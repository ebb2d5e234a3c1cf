"""Generate Hypothesis stateful tests from a machine, for the test suite of an implementation.

The tests are the same as in :mod:`fsm.conformance`. A failure is an :class:`AssertionError` that contains the report.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from fsm.conformance.asynchronous import made
from fsm.conformance.failure import Cover, misnamed, needed
from fsm.conformance.lookup import find
from fsm.conformance.oracle import oracle
from fsm.conformance.stateful import walker
from fsm.errors import require_machine
from fsm.report.conformance_report import covered, failure_text, uncompared
from fsm.report.layout import PLAIN
from fsm.sut import Emitting, Overlapping

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine

    from fsm.machine import Machine
    from fsm.sut import SUT, AsyncSUT


def stateful(
    machine: Machine, sut: str | Callable[[], SUT | AsyncSUT], *, profile: str | None = None
) -> type[RuleBasedStateMachine]:
    """Return a Hypothesis state machine that tests a SUT against *machine*.

    Run it like any other state machine, through its ``TestCase`` and with ``settings``. A failure is an
    :class:`AssertionError` that explains what is illegal and why. *sut* is a function that returns the SUT, or a name
    that :func:`fsm.conform` accepts.

    >>> from hypothesis import settings
    >>> from hypothesis.stateful import run_state_machine_as_test
    >>> from fsm.language.library import load
    >>> kind = stateful(load("examples/models/door.toml"), "model:examples/models/door.toml")
    >>> run_state_machine_as_test(kind, settings=settings(max_examples=5, database=None))
    """
    require_machine(machine)
    tested = made(find(sut, machine, profile=profile) if isinstance(sut, str) else sut, machine)
    judge = oracle(machine, profile, overlaps=isinstance(tested, Overlapping))
    table, cover = judge.plan.table, Cover(heard=isinstance(tested, Emitting))
    for warning in uncompared(needed(table, tested, cover), misnamed(tested)):
        warnings.warn(warning, stacklevel=2)
    kind = walker(judge, tested, cover, failing=lambda failure: AssertionError(f"\n{failure_text(failure)}"))

    class TestCase(kind.TestCase):  # type: ignore[name-defined,misc]
        @classmethod
        def tearDownClass(cls) -> None:
            print(*covered(table, cover.cells, PLAIN), sep="\n")  # noqa: T201

    kind.TestCase = TestCase  # type: ignore[assignment]
    return kind
