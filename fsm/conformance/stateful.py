"""Run random tests. A Hypothesis state machine drives a SUT through the steps of a machine."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fsm.conformance.executor import Execution
from fsm.conformance.failure import Cover, FailedError, Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Plan
from fsm.monitor.property_watch import Watch
from fsm.sut import SUT, Costly, RealTime, Stimulus

SELDOM: Final = 32  # One in this many random steps may be costly.


def random_failure(
    oracle: Oracle, sut: SUT, cover: Cover, *, watch: Watch | None = None, examples: int, steps: int, chance: int
) -> Failure | None:
    seen: list[Failure] = []

    def failing(failure: Failure) -> FailedError:
        seen.append(failure)
        return FailedError(failure)

    kind = walker(oracle, sut, cover, watch=watch, failing=failing)
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        phases=(Phase.generate, Phase.shrink),
        database=None,
        deadline=None,
        print_blob=False,
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    seed(chance)(kind)
    with suppress(FailedError, Flaky):  # Flaky means that Hypothesis could not reproduce the failure.
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
    """Return a Hypothesis state machine that drives *sut*. If *watch* is given, only its property is judged.

    ``failing(failure)`` returns the exception to raise for a failure.
    """
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


TRIES: Final = 500  # maximum number of shorter tests to try
REPEATS: Final = 20
AGAIN: Final = 3  # number of times that a shorter test must fail if the SUT has waited in real time


def shrink(walk: Callable[[], Execution], failure: Failure) -> Failure:
    """Search for the shortest failure of the same kind as *failure*. Each test runs on a new *walk*.

    First, the beginning of the test is replaced by a shorter path to the same point. Then steps are removed. If the
    SUT has waited in real time, only tests that fail several times are kept. A failure that does not recur is repeated
    to count how often the test fails.
    """
    first = walk()
    plan, real = first.oracle.plan, isinstance(first.sut, RealTime) and bool(first.sut.waited())
    same = partial(_same_failure, walk, times=AGAIN if real else 1)
    tried: set[tuple[Stimulus, ...]] = set()

    def shorter(tests: Iterable[tuple[Stimulus, ...]], best: Failure) -> Failure | None:
        for steps in tests:
            if len(steps) < len(best.steps) and steps not in tried and len(tried) < TRIES:
                tried.add(steps)
                found = same(best, steps)
                if found is not None and len(found.steps) < len(best.steps):
                    return found
        return None

    best = shorter(_shortcuts(plan, failure, sparse=True), failure) or failure
    if best is not failure or same(failure, failure.steps):
        found: Failure | None = best
        while found is not None:
            best = found
            shortcuts = chain(_shortcuts(plan, best, sparse=True), _shortcuts(plan, best))
            found = shorter(chain(shortcuts, _without_steps(best.steps)), best)
        if same(best, best.steps):
            return best
    failed = sum(_same_failure(walk, best, best.steps) is not None for _ in range(REPEATS))
    return replace(best, repeated=(failed, REPEATS))


def _same_failure(
    walk: Callable[[], Execution], failure: Failure, steps: Iterable[Stimulus], times: int = 1
) -> Failure | None:
    """Return the failure of the test *steps* if it fails like *failure* in each of *times* runs."""
    found, steps = None, tuple(steps)
    for _ in range(times):
        try:
            found = None
            walk().replay(steps)
        except FailedError as failed:
            found = failed.failure
        if found is None or found.kind != failure.kind:
            return None
    return found


def _shortcuts(plan: Plan, failure: Failure, *, sparse: bool = False) -> Iterator[tuple[Stimulus, ...]]:
    """Yield tests that reach a point of the failed test by a shorter path, starting with the latest point.

    If *sparse* is true, only the 1, 2, 4, 8, … last steps are kept.
    """
    for kept in range(1, len(failure.trace)):
        index = len(failure.trace) - kept
        point = failure.trace[index].point
        if point is None or (sparse and kept.bit_count() > 1):
            continue
        path = plan.path(plan.start, point)
        if path is not None and len(path) < index:
            yield (*(edge.step for edge in path), *failure.steps[index:])


def _without_steps(steps: tuple[Stimulus, ...]) -> Iterator[tuple[Stimulus, ...]]:
    size = len(steps) // 2
    while size:
        for first in range(len(steps) - 1 - size, -1, -1):
            yield steps[:first] + steps[first + size :]
        size //= 2
