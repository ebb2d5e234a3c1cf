"""Random tests: a Hypothesis state machine that drives a SUT through the steps of a machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fsm.conformance.cover import Cover
from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError, Failure
from fsm.conformance.oracle import Oracle
from fsm.monitor.property_watch import Watch
from fsm.sut import SUT, Costly

SETTINGS: Final = settings(
    database=None,
    deadline=None,
    print_blob=False,
    verbosity=Verbosity.quiet,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
"""Hypothesis settings shared by all conformance tests."""

SELDOM: Final = 32  # one in this many random steps may be costly


def random_failure(
    oracle: Oracle, sut: SUT, cover: Cover, *, watch: Watch | None = None, examples: int, steps: int, chance: int
) -> Failure | None:
    """Run *examples* random tests of up to *steps* steps with seed *chance*. Return the shortest failure, if any."""
    seen: list[Failure] = []

    def failing(failure: Failure) -> FailedError:
        seen.append(failure)
        return FailedError(failure)

    kind = walker(oracle, sut, cover, watch=watch, failing=failing)
    how = settings(SETTINGS, max_examples=examples, stateful_step_count=steps, phases=(Phase.generate, Phase.shrink))
    seed(chance)(kind)
    with suppress(FailedError, Flaky):  # Flaky: Hypothesis could not reproduce the failure
        run_state_machine_as_test(kind, settings=how)
    return min(seen, key=lambda each: len(each.steps), default=None)


def walker(
    oracle: Oracle,
    sut: SUT,
    cover: Cover,
    *,
    watch: Watch | None = None,
    failing: Callable[[Failure], Exception] = FailedError,
) -> type[RuleBasedStateMachine]:
    """Return a Hypothesis state machine that drives *sut* and judges only *watch*, if given. *failing* makes errors."""
    # Both rules draw exactly one number, so that the rest of a test keeps its meaning when Hypothesis shrinks it.
    plan = oracle.plan
    costly = sut.costly if isinstance(sut, Costly) else lambda _: False
    aims = () if isinstance(sut, Costly) else plan.edges
    any_aim = st.integers(0, max(len(plan.edges) - 1, 0))
    walk = Execution(oracle, sut, cover, watch)

    class Conformance(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.walk = walk
            self.aimed: set[int] = set()
            with self.judged():
                walk.restart()

        @contextmanager
        def judged(self) -> Iterator[None]:
            try:
                yield
            except FailedError as failed:
                raise failing(failed.failure) from None

        @precondition(lambda _: bool(aims))
        @rule(first=any_aim)
        def aim(self, first: int) -> None:
            """Aim at the next edge, from number *first* on, that this test has not yet aimed at."""
            numbers = (number % len(aims) for number in range(first, first + len(aims)))
            number = next((number for number in numbers if number not in self.aimed), first)
            self.aimed.add(number)
            with self.judged():
                self.walk.aim(aims[number])

        @rule(first=any_aim)
        def wander(self, first: int) -> None:
            here = self.walk.point
            edges = plan.leaving(here) if here is not None else ()
            if first % SELDOM:
                edges = tuple(each for each in edges if not costly(each.step.event)) or edges
            with self.judged():
                if edges:
                    self.walk.take(edges[first % len(edges)].step)
                else:
                    self.walk.reset()

        def teardown(self) -> None:
            if hasattr(self, "walk"):
                with self.judged():
                    self.walk.finish()

    Conformance.__name__ = Conformance.__qualname__ = f"Conformance[{plan.table.machine.name}]"
    return Conformance
