"""The end of a test of an async class: timers that fire late must not change it, and it must not hang."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import pytest
from machines import machine_of
from passing_time import PassingTime

from fsm.conformance import lookup
from fsm.conformance.lookup import factory_of
from fsm.conformance.scheme import SutRequest
from fsm.conformance.suite import conform, replay
from fsm.report.conformance_report import text

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested
    from fsm.machine import Machine

HEAD = """
[machine]
name = "line"
title = "A line"
about = "It is opened and closed."
source = "none"
initial = "idle"

[states]
idle = { about = "Not yet open." }
open = { about = "Open." }
closed = { about = "Closed.", kind = "final" }

[event.open]
kind = "call"
about = "Open it."
moves = { idle = "open" }
refuses = { "*" = "BUSY" }
"""

CLOSE = """
[event.close]
kind = "call"
about = "Close it."
moves = { "*" = "closed" }
"""

HANG_UP = CLOSE.replace("close]", "hang-up]")
LINE = machine_of(HEAD + CLOSE)
HUNG_UP = machine_of(HEAD + HANG_UP)


class Line:
    def __init__(self) -> None:
        self.state = "idle"

    async def open(self) -> str:
        if self.state != "idle":
            return "BUSY"
        self.state = "open"
        return "ok"

    async def close(self) -> None:
        if self.state == "open":
            self.closing()
        self.state = "closed"

    def closing(self) -> None: ...

    def later(self, state: str = "open", after: float = 3600) -> None:
        asyncio.get_running_loop().call_later(after, setattr, self, "state", state)

    def shows(self) -> str:
        return self.state


class LateTimer(Line):
    def closing(self) -> None:
        self.later()


class SecondTimer(Line):
    def closing(self) -> None:
        self.later("closed", 1)
        self.later("open", 5)


class LateTask(Line):
    def closing(self) -> None:
        self.task = asyncio.create_task(self.reopen())

    async def reopen(self) -> None:
        await asyncio.sleep(5)
        self.state = "open"


class Harmless(Line):
    """It sleeps after its end, and changes nothing."""

    def closing(self) -> None:
        self.later("closed")


class Silent(LateTimer):
    """It answers only until its end."""

    def shows(self) -> str:
        if asyncio.events._get_running_loop() is None and self.state == "gone":  # noqa: SLF001
            raise RuntimeError
        return self.state

    def closing(self) -> None:
        self.later("gone")


class HangingUp(Line):
    """Its close is no event of the model."""

    async def hang_up(self) -> None:
        await super().close()

    async def close(self) -> None:
        self.later()


class Timed(PassingTime, LateTimer):
    """A call lets its time pass."""


class Spinning(Line):
    async def close(self) -> None:
        while self.state == "open":
            pass
        self.state = "closed"


class Blocking(Line):
    async def close(self) -> None:
        time.sleep(30)  # noqa: ASYNC251


class Slow(Line):
    async def close(self) -> None:
        time.sleep(0.01)  # noqa: ASYNC251
        await super().close()


def conformed(kind: type, machine: Machine = LINE) -> Tested:
    return conform(machine, kind, examples=10)


@pytest.mark.parametrize(("kind", "after"), [(LateTimer, "1 h"), (LateTask, "5 s"), (SecondTimer, "5 s")])
def test_a_change_after_the_end_is_a_violation(kind: type, after: str) -> None:
    (failure,) = conformed(kind).failures
    says = f"after the test, the SUT shows open after a timer fired; expected closed, {after} after the last step"
    assert failure.broken == says
    assert [str(each) for each in failure.steps] == ["open", "close"]
    again = replay(LINE, kind, failure.steps)
    assert [each.broken for each in again.failures] == [says]


@pytest.mark.parametrize("kind", [Line, Harmless, Silent])
def test_other_timers_may_fire_after_the_end(kind: type) -> None:
    found = conformed(kind)
    assert not found.failures
    assert "not judged" not in text(found)


@pytest.mark.parametrize("of", ["signal", "hidden"])
def test_an_event_of_the_model_explains_a_change(of: str) -> None:
    again = (
        f'[event.again]\nkind = "{of}"\nabout = "It opens by itself."\nmoves = {{ closed = "open" }}\ncannot = ["*"]\n'
    )
    assert not conformed(LateTimer, machine_of(HEAD + CLOSE + again)).failures
    elsewhere = again.replace('closed = "open"', 'idle = "open"')
    assert conformed(LateTimer, machine_of(HEAD + CLOSE + elsewhere)).failures


def test_nothing_is_said_about_a_close_that_the_model_does_not_know() -> None:
    found = conformed(HangingUp, HUNG_UP)
    assert not found.failures
    assert "not judged: what the SUT shows after the end of a test, when further timers fire" in text(found)


def test_a_class_that_lets_time_pass_is_not_judged() -> None:
    wait = """
[event.wait]
kind = "call"
about = "Wait."
moves = { closed = [{ name = "stays", to = "closed" }, { name = "opened", to = "open" }] }
ignores = ["*"]
"""
    machine = machine_of(HEAD + CLOSE + wait)
    assert not conformed(Timed, machine).failures
    assert conformed(LateTimer, machine).failures


@pytest.mark.parametrize(("late", "fails"), [(3, True), (0, False)])
def test_a_variable_that_changes_after_the_end_is_a_violation(late: int, fails: bool) -> None:  # noqa: FBT001
    class Counting(Line):
        count = 0

        def closing(self) -> None:
            asyncio.get_running_loop().call_later(60, setattr, self, "count", late)

        def fields(self) -> dict[str, int]:
            return {"count": self.count}

    counting = '[data.count]\nabout = "Its calls."\ninitial = 0\nfrom = 0\nto = 5\nshown = true\n'
    found = conformed(Counting, machine_of(HEAD + CLOSE + counting))
    says = "after the test, the SUT shows closed, count = 3 after a timer fired; expected closed, count = 0"
    assert [each.broken.startswith(says) for each in found.failures] == [True] * fails


@pytest.mark.skipif(sys.platform == "win32", reason="no time limit")
@pytest.mark.parametrize(("kind", "says"), [(Spinning, True), (Blocking, True), (Slow, False)])
def test_an_end_that_hangs_is_a_violation(kind: type, says: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setattr(lookup, "GRACE", 0.1)
    began, name = time.monotonic(), f"{__name__}:{kind.__name__}"
    factory = factory_of(f"python:{name}", SutRequest(rest=name, machine=LINE, timeout=0.2))
    found = conform(LINE, factory, examples=0)
    assert time.monotonic() - began < 20
    assert [each.broken for each in found.failures] == ["after the test, close did not return within 0.2 s"] * says
    assert all(each.steps for each in found.failures)
