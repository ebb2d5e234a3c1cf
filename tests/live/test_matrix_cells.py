"""What tests of a version say of each clause; the versions here are machines that play them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conformance_matrix import page, rows
from matrix_cells import Cell, Column, Holds, NotCovered, Violated, column

from fsm.conformance.simulated import Simulated
from fsm.conformance.suite import conform
from fsm.library import load
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "1.6.20"
PROFILE = f"containerd-{VERSION}"


class Playing(Simulated):
    """A pod as the profile has it, whose ``stop``, once it is gone, is answered *gone*."""

    def __init__(self, gone: str = "ok", lacks: str = "") -> None:
        super().__init__(load("cri-pod").under(PROFILE))
        self._gone, self._lacks = gone, lacks

    def arrange(self, event: str, outcome: str) -> bool:
        """Nothing: a profile would have its deviations arranged."""
        del event, outcome
        return False

    def do(self, event: str) -> str:
        if event == self._lacks:
            raise UnsupportedError("not here")
        was = self.shows()
        reply = super().do(event)
        return self._gone if (event, was) == ("stop", "absent") else reply


def measured(factory: Callable[[], Playing]) -> Column:
    machine = load("cri-pod")
    plain = conform(machine, factory, examples=2)
    profiled = conform(machine, factory, profile=PROFILE, examples=2)
    return column(machine, VERSION, plain, profiled, fields=False)


def cell(found: Column, clause: str) -> Cell:
    return found.cells[clause]


def test_a_clause_that_is_kept_holds() -> None:
    found = measured(Playing)

    kept = cell(found, "stop-is-idempotent")
    assert isinstance(kept, Holds)
    assert kept.met == kept.cells
    assert () == found.differences


def test_what_the_profile_says_is_tolerated() -> None:
    """With the shortest test that fails without it."""
    found = measured(lambda: Playing("NOT_FOUND"))

    broken = cell(found, "stop-is-idempotent")
    assert isinstance(broken, Violated)
    assert (("stop-of-removed",), True) == (broken.tolerated, broken.known)
    assert "1. stop  NOT_FOUND; shows absent" in broken.traces[0]
    assert "2. " not in broken.traces[0]
    assert () == found.differences


def test_what_the_profile_does_not_say_is_a_difference() -> None:
    found = measured(lambda: Playing("INTERNAL"))

    broken = cell(found, "stop-is-idempotent")
    assert isinstance(broken, Violated)
    assert ((), False) == (broken.tolerated, broken.known)
    assert broken.traces[-1:] == found.differences


def test_what_is_not_covered_has_a_reason() -> None:
    found = measured(lambda: Playing(lacks="run"))

    assert NotCovered(missed=("run is not supported (not here)",)) == cell(found, "run-makes-ready")


@pytest.mark.parametrize(
    ("gone", "shown"),
    [
        ("ok", "holds"),
        (
            "NOT_FOUND",
            f"tolerated: `stop-of-removed` ([trace](#cri-pod-stop-is-idempotent-{VERSION.replace('.', '')}))",
        ),
        ("INTERNAL", f"**violated** ([trace](#cri-pod-stop-is-idempotent-{VERSION.replace('.', '')}))"),
    ],
)
def test_the_page_shows_it(gone: str, shown: str) -> None:
    """A trace is linked, and is there."""
    text = page([measured(lambda: Playing(gone))])

    assert f"| `stop-is-idempotent` | MUST | {shown} |" in text
    assert ("### cri-pod stop-is-idempotent 1.6.20" in text) == ("trace" in shown)


def test_what_matters_of_a_page_is_no_number_and_no_trace() -> None:
    one, other = page([measured(Playing)]), page([measured(lambda: Playing("NOT_FOUND"))])

    assert rows(one) == rows(one.replace("holds |", "holds in 1 of 2 |"))
    assert rows(one) != rows(other)
