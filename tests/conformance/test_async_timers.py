"""Timers of async classes are tested on the virtual clock of their event loop, without any adapter."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machines import machine_of

import fsm
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.hypothesis_tests import stateful
from fsm.language.library import load
from fsm.report.conformance_report import text
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from fsm.conformance.tested import Tested

LEASE = load("examples/models/lease.toml")
QUICK = settings(
    max_examples=100,
    stateful_step_count=20,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Held(Exception):  # noqa: N818
    """Somebody holds the lease."""


class NotHeld(Exception):  # noqa: N818
    """Nobody holds the lease."""


class Lease:
    """A lease that expires by a task."""

    replies: ClassVar[dict[type[BaseException], str]] = {Held: "HELD", NotHeld: "NOT_HELD"}
    term = 30.0

    def __init__(self) -> None:
        self.state = "free"
        self.task: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        if self.state == "held":
            self.refuse()
        self.state = "held"
        self.start()

    def refuse(self) -> None:
        raise Held

    async def renew(self) -> None:
        if self.state != "held":
            raise NotHeld
        self.start()

    async def release(self) -> None:
        self.state = "free"
        self.stop()

    def start(self) -> None:
        self.stop()
        self.task = asyncio.create_task(self.expiring())

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def expiring(self) -> None:
        await asyncio.sleep(self.term)
        self.state = "expired"

    def shows(self) -> str:
        return self.state


class CallLater(Lease):
    """The same with a callback of the event loop."""

    handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.stop()
        self.handle = asyncio.get_running_loop().call_later(self.term, setattr, self, "state", "expired")

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.cancel()


class TimeLimit(Lease):
    """The same with a time limit for something that never ends."""

    async def expiring(self) -> None:
        try:
            async with asyncio.timeout(self.term):
                await asyncio.Event().wait()
        except TimeoutError:
            self.state = "expired"


class OneMethod(Lease):
    """The same with one method for all events."""

    async def do(self, event: str) -> str:
        try:
            await getattr(self, event)()
        except Held:
            return "HELD"
        except NotHeld:
            return "NOT_HELD"
        return "ok"


class Slow(Lease):
    """Each call takes a second before it acts, and another one after that."""

    async def acquire(self) -> None:
        await asyncio.sleep(1)
        await super().acquire()
        await asyncio.sleep(1)

    async def renew(self) -> None:
        await asyncio.sleep(1)
        await super().renew()


class Earliest(Lease):
    term = 29.0


class Latest(CallLater):
    term = 31.0


class TooEarly(Lease):
    term = 28.9


class TooLate(TimeLimit):
    term = 31.1


class Never(Lease):
    async def expiring(self) -> None:
        await asyncio.sleep(0)


class NotRestarted(Lease):
    async def renew(self) -> None:
        if self.state != "held":
            raise NotHeld


class RestartedByRefusal(CallLater):
    def refuse(self) -> None:
        self.start()
        super().refuse()


class NotStopped(Lease):
    async def release(self) -> None:
        self.state = "free"


class StoppedByRenewal(Lease):
    async def renew(self) -> None:
        await super().renew()
        self.stop()


class SlowTooLate(Slow):
    term = 35.0


def shortest_of(tested: Tested) -> list[str]:
    return ["; ".join(map(str, each.steps)) for each in tested.failures]


@pytest.mark.parametrize("sut", [Lease, CallLater, TimeLimit, OneMethod, Slow, Earliest, Latest])
def test_a_correct_class_passes_and_every_kind_of_time_is_tested(sut: type[Lease]) -> None:
    tested = conform(LEASE, sut, examples=30)

    assert (tested.verdict, tested.waited, tested.methods) == (Holds(), "", ())
    assert all(tested.cover.timed["term", each] for each in ("early", "fired", "stopped"))
    assert len(tested.reached) == len(tested.reachable)


@pytest.mark.parametrize(
    ("sut", "shortest"),
    [
        (TooEarly, "acquire; wait expire"),
        (TooLate, "acquire; wait expire; expire"),
        (Never, "acquire; wait expire; expire"),
        (NotRestarted, "acquire; wait expire; renew; wait expire"),
        (RestartedByRefusal, "acquire; wait expire; acquire; expire"),
        (NotStopped, "acquire; release; wait expire"),
        (StoppedByRenewal, "acquire; renew; wait expire; expire"),
        (SlowTooLate, "acquire; wait expire; expire"),
    ],
)
def test_each_defect_is_found_by_a_shortest_test(sut: type[Lease], shortest: str) -> None:
    tested = conform(LEASE, sut, examples=0)

    assert isinstance(tested.verdict, Fails)
    assert shortest in shortest_of(tested)
    assert [each.steps for each in replay(LEASE, sut, steps(shortest)).failures] == [steps(shortest)]
    assert not replay(LEASE, Lease, steps(shortest)).failures


@pytest.mark.parametrize("sut", [TooEarly, TooLate, NotRestarted, NotStopped, StoppedByRenewal])
def test_hypothesis_finds_defects_too(sut: type[Lease]) -> None:
    with pytest.raises(AssertionError, match="the timer term must"):
        run_state_machine_as_test(stateful(LEASE, sut), settings=QUICK)
    run_state_machine_as_test(stateful(LEASE, Lease), settings=QUICK)


def test_a_method_advance_is_refused_because_the_loop_has_the_time() -> None:
    class Advancing(Lease):
        def advance(self, seconds: float) -> None: ...

    with pytest.raises(fsm.InputError, match="also its own advance"):
        conform(LEASE, Advancing)


CALLING = """\
[machine]
name = "calling"
title = "A call with a time limit"
about = "Connects; the session ends after a minute."
source = "a test"
initial = "idle"

[states]
idle = { about = "" }
calling = { about = "connect() waits." }
open = { about = "" }
over = { about = "" }

[event.connect]
kind = "call"
about = ""
moves = { idle = { begins = "calling" } }
refuses = { "*" = "BUSY" }

[event.connect.ends]
calling = [{ name = "opened", to = "open" }, { name = "refused", to = "idle", reply = "FAILED" }, { name = "cancelled", to = "idle", reply = "CANCELLED" }MORE]
idle = { to = "idle", reply = "FAILED" }
over = { to = "over", reply = "FAILED" }

[event.give-up]
kind = "KIND"
about = ""
moves = { calling = "idle" }
cannot = ["*"]

[event.end]
about = ""
moves = { calling = "over", open = "over" }
cannot = ["*"]

[timer.limit]
in = ["calling"]
event = "give-up"
after = "10 s"
tolerance = "1 s"

[timer.session]
in = ["calling", "open"]
event = "end"
after = "60 s"
tolerance = "1 s"
"""


class Busy(Exception):  # noqa: N818
    """The connection is open, or is being opened."""


class Caller:
    """A class whose call has a time limit, so that it ends while it is in progress."""

    replies: ClassVar[dict[type[BaseException], str]] = {Busy: "BUSY", OSError: "FAILED"}
    limit, session = 10.0, 60.0

    def __init__(self) -> None:
        self.dial = fsm.Fake(outcomes={"opened": None, "refused": OSError()})
        self.state = "idle"
        self.task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        if self.state != "idle":
            raise Busy
        self.state, self.task = "calling", asyncio.create_task(self.ending())
        try:
            async with asyncio.timeout(self.limit):
                await self.dialling()
        except BaseException:
            if self.state == "calling":
                self.state = "idle"
                self.stop()
            raise
        if self.state == "over":
            raise OSError
        self.state = "open"

    async def dialling(self) -> None:
        await self.dial()

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def ending(self) -> None:
        await asyncio.sleep(self.session)
        self.state = "over"

    def shows(self) -> str:
        return self.state


class ShortLimit(Caller):
    limit = 5.0


class LongLimit(Caller):
    limit = 12.0


class KeepsSession(Caller):
    def stop(self) -> None: ...


def calling(kind: str = "signal", more: str = "") -> fsm.Machine:
    return machine_of(CALLING.replace("KIND", kind).replace("MORE", more))


@pytest.mark.parametrize("kind", ["signal", "hidden"])
@pytest.mark.parametrize(
    ("sut", "fails"), [(Caller, False), (ShortLimit, True), (LongLimit, True), (KeepsSession, True)]
)
def test_a_timer_may_end_a_call_in_progress(kind: str, sut: type[Caller], *, fails: bool) -> None:
    tested = conform(calling(kind), sut, examples=15)

    assert bool(tested.failures) == fails, text(tested)
    assert fails or not tested.missed


@pytest.mark.parametrize("kind", ["signal", "hidden"])
def test_hypothesis_finds_a_timer_that_ends_a_call_too_early(kind: str) -> None:
    with pytest.raises(AssertionError, match="the timer limit must"):
        run_state_machine_as_test(stateful(calling(kind), ShortLimit), settings=QUICK)
    run_state_machine_as_test(stateful(calling(kind), Caller), settings=QUICK)


@pytest.mark.parametrize("kind", ["signal", "hidden"])
def test_a_call_that_may_end_by_itself_is_not_mistaken_for_a_timer(kind: str) -> None:
    """The model says that the call may also fail at any time, and no test causes that."""
    unanswered = ', { name = "unanswered", to = "idle", reply = "FAILED" }'

    assert not conform(calling(kind, unanswered), Caller, examples=15).failures
    assert not conform(calling(kind, unanswered), ShortLimit, examples=15).failures
    assert conform(calling(kind, unanswered), KeepsSession, examples=15).failures


class SleepsLong(Caller):
    """While the call sleeps, the time limit and the session may end."""

    async def dialling(self) -> None:
        await asyncio.sleep(20)
        await super().dialling()


class SleepsShort(Caller):
    async def dialling(self) -> None:
        await asyncio.sleep(5)
        await super().dialling()


def test_a_step_in_which_a_timer_may_fire_is_not_judged() -> None:
    long, short = (conform(calling(), each, examples=15) for each in (SleepsLong, SleepsShort))

    assert not long.failures
    assert "because another timer fires first" in text(long)
    assert not short.failures
    assert (short.verdict, short.cover.timed["session", "fired"] > 0) == (Holds(), True)


def test_a_session_that_is_too_short_is_found_beside_calls_that_take_time() -> None:
    class TooShort(SleepsShort):
        session = 50.0

    class TooLong(SleepsShort):
        session = 68.0

    assert all(conform(calling(), each, examples=0).failures for each in (TooShort, TooLong))


RETRY = machine_of("""\
[machine]
name = "retry"
title = "An attempt after a pause"
about = "Tries again by itself."
source = "a test"
initial = "waiting"

[states]
waiting = { about = "" }
trying = { about = "" }
done = { about = "" }

[event.try]
about = ""
moves = { waiting = [{ name = "answered", to = "done" }, { name = "refused", to = "waiting" }] }
cannot = ["*"]

[event.stop]
about = ""
moves = { "*" = "done" }

[timer.pause]
in = ["waiting"]
event = "try"
after = "1 s"
tolerance = "100 ms"
""")


class Retrying:
    """Its timer has two outcomes, which a fake in the background chooses."""

    async def reset(self) -> None:
        self.state = "waiting"
        self.send = fsm.Fake(outcomes={"answered": None, "refused": OSError()})
        self.task = asyncio.create_task(self.trying())

    async def trying(self) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                await self.send()
            except OSError:
                continue
            self.state = "done"
            return

    def stop(self) -> None:
        self.state = "done"
        self.task.cancel()

    def shows(self) -> str:
        return self.state

    def close(self) -> None:
        self.task.cancel()


class Deaf(Retrying):
    """It does not notice the answer."""

    async def trying(self) -> None:
        while True:
            await asyncio.sleep(1)
            with suppress(OSError):
                await self.send()


def test_a_fake_chooses_the_outcome_of_a_timer() -> None:
    tested = conform(RETRY, Retrying, examples=10)

    assert (tested.verdict, tested.unseen) == (Holds(), ())
    assert [each.broken for each in conform(RETRY, Deaf, examples=0).failures] == [
        "a fake was completed for the outcome try=answered, but the event ended as refused"
    ]
