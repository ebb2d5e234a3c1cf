"""Test one property of an implementation, and judge nothing else.

The machine's shortest runs that exercise the property come first, followed by random tests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from fsm.conformance.cover import Cover
from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError, Failure, Taken
from fsm.conformance.methods import needed
from fsm.conformance.oracle import oracle as oracle_of
from fsm.conformance.plan import Plan
from fsm.conformance.shrinking import shrink
from fsm.conformance.stateful import random_failure
from fsm.machine import Machine, Moves
from fsm.machine.conditions import Emits, EmitsOnly, StepEmits, atoms
from fsm.machine.property.claims import Claim, Follows, Idempotent, Property, Refines, Requires, conditions_of
from fsm.machine.property.evidence import Run, RunStep
from fsm.monitor.field_clauses import held_to
from fsm.monitor.grouping import Folder
from fsm.monitor.property_watch import Watch, untestable
from fsm.sut import SUT, Overlapping, Stimulus


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTestResult:
    """The result of testing a property: its ``failure``, if any, or the reason why the tests prove nothing.

    ``untested`` is the reason why the property was not exercised. ``unwatchable`` is true if no test can exercise it.
    ``unmet`` lists what should be reachable but was not reached by any test. If the property needs a SUT method
    that is missing or returned nothing, ``unseen`` is its name: ``outputs`` or ``fields``. ``cover`` is the coverage.
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
    factory: Callable[[], SUT],
    *,
    profile: str | None = None,
    examples: int = 20,
    steps: int = 30,
    chance: int = 0,
) -> PropertyTestResult:
    """Test whether the SUT that *factory* makes has the property *stated* of *machine*.

    >>> from fsm.language.library import specification
    >>> from fsm.conformance.simulated import Simulated
    >>> of = specification("examples/models/door.toml")
    >>> result = run_property_test(of.machine, of.properties[0], lambda: Simulated(of.machine))
    >>> result.failure, result.untested
    (None, '')
    """
    if why := untestable(stated):
        return PropertyTestResult(of=stated, untested=why, unwatchable=True)
    sut = factory()
    try:
        overlaps = isinstance(sut, Overlapping)
        oracle = oracle_of(machine, profile, overlaps=overlaps)
        required = [stated.claim.requirement] if isinstance(stated.claim, Requires) else []
        fields = held_to(required, oracle.plan.table.machine, Folder())
        oracle = replace(oracle, fields=fields)
        watch = Watch(machine, stated, profile=profile)
        walk = partial(Execution, oracle, sut, watch=watch)
        failure, cover = None, Cover()
        try:
            for aim in watch.aims():
                Execution(oracle, sut, cover, watch).replay(_steps(machine, aim, overlaps=overlaps))
        except FailedError as failed:
            failure = failed.failure
        if failure is None and examples:
            failure = random_failure(oracle, sut, cover, watch=watch, examples=examples, steps=steps, chance=chance)
        if failure:
            shortest = shrink(walk, failure)
            trace = tuple(_as_written(oracle.plan, taken) for taken in shortest.trace)
            return PropertyTestResult(of=stated, failure=replace(shortest, trace=trace), cover=cover)
        if (unseen := _method_needed(stated.claim, oracle.plan)) in needed(oracle.plan.table, sut, cover):
            return PropertyTestResult(of=stated, unseen=unseen, cover=cover)
        tried = any(fields.tested.values()) if fields.tested else watch.tried
        untested = "" if tried else "no test has put it to the test"
        return PropertyTestResult(of=stated, untested=untested, unmet=watch.unmet, cover=cover)
    finally:
        sut.close()


def _method_needed(claim: Claim, plan: Plan) -> str:
    """Return the optional SUT method that a test of *claim* needs, or an empty string."""
    if isinstance(claim, Requires):
        return "fields"
    parts = (part for each in conditions_of(claim) for part in atoms(each.means))
    heard = any(isinstance(part, Emits | EmitsOnly | StepEmits) for part in parts)
    emits = any(way.emits for way in plan.table.ways)
    return "outputs" if heard or (emits and isinstance(claim, Idempotent | Follows | Refines)) else ""


def _steps(machine: Machine, run: Run, *, overlaps: bool) -> Iterator[Stimulus]:
    """Yield the stimuli that cause *run*. Calls are split into stages if *overlaps* is true, and otherwise whole."""
    left = list(run.steps)
    while left:
        step = left.pop(0)
        begins = not step.ends and _begins(machine, step)
        if overlaps or not begins:
            yield Stimulus(step.event, "end" if step.ends else "begin" if begins else "do", (step.outcome,))
            continue
        ends = [other for other in left if other.event == step.event and other.ends]
        left = [other for other in left if other not in ends]
        yield Stimulus(step.event, "do", (step.outcome, *(end.outcome for end in ends)))


def _as_written(plan: Plan, taken: Taken) -> Taken:
    """Return *taken* with its step as the plan writes it, which names no outcome if there is no choice."""
    edge = plan.wanted(taken.point, taken.step) if taken.point else None
    return replace(taken, step=edge.step) if edge else taken


def _begins(machine: Machine, taken: RunStep) -> bool:
    cell = machine.events[taken.event].cells[taken.source]
    return isinstance(cell, Moves) and any(way.name == taken.outcome and way.begins for way in cell.outcomes)
