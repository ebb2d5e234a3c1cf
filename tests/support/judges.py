"""Judges that compare the engines with the naive interpreters on the same input.

A judge belongs to one machine, and judges tests, traces or histories of that machine.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import naive
import naive_linearizability
import naive_oracle
from random_claims import stated

from fsm.conformance.oracle import oracle
from fsm.linearizability import linearize
from fsm.linearizability.history import History, Operation
from fsm.monitor import Monitor
from fsm.monitor.property_watch import Watch
from fsm.trace import Observation
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from naive_oracle import Test

    from fsm.machine import Machine
    from fsm.sut import Response, Stimulus
    from fsm.trace import Phase

    Trace: TypeAlias = list[Observation]
    KitJudge: TypeAlias = Callable[[Test], bool]
    TraceJudge: TypeAlias = Callable[[Trace], bool]
    HistoryJudge: TypeAlias = Callable[[History], bool]

# -- traces and histories ----------------------------------------------------------


def trace_naively(machine: Machine) -> TraceJudge:
    return lambda trace: naive.first_unexplained(machine, trace, fresh=True) is None


def trace_by_monitor(machine: Machine) -> TraceJudge:
    """Judge traces with the monitor, starting from the initial state."""

    def legal(trace: Trace) -> bool:
        monitor = Monitor(machine, fresh=True)
        monitor.feed(trace, range(1, len(trace) + 1))
        return not isinstance(monitor.judgement().verdict, Fails)

    return legal


TRACE: Mapping[str, Callable[[Machine], TraceJudge]] = {"naive": trace_naively, "monitor": trace_by_monitor}


def history_naively(machine: Machine) -> HistoryJudge:
    return lambda history: naive_linearizability.linearizable(machine, history)


def history_by_linearizability(machine: Machine) -> HistoryJudge:
    return lambda history: isinstance(linearize(machine, history), Holds)


HISTORY: Mapping[str, Callable[[Machine], HistoryJudge]] = {
    "naive": history_naively,
    "linearizability": history_by_linearizability,
}


def trace_of(history: History) -> Trace:
    """Return the requests and replies of *history* in order of time, with requests before simultaneous replies."""
    found = [
        (each.called, 0, Observation(entity="e", event=each.event, phase="request")) for each in history.operations
    ]
    found += [
        (each.returned, 1, Observation(entity="e", event=each.event, phase="reply", reply=each.reply))
        for each in history.operations
        if each.returned is not None
    ]
    return [seen for _, _, seen in sorted(found, key=lambda end: end[:2])]


def distinct(history: History) -> bool:
    """Check that calls of the same event never overlap, so that it is clear which call a reply belongs to."""
    spans: dict[str, list[tuple[int, float]]] = {}
    for each in history.operations:
        spans.setdefault(each.event, []).append((each.called, float("inf") if each.returned is None else each.returned))
    return all(one[1] < two[0] for each in spans.values() for one, two in pairwise(sorted(each)))


# -- tests -------------------------------------------------------------------------


def kit_naively(machine: Machine) -> KitJudge:
    return lambda test: naive_oracle.first_illegal(machine, test) is None


def kit_by_oracle(machine: Machine) -> KitJudge:
    of = oracle(machine)

    def legal(test: Test) -> bool:
        belief = of.start
        for step, seen in test:
            belief = of.legal(belief, step, seen)
        return bool(belief)

    return legal


def kit_by_property_monitor(machine: Machine) -> KitJudge:
    """Judge tests by watching a property that always holds.

    The watch fails only if no run explains the test.
    """
    watch = Watch(machine, stated(machine, f'never = "is {machine.initial} and not is {machine.initial}"'))

    def legal(test: Test) -> bool:
        watch.reset()
        for step, seen in test:
            watch.step(step, seen)
        return not watch.left

    return legal


def kit_by_monitor(machine: Machine) -> KitJudge:
    """Judge tests as traces without outputs.

    A trace may allow more than the test does.
    """
    legal = trace_by_monitor(machine)
    return lambda test: legal([_observation(*each) for each in test])


def _observation(step: Stimulus, seen: Response) -> Observation:
    if seen.reply is None and step.stage == "end":
        return Observation(entity="e", shows=seen.shows)
    phase: Phase = "request" if seen.reply is None else "reply" if step.stage == "end" else ""
    return Observation(entity="e", event=step.event, phase=phase, reply=seen.reply or "", shows=seen.shows)


def kit_by_linearizability(machine: Machine) -> KitJudge:
    """Judge tests as histories.

    A history may allow more than the test does. In a test, a call in progress pauses until the test resumes it; in a
    history, the call may act at any time.
    """
    legal = history_by_linearizability(machine)
    return lambda test: legal(_history(test))


def _history(test: Test) -> History:
    operations: list[Operation] = []
    left: Operation | None = None
    outputs: list[str] | None = []
    for number, (step, seen) in enumerate(test):
        called, returned = 2 * number, 2 * number + 1
        if outputs is not None:
            outputs = None if seen.outputs is None else [*outputs, *seen.outputs]
        if seen.reply is None:
            if step.stage == "begin":
                operations += [left] if left is not None else []  # the earlier call was interrupted and never ends
                left = Operation(called=called, returned=None, event=step.event)
            if seen.shows:
                operations.append(Operation(called=called, returned=returned, shows=seen.shows))
            continue
        if step.stage == "end" and left is not None:
            called, left = left.called, None
        operations.append(
            Operation(called=called, returned=returned, event=step.event, reply=seen.reply, shows=seen.shows)
        )
    operations += [left] if left is not None else []
    return History(operations=tuple(operations), outputs={} if outputs is None else {"": tuple(outputs)})


KIT: Mapping[str, Callable[[Machine], KitJudge]] = {
    "naive": kit_naively,
    "oracle": kit_by_oracle,
    "property monitor": kit_by_property_monitor,
    "monitor": kit_by_monitor,
    "linearizability": kit_by_linearizability,
}
