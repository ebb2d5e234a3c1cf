"""Run all tests of an implementation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final

from fsm.conformance.asynchronous import made
from fsm.conformance.boundaries import Arguments
from fsm.conformance.complete_plan import CompletePlan
from fsm.conformance.concurrency import concurrently, refuse_threads
from fsm.conformance.crash import crashes
from fsm.conformance.executor import Execution
from fsm.conformance.failure import Causes, Cover, FailedError, Failure, Taken, misnamed, needed
from fsm.conformance.lookup import find
from fsm.conformance.oracle import Oracle, SelfJudging, Telling
from fsm.conformance.oracle import oracle as oracle_of
from fsm.conformance.plan import Edge, Plan
from fsm.conformance.race_runs import Pace, RaceJudging, kind_of
from fsm.conformance.stateful import random_failure, shrink
from fsm.conformance.tested import Tested, obstacles
from fsm.conformance.tours import complete_tour, distinguishing_sequences, frugal_tour
from fsm.conformance.virtual_time import timed_tests
from fsm.machine import Machine, Moves
from fsm.machine.claims import Claim, Follows, Idempotent, Property, Refines, Requires, conditions_of
from fsm.machine.conditions import Emits, EmitsOnly, StepEmits, atoms
from fsm.machine.evidence import Run, RunStep
from fsm.machine.graph import reachable_pairs
from fsm.machine.product.flatten import flatten, machine_of
from fsm.machine.product.system import System
from fsm.monitor.extra_rules import requirement_checker
from fsm.monitor.grouping import Folder
from fsm.monitor.property_watch import Watch, untestable
from fsm.sut import (
    SUT,
    AsyncSUT,
    Costly,
    Crashing,
    Limited,
    Overlapping,
    RealTime,
    Stimulus,
    StimulusStage,
)

KINDS: Final = 25  # number of different kinds of failures after which testing ends
REPEATS: Final = 10  # number of runs of each programme that uses threads
REMOTE_REPEATS: Final = 3  # the same for a remote SUT, where fewer runs leave time for more programmes


def conform(
    machine: Machine | System,
    sut: str | Callable[[], SUT | AsyncSUT],
    *,
    profile: str | None = None,
    name: str = "",
    examples: int = 100,
    steps: int = 50,
    seed: int = 0,
    threads: int = 1,
    pace: Pace | None = None,
    most: int = KINDS,
    aimed: Callable[[Edge], bool] = lambda _edge: True,
    advanced: Callable[[int, int], None] = lambda _done, _whole: None,
) -> Tested:
    """Test a SUT against *machine*. A system is flattened into one machine.

    *sut* is a function or class that makes the SUT, or a string that names it (:mod:`fsm.conformance.lookup`).

    First, tests take every step of the machine for which *aimed* is true, by a shortest path. If the machine has data
    and few configurations, and no test has failed, tests take every step in each configuration. If the SUT can crash,
    they also crash it at every effect of every event. If this finds no failure, Hypothesis runs *examples* random
    tests of up to *steps* steps each, with the seed *seed*. A failure is shrunk. Finally, if *threads* is 2 or
    more, up to this number of threads call ``do`` concurrently, to find races. *pace* is for a remote SUT. Testing
    ends after *most* failures of different kinds.

    *name* is the name of the SUT in reports. ``advanced(done, whole)`` is called with the number of tests done and
    the number of all tests. Raise :class:`InputError` if *sut* does not name something that can be tested.

    >>> from fsm.language.library import load
    >>> tested = conform(load("examples/models/door.toml"), "model:examples/models/door.toml", examples=5)
    >>> type(tested.verdict).__name__, tested.missed
    ('Holds', ())
    """
    sut_profile = profile
    if isinstance(machine, System):
        machine, profile = flatten(machine.under(profile)), None
    machine = machine_of(machine)
    factory = partial(made, find(sut, machine, profile=sut_profile) if isinstance(sut, str) else sut, machine)
    tested = factory()
    if threads > 1:
        refuse_threads(machine, tested)
    with closing(tested):
        oracle = oracle_of(machine, profile, overlaps=isinstance(tested, Overlapping), sut=tested)
        cover = Cover()
        edges = [each for each in oracle.plan.edges if aimed(each)]
        whole = len(edges) + examples
        tour = frugal_tour if isinstance(tested, Costly | Limited) else _tour
        causes = Causes(most=most, shrunk=lambda failure: shrink(lambda: Execution(oracle, tested), failure))
        tour(Execution(oracle, tested, cover), edges, causes, lambda done: advanced(done, whole))
        if tour is _tour and len(causes.found) < most:
            _test_times(Execution(oracle, tested, cover), edges, causes)
        complete = CompletePlan(oracle.plan)
        if tour is _tour and not causes.found:
            walk = Execution(replace(oracle, plan=complete), tested, cover)
            complete_tour(walk, [*filter(aimed, complete.edges)], causes)
        failures = causes.failures()
        if isinstance(tested, Crashing) and all(each.trace for each in failures) and len(failures) < most:
            failures += _test_crashes(oracle, tested, cover, most - len(failures), far=pace is not None)
        skipped = bool(failures and examples)
        if not failures and examples:
            failure = random_failure(oracle, tested, cover, examples=examples, steps=steps, chance=seed)
            failures = [] if failure is None else [shrink(lambda: Execution(oracle, tested), failure)]
        advanced(whole, whole)
        told = tested.events() if isinstance(tested, Telling) else None
        failures += [Failure(violation=each) for each in told.violations] if told else []
        found = _make_tested(name or (sut if isinstance(sut, str) else ""), oracle, tested, cover, failures)
    races = None
    known = {kind_of(each.violation) for each in failures if each.violation is not None}
    continues = isinstance(tested, RaceJudging) and all(each.violation is not None for each in failures)
    if threads > 1 and examples and (continues or not failures):
        races = concurrently(
            machine,
            factory,
            threads=threads,
            profile=profile,
            examples=examples,
            repeats=REPEATS if pace is None else REMOTE_REPEATS,
            chance=seed,
            pace=pace,
            known=known,
        )
    return replace(
        found,
        shortened=len(edges) < len(oracle.plan.edges),
        skipped=skipped,
        ways=tuple(dict.fromkeys(oracle.plan.original(way) for edge in oracle.plan.edges for way in edge.ways)),
        races=races,
        stopped=len(failures) >= most,
        told=told.count if told else None,
        configurations=complete.taken(cover) if tour is _tour else (0, 0),
    )


def replay(
    machine: Machine,
    factory: Callable[[], SUT | AsyncSUT],
    steps: Iterable[Stimulus],
    *,
    profile: str | None = None,
    name: str = "",
) -> Tested:
    """Take *steps* on the SUT that *factory* makes, and judge them. Steps that cannot be taken are skipped."""
    with closing(made(factory, machine)) as sut:
        oracle = oracle_of(machine, profile, overlaps=isinstance(sut, Overlapping), sut=sut)
        walk = Execution(oracle, sut)
        failures: list[Failure] = []
        try:
            walk.reset()
            for step in steps:
                if not walk.take(step) and walk.point is not None:
                    why = "this step cannot be taken here with these outcomes"
                    walk.cover.unsupported.setdefault((walk.point, step.event, step.stage), why)
            walk.finish()
        except FailedError as failed:
            failures.append(failed.failure)
        return replace(_make_tested(name, oracle, sut, walk.cover, failures), shortened=True)


def _make_tested(name: str, oracle: Oracle, sut: SUT, cover: Cover, failures: Iterable[Failure]) -> Tested:
    table, judging = oracle.plan.table, sut if isinstance(sut, SelfJudging) else None
    return Tested(
        sut=name,
        oracle=oracle,
        cover=cover,
        failures=tuple(failures),
        reachable=reachable_pairs(replace(table, data=None)),
        obstacles=obstacles(oracle, cover),
        methods=needed(table, sut, cover),
        misnamed=misnamed(sut),
        waited=sut.waited() if isinstance(sut, RealTime) else "",
        judge=judging.model if judging else "",
        covered=tuple(judging.covered()) if judging else (),
    )


def _tour(walk: Execution, edges: list[Edge], causes: Causes, advanced: Callable[[int], None]) -> None:
    with suppress(FailedError):  # The first test reports the failure.
        walk.reset()
    sequences = distinguishing_sequences(walk)
    for number, edge in enumerate(edges):
        advanced(number)
        for run in sequences.runs(edge) or ((),):
            try:
                walk.restart()
                for each in run if walk.aim(edge) else ():
                    walk.take(each.step)
                walk.finish()
            except FailedError as failed:
                if causes.add(failed.failure):
                    return


def _test_times(walk: Execution, edges: list[Edge], causes: Causes) -> None:
    for steps in timed_tests(walk.oracle.plan, walk.clock, edges, walk.cover):
        with suppress(FailedError):
            walk.restart()
        try:
            for step in steps:
                walk.take(step)
        except FailedError as failed:
            if causes.add(failed.failure):
                return


def _test_crashes(oracle: Oracle, sut: SUT, cover: Cover, most: int, *, far: bool) -> list[Failure]:
    causes = Causes(most=most)
    tried: set[Edge] = set()
    avoided = cover.avoided if far else lambda _: False
    for edge, step in crashes(oracle.plan):
        path = oracle.plan.path(oracle.plan.start, edge.source, without=avoided)
        # A test cannot choose the outcome of a remote SUT's restart, so one crash at each effect is enough.
        if far and (path is None or edge in tried or avoided(edge)):
            continue
        tried.add(edge)
        before = [each.step for each in path or ()]
        for point in count():
            walk = Execution(oracle, sut, cover)
            try:
                walk.replay([*before, step._replace(point=point)])
            except FailedError as failed:
                if causes.add(failed.failure):
                    return causes.failures()
            if not walk.died:
                break
    return causes.failures()


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTestResult:
    """The result of testing a property: a ``failure``, or the reasons why the tests are inconclusive.

    ``untested`` says why the tests did not exercise the property. ``unwatchable`` is true if no test can exercise it.
    ``unmet`` lists what should be reachable but was not reached. ``unseen`` is the name of a method, ``outputs`` or
    ``fields``, that the property needs and the SUT lacks. A method ``outputs`` that always returns ``None`` counts as
    lacking.
    """

    of: Property
    failure: Failure | None = None
    untested: str = ""
    unmet: tuple[str, ...] = ()
    unwatchable: bool = False
    unseen: str = ""
    cover: Cover = field(default_factory=Cover)


def run_property_test(
    machine: Machine,
    stated: Property,
    factory: Callable[[], SUT | AsyncSUT],
    *,
    profile: str | None = None,
    examples: int = 20,
    steps: int = 30,
    chance: int = 0,
) -> PropertyTestResult:
    """Test whether the SUT that *factory* makes has the property *stated*, which belongs to *machine*.

    >>> from fsm.language.library import specification
    >>> from fsm.conformance.lookup import Simulated
    >>> of = specification("examples/models/door.toml")
    >>> result = run_property_test(of.machine, of.properties[0], lambda: Simulated(of.machine))
    >>> result.failure, result.untested
    (None, '')
    """
    if why := untestable(stated, machine):
        return PropertyTestResult(of=stated, untested=why, unwatchable=True)
    with closing(made(factory, machine)) as sut:
        overlaps = isinstance(sut, Overlapping)
        oracle = oracle_of(machine, profile, overlaps=overlaps)
        required = [stated.claim.requirement] if isinstance(stated.claim, Requires) else []
        fields = requirement_checker(required, oracle.plan.table.machine, Folder())
        oracle = replace(oracle, fields=fields)
        watch = Watch(machine, stated, profile=profile)
        failure, cover = None, Cover()
        try:
            for aim in watch.aims():
                Execution(oracle, sut, cover, watch).replay(_steps(machine, aim, overlaps=overlaps))
        except FailedError as failed:
            failure = failed.failure
        if failure is None and examples:
            failure = random_failure(oracle, sut, cover, watch=watch, examples=examples, steps=steps, chance=chance)
        if failure:
            shortest = shrink(lambda: Execution(oracle, sut, watch=watch), failure)
            trace = tuple(_as_written(oracle.plan, taken) for taken in shortest.trace)
            return PropertyTestResult(of=stated, failure=replace(shortest, trace=trace), cover=cover)
        if (unseen := _method_needed(stated.claim, oracle.plan)) in needed(oracle.plan.table, sut, cover):
            return PropertyTestResult(of=stated, unseen=unseen, cover=cover)
        tried = any(fields.tested.values()) if fields.tested else watch.tried
        untested = "" if tried else "no test has put the property to the test"
        return PropertyTestResult(of=stated, untested=untested, unmet=watch.unmet, cover=cover)


def _method_needed(claim: Claim, plan: Plan) -> str:
    if isinstance(claim, Requires):
        return "fields"
    parts = (part for each in conditions_of(claim) for part in atoms(each.means))
    heard = any(isinstance(part, Emits | EmitsOnly | StepEmits) for part in parts)
    emits = any(way.emits for way in plan.table.ways)
    return "outputs" if heard or (emits and isinstance(claim, Idempotent | Follows | Refines)) else ""


def _steps(machine: Machine, run: Run, *, overlaps: bool) -> Iterator[Stimulus]:
    left = list(run.steps)
    while left:
        step = left.pop(0)
        cell = machine.events[step.event].cells[step.source]
        ways = cell.outcomes if isinstance(cell, Moves) and not step.ends else ()
        begins = any(way.begins and way.name == step.outcome for way in ways)
        if overlaps or not begins:
            args = () if step.ends else _arguments(machine, step)
            stage: StimulusStage = "end" if step.ends else "begin" if begins else "do"
            yield Stimulus(step.event, stage, (step.outcome,), args=args)
            continue
        ends = [other for other in left if other.event == step.event and other.ends]
        left = [other for other in left if other not in ends]
        outcomes = (step.outcome, *(end.outcome for end in ends))
        yield Stimulus(step.event, "do", outcomes, args=_arguments(machine, step))


def _arguments(machine: Machine, step: RunStep) -> Arguments:
    """Return the arguments of *step*. Those that do not matter have the first declared value."""
    given = dict(text.split(" = ") for text in step.given)
    known = machine.events[step.event].arguments
    return tuple(
        (name, each.read(given[name]) if name in given else each.written(each.low)) for name, each in known.items()
    )


def _as_written(plan: Plan, taken: Taken) -> Taken:
    edge = plan.wanted(taken.point, taken.step) if taken.point else None
    return replace(taken, step=edge.step) if edge else taken
