"""Measure the steps per second of a stateful test, compared with a bare Hypothesis state machine.

Usage: ``python tests/bench/stateful.py``. Both drive the same simulated machine, but the bare state machine has just
a rule for each event and judges nothing. Rounds alternate, and the two medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fsm.conformance.failure import Cover
from fsm.conformance.lookup import Simulated
from fsm.conformance.oracle import oracle
from fsm.conformance.stateful import walker
from fsm.language.library import load
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from fsm.machine import Machine

ROUNDS = 5


def bare(machine: Machine, count: list[int]) -> type[RuleBasedStateMachine]:
    """Return a Hypothesis state machine that has a rule for each event and counts its steps in *count*."""

    def begin(self: Any) -> None:  # noqa: ANN401  (the class is made below)
        self.sut = Simulated(machine)

    def doing(event: str) -> Any:  # noqa: ANN401  (a rule)
        def do(self: Any) -> None:  # noqa: ANN401
            try:
                self.sut.do(event)
            except UnsupportedError:
                return
            self.sut.outputs()
            self.sut.shows()
            count[0] += 1

        do.__name__ = event.replace("-", "_")
        return rule()(do)

    rules = {f"rule_{number}": doing(event) for number, event in enumerate(machine.events)}
    return type("Bare", (RuleBasedStateMachine,), {"begin": initialize()(begin), **rules})


def seconds(kind: type[RuleBasedStateMachine], examples: int) -> float:
    how = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        derandomize=True,
    )
    before = time.perf_counter()
    run_state_machine_as_test(kind, settings=how)
    return time.perf_counter() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("models", nargs="*", default=["container-status", "nri-container", "cri-pod"])
    asked = parser.parse_args()
    for name in asked.models:
        machine = load(name)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            count = [0]
            took = seconds(bare(machine, count), asked.examples)
            theirs.append(count[0] / took)
            cover = Cover()
            kind = walker(oracle(machine), Simulated(machine), cover)
            took = seconds(kind, asked.examples)
            ours.append(cover.steps / took)
        mine, bares = statistics.median(ours), statistics.median(theirs)
        told = f"{mine:,.0f} steps/s of ours, {bares:,.0f} of a bare state machine"
        print(f"{name}: {told}, ratio {mine / bares:.2f}")  # noqa: T201  (its purpose)


if __name__ == "__main__":
    main()
