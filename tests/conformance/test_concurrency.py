"""Correct SUTs pass when several threads use them, and a race is reported in its shortest form."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from machines import counter, job
from thorough import TIMES

from fsm.conformance.concurrency import concurrently
from fsm.conformance.lookup import Simulated
from fsm.conformance.race_runs import Programme, Race
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.linearizability import NotLinearizable, linearize
from fsm.machine.findings import Cause
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fsm.machine import Machine


class Tally:
    """A counter up to three, which writes its new value some time after reading the old value."""

    def __init__(self, lock: AbstractContextManager[object] | None = None, *, yields: bool = True) -> None:
        self.lock = lock or threading.Lock()
        self.yields = yields

    def reset(self) -> None:
        self.count = 0
        self.out: list[str] = []

    def do(self, event: str) -> str:
        with self.lock:
            found = self.count
            if event == "add" and found == 3:
                return "FULL"
            if self.yields:
                time.sleep(0)
            self.count = found + 1 if event == "add" else 0
            self.out += ["tick"] if event == "add" else []
            return "ok"

    def shows(self) -> str:
        return f"n{self.count}"

    def outputs(self) -> list[str]:
        out, self.out = self.out, []
        return out

    def close(self) -> None:
        pass


class Locked(Simulated):
    """A simulated machine that handles one event at a time."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.lock = threading.Lock()

    def do(self, event: str) -> str:
        with self.lock:
            return super().do(event)


class Adjacent(Locked):
    """A container whose calls check the state on one line and change it on the next.

    *unlocked* names a call that takes no lock. If a second word follows the name, this call has a lock of its own.
    """

    def __init__(self, unlocked: str = "") -> None:
        super().__init__(load("container-status"))
        self.locks: dict[str, AbstractContextManager[object]] = {"create": self.lock, "start": self.lock}
        if unlocked:
            call, _, how = unlocked.partition(" ")
            self.locks[call] = threading.Lock() if how else nullcontext()

    def do(self, event: str) -> str:
        return (event in self.locks and getattr(self, event)()) or super().do(event)

    def create(self) -> str:
        absent, created = map(self._table.states.index, ("absent", "created"))
        with self.locks["create"]:
            if self._state == absent:
                self._state = created
                return "ok"
        return ""

    def start(self) -> str:
        created, running = map(self._table.states.index, ("created", "running"))
        with self.locks["start"]:
            found = self._state
            if found == created:
                self._state = found + running - created
                return "ok"
        return ""


class Staged(Simulated):
    """A simulated machine that lets other calls act between the stages of a slow call."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.lock = threading.Lock()

    def do(self, event: str) -> str:
        with self.lock:
            reply = self.begin(event)
        while reply is None:
            time.sleep(0)
            with self.lock:
                reply = self.end(event)
        return reply


def race(machine: Machine, sut: object) -> Race:
    found = concurrently(machine, lambda: sut).race  # type: ignore[arg-type,return-value]
    assert found is not None
    return found


# -- correct SUTs ----------------------------------------------------------------


@pytest.mark.slow
def test_a_sut_with_a_lock_passes() -> None:
    assert concurrently(counter(), Tally).race is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["container-status", "nri-container", "cri-pod"])
@pytest.mark.parametrize("kind", [Locked, Staged])
def test_machines_that_play_themselves_pass(name: str, kind: type[Locked | Staged]) -> None:
    machine = load(name)

    assert concurrently(machine, lambda: kind(machine), examples=12 * TIMES).race is None


@pytest.mark.slow
def test_what_happens_in_the_middle_of_a_call_that_takes_time_is_legal() -> None:
    """Other calls may displace or interrupt a call that is in progress."""
    assert concurrently(job(), lambda: Staged(job()), events=["make", "start"]).race is None


# -- races -----------------------------------------------------------------------


@pytest.mark.parametrize("yields", [True, False])
@pytest.mark.parametrize("chance", range(5))
def test_a_lost_update_is_caught_in_its_shortest_form(chance: int, *, yields: bool) -> None:
    found = concurrently(counter(), lambda: Tally(nullcontext(), yields=yields), chance=chance, events=["add"]).race

    assert found is not None
    assert found.programme == Programme(threads=(("add",), ("add",)))
    assert isinstance(found.verdict, NotLinearizable)
    assert linearize(counter(), found.history) == found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("unlocked", ["create", "start alone"])
@pytest.mark.parametrize("chance", range(4 * TIMES))
def test_a_check_on_the_line_before_is_caught(chance: int, unlocked: str) -> None:
    found = concurrently(load("container-status"), lambda: Adjacent(unlocked), threads=2, chance=chance).race

    assert found is not None
    assert isinstance(found.verdict, NotLinearizable)
    assert unlocked.partition(" ")[0] in sum(found.programme.threads, ())


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(4 * TIMES))
def test_a_check_on_the_line_before_with_a_lock_passes(chance: int) -> None:
    assert concurrently(load("container-status"), Adjacent, threads=2, chance=chance, examples=10 * TIMES).race is None


def test_what_is_put_out_twice_is_caught_though_every_reply_is_right() -> None:
    """Two concurrent stops that both notify the plugins are a race, although both replies are right."""

    class Forgetful(Locked):
        def do(self, event: str) -> str:
            if event != "stop-container":
                return super().do(event)
            with self.lock:
                due = self.shows() in {"created", "running"}
            time.sleep(0)
            with self.lock:
                if due:
                    self._out.append("StopContainer")
                    self._state = self._table.states.index("stopped")
                return "ok"

    machine = load("nri-container")
    found = concurrently(machine, lambda: Forgetful(machine), events=["create-container", "stop-container"]).race

    assert found is not None
    assert isinstance(found.verdict, NotLinearizable)
    assert found.verdict.cause is Cause.OUTPUT
    assert [each.event for each in found.history.operations if each.event].count("stop-container") == 2
    assert found.history.outputs[""].count("StopContainer") == 2


def test_a_lock_that_is_taken_too_late_is_caught() -> None:
    """Both starts succeed although one should be refused, because the lock is taken too late."""

    class Late(Staged):
        def do(self, event: str) -> str:
            ready = self.shows() == "WAITING"
            time.sleep(0)
            with self.lock:
                if event == "start" and ready:
                    self._state = self._table.states.index("running")
                    self._out.append("started")
                    return "ok"
                return Simulated.do(self, event)

    found = [race(job(), Late(job())) for _ in range(3)]
    steps = [sorted([*each.programme.before, *sum(each.programme.threads, ())]) for each in found]

    assert all(isinstance(each.verdict, NotLinearizable) for each in found)
    assert all({"make", "start"} == {*each} and each.count("start") >= len(each) // 2 for each in steps)
    assert ["make", "start", "start"] in steps, "threads decide which race is found; mostly it is the shortest"


def test_a_lost_update_is_caught_among_all_that_can_be_done() -> None:
    found = race(counter(), Tally(nullcontext()))

    assert [len(each) for each in found.programme.threads] == [1, 1]
    assert len(found.programme.before) <= 1


# -- SUTs that break ----------------------------------------------------------


def test_a_sut_that_raises_is_told_with_its_thread() -> None:
    class Raising(Tally):
        def do(self, event: str) -> str:
            if event == "reset":
                raise RuntimeError("out of paper")
            return super().do(event)

    found = race(counter(), Raising())

    assert found.verdict is None
    assert found.broken.startswith("reset in thread ")
    assert "raised RuntimeError: out of paper at tests/conformance/test_concurrency.py:" in found.broken
    assert found.broken.endswith(" in do")
    assert found.programme == Programme(threads=(("reset",),)), "it needs nobody else"


def test_threads_that_never_return_are_a_finding_and_no_hang() -> None:
    class Stuck(Tally):
        def reset(self) -> None:
            super().reset()
            self.first, self.second = threading.Lock(), threading.Lock()
            self.closed = False

        def do(self, event: str) -> str:
            locks = (self.first, self.second) if event == "add" else (self.second, self.first)
            with locks[0]:
                time.sleep(1e-3)
                with locks[1]:
                    return super().do(event)

        def close(self) -> None:
            raise AssertionError("it is in use")

    found = concurrently(counter(), Stuck, patience=0.5).race

    assert found is not None
    assert "did not return within 0.5 s" in found.broken
    assert any(each.returned is None for each in found.history.operations)


@pytest.mark.parametrize(
    ("reply", "shows", "broken"),
    [
        ("", "n0", "add in thread 1 has no reply, but a call must reply ok or an error code"),
        ("ok", "many", "the SUT shows 'many', which no state shows"),
    ],
)
def test_an_answer_that_cannot_be_judged_is_told(reply: str, shows: str, broken: str) -> None:
    class Wrong(Tally):
        def do(self, event: str) -> str:
            super().do(event)
            return reply

        def shows(self) -> str:
            return shows

    found = concurrently(counter(), Wrong, events=["add"]).race

    assert found is not None
    assert found.broken.replace("thread 2", "thread 1") == broken


def test_a_reset_that_raises_is_told() -> None:
    class Dead(Tally):
        def reset(self) -> None:
            raise OSError("no such device")

    line = Dead.reset.__code__.co_firstlineno + 1
    where = f"tests/conformance/test_concurrency.py:{line} in reset"
    assert race(counter(), Dead()).broken == f"the SUT raised OSError: no such device at {where}"


# -- the requested events --------------------------------------------------------


class Noting(Locked):
    """A machine with a lock, which records the events that are requested."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.asked: set[str] = set()
        self.closed = 0

    def do(self, event: str) -> str:
        self.asked.add(event)
        if event == "status":
            raise UnsupportedError(event)
        return super().do(event)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.slow
def test_calls_and_what_can_happen_anywhere_are_done_and_what_is_not_supported_is_left_out() -> None:
    """No exits are requested, because there may be no process, and no restarts, because they end all calls."""
    machine = load("container-status")
    sut = Noting(machine)

    assert concurrently(machine, lambda: sut, examples=60).race is None
    assert {"create", "start", "remove", "status", "oom"} <= sut.asked
    assert not {"exit", "restart"} & sut.asked
    assert sut.closed == 1


def test_without_examples_no_race_is_looked_for() -> None:
    assert conform(counter(), lambda: Tally(nullcontext()), threads=2, examples=0).race is None


def test_the_interpreter_is_left_as_it_was() -> None:
    before = sys.getswitchinterval()
    concurrently(counter(), Tally, examples=2)

    assert (sys.getswitchinterval(), sys.gettrace()) == (before, sys.gettrace())


@pytest.mark.parametrize("wrong", [{"threads": 1}, {"events": []}, {"events": ["jump"]}, {"each": 0}])
def test_what_cannot_be_a_race_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(
        ValueError,
        match="the search needs two threads, steps, and events of counter: add, reset",
    ):
        concurrently(counter(), Tally, **wrong)  # type: ignore[arg-type]
