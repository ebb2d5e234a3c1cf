"""Timers are tested with a virtual clock, and every mistake with a timer is found."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest
from machines import machine_of

import fsm
from fsm.conformance import tested as results
from fsm.conformance.exec.adapter import child
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.conformance.tested import Obstacle
from fsm.language.library import load
from fsm.report.conformance_report import json, text
from fsm.sut import Clocked
from fsm.verdict import Fails, Holds

SUTS = Path(__file__).resolve().parent.parent / "suts"
LEASE = load("examples/models/lease.toml")


class Lease:
    """A lease whose term is ``term`` seconds."""

    term = 30.0

    def reset(self) -> None:
        self.now, self.state = 0.0, "free"
        self.ends: float | None = None

    def do(self, event: str) -> str:
        match event, self.state:
            case "acquire", "held":
                return "HELD"
            case "acquire", _:
                self.state, self.ends = "held", self.now + self.term
            case "renew", "held":
                self.renew()
            case "renew", _:
                return "NOT_HELD"
            case "release", _:
                self.release()
            case _:
                raise fsm.UnsupportedError(event)
        return "ok"

    def renew(self) -> None:
        self.ends = self.now + self.term

    def release(self) -> None:
        self.state, self.ends = "free", None

    def shows(self) -> str:
        return self.state

    def close(self) -> None: ...

    def advance(self, seconds: float) -> None:
        self.now += seconds
        if self.ends is not None and self.now >= self.ends:
            self.state, self.ends = "expired", None


class Earliest(Lease):
    term = 29.0


class Latest(Lease):
    term = 31.0


class TooEarly(Lease):
    term = 28.9


class TooLate(Lease):
    term = 31.1


class Never(Lease):
    term = float("inf")


class NotRestarted(Lease):
    def renew(self) -> None: ...


class RestartedByRefusal(Lease):
    def do(self, event: str) -> str:
        reply = super().do(event)
        if reply == "HELD":
            self.renew()
        return reply


class FiresAfterRelease(Lease):
    def release(self) -> None:
        self.state = "free"


class StopsOnRenew(Lease):
    def renew(self) -> None:
        self.ends = None


def planned(sut: type[Lease]) -> results.Tested:
    return conform(LEASE, sut, examples=0)


@pytest.mark.parametrize("sut", [Lease, Earliest, Latest])
def test_a_correct_lease_passes_at_both_ends_of_the_tolerance(sut: type[Lease]) -> None:
    tested = conform(LEASE, sut, examples=20)
    assert tested.verdict == Holds()
    assert all(tested.cover.timed["term", each] for each in ("early", "fired", "stopped"))


@pytest.mark.parametrize(
    ("sut", "shortest"),
    [
        (TooEarly, "acquire; wait expire"),
        (TooLate, "acquire; wait expire; expire"),
        (Never, "acquire; wait expire; expire"),
        (NotRestarted, "acquire; wait expire; renew; wait expire"),
        (RestartedByRefusal, "acquire; wait expire; acquire; expire"),
        (FiresAfterRelease, "acquire; release; wait expire"),
        (StopsOnRenew, "acquire; renew; wait expire; expire"),
    ],
)
def test_the_plan_finds_each_defect_with_a_shortest_test(sut: type[Lease], shortest: str) -> None:
    tested = planned(sut)
    assert isinstance(tested.verdict, Fails)
    assert shortest in ["; ".join(map(str, each.steps)) for each in tested.failures]
    again = replay(LEASE, sut, steps(shortest))
    assert [each.steps for each in again.failures] == [steps(shortest)]
    assert not replay(LEASE, Lease, steps(shortest)).failures


@pytest.mark.parametrize("sut", [TooEarly, NotRestarted, FiresAfterRelease, StopsOnRenew])
def test_random_tests_find_defects_without_the_plan(sut: type[Lease]) -> None:
    assert conform(LEASE, sut, aimed=lambda _: False, examples=60).failures
    assert not conform(LEASE, Lease, aimed=lambda _: False, examples=60).failures


def test_the_report_says_how_long_each_step_waited_and_what_was_tested() -> None:
    written = text(planned(TooLate))
    assert "2. wait expire  after 28.999 s; shows held" in written
    assert "3. expire       after 2.002 s; shows held" in written
    assert "the timer term must have fired 31 s after its start" in written
    assert "timer term tested: not too early (" in text(planned(Lease))
    assert '"timers": {"term": {"early": ' in json(planned(Lease)).replace("\n", "").replace("  ", "")


def test_without_a_virtual_clock_the_report_says_that_times_were_not_tested() -> None:
    class Clockless:
        def __init__(self) -> None:
            self._lease = TooLate()
            self.reset, self.shows, self.close = self._lease.reset, self._lease.shows, self._lease.close

        def do(self, event: str) -> str:
            if event == "expire":
                self._lease.advance(100)
                return ""
            return self._lease.do(event)

    tested = conform(LEASE, Clockless, examples=5)
    assert tested.verdict == Holds()
    assert "times were not tested" in text(tested)
    assert "times were not tested" not in text(planned(Lease))


TWO = """\
[machine]
name    = "two"
title   = "Two timers"
about   = "A slow timer can only fire in the second state if time passed in the first."
source  = "a test"
initial = "first"

[states]
first  = { about = "" }
second = { about = "" }
slow   = { about = "" }
quick  = { about = "" }

[event.go]
kind   = "signal"
about  = ""
moves  = { first = "second" }
cannot = ["second", "slow", "quick"]

[event.fire-slow]
kind   = "KIND"
about  = ""
moves  = { first = "slow", second = "slow" }
cannot = ["slow", "quick"]

[event.fire-quick]
kind   = "KIND"
about  = ""
moves  = { second = "quick" }
cannot = ["first", "slow", "quick"]

[timer.long]
about = ""
in    = ["first", "second"]
event = "fire-slow"
after = "SLOW"
tolerance = "1 s"

[timer.short]
about = ""
in    = ["second"]
event = "fire-quick"
after = "10 s"
tolerance = "1 s"
"""


class Two:
    slow = 30.0

    def reset(self) -> None:
        self.state, self.age, self.since = "first", 0.0, 0.0

    def do(self, event: str) -> str:
        if event != "go":
            raise fsm.UnsupportedError(event)
        self.state, self.since = "second", 0.0
        return ""

    def advance(self, seconds: float) -> None:
        self.age, self.since = self.age + seconds, self.since + seconds
        due = [(self.age - self.slow, "slow")] if self.state in {"first", "second"} else []
        due += [(self.since - 10, "quick")] if self.state == "second" else []
        self.state = max([each for each in due if each[0] >= 0], default=(0, self.state))[1]

    def shows(self) -> str:
        return self.state

    def close(self) -> None: ...


@pytest.mark.parametrize("kind", ["signal", "hidden"])
def test_time_passes_earlier_if_another_timer_would_fire_first(kind: str) -> None:
    machine = machine_of(TWO.replace("KIND", kind).replace("SLOW", "30 s"))
    tested = conform(machine, Two, examples=50)
    assert tested.verdict == Holds()
    assert not tested.unreached

    class Forgets(Two):
        def do(self, event: str) -> str:
            self.age = 0.0
            return super().do(event)

    assert isinstance(conform(machine, Forgets, examples=0).verdict, Fails)


@pytest.mark.parametrize("first", [29.0, 30.0, 31.0])
@pytest.mark.parametrize(("second", "fails"), [(29.0, False), (31.0, False), (20.0, True), (40.0, True)])
def test_a_timer_that_another_one_starts_has_started_when_that_one_fired(
    first: float, second: float, *, fails: bool
) -> None:
    """The first timer may fire at any time within its tolerance, and the test does not see when."""
    timers = (("a", "b", "one"), ("b", "c", "two"))
    machine = machine_of(
        '[machine]\nname = "chain"\ntitle = "t"\nabout = "a"\nsource = "s"\ninitial = "a"\n[states]\n'
        + "".join(f'{state} = {{ about = "" }}\n' for state in "abc")
        + "".join(
            f'[event.{event}]\nabout = ""\nmoves = {{ {state} = "{to}" }}\ncannot = ["*"]\n'
            f'[timer.{event}-timer]\nin = ["{state}"]\nevent = "{event}"\nafter = "30 s"\ntolerance = "1 s"\n'
            for state, to, event in timers
        )
    )

    class Chain:
        def reset(self) -> None:
            self.now = 0.0

        def do(self, event: str) -> str:
            raise fsm.UnsupportedError(event)

        def advance(self, seconds: float) -> None:
            self.now += seconds

        def shows(self) -> str:
            return "a" if self.now < first else "b" if self.now < first + second else "c"

        def close(self) -> None: ...

    assert bool(conform(machine, Chain, examples=10).failures) == fails


def test_an_order_that_no_times_allow_is_reported_and_does_not_fail() -> None:
    machine = machine_of(
        TWO.replace("KIND", "signal")
        .replace("SLOW", "30 s")
        .replace('in    = ["first", "second"]', 'in    = ["second"]')
        .replace('moves  = { first = "slow", second = "slow" }', 'moves  = { second = "slow" }')
        .replace('cannot = ["slow", "quick"]', 'cannot = ["first", "slow", "quick"]')
    )

    class Second(Two):
        def do(self, event: str) -> str:
            self.age = 0.0
            return super().do(event)

        def advance(self, seconds: float) -> None:
            if self.state == "second":
                super().advance(seconds)

    tested = conform(machine, Second, examples=20)
    assert not tested.failures
    assert tested.verdict == Holds()
    assert [*tested.unreached] == [Obstacle.TIME]
    assert "because another timer fires first: fire-slow in second" in text(tested)


@pytest.mark.parametrize(("term", "verdict"), [(30, Holds), (28.9, Fails), (31.1, Fails)])
def test_a_child_process_may_have_a_virtual_clock(term: float, verdict: type[Holds | Fails]) -> None:
    command = [sys.executable, "-S", str(SUTS / "lease.py"), str(term)]
    tested = conform(LEASE, lambda: child(command), examples=5)
    assert isinstance(tested.verdict, verdict)
    assert "advance" not in tested.methods


def test_without_the_ability_a_child_process_is_not_asked_to_advance() -> None:
    with closing(child([sys.executable, str(SUTS / "simulated.py"), "examples/models/door.toml"])) as door:
        assert not isinstance(door, Clocked)


BLINKS = """\
[machine]
name = "blinker"
title = "B"
about = "B."
source = "s"
initial = "dark"
[states]
dark = { about = "A." }
lit  = { about = "B." }
[event.blink]
about = "It lights up."
moves = { dark = "lit" }
cannot = ["lit"]
[event.fade]
about = "It goes out."
moves = { lit = "dark" }
cannot = ["dark"]
[timer.off]
in = ["dark"]
event = "blink"
after = "4 s"
tolerance = "1 s"
[timer.on]
in = ["lit"]
event = "fade"
after = "FADES s"
tolerance = "0 s"
"""


class Blinker:
    def __init__(self, times: dict[str, float]) -> None:
        self.times = times
        self.reset()

    def reset(self) -> None:
        self.state, self.left = "dark", self.times["dark"]

    def do(self, event: str) -> str:
        raise fsm.UnsupportedError(event)

    def shows(self) -> str:
        return self.state

    def close(self) -> None: ...

    def advance(self, seconds: float) -> None:
        while seconds >= self.left:
            seconds -= self.left
            self.state = "lit" if self.state == "dark" else "dark"
            self.left = self.times[self.state]
        self.left -= seconds


@pytest.mark.parametrize("fades", [1, 2, 3, 9])
@pytest.mark.parametrize("blinks", [3, 4, 5])
def test_a_timer_that_another_one_starts_may_have_started_within_the_tolerance_of_that_one(
    fades: int, blinks: int
) -> None:
    machine = machine_of(BLINKS.replace("FADES", str(fades)))

    assert conform(machine, lambda: Blinker({"dark": blinks, "lit": fades}), examples=20).failures == ()


@pytest.mark.parametrize("times", [{"dark": 6, "lit": 9}, {"dark": 4, "lit": 6}, {"dark": 4, "lit": 12}])
def test_a_wrong_time_is_found_if_it_differs_by_more_than_the_tolerances(times: dict[str, float]) -> None:
    assert conform(machine_of(BLINKS.replace("FADES", "9")), lambda: Blinker(times), examples=20).failures
