"""Coverage counts the (event, state) pairs that tests reach, and reports missing outputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from machines import machine_of

from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay, run_property_test
from fsm.conformance.tested import Obstacle
from fsm.errors import InputError
from fsm.hypothesis_tests import stateful
from fsm.machine.claims import Idempotent, Property
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.report import ExitCode, conformance_report
from fsm.sut import UnsupportedError
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested

CONNECTION = """
[machine]
name = "connection"
title = "A connection"
about = "Opens, and closes."
source = "our design note"
initial = "new"
[states]
new = { about = "Made.", shows = "NEW" }
connecting = { about = "Dials.", shows = "CONNECTING" }
open = { about = "In use.", shows = "OPEN" }
closed = { about = "Over.", shows = "CLOSED" }
never = { about = "Not reached.", shows = "NEVER" }
[event.connect]
kind = "call"
about = "Dial."
MUST = "design"
refuses = { "*" = "NOT_OPEN" }
moves = { new = { begins = "connecting" } }
[event.connect.ends]
connecting = [{ name = "connected", to = "open", emits = ["Up"] }, { name = "failed", to = "closed", reply = "FAILED" }]
closed = { stays = true, reply = "ABORTED" }
[event.close]
kind = "call"
about = "Hang up."
MUST = "design"
ignores = ["closed"]
moves = { new = "closed", connecting = "closed", open = "closed", never = "closed" }
[event.drop]
kind = "signal"
about = "The peer is gone."
MUST = "design"
moves = { open = "closed" }
cannot = ["new", "connecting", "closed", "never"]
"""

MACHINE = machine_of(CONNECTION)
"""A machine with 17 (event, state) pairs.

In 6 of these pairs, the state is unreachable or the signal cannot happen.
"""


def named(found: Tested, obstacle: Obstacle) -> set[str]:
    table = found.oracle.plan.table
    pairs = found.unreached.get(obstacle, ())
    return {f"{table.rows[row].name} in {table.states[state]}" for row, state in pairs}


class Whole(Simulated):
    """A simulated machine that performs only whole calls, because it lacks the methods ``begin`` and ``end``."""

    begin = end = None  # type: ignore[assignment]


def test_what_can_be_reached_is_the_same_for_the_judge_and_for_tests() -> None:
    table = tabulate(MACHINE)
    pairs = {(table.rows[row].name, table.states[state]) for row, state in reachable_pairs(table)}

    assert {*Monitor(MACHINE).judgement().covered.cells} == pairs
    assert len(pairs) == 11
    for sut in (Simulated, Whole):
        assert reachable_pairs(table) == conform(MACHINE, partial(sut, MACHINE), examples=0).reachable


def test_all_that_the_machine_can_is_reached_if_it_plays_itself() -> None:
    found = conform(MACHINE, lambda: Simulated(MACHINE), examples=0)

    assert (isinstance(found.verdict, Holds), dict(found.unreached)) == (True, {})


def test_what_needs_begin_and_end_is_named() -> None:
    found = conform(MACHINE, lambda: Whole(MACHINE), examples=0)

    assert isinstance(found.verdict, Holds)
    assert {*found.unreached} == {Obstacle.OVERLAP}
    assert named(found, Obstacle.OVERLAP) == {"connect in connecting", "close in connecting", "…connect in closed"}
    assert "needs the methods begin and end: connect in connecting" in conformance_report.text(found)


def test_what_the_environment_chooses_is_named() -> None:
    class Fails(Whole):
        arrange = None  # type: ignore[assignment]

        def do(self, event: str) -> str:
            if event == "connect" and self.shows() == "NEW":
                super().do("close")
                return "FAILED"
            return super().do(event)

    found = conform(MACHINE, lambda: Fails(MACHINE), examples=0)

    assert isinstance(found.verdict, Holds), found.failures
    assert named(found, Obstacle.CHOICE) == {"connect in open", "close in open", "drop in open"}
    assert "needs a choice of the environment (method arrange)" in conformance_report.text(found)


def test_what_is_not_supported_is_named() -> None:
    class Deaf(Whole):
        def do(self, event: str) -> str:
            if event == "drop":
                raise UnsupportedError(event)
            return super().do(event)

    found = conform(MACHINE, lambda: Deaf(MACHINE), examples=0)

    assert isinstance(found.verdict, Holds)
    assert named(found, Obstacle.SUPPORT) == {"drop in open"}


def test_a_pair_that_is_owed_and_missed_makes_it_unknown() -> None:
    aimed = conform(MACHINE, lambda: Simulated(MACHINE), examples=0, aimed=lambda edge: edge.step.event != "drop")

    assert isinstance(aimed.verdict, Unknown)
    assert named(aimed, Obstacle.NONE) <= {"drop in open"}
    assert conformance_report.answer(aimed, "MUST") is ExitCode.UNKNOWN


def test_steps_alone_prove_nothing() -> None:
    found = replay(MACHINE, lambda: Simulated(MACHINE), steps("close; close"))

    assert isinstance(found.verdict, Unknown)
    assert (len(found.reached), len(found.reachable)) == (2, 11)


AMBIGUOUS = """
[machine]
name = "coin"
title = "A coin"
about = "Lies on one of its sides."
source = "a game"
initial = "none"
[states]
none = { about = "Not thrown.", shows = "NONE" }
head = { about = "Head.", shows = "LIES" }
tail = { about = "Tail.", shows = "LIES" }
[event.throw]
kind = "call"
about = "Throw it."
MUST = "rules"
moves = { none = [{ name = "head", to = "head" }, { name = "tail", to = "tail" }] }
refuses = { head = "DONE", tail = "DONE" }
"""


@pytest.mark.parametrize("arranges", [True, False])
def test_a_state_that_is_not_known_is_not_reached(*, arranges: bool) -> None:
    class Coin(Simulated):
        def arrange(self, event: str, outcome: str) -> bool:
            return arranges and super().arrange(event, outcome)

    machine = machine_of(AMBIGUOUS)
    found = conform(machine, lambda: Coin(machine), examples=0)

    assert isinstance(found.verdict, Holds)
    assert named(found, Obstacle.AMBIGUITY) == (set() if arranges else {"throw in head", "throw in tail"})


@pytest.mark.parametrize(("at_least", "answer"), [(100, ExitCode.FAILS), (70, ExitCode.HOLDS)])
def test_less_than_is_asked_for_fails(at_least: float, answer: ExitCode) -> None:
    """Covering 72.7 % of the reachable pairs fails if 100 % is required, but not if 70 % is required."""
    found = conform(MACHINE, lambda: Whole(MACHINE), examples=0)

    assert conformance_report.answer(found, "MUST", at_least) is answer
    assert ("72.7 % is less than the 100 %" in conformance_report.text(found, at_least=at_least)) == (at_least == 100)


class Mute(Simulated):
    """A simulated machine with a misspelt method for outputs."""

    outputs = None  # type: ignore[assignment]

    def output(self) -> tuple[str, ...]:
        return super().outputs()


@pytest.mark.parametrize("near", [True, False])
def test_outputs_that_are_not_compared_leave_it_unknown(*, near: bool) -> None:
    class Quiet(Simulated):
        outputs = None  # type: ignore[assignment]

    found = conform(MACHINE, lambda: (Mute if near else Quiet)(MACHINE), examples=2)
    report = conformance_report.text(found)

    assert found.verdict == Unknown(why="outputs were not compared")
    assert "add the method outputs" in report
    assert ("a method output, which nothing calls; did you mean outputs?" in report) == near


def test_a_property_about_outputs_is_unknown_without_them() -> None:
    """Without outputs, it is unknown whether a repeated call emits something."""
    claim = Idempotent(event="close")
    stated = Property(name="p", says="S.", level="MUST", source="s", link="", claim=claim)

    assert run_property_test(MACHINE, stated, lambda: Mute(MACHINE), examples=2).unseen == "outputs"
    assert not run_property_test(MACHINE, stated, lambda: Simulated(MACHINE), examples=2).unseen


def test_a_stateful_test_warns_of_what_it_does_not_compare() -> None:
    with pytest.warns(UserWarning, match="method") as caught:
        stateful(MACHINE, lambda: Mute(MACHINE))

    ends = [str(each.message).rpartition("; ")[2] for each in caught]
    assert ["add the method outputs", "did you mean outputs?"] == ends


def test_a_field_that_the_model_does_not_have_is_refused() -> None:
    class Detailed(Simulated):
        def fields(self) -> dict[str, int | str]:
            return {"exitcode": 1}

    with pytest.raises(InputError, match=r"the model has no field 'exitcode', which SUT shows \[FSM601\]"):
        conform(MACHINE, lambda: Detailed(MACHINE), examples=0)
