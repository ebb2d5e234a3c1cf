"""Tests in random order: a Hypothesis state machine that walks a machine on a SUT."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fsm.conformance.executor import Cover, FailedError, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.conformance.executor import Failure
    from fsm.conformance.oracle import Oracle
    from fsm.property_monitor import Watch
    from fsm.sut import SUT


def chanced(kind: type[RuleBasedStateMachine], *, examples: int, steps: int, chance: int) -> None:
    """Run *examples* tests of *kind* of up to *steps* steps each, from the seed *chance*; raise what it raises, shrunk."""
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    seed(chance)(kind)
    run_state_machine_as_test(kind, settings=how)


def walker(
    oracle: Oracle,
    sut: SUT,
    cover: Cover,
    *,
    watch: Watch | None = None,
    failing: Callable[[Failure], Exception] = FailedError,
) -> type[RuleBasedStateMachine]:
    """A Hypothesis state machine on *sut* that notes in *cover* what it meets; or of *watch* alone.

    What *failing* makes is raised where it fails.  Both rules draw one number, whatever has happened before: where a test is
    cut short by shrinking, what is left still means the same.
    """
    plan = oracle.plan
    aims = plan.edges

    class Conformance(RuleBasedStateMachine):
        """Aims at what this test has not met yet, and wanders."""

        @initialize()
        def begin(self) -> None:
            self.walk = Walk(oracle, sut, cover, watch)
            self.met: set[int] = set()
            with self.judged():
                self.walk.reset()

        @contextmanager
        def judged(self) -> Iterator[None]:
            """Raise what *failing* makes of a failure."""
            try:
                yield
            except FailedError as failed:
                raise failing(failed.failure) from None

        @rule(first=st.integers(0, len(aims) - 1))
        def aim(self, first: int) -> None:
            """Go to the next step, from the *first* on, that this test has not aimed at, and take it."""
            numbers = (number % len(aims) for number in range(first, first + len(aims)))
            number = next((number for number in numbers if number not in self.met), first)
            self.met.add(number)
            with self.judged():
                self.walk.aim(aims[number])

        @rule(first=st.integers(0, len(aims) - 1))
        def wander(self, first: int) -> None:
            """Do anything that can be done here."""
            here = self.walk.point
            edges = plan.leaving(here) if here is not None else ()
            with self.judged():
                if edges:
                    self.walk.take(edges[first % len(edges)].step)
                else:
                    self.walk.reset()

        def teardown(self) -> None:
            """Give what is due its time."""
            if hasattr(self, "walk"):
                with self.judged():
                    self.walk.finish()

    Conformance.__name__ = Conformance.__qualname__ = f"Conformance[{plan.table.machine.name}]"
    return Conformance
