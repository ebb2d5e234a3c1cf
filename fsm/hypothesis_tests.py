"""Generate Hypothesis stateful tests from a machine, for the test suite of an implementation.

The tests are the same as in :mod:`fsm.conformance`. A failure is an :class:`AssertionError` that contains the report.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, currently_in_test_context, settings
from hypothesis import find as find_example
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from hypothesis.stateful import TestCaseProperty

from fsm.conformance.asynchronous import made
from fsm.conformance.failure import Cover, Failure, misnamed, needed
from fsm.conformance.lookup import find
from fsm.conformance.oracle import oracle
from fsm.conformance.stateful import Strategies, walker
from fsm.machine.product.flatten import machine_of
from fsm.report.conformance_report import covered, failure_text, uncompared
from fsm.report.layout import PLAIN
from fsm.sut import Emitting, Overlapping

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine

    from fsm.machine import Machine
    from fsm.machine.product.system import System
    from fsm.sut import SUT, AsyncSUT


def stateful(
    machine: Machine | System,
    sut: str | Callable[[], SUT | AsyncSUT],
    *,
    profile: str | None = None,
    strategies: Strategies | None = None,
    more: Iterable[Callable[..., object]] = (),
) -> type[RuleBasedStateMachine]:
    """Return a Hypothesis state machine that tests a SUT against *machine*, which may be a system.

    Run it like any other state machine, through its ``TestCase`` and with ``settings``. A failure is an
    :class:`AssertionError` that explains what is illegal and why. *sut* is a function that returns the SUT, or a name
    that :func:`fsm.conform` accepts.

    The arguments of events are drawn from the declared values, or from *strategies*: ``{"pay": {"amount":
    st.integers(0, 10_000)}}``. A subclass may have rules and invariants of its own, and so may functions in *more*,
    which become methods. They can use ``self.sut``, ``self.possible()``, and ``self.do(event, **arguments)``, which
    takes and judges a step.

    >>> from hypothesis import settings
    >>> from hypothesis.stateful import run_state_machine_as_test
    >>> from fsm.language.library import load
    >>> kind = stateful(load("examples/models/door.toml"), "model:examples/models/door.toml")
    >>> run_state_machine_as_test(kind, settings=settings(max_examples=5, database=None))
    """
    machine = machine_of(machine, profile)
    tested = made(find(sut, machine, profile=profile) if isinstance(sut, str) else sut, machine)
    judge = oracle(machine, profile, overlaps=isinstance(tested, Overlapping), sut=tested)
    table, cover = judge.plan.table, Cover(heard=isinstance(tested, Emitting))
    for warning in uncompared(needed(table, tested, cover), misnamed(tested)):
        warnings.warn(warning, stacklevel=2)

    def failing(failure: Failure) -> AssertionError:
        return AssertionError(f"\n{failure_text(failure)}")

    def report(_: object) -> None:
        print(*covered(table, cover.cells, PLAIN), sep="\n")  # noqa: T201

    class Reporting(TestCaseProperty):
        def __get__(self, obj: Any, typ: Any = None) -> Any:  # noqa: ANN401  (as in Hypothesis)
            made = super().__get__(obj, typ)  # a class of its own for each subclass of the state machine
            made.tearDownClass = classmethod(report)  # type: ignore[assignment]
            return made

    _read_constants()
    kind = walker(judge, tested, cover, failing=failing, strategies=strategies, more=more)
    kind.TestCase = Reporting()
    return kind


def _read_constants() -> None:
    """Draw many numbers, so that Hypothesis reads the constants in the source of local modules.

    It does so in one of its first draws. On a slow machine, its health check would blame the rule that drew.
    """
    if not currently_in_test_context():
        how = settings(database=None, deadline=None, phases=[Phase.generate], max_examples=5)
        with suppress(NoSuchExample):  # The first example is all zeros, which Hypothesis does not draw.
            find_example(st.lists(st.integers(), min_size=200, max_size=200), any, settings=how)
