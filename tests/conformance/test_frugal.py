"""A tour that avoids costly steps covers the same cells and finds the same defects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fsm.conformance import suite
from fsm.conformance.lookup import Simulated
from fsm.language.library import load
from fsm.machine import Machine, Moves
from fsm.verdict import Holds

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested

POD = load("pod-sandbox")
COSTLY = {"restart"}


class Slow(Simulated):
    """A pod with costly restarts. ``runs`` counts consecutive restarts as one."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.runs = 0
        self.before = ""

    def costly(self, event: str) -> bool:
        return event in COSTLY

    def do(self, event: str) -> str:
        self.runs += event in COSTLY and self.before not in COSTLY
        self.before = event
        return super().do(event)


class Plain(Slow):
    """The same pod without declared costs."""

    costly = None  # type: ignore[assignment]


def toured(kind: type[Slow], machine: Machine = POD) -> tuple[Tested, int]:
    made = []

    def make() -> Slow:
        made.append(kind(machine))
        return made[-1]

    tested = suite.conform(POD, make, examples=0)
    return tested, sum(each.runs for each in made)


def test_a_state_that_no_step_leaves_ends_a_route() -> None:
    machine = load("runtime-handlers")

    assert isinstance(suite.conform(machine, lambda: Slow(machine), examples=0).verdict, Holds)


def test_as_much_is_met_at_less_cost() -> None:
    plain, often = toured(Plain)
    slow, seldom = toured(Slow)

    assert isinstance(slow.verdict, Holds)
    assert slow.missed == plain.missed
    assert set(slow.cover.cells) == set(plain.cover.cells)
    assert 0 < 2 * seldom < often


def test_costly_steps_are_seldom_in_random_tests_too() -> None:
    made = [Slow(POD)]
    suite.conform(POD, lambda: made[0], examples=20)

    assert made[0].runs < 2 * toured(Slow)[1] + 20


@pytest.mark.parametrize("event", ["restart", "stop"])
def test_a_mistake_is_found(event: str) -> None:
    row = POD.events[event]
    state = next(
        each for each, cell in row.cells.items() if isinstance(cell, Moves) and cell.outcomes[0].to != POD.initial
    )
    cell = row.cells[state]
    assert isinstance(cell, Moves)
    wrong = tuple(replace(each, to=POD.initial) for each in cell.outcomes)
    cells = {**row.cells, state: replace(cell, outcomes=wrong)}
    mutant = replace(POD, events={**POD.events, event: replace(row, cells=cells)})

    tested, _ = toured(Slow, mutant)

    assert any(each.steps[-1].event == event for each in tested.failures)


class Astray(Slow):
    """A pod that is in a state outside the plan after a failed run."""

    def never(self, event: str, outcome: str) -> bool:
        return (event, outcome) in {("restart", "unknown"), ("run", "left-over")}

    def unasked(self) -> tuple[str, ...]:
        return ()

    def arrange(self, event: str, outcome: str) -> bool:
        wanted = "left-over" if outcome == "undone" else outcome
        return super().arrange(event, wanted) and wanted == outcome


def test_what_leads_out_of_the_plan_ends_no_tour() -> None:
    tested, _ = toured(Astray)

    assert isinstance(tested.verdict, Holds)
    assert not tested.missed
