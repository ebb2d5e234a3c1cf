"""Run random tests. A Hypothesis state machine drives a SUT through the steps of a machine."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, TypeAlias

from hypothesis import HealthCheck, Phase, Verbosity, currently_in_test_context, note, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from fsm.conformance.executor import Execution
from fsm.conformance.failure import Cover, FailedError, Failure
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Plan
from fsm.errors import nearest
from fsm.machine import Event
from fsm.machine.conditions import comparisons_in
from fsm.machine.guards import encoded
from fsm.machine.terms import Argument, Variable, constants_in
from fsm.monitor.property_watch import Watch
from fsm.sut import SUT, Costly, RealTime, Stimulus

Strategies: TypeAlias = Mapping[str, Mapping[str, st.SearchStrategy[Argument]]]  # by event and argument

FAR: Final = (10**4, 10**6)  # numbers by which arguments may be beyond a scope
STAYS: Final = 4  # in a place that the plan does not know, a test starts again for one in this many aims
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


class JudgedSteps(RuleBasedStateMachine):
    """A Hypothesis state machine whose steps on ``sut`` are judged.  Its rules may call :meth:`do`."""

    sut: ClassVar[SUT]
    failing: ClassVar[Callable[[Failure], Exception]]
    walk: Execution

    @contextmanager
    def judged(self) -> Iterator[None]:
        try:
            yield
        except FailedError as failed:
            raise type(self).failing(failed.failure) from None

    def do(self, event: str, **args: Argument) -> str | None:
        """Take the whole *event*, judge it, and return its reply, or ``None`` if it cannot happen here."""
        known = self.walk.oracle.plan.table.machine.events[event]
        if None in encoded(known, args):
            raise ValueError(f"{event} needs the arguments {', '.join(known.arguments)}, but has only {args}")
        with self.judged():
            taken = self.walk.take(Stimulus(event, args=tuple((name, args[name]) for name in known.arguments)))
        seen = self.walk.trace[-1].seen if taken else None
        return seen.reply if seen else None

    def possible(self) -> tuple[str, ...]:
        """Return the possible states, each followed by the values of its variables: ``open, failures = 0``."""
        return tuple(sorted({self.walk.oracle.plan.valued.named(each.state) for each in self.walk.belief}))

    def teardown(self) -> None:
        if hasattr(self, "walk"):
            with self.judged():
                self.walk.finish()
            if currently_in_test_context():  # The steps that Hypothesis prints can also be run by hand.
                note(StepsNote(self))


class StepsNote:
    """The steps of a test. Hypothesis calls ``repr`` only if it prints the test, so only this test is shrunk."""

    def __init__(self, state: JudgedSteps) -> None:
        self.state = state

    def __repr__(self) -> str:
        walk, error = self.state.walk, sys.exc_info()[0]
        text = f"steps since the last reset: {'; '.join(str(each.step) for each in walk.trace)}"
        if error is None or walk.failed or not walk.trace:
            return text
        failure = Failure(broken="an invariant", trace=tuple(walk.trace))
        short = shrink(lambda: _Checked(type(self.state)(), walk, error), failure)
        again = f"\nthese steps also break an invariant: {'; '.join(map(str, short.steps))}"
        return text + again * (short.repeated is None and short.steps != failure.steps)


class _Checked(Execution):
    """Checks the invariants of *state* after each step.  If one of them raises *error*, the test fails."""

    def __init__(self, state: JudgedSteps, walk: Execution, error: type[BaseException]) -> None:
        super().__init__(walk.oracle, walk.sut, watch=walk.watch)
        state.walk, self._state, self._error = self, state, error
        own: Any = state.invariants  # a method in older versions of Hypothesis
        self._invariants = own() if callable(own) else own

    def take(self, step: Stimulus) -> bool:
        taken = super().take(step)
        try:
            for each in self._invariants:
                if all(holds(self._state) for holds in each.preconditions):
                    each.function(self._state)
        except self._error as error:
            raise self._failure_error(Failure(broken="an invariant")) from error
        return taken


def walker(
    oracle: Oracle,
    sut: SUT,
    cover: Cover,
    *,
    watch: Watch | None = None,
    failing: Callable[[Failure], Exception] = FailedError,
    strategies: Strategies | None = None,
    more: Iterable[Callable[..., object]] = (),
) -> type[RuleBasedStateMachine]:
    """Return a Hypothesis state machine that drives *sut*. If *watch* is given, only its property is judged.

    ``failing(failure)`` returns the exception to raise for a failure. *strategies* replace those for the arguments of
    some events. The functions in *more* are rules and invariants of the user.
    """
    # Both rules draw exactly one number, so that the rest of a test keeps its meaning when Hypothesis shrinks it.
    plan = oracle.plan
    costly = sut.costly if isinstance(sut, Costly) else lambda _: False
    aims = () if isinstance(sut, Costly) else plan.edges
    any_aim = st.integers(0, max(len(plan.edges) - 1, 0))
    walk = Execution(oracle, sut, cover, watch)

    class Conformance(JudgedSteps):
        @initialize()
        def begin(self) -> None:
            self.walk = walk
            self.aimed: set[int] = set()
            with self.judged():
                walk.restart()

        @precondition(lambda _: bool(aims))
        @rule(first=any_aim)
        def aim(self, first: int) -> None:
            """Aim at the next edge, from number *first* on, that this test has not yet aimed at.

            If the plan does not know a path from here, because values are far from those that it tries, mostly wander.
            """
            if self.walk.point is not None and not plan.planned(self.walk.point) and first % STAYS:
                self.wander(first)
                return
            numbers = (number % len(aims) for number in range(first, first + len(aims)))
            number = next((number for number in numbers if number not in self.aimed), first)
            self.aimed.add(number)
            with self.judged():
                self.walk.aim(aims[number])

        @rule(first=any_aim)
        def wander(self, first: int) -> None:
            here = self.walk.point
            edges = plan.leaving(here) if here is not None else ()
            waits = [Stimulus(each.event, "wait") for each in self.walk.clock.timers] if edges else []
            if first % SELDOM:
                edges = tuple(each for each in edges if not costly(each.step.event)) or edges
            with self.judged():
                if edges:
                    steps = [*(each.step for each in edges), *waits]
                    self.walk.take(steps[first % len(steps)])
                else:
                    self.walk.reset()

    made = [_argument_rule(event, each) for event, each in argument_strategies(plan, strategies or {}).items()]
    name = f"Conformance[{plan.table.machine.name}]"
    own = {"sut": sut, "failing": staticmethod(failing)}
    return type(name, (Conformance,), {**own, **{each.__name__: each for each in (*made, *more)}})


def argument_strategies(plan: Plan, strategies: Strategies) -> Strategies:
    """Return a strategy for each argument of each event: one of *strategies*, or one for the declared values.

    Raise ``ValueError`` if there is no such event or argument, and ``TypeError`` if a strategy names no argument.
    """
    own = {name: each.arguments for name, each in plan.table.machine.events.items() if each.arguments}
    for event, those in strategies.items():
        named = those if isinstance(those, Mapping) else ()
        for name, known in ((event, own), *((each, own.get(event, {})) for each in named)):
            if name not in known:
                hint = nearest(name, known, of="names")
                raise ValueError(
                    f"strategies name {name!r}, which is not an event with arguments or an argument; {hint}"
                )
        if not isinstance(those, Mapping):
            form = f"{{{event!r}: {{{next(iter(own[event]))!r}: …}}}}"
            raise TypeError(f"strategies have {those!r} for {event!r}; name its arguments, as in {form}")
    return {
        event: {
            name: strategies.get(event, {}).get(name, _values(plan.table.machine.events[event], each))
            for name, each in arguments.items()
        }
        for event, arguments in own.items()
    }


def _values(event: Event, variable: Variable) -> st.SearchStrategy[Argument]:
    """Return a strategy for values in the range, at and beside constants of conditions, and far beyond a scope."""
    compared = [each for way in event.outcomes() if way.when for each in comparisons_in(way.when.means)]
    near = {
        constant + beside
        for each in compared
        if variable.name in each.names
        for constant in (*constants_in(each.left), *constants_in(each.right))
        for beside in (-1, 0, 1)
    }
    low, high = variable.low, variable.high
    possible = sorted(each for each in near if low <= each and variable.has(each)) if variable.number else []
    strategies = [st.integers(low, high), *([st.sampled_from(possible)] if possible else [])]
    far = [st.integers(high + 1, high + most) for most in FAR] if variable.beyond == "scope" else []
    return st.one_of(*strategies, *far).map(variable.written)


def _argument_rule(event: str, strategies: Mapping[str, st.SearchStrategy[Argument]]) -> Callable[..., object]:
    def call(self: Any, **args: Argument) -> None:  # noqa: ANN401  (the state machine)
        self.do(event, **args)

    call.__name__ = f"do_{event}".replace("-", "_")
    made: Callable[[object], Callable[..., object]] = rule(**dict[str, Any](strategies))
    return made(call)


TRIES: Final = 500  # maximum number of shorter tests to try
REPEATS: Final = 20
AGAIN: Final = 3  # number of times that a shorter test must fail if the SUT has waited in real time


def shrink(walk: Callable[[], Execution], failure: Failure) -> Failure:
    """Search for the shortest failure of the same kind as *failure*. Each test runs on a new *walk*.

    First, the beginning of the test is replaced by a shorter path to the same point. Then steps are removed, and
    arguments become smaller. If the SUT has waited in real time, only tests that fail several times are kept. A
    failure that does not recur is repeated to count how often the test fails.
    """
    first = walk()
    plan, real = first.oracle.plan, isinstance(first.sut, RealTime) and bool(first.sut.waited())
    same = partial(_same_failure, walk, times=AGAIN if real else 1)
    tried: set[tuple[Stimulus, ...]] = set()

    def size(steps: tuple[Stimulus, ...]) -> tuple[int, int]:
        return len(steps), sum(abs(far) for step in steps for _, far in _distances(plan, step))

    def shorter(tests: Iterable[tuple[Stimulus, ...]], best: Failure) -> Failure | None:
        for steps in tests:
            if size(steps) < size(best.steps) and steps not in tried and len(tried) < TRIES:
                tried.add(steps)
                found = same(best, steps)
                if found is not None and size(found.steps) < size(best.steps):
                    return found
        return None

    best = shorter(_shortcuts(plan, failure, sparse=True), failure) or failure
    if best is not failure or same(failure, failure.steps):
        found: Failure | None = best
        while found is not None:
            best = found
            shortcuts = chain(_shortcuts(plan, best, sparse=True), _shortcuts(plan, best))
            found = shorter(
                chain(shortcuts, _without_steps(best.steps), _with_smaller_arguments(plan, best.steps)), best
            )
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


def _distances(plan: Plan, step: Stimulus) -> Iterator[tuple[Variable, int]]:
    """Yield each argument of *step*, and how far its value is from the possible value that is nearest to 0."""
    for name, value in step.args:
        variable = plan.table.machine.events[step.event].arguments[name]
        yield variable, variable.encoded(value) - max(variable.low, min(variable.high, 0))


def _with_smaller_arguments(plan: Plan, steps: tuple[Stimulus, ...]) -> Iterator[tuple[Stimulus, ...]]:
    for index, step in enumerate(steps):
        for variable, far in _distances(plan, step):
            nearest_value, less = variable.encoded(dict(step.args)[variable.name]) - far, 0
            while less != far:
                args = {**dict(step.args), variable.name: variable.written(nearest_value + less)}
                yield (*steps[:index], step._replace(args=tuple(args.items())), *steps[index + 1 :])
                less = far - (far - less) // 2 if abs(far - less) > 1 else far
