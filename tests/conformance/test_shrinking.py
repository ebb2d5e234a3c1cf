"""Shortening a long failing test takes few repetitions."""

from __future__ import annotations

import pytest

from fsm.conformance.executor import Execution
from fsm.conformance.failure import FailedError
from fsm.conformance.lookup import Simulated
from fsm.conformance.oracle import oracle
from fsm.conformance.plan import steps
from fsm.conformance.stateful import shrink
from fsm.language.library import load


class Forgetful(Simulated):
    """A pod that has been run more than ``runs`` times is removed by a stop."""

    runs = 60
    done = 0

    def reset(self) -> None:
        super().reset()
        self.ran = 0

    def do(self, event: str) -> str:
        self.done += 1
        self.ran += event == "run"
        return super().do("remove" if event == "stop" and self.ran > self.runs else event)


@pytest.mark.parametrize("runs", [0, 1])
def test_a_short_way_to_where_a_long_test_failed_is_tried_first(runs: int) -> None:
    """The shortest path to the failing state is tried first, before the long test is repeated."""
    machine = load("cri-pod")
    sut = Forgetful(machine)
    judge = oracle(machine, overlaps=False, sut=sut)
    long = steps(f"{'run=ready; status=read; remove=removed; ' * 60}run=ready; stop=stopped")
    with pytest.raises(FailedError) as failed:
        Execution(judge, sut).replay(long)
    sut.runs, sut.done = runs, 0

    found = shrink(lambda: Execution(judge, sut), failed.value.failure)

    assert [str(each) for each in found.steps] == ["run=ready"] * (runs + 1) + ["stop=stopped"]
    assert found.repeated is None
    assert sut.done < (12 if not runs else 120)
