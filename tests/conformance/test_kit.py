"""The conformance kit covers a machine, finds defects, and shows the shortest failing test."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machines import DOOR, door, edited, job, machine_of
from random_machines import machines, random_machine
from thorough import TIMES

from fsm import sut
from fsm.checker.equivalence import compare
from fsm.conformance.failure import METHODS, raised
from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import Plan, Point, steps
from fsm.conformance.stateful import REPEATS
from fsm.conformance.suite import conform, replay
from fsm.conformance.tested import LeftOut, Obstacle
from fsm.language.library import load, names
from fsm.machine import Moves
from fsm.machine.evidence import Distinguished
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.report import conformance_report
from fsm.report.conformance_report import failure_text
from fsm.report.description import describe
from fsm.sut import BrokenError, Stimulus, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.conformance.tested import Tested
    from fsm.machine import Machine, Outcome
    from fsm.sut import SUT

PROFILES = [(name, profile) for name in names() for profile in (None, *load(name).profiles)]


def outcome(machine: Machine, sut: Callable[[], SUT] | None = None, *, examples: int = 0) -> Tested:
    return conform(machine, sut or (lambda: Simulated(machine)), examples=examples)


def shown(found: Tested) -> list[str]:
    return ["; ".join(map(str, each.steps)) for each in found.failures]


# -- coverage --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "profile"), [pytest.param(*each, marks=[pytest.mark.slow] * bool(each[1])) for each in PROFILES]
)
def test_every_reachable_cell_of_what_is_shipped_is_covered(name: str, profile: str | None) -> None:
    machine = load(name)
    playing = machine.under(profile)

    found = conform(machine, lambda: Simulated(playing), profile=profile, examples=3 * TIMES)

    assert (found.failures, found.missed) == ((), ())
    assert {*found.unreached} <= ({Obstacle.AMBIGUITY} if found.oracle.dynamics.unseen else set())


# A hidden event may follow an outcome that the SUT promises, so some paths end in a state that cannot be known.
@example(random_machine(random.Random(0)))
@example(random_machine(random.Random(21)))
@given(machines())
def test_random_machines_cover_what_can_be_reached(machine: Machine) -> None:
    """The reachable cells are computed here independently, with one call in progress at a time."""
    found = outcome(machine)

    assert not found.failures
    assert not found.missed
    assert naively_reached(machine) == {pair for pair in found.obstacles if found.obstacles[pair] < Obstacle.CALLS}


def naively_reached(machine: Machine) -> set[tuple[int, int]]:
    table = tabulate(machine)
    met: set[tuple[int, int]] = set()
    points = {(table.initial, -1)}
    todo = list(points)
    while todo:
        state, call = todo.pop()
        leads: set[tuple[int, int]] = set()
        for row in table.rows:
            ways = table.step(state, row.index)
            if ways == () or (row.ends and table.end.get(call) != row.index):
                continue
            met.add((row.index, state))
            for way in ways or ():
                if not way.begins:
                    left = -1 if row.event.interrupts or row.ends else call
                    leads.add((way.to, left))
                elif row.ends:
                    leads.add((way.to, call))
                else:
                    begun = row.index
                    if call == -1:
                        leads.add((way.to, begun))
                    left = -1 if row.event.interrupts else call
                    leads |= {(to, left) for to in _ended(table.end[begun], way.to, met, machine)}
        todo += leads - points
        points |= leads
    return met


def _ended(end: int, state: int, met: set[tuple[int, int]], machine: Machine) -> set[int]:
    """Return the states in which a call may end if no other event happens meanwhile."""
    table = tabulate(machine)
    seen = {state}
    todo = [state]
    ends = set()
    while todo:
        here = todo.pop()
        for way in table.step(here, end) or ():
            met.add((end, here))
            if not way.begins:
                ends.add(way.to)
            elif way.to not in seen:
                seen.add(way.to)
                todo.append(way.to)
        if table.step(here, end) is None:
            met.add((end, here))
    return ends


class Plain:
    """A simulated machine without the optional methods of SUTs."""

    def __init__(self, machine: Machine, chance: random.Random | None = None) -> None:
        self._inner = Simulated(machine)
        self._machine = machine
        self._chance = chance or random.Random(1)

    def reset(self) -> None:
        self._inner.reset()

    def do(self, event: str) -> str:
        for _ in range(3):
            row = self._machine.events[event]
            ways = [way.name for cells in (row.cells, row.ends) for cell in cells.values() for way in _ways(cell)]
            if ways:
                self._inner.arrange(event, self._chance.choice(ways))
        return self._inner.do(event)

    def shows(self) -> str:
        return self._inner.shows()

    def close(self) -> None:
        self._inner.close()


def _ways(cell: object) -> tuple[Outcome, ...]:
    return cell.outcomes if isinstance(cell, Moves) else ()


def test_what_a_plain_sut_cannot_be_asked_is_told() -> None:
    machine = job()
    overlapping = outcome(machine)

    found = conform(machine, lambda: Plain(machine), examples=50)

    assert not found.failures
    assert not found.missed
    assert found.reachable == overlapping.reachable
    assert found.unreached[Obstacle.OVERLAP]


def test_what_a_sut_does_not_have_is_missed() -> None:
    class Deaf(Simulated):
        def do(self, event: str) -> str:
            if event == "knock":
                raise UnsupportedError(event)
            return super().do(event)

    machine = door()

    found = outcome(machine, lambda: Deaf(machine), examples=10)

    assert not found.failures
    assert {found.oracle.plan.table.rows[row].name for row, _ in found.unreached[Obstacle.SUPPORT]} == {"knock"}
    assert [LeftOut(event="knock", stage="do", states=(), why="")] == [*found.left_out]
    report = conformance_report.text(found)
    assert (report.count("knock"), "not supported by the SUT: knock\n" in report) == (2, True)


def test_what_a_sut_does_not_have_in_one_state_is_tested_in_the_others() -> None:
    class Stiff(Simulated):
        def do(self, event: str) -> str:
            if event == "push" and self.shows() == "OPEN":
                raise UnsupportedError("it has no handle")
            return super().do(event)

    machine = door()

    class Wrong(Stiff):
        def do(self, event: str) -> str:
            reply = super().do(event)
            return "NOT_FOUND" if event == "push" and reply == "ok" else reply

    found = outcome(machine, lambda: Stiff(machine), examples=10)
    table = found.oracle.plan.table

    assert {(table.rows[row].name, table.states[state]) for row, state in found.unreached[Obstacle.SUPPORT]} == {
        ("push", "open")
    }
    assert "not supported by the SUT: push in open (it has no handle)" in conformance_report.text(found)
    assert "missed" not in conformance_report.text(found)
    assert "push=opened" in shown(outcome(machine, lambda: Wrong(machine)))


MAZE = """
[machine]
name    = "maze"
title   = "A maze"
about   = "Two ways lead to the same room, the nearer one through a door that may be locked."
source  = "none"
initial = "outside"
level   = "observed"
entity  = "guest"

[states]
outside = { about = "Before it.", shows = "OUTSIDE" }
hall    = { about = "In between.", shows = "HALL" }
room    = { about = "In it.", shows = "ROOM" }

[clause.walks]
says     = "Who walks gets on."
observed = "none"

[event.door]
kind   = "call"
about  = "Take the door."
clause = "walks"
moves  = { outside = "room" }
ignores = ["hall", "room"]

[event.walk]
kind   = "call"
about  = "Walk."
clause = "walks"
moves  = { outside = "hall", hall = "room", room = "outside" }

[event.rest]
kind   = "call"
about  = "Rest."
clause = "walks"
ignores = ["*"]
"""


@pytest.mark.parametrize("locked", [{"OUTSIDE"}, {"OUTSIDE", "HALL"}])
def test_what_is_behind_something_unsupported_is_reached_otherwise(locked: set[str]) -> None:
    class Locked(Simulated):
        def do(self, event: str) -> str:
            shows = self.shows()
            if (event == "door" and shows == "OUTSIDE") or (event == "walk" and shows in locked - {"OUTSIDE"}):
                raise UnsupportedError("it is locked")
            return super().do(event)

    machine = machine_of(MAZE)
    found = outcome(machine, lambda: Locked(machine), examples=0)
    table = found.oracle.plan.table
    missed = {(table.rows[row].name, table.states[state]) for row, state in found.unreached[Obstacle.SUPPORT]}

    behind = {("walk", "hall"), *((event, "room") for event in ("door", "walk", "rest"))} if "HALL" in locked else set()
    assert {("door", "outside"), *behind} == missed


# -- defects ---------------------------------------------------------------------

NOTHING_ELSE = (": dropped", ": silent", ": cannot")
"""The endings of the names of mutants that allow nothing new if the SUT follows the machine in silent cells."""


@pytest.mark.parametrize("name", ["nri-pod", "nri-container"])
def test_whoever_differs_is_noticed(name: str) -> None:
    """A mutant with different behaviour fails a test, and no distinguishing trace is shorter than the test.

    Both machines show everything that can be observed in every state.
    """
    machine = load(name)
    chance = random.Random(3)
    known = [each for each in mutants(machine) if not each.name.endswith(NOTHING_ELSE)]
    for mutant in chance.sample(known, min(len(known), 40 * TIMES)):
        found = outcome(machine, lambda each=mutant: Simulated(each.machine))  # type: ignore[misc]  # bound here
        assert found.failures, mutant.name

        apart = compare(tabulate(machine), tabulate(mutant.machine))
        if isinstance(apart, Distinguished):
            shortest = min(len(each.steps) for each in found.failures)
            assert shortest <= sum(1 for seen in apart.trace if seen.event), mutant.name


def test_a_mutant_that_can_do_less_is_no_violation() -> None:
    machine = load("nri-pod")
    dropped = next(each for each in mutants(machine) if each.name == "run-pod-sandbox/error in absent: dropped")

    found = outcome(machine, lambda: Simulated(dropped.machine))

    assert not found.failures
    assert ("run-pod-sandbox", "error") in found.cover.unarranged


class Worn(Simulated):
    """A door that jams after three pushes, although its machine does not count pushes."""

    def reset(self) -> None:
        super().reset()
        self._pushed = 0

    def do(self, event: str) -> str:
        before = self.shows()
        reply = super().do(event)
        self._pushed += event == "push" and before == "CLOSED" and reply == "ok"
        return "NOT_FOUND" if event == "push" and self._pushed > 2 else reply


def test_what_shows_late_only_is_found_at_random_and_shrunk() -> None:
    """A bug that shows after three pushes is found only at random, because no state of the machine counts them.

    The failing test is shrunk to the three pushes.
    """
    machine = door()

    first = outcome(machine, lambda: Worn(machine))
    found = outcome(machine, lambda: Worn(machine), examples=100)

    assert not first.failures
    assert shown(found) == ["push=opened; slam; push=opened; slam; push=opened"]


def test_the_same_seed_finds_the_same() -> None:
    machine = door()
    found = [shown(conform(machine, lambda: Worn(machine), examples=60, seed=seed)) for seed in (5, 5)]

    assert found[0] == found[1]


def test_what_was_promised_is_kept() -> None:
    class Deaf(Simulated):
        def arrange(self, event: str, outcome: str) -> bool:
            return super().arrange(event, "opened") or bool(outcome)

    found = outcome(door(), lambda: Deaf(door()))

    (failure,) = found.failures
    assert failure.broken == "SUT promised the outcome push=stuck, but the event ended as opened"
    assert "clause     push" in failure_text(failure)


def test_every_method_of_a_sut_has_its_time() -> None:
    protocols = [each for each in vars(sut).values() if isinstance(each, type) and getattr(each, "_is_protocol", False)]
    methods = {name for each in protocols for name in vars(each) if not name.startswith("_")}

    assert methods - {"close", "serial"} == set(METHODS)


def test_the_stage_of_an_outcome_is_said() -> None:
    """The SUT is told the stage of an outcome, because a removal can fail when it begins and when it ends."""

    class Staged(Simulated):
        asked: list[tuple[str, str, str]]

        def reset(self) -> None:
            super().reset()
            self.asked = []

        def arrange_stage(self, event: str, outcome: str, stage: str) -> bool:
            self.asked.append((event, outcome, stage))
            return self.arrange(event, outcome)

    machine = load("cri-container")
    sut = Staged(machine)

    replay(machine, lambda: sut, steps("create=created; remove=begins,failed; remove=failed"))

    assert sut.asked == [
        ("create", "created", ""),
        ("remove", "begins", "begin"),
        ("remove", "failed", "end"),
        ("remove", "failed", "begin"),
    ]


def test_how_it_ended_instead_is_left_out_where_it_is_not_known() -> None:
    alike = edited(DOOR, '"STUCK" }]', '"STUCK" }, { name = "swung", to = "open", emits = ["Creak"] }]')

    class Deaf(Simulated):
        def arrange(self, event: str, outcome: str) -> bool:
            return super().arrange(event, "opened") or bool(outcome)

    machine = machine_of(alike)
    found = outcome(machine, lambda: Deaf(machine))

    assert "SUT promised the outcome push=stuck, but the event ended with a different outcome" in [
        each.broken for each in found.failures
    ]


class Lax(Simulated):
    """A door that always opens when pushed, and cannot arrange outcomes."""

    def arrange(self, event: str, outcome: str) -> bool:
        super().arrange(event, "opened" if event == "push" else outcome)
        return False


class Bare(Simulated):
    """A door without the method ``arrange``. The door opens at every push."""

    arrange = None  # type: ignore[assignment]

    def do(self, event: str) -> str:
        Simulated.arrange(self, event, "opened")
        return super().do(event)


class Partial(Bare):
    """A shut door that sticks at every second push."""

    pushes = 0

    def do(self, event: str) -> str:
        self.pushes += event == "push"
        if event == "push" and self.pushes % 2 and self._table.states[self._state] == "shut":
            Simulated.arrange(self, event, "stuck")
            return Simulated.do(self, event)
        return super().do(event)


def test_outcomes_that_never_came_are_told() -> None:
    machine = door()

    bare, some, lax, able = (outcome(machine, partial(kind, machine)) for kind in (Bare, Partial, Lax, Simulated))

    texts = [conformance_report.text(each) for each in (bare, some, lax, able)]
    assert "    never occurred: push=stuck\n" in texts[0]
    assert "    never occurred: push=stuck in ajar\n" in texts[1]
    assert ("could not be arranged: push=stuck" in texts[2], "never occurred" in texts[2]) == (True, False)
    assert (able.unseen, "never occurred" in texts[3]) == ((), False)
    unseen = json.loads(conformance_report.json(bare))["unseen"]
    assert {"event": "push", "state": "shut", "outcome": "stuck"} in unseen


def test_a_step_says_which_outcome_came() -> None:
    machine = door()

    class Wrong(Bare):
        def do(self, event: str) -> str:
            reply = super().do(event)
            return "ok" if reply == "NOT_FOUND" else reply

    found = replay(machine, lambda: Wrong(machine), steps("push=stuck; remove; push"))
    as_it_came = replay(machine, lambda: Wrong(machine), steps("push=opened; remove; push"))

    assert "1. push=stuck  came as push=opened; ok; emits Creak; shows OPEN\n" in failure_text(found.failures[0])
    assert "came as" not in failure_text(as_it_came.failures[0])
    [failure] = json.loads(conformance_report.json(found))["failures"]
    assert [each["came"] for each in failure["test"]] == ["push=opened", None, None]


def test_where_it_is_is_found_out_by_what_follows() -> None:
    """The next step distinguishes two states that look alike."""
    machine = machine_of(DOOR.replace('kind   = "hidden"', 'kind   = "signal"'))
    event = machine.events["slam"]
    wrong = replace(event, cells={**event.cells, "open": machine.events["warp"].cells["shut"]})
    other = replace(machine, events={**machine.events, "slam": wrong})

    found = outcome(machine, lambda: Simulated(other))

    assert "push=opened; slam" in shown(found)[0]


# -- SUTs that break -------------------------------------------------------------


class Raising(Simulated):
    def do(self, event: str) -> str:
        if event == "remove":
            raise KeyError(event)
        return super().do(event)


class Speechless(Simulated):
    def do(self, event: str) -> str:
        super().do(event)
        return ""


class Leaving(Simulated):
    def do(self, event: str) -> str:
        raise SystemExit(len(event) - len("push"))


class Number(Simulated):
    def do(self, event: str) -> str:
        return len(event)  # type: ignore[return-value]  # as a SUT without types may


class Odd(Simulated):
    def shows(self) -> str:
        return "WIDE"


class Stale(Simulated):
    def reset(self) -> None:
        if hasattr(self, "_state"):
            self._out = []
            return
        super().reset()


class Gone(Simulated):
    def do(self, event: str) -> str:
        message = f"no answer to {event} within 2 s"
        raise BrokenError(message)


def place(method: Callable[..., object], after: int) -> str:
    code = method.__code__
    file = Path(code.co_filename)
    near = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{near}:{code.co_firstlineno + after} in {code.co_name}"


@pytest.mark.parametrize(
    ("sut", "says"),
    [
        (Raising, f"the SUT raised KeyError: 'remove' at {place(Raising.do, 2)}"),
        (Speechless, "the SUT gave no reply to push, but a call must reply ok or an error code"),
        (Leaving, f"the SUT raised SystemExit: 0 at {place(Leaving.do, 1)}"),
        (Number, "the SUT replied 4 to push, but a reply must be text"),
        (Odd, "after a reset the SUT shows WIDE, but the initial state shows CLOSED"),
        (Stale, "after a reset the SUT shows OPEN, but the initial state shows CLOSED"),
        (Gone, "no answer to push within 2 s"),
    ],
)
def test_a_sut_that_breaks_is_told_of(sut: type[Simulated], says: str) -> None:
    machine = door()

    found = outcome(machine, lambda: sut(machine))

    assert says in [each.broken for each in found.failures]


class Deep(Simulated):
    """A door that raises an error inside the standard library, from two different lines."""

    times = 0

    def do(self, event: str) -> str:
        if event != "remove":
            return super().do(event)
        Deep.times += 1
        return self.first() if Deep.times % 2 else self.second()

    def first(self) -> str:
        return str(json.loads("{"))

    def second(self) -> str:
        return str(json.loads("["))


def test_an_exception_is_told_with_the_line_of_the_users_code_and_is_one_failure_from_any_line() -> None:
    machine = door()
    Deep.times = 0

    (failure,) = outcome(machine, lambda: Deep(machine)).failures

    assert failure.broken.endswith((f"at {place(Deep.first, 1)}", f"at {place(Deep.second, 1)}"))
    assert ["remove"] == [step.event for step in failure.steps]


def test_without_a_line_of_the_users_code_it_is_the_innermost() -> None:
    with pytest.raises(json.JSONDecodeError) as error:
        json.loads("{")
    found = error.value
    assert " at tests/conformance/test_kit.py:" in raised(found)
    assert raised(found).endswith(place(test_without_a_line_of_the_users_code_it_is_the_innermost, 2))

    assert found.__traceback__ is not None
    found = found.with_traceback(found.__traceback__.tb_next)
    assert raised(found).endswith(" in raw_decode")
    assert f"{Path('json', 'decoder.py')}:" in raised(found)
    assert "raised KeyError" == raised(KeyError())


class Mute(Simulated):
    """A door that returns no reply to one event."""

    event = "push"

    def do(self, event: str) -> str:
        replied = super().do(event)
        return None if event == self.event else replied  # type: ignore[return-value]  # as a SUT without types may


def test_a_forgotten_reply_is_told_with_what_to_do() -> None:
    """If a call returns no reply, the failure has a hint, unless the call may still be in progress."""
    machine = door()
    found = outcome(machine, lambda: Mute(machine))
    assert "hint       do('push') returned None; a call must return its reply, such as 'ok'" in describe(found)
    assert all(each.hint for each in found.failures)

    class Late(Mute):
        event = "start"

    twin = outcome(job(), lambda: Late(job()))
    assert twin.failures
    assert not any(each.hint for each in twin.failures)


class Moody(Simulated):
    """A door that fails once, at its first call after 500 events."""

    done = 0

    def do(self, event: str) -> str:
        Moody.done += 1
        replied = super().do(event)
        if Moody.done < 500 or not replied or event == "knock":
            return replied
        Moody.done = -1_000_000
        return "WARPED"


def test_a_failure_that_does_not_come_again_is_a_finding_with_how_often_it_did() -> None:
    machine = door()
    Moody.done = 0

    found = outcome(machine, lambda: Moody(machine), examples=100)
    (failure,) = found.failures

    assert (0, REPEATS) == failure.repeated
    assert failure.trace[-1].seen is not None
    assert "WARPED" == failure.trace[-1].seen.reply
    assert f"flaky      fails in 0 of {REPEATS} repetitions" in describe(found)

    twin = outcome(machine, lambda: Erring(machine))
    assert [None] * len(twin.failures) == [each.repeated for each in twin.failures]
    assert twin.failures


class Erring(Simulated):
    def do(self, event: str) -> str:
        return "INTERNAL" if super().do(event) else ""


class Twice(Simulated):
    """A door that fails only at its first two pushes."""

    left = 2

    def do(self, event: str) -> str:
        replied = super().do(event)
        if event != "push" or not Twice.left:
            return replied
        Twice.left -= 1
        return "WARPED"


def test_a_failure_that_came_twice_by_chance_is_no_steady_one() -> None:
    machine = door()
    Twice.left = 2

    (failure,) = outcome(machine, lambda: Twice(machine)).failures

    assert (["push=opened"], (0, REPEATS)) == ([str(each) for each in failure.steps], failure.repeated)


def test_a_failure_is_shrunk_to_one_of_its_kind() -> None:
    machine = door()

    class Stubborn(Simulated):
        def do(self, event: str) -> str:
            replied = super().do(event)
            return "WARPED" if event == "remove" else replied

    found = outcome(machine, lambda: Stubborn(machine))

    (failure,) = found.failures
    assert failure.violation is not None
    assert [("ajar",), ("open",), ("shut", "ajar")] == sorted([failure.violation.before, *failure.also])
    assert "in 3 states" in failure_text(failure)


def test_a_test_that_stops_says_so() -> None:
    machine = load("cri-pod")
    stopped = conform(machine, lambda: Erring(machine), examples=0, most=2)
    whole = conform(machine, lambda: Erring(machine), examples=0, most=1_000)

    assert (2, True, False) == (len(stopped.failures), stopped.stopped, whole.stopped)
    assert "the test stopped at the maximum number of failures" in " ".join(describe(stopped).split())
    assert "stopped after" not in describe(whole)


@pytest.mark.parametrize(("cell", "broken"), [('silent  = ["*"]', 0), ('refuses = { "*" = "error" }', 1)])
def test_where_the_specification_is_silent_no_reply_is_a_reply(cell: str, broken: int) -> None:
    machine = machine_of(
        DOOR
        + f"""
[event.polish]
kind   = "call"
about  = "Polish."
{cell}
clause = "polish"
says   = "It may be polished."
MUST   = "handbook"
"""
    )

    class Mute(Simulated):
        def do(self, event: str) -> str:
            return "" if event == "polish" else super().do(event)

    found = conform(machine, lambda: Mute(machine), examples=0)

    assert broken == len([each for each in found.failures if "no reply to polish" in each.broken])


# -- steps and paths -------------------------------------------------------------


def test_a_test_can_be_repeated() -> None:
    machine = door()
    again = steps("push=opened; slam; push=opened; slam; push=opened")

    assert shown(replay(machine, lambda: Worn(machine), again)) == ["; ".join(map(str, again))]
    assert not replay(machine, lambda: Simulated(machine), again).failures
    assert not replay(machine, lambda: Simulated(machine), again).left_out


@pytest.mark.parametrize("step", ["crash@1 push=opened,kept", "end push"])
def test_a_step_that_cannot_be_taken_is_not_lost(step: str) -> None:
    """A step that the SUT cannot take is reported as left out."""
    machine = door()
    found = replay(machine, lambda: Simulated(machine), steps(f"{step}; push=opened"))

    assert ["this step cannot be taken here with these outcomes"] == [each.why for each in found.left_out]
    assert found.cover.steps == 1


@given(
    st.lists(
        st.builds(
            lambda step, point: step._replace(point=point) if step.stage == "crash" else step,
            st.builds(
                Stimulus,
                st.sampled_from(["push", "take-away"]),
                st.sampled_from(["do", "begin", "end", "crash"]),
                st.lists(st.sampled_from(["opened", "left-over"]), max_size=2).map(tuple),
                st.just(0),
                st.lists(st.sampled_from([("amount", "-3"), ("cash", "true")]), max_size=2).map(tuple),
            ),
            st.integers(0, 12),
        )
    )
)
def test_steps_are_read_as_they_are_written(those: list[Stimulus]) -> None:
    assert steps("; ".join(map(str, those))) == tuple(those)


@pytest.mark.parametrize("text", ["push opened", "begin", "push=", "=x", "end a b"])
def test_what_is_no_step_is_refused(text: str) -> None:
    if text == "begin":
        assert steps(text) == (Stimulus("begin"),)
        return
    with pytest.raises(ValueError, match="is not a step"):
        steps(text)


@given(machines())
def test_paths_are_paths(machine: Machine) -> None:
    """The steps of a path are connected, and following one edge lengthens a path by at most one step."""
    plan = Plan(table=tabulate(machine))
    lengths: dict[Point, int] = {}
    for edge in plan.edges:
        path = plan.path(plan.start, edge.source)
        assert path is not None
        here: Point | None = plan.start
        for each in path:
            assert each.source == here
            here = each.to
        assert here == edge.source
        lengths[edge.source] = len(path)
    for edge in plan.edges:
        if edge.to in lengths:
            assert lengths[edge.to] <= lengths[edge.source] + 1
