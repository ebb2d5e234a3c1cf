"""Shrink failing tests, and count how often a failure recurs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError, Failure
from fsm.sut import Stimulus

TRIES = 500
"""Maximum number of tests to run in search of a shorter one."""

REPEATS = 20
"""Number of times to repeat a test that did not fail again."""


def shrink(walk: Callable[[], Execution], failure: Failure) -> Failure:
    """Return the shortest failure found that is of the same kind as *failure*. Each test runs on a new *walk*.

    First, all steps before some point of the test are replaced by a shortest path to that point. Then steps are
    removed. If a shorter test fails in the same way, the original test need not run again. A test whose failure does
    not recur is repeated to count how often it fails.
    """
    search = _Search(walk, failure)
    if any(search.tried(steps) for steps in search.leaps()) or _same_failure(walk, failure, failure.steps):
        while any(search.tried(steps) for steps in chain(search.leaps(), search.shortcuts(), search.without())):
            pass
        failure = search.best
        if _same_failure(walk, failure, failure.steps):
            return failure
    failed = sum(_same_failure(walk, failure, failure.steps) is not None for _ in range(REPEATS))
    return replace(failure, repeated=(failed, REPEATS))


def _same_failure(walk: Callable[[], Execution], failure: Failure, steps: Iterable[Stimulus]) -> Failure | None:
    try:
        walk().replay(steps)
    except FailedError as failed:
        return failed.failure if failed.failure.kind == failure.kind else None
    return None


class _Search:
    def __init__(self, walk: Callable[[], Execution], failure: Failure) -> None:
        self.walk = walk
        self.best = failure
        self._plan = walk().oracle.plan
        self._runs = 0
        self._tried: set[tuple[Stimulus, ...]] = set()

    def tried(self, steps: tuple[Stimulus, ...]) -> bool:
        """Run *steps* if they are shorter than the best test. Keep them and return true if they fail the same way."""
        if len(steps) >= len(self.best.steps) or steps in self._tried or self._runs >= TRIES:
            return False
        self._tried.add(steps)
        self._runs += 1
        found = _same_failure(self.walk, self.best, steps)
        if found is None or len(found.steps) >= len(self.best.steps):
            return False
        self.best = found
        return True

    def leaps(self) -> Iterator[tuple[Stimulus, ...]]:
        """Yield a few of the shortcuts, shortest first. Each keeps twice as many steps as the one before."""
        kept = 1
        while kept < len(self.best.trace):
            yield from self._shortcut(len(self.best.trace) - kept)
            kept *= 2

    def shortcuts(self) -> Iterator[tuple[Stimulus, ...]]:
        """Yield the test with a shorter path to each of the points that it passed, latest point first."""
        for index in range(len(self.best.trace) - 1, 0, -1):
            yield from self._shortcut(index)

    def _shortcut(self, index: int) -> Iterator[tuple[Stimulus, ...]]:
        plan, point = self._plan, self.best.trace[index].point
        path = plan.path(plan.start, point) if point else None
        if path is not None and len(path) < index:
            yield (*(edge.step for edge in path), *self.best.steps[index:])

    def without(self) -> Iterator[tuple[Stimulus, ...]]:
        steps = self.best.steps
        size = len(steps) // 2
        while size:
            for first in range(len(steps) - 1 - size, -1, -1):
                yield steps[:first] + steps[first + size :]
            size //= 2
