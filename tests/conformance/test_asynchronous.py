"""Classes with async methods are tested on an event loop with a virtual clock."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from async_machines import async_sut
from machines import machine_of
from random_machines import random_machine
from thorough import amount

import fsm
from fsm.conformance.asynchronous import made
from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.conformance.virtual_loop import SPINS, VirtualLoop
from fsm.hypothesis_tests import stateful
from fsm.language.library import load
from fsm.machine.findings import Cause
from fsm.mutation import mutants

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator


JOB = machine_of("""
[machine]
name = "job"
title = "A job"
about = "Runs."
source = "none"
initial = "idle"

[states]
idle = { about = "Nothing runs." }
busy = { about = "It runs." }
done = { about = "It has run." }

[event.run]
kind = "call"
about = "Run once."
moves = { idle = { begins = "busy" } }
refuses = { "*" = "BUSY" }

[event.run.ends]
busy = [{ name = "ran", to = "done" }, { name = "failed", to = "idle", reply = "FAILED" }, { name = "cancelled", to = "idle", reply = "CANCELLED" }]

[event.tick]
about = "Time passes."
ignores = ["*"]
""")


class Busy(Exception):  # noqa: N818
    """A run is in progress, or is over."""


class Job:
    """A class that follows the machine. Its subclasses have one defect each, or do the same in another way."""

    replies: ClassVar[dict[type[BaseException], str]] = {Busy: "BUSY", OSError: "FAILED"}

    def __init__(self) -> None:
        self.work = fsm.Fake(outcomes={"ran": None, "failed": OSError()})
        self.state = "idle"

    async def run(self) -> None:
        if self.state != "idle":
            raise Busy
        self.state = "busy"
        try:
            await self.working()
        except BaseException:
            self.state = "idle"
            raise
        self.state = "done"

    async def working(self) -> None:
        await self.work()

    async def tick(self) -> None:
        await fsm.next_timer()

    def shows(self) -> str:
        return self.state

    async def close(self) -> None: ...


def failures(kind: Callable[[], Any], examples: int = 10) -> list[str]:
    found = conform(JOB, kind, examples=examples)
    assert found.failures or not found.missed
    return [each.broken or "violation" for each in found.failures]


def test_a_class_that_follows_the_machine_passes() -> None:
    found = conform(JOB, Job)

    assert isinstance(found.verdict, fsm.Holds)
    assert (len(found.reached), found.waited) == (len(found.reachable), "")


# -- findings --------------------------------------------------------------------


class Leaking(Job):
    async def working(self) -> None:
        self.task = asyncio.create_task(asyncio.Event().wait())
        await super().working()


class Ending(Leaking):
    async def close(self) -> None:
        if hasattr(self, "task"):
            self.task.cancel()


class Pausing(Job):
    """Its task ends by itself when some time has passed, so nothing has leaked."""

    async def working(self) -> None:
        self.task = asyncio.create_task(asyncio.sleep(3600))
        await super().working()


async def fails() -> None:
    raise KeyError("boom")


class Forgetting(Job):
    async def working(self) -> None:
        self.task = asyncio.create_task(fails())
        await super().working()


class Retrieving(Forgetting):
    async def working(self) -> None:
        await super().working()
        assert isinstance(self.task.exception(), KeyError)

    async def close(self) -> None:
        if hasattr(self, "task"):
            self.task.exception()


class Calling(Job):
    async def working(self) -> None:
        asyncio.get_running_loop().call_soon({"": 0}.__getitem__, "boom")
        await super().working()


class Spinning(Job):
    async def working(self) -> None:
        while self.work.outcomes:  # noqa: ASYNC110
            await asyncio.sleep(0)


class Turning(Job):
    async def working(self) -> None:
        for _ in range(SPINS // 2):
            await asyncio.sleep(0)
        await super().working()


class CancellingItself(Job):
    async def working(self) -> None:
        await super().working()
        raise asyncio.CancelledError


class IgnoringCancellation(Job):
    async def working(self) -> None:
        while True:
            try:
                return await super().working()
            except asyncio.CancelledError:
                await asyncio.Event().wait()


class SwallowingCancellation(Job):
    async def working(self) -> None:
        try:
            await super().working()
        except asyncio.CancelledError:
            return


class SwallowingFailure(Job):
    async def working(self) -> None:
        with suppress(OSError):
            await super().working()


class BreakingItsPromise(SwallowingFailure):
    def arrange(self, event: str, outcome: str) -> bool:
        return (event, outcome) == ("run", "failed")


class Endless(Job):
    async def working(self) -> None:
        await asyncio.Event().wait()


class RaisingAtTheEnd(Job):
    async def close(self) -> None:
        raise KeyError("boom")


FINDINGS = [
    (Leaking, "the task Event.wait has not ended; it waits at"),
    (Ending, ""),
    (Pausing, ""),
    (Forgetting, "nobody retrieved an exception: the SUT raised KeyError: 'boom' at"),
    (Retrieving, ""),
    (Calling, "a callback raised KeyError: 'boom'"),
    (Spinning, "the loop spins: something was ready in each of 10,000 turns"),
    (Turning, ""),
    (CancellingItself, "run was cancelled, although the test did not cancel it"),
    (IgnoringCancellation, "run does not end when it is cancelled; it waits at"),
    (SwallowingCancellation, "the call was cancelled for the outcome end run=cancelled, but the event ended as ran"),
    (SwallowingFailure, "a fake was completed for the outcome end run=failed, but the event ended as ran"),
    (BreakingItsPromise, "SUT promised the outcome end run=failed, but the event ended as ran"),
    (Endless, "run does not return; it waits at"),
    (RaisingAtTheEnd, "close raised KeyError: 'boom' at"),
]


@pytest.mark.parametrize(("kind", "says"), FINDINGS)
def test_what_is_left_behind_is_a_finding(kind: type[Job], says: str) -> None:
    found = failures(kind, examples=0)

    if says:
        assert any(says in each for each in found), found
    else:
        assert found == []


def test_a_leak_has_a_shortest_test_and_is_reported_once() -> None:
    found = conform(JOB, Leaking)

    assert [len(each.steps) for each in found.failures] == [1]
    again = replay(JOB, Leaking, found.failures[0].steps)
    assert [each.broken for each in again.failures] == [found.failures[0].broken]


# -- calls that wait for each other ------------------------------------------------

SHARING = machine_of("""
[machine]
name = "page"
title = "A page"
about = "Is fetched once, whoever asks for it."
source = "none"
initial = "none"

[states]
none = { about = "Nobody has asked." }
fetching = { about = "One caller waits.", shows = "fetching" }
shared = { about = "Two callers wait.", shows = "fetching" }
there = { about = "It is there." }

[event.get]
kind = "call"
about = "Return the page."
ignores = ["there"]
moves = { none = { begins = "fetching" }, fetching = { begins = "shared" }, shared = { begins = "shared" } }

[event.get.ends]
fetching = [
  { name = "fetched", to = "there" },
  { name = "failed", to = "none", reply = "FAILED" },
  { name = "cancelled", to = "none", reply = "CANCELLED" },
]
shared = [
  { name = "fetched", to = "there" },
  { name = "failed", to = "none", reply = "FAILED" },
  { name = "cancelled", to = "fetching", reply = "CANCELLED" },
]
none = [
  { name = "fetched", stays = true },
  { name = "failed", stays = true, reply = "FAILED" },
  { name = "cancelled", stays = true, reply = "CANCELLED" },
]
there = [
  { name = "fetched", stays = true },
  { name = "failed", stays = true, reply = "FAILED" },
  { name = "cancelled", stays = true, reply = "CANCELLED" },
]
""")


class Page:
    """All callers wait for one task, which the first caller creates and the last one cancels."""

    replies: ClassVar[dict[type[BaseException], str]] = {OSError: "FAILED"}

    def __init__(self) -> None:
        self.fetch = fsm.Fake(outcomes={"fetched": None, "failed": OSError()})
        self.state, self.callers = "none", 0
        self.task: asyncio.Task[None] | None = None

    async def get(self) -> None:
        if self.state == "there":
            return
        if self.state == "none":
            self.task = asyncio.create_task(self.fetching())
            self.state = "fetching"
        assert self.task is not None
        self.callers += 1
        try:
            await asyncio.shield(self.task)
        finally:
            self.callers -= 1
            if not self.callers and not self.task.done():
                self.cancel(self.task)

    def cancel(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        self.state = "none"

    async def fetching(self) -> None:
        try:
            await self.fetched()
        except OSError:
            self.state = "none"
            raise
        self.state = "there"

    async def fetched(self) -> None:
        await self.fetch()

    def shows(self) -> str:
        return self.state


class Resting(Page):
    """The shared task rests, so the second caller waits for a timer that does not belong to it."""

    async def fetched(self) -> None:
        await asyncio.sleep(60)
        await super().fetched()


class Unshared(Page):
    """Whoever is cancelled ends the request of all."""

    async def get(self) -> None:
        try:
            await super().get()
        except asyncio.CancelledError:
            if self.task is not None:
                self.cancel(self.task)
            raise


class Lost(Page):
    """The second caller waits for something that never comes."""

    async def get(self) -> None:
        if self.callers:
            await asyncio.Event().wait()
        await super().get()


@pytest.mark.parametrize("kind", [Page, Resting])
def test_a_call_may_wait_for_what_another_call_has_begun(kind: type[Page]) -> None:
    found = conform(SHARING, kind, examples=20)

    assert isinstance(found.verdict, fsm.Holds)
    assert len(found.reached) == len(found.reachable)


@pytest.mark.parametrize(("kind", "says"), [(Unshared, ""), (Lost, "get does not return; it waits at")])
def test_defects_of_calls_that_wait_for_each_other_are_found(kind: type[Page], says: str) -> None:
    found = conform(SHARING, kind, examples=0)

    assert any(says in each.broken and len(each.steps) == 2 for each in found.failures)


def test_the_wrong_end_of_a_call_is_reported_with_the_right_one() -> None:
    class Stuck(Job):
        async def run(self) -> None:
            if self.state != "idle":
                raise Busy
            self.state = "busy"
            await self.working()
            self.state = "done"

    (failure,) = replay(JOB, Stuck, steps("begin run; end run=failed")).failures
    assert failure.violation is not None
    assert (failure.violation.cause, failure.violation.illegal) == (Cause.STATE, "busy")
    assert [(each.state, each.what) for each in failure.violation.permitted] == [("busy", ("idle",))]


# -- time ------------------------------------------------------------------------


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    """Run *coroutine* on a loop whose clock advances as far as needed."""
    loop = VirtualLoop()
    task = loop.create_task(coroutine)
    loop.settle()
    while not task.done() and (when := loop.next_timer()) is not None:
        loop.settle(until=when)
    assert loop.faults == []
    result = task.result()
    loop.close()
    return result


def test_sleeping_takes_no_time() -> None:
    async def sleep() -> float:
        await asyncio.sleep(3600 * 24 * 365)
        return asyncio.get_running_loop().time()

    before = time.perf_counter()
    assert run(sleep()) == 3600 * 24 * 365
    assert time.perf_counter() - before < 5


def test_timers_fire_in_their_order() -> None:
    """The naive second opinion sorts the durations."""
    chance = random.Random(7)
    for _ in range(20):
        seconds = [chance.randrange(1, 60) + chance.random() for _ in range(10)]
        fired: list[float] = []

        async def expire(after: float, how: int, fired: list[float] = fired) -> None:
            try:
                if how == 0:
                    await asyncio.sleep(after)
                elif how == 1:
                    async with asyncio.timeout(after):
                        await asyncio.Event().wait()
                else:
                    await asyncio.wait_for(asyncio.sleep(1e6), after)
            except TimeoutError:
                pass
            fired.append(after)

        async def all_of_them(seconds: list[float] = seconds, expire: Any = expire) -> None:  # noqa: ANN401
            await asyncio.gather(*(expire(each, number % 3) for number, each in enumerate(seconds)))

        run(all_of_them())
        assert fired == sorted(seconds)


def test_time_stands_still_between_steps() -> None:
    """A call that sleeps is in progress until the test ends it."""

    class Sleeper(Job):
        async def working(self) -> None:
            await asyncio.sleep(10)

    seen = replay(JOB, Sleeper, steps("begin run; run; end run"))

    assert [each for each in seen.failures if "promised" not in each.broken] == []
    assert seen.cover.steps == 3


# -- the same in every run --------------------------------------------------------

TRACES = """
import asyncio, sys
sys.path[:0] = ["tests/support", "tests/conformance"]
import test_asynchronous as tests, fsm
from fsm.conformance.suite import conform

class Worn(tests.Job):
    runs = 0
    async def working(self):
        order = []
        async def one(number):
            await asyncio.sleep(0)
            order.append(number)
        tasks = {asyncio.create_task(one(number)) for number in range(20)}
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(asyncio.wait({task}))
        print([order[0], *(number for number, task in enumerate(tasks))][:5], end=" ")
        await super().working()
        Worn.runs += 1
        if Worn.runs % 50 == 0:
            raise KeyError(str(order))

found = conform(tests.JOB, Worn, examples=20, seed=int(sys.argv[1]))
print(fsm.describe(found))
"""


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    def trace(seed: int, hashes: int) -> str:
        variables = {**os.environ, "PYTHONHASHSEED": str(hashes)}
        command = [sys.executable, "-c", TRACES, str(seed)]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout

    assert "KeyError" in trace(1, 1)
    assert trace(1, 1) == trace(1, 2)


def test_each_test_has_a_fresh_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Watching(Job):
        def __init__(self) -> None:
            super().__init__()
            loops.append(asyncio.get_running_loop())

    conform(JOB, Watching, examples=2)

    assert len({id(each) for each in loops}) == len(loops) > 5
    assert all(each.is_closed() for each in loops)


def test_an_object_with_a_reset_is_kept() -> None:
    made = 0

    class Kept(Job):
        def __init__(self) -> None:
            nonlocal made
            made += 1

        async def reset(self) -> None:
            await asyncio.sleep(5)
            super().__init__()

    assert failures(Kept) == []
    assert made == 1


def test_an_object_with_a_synchronous_do_runs_on_no_loop() -> None:
    """It may use loops of its own, and have async methods with the names of events."""

    class Own(Simulated):
        async def run(self) -> None:
            raise AssertionError

        def reset(self) -> None:
            asyncio.run(asyncio.sleep(0))
            super().reset()

    found = conform(JOB, partial(Own, JOB), examples=0)
    assert found.failures == ()


def test_hypothesis_runs_it_too() -> None:
    stateful(JOB, Job).TestCase().runTest()
    with pytest.raises(AssertionError, match=r"run was cancelled, although|violation"):
        stateful(JOB, CancellingItself).TestCase().runTest()


# -- the real world --------------------------------------------------------------


class Executor(Job):
    async def working(self) -> None:
        await asyncio.to_thread(time.sleep, 0.005)


class Subprocess(Job):
    async def working(self) -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "")
        assert await process.wait() == 0


def answer(to: socket.socket) -> None:
    time.sleep(0.005)
    to.send(b"x")


class Sockets(Job):
    answers = True

    async def working(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(0)
            if self.answers:
                asyncio.get_running_loop().run_in_executor(None, answer, theirs)
            assert await asyncio.get_running_loop().sock_recv(ours, 1) == b"x"


REAL = [(Executor, "a job of an executor"), (Subprocess, "a subprocess"), (Sockets, "a job of an executor")]


@pytest.mark.parametrize(("kind", "what"), REAL)
def test_real_things_are_waited_for(kind: type[Job], what: str) -> None:
    found = replay(JOB, kind, steps("run; run; tick"))

    assert (found.failures, found.waited) == ((), what)
    assert "not reproducible" in fsm.describe(found)
    assert "not reproducible" not in fsm.describe(replay(JOB, Job, steps("run")))


def test_a_socket_that_is_silent_is_given_up() -> None:
    class Silent(Sockets):
        answers = False

    machine = JOB
    sut = made(Silent, machine, timeout=0.05)
    found = replay(machine, lambda: sut, steps("run"))

    assert [each.broken for each in found.failures] == [
        "run does not return within 0.05 s; it waits for a socket or pipe"
    ]


def test_time_does_not_advance_while_a_job_is_outstanding() -> None:
    """The clock follows real time, so an hour does not pass before the job ends."""
    loop = VirtualLoop()
    sleeping = loop.create_task(asyncio.sleep(3600))
    job = loop.run_in_executor(None, time.sleep, 0.02)
    loop.settle(until=3600.0)

    assert job.done()
    assert sleeping.done()
    assert loop.time() == 3600.0
    loop.close()


def test_flaky_failures_are_not_shrunk_to_what_does_not_recur() -> None:
    """A shorter test is kept only if it fails several times."""
    runs = 0

    class Moody(Executor):
        async def working(self) -> None:
            nonlocal runs
            await super().working()
            runs += 1
            if runs % 2:
                raise KeyError("now and then")

    found = conform(JOB, Moody, examples=0, most=1)

    assert found.waited
    assert [0 < each.repeated[0] < each.repeated[1] for each in found.failures if each.repeated] == [True]


def test_an_interrupt_ends_the_test() -> None:
    class Interrupted(Job):
        async def working(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conform(JOB, Interrupted)


# -- random classes --------------------------------------------------------------


def random_cases(count: int) -> Iterator[tuple[random.Random, fsm.Machine]]:
    for seed in range(count):
        chance = random.Random(seed)
        yield chance, random_machine(chance)


def test_random_classes_that_follow_their_machine_pass() -> None:
    """They reach the same pairs as a simulated machine without a loop."""
    for _, machine in random_cases(amount(30, night=1_000)):
        suts = (async_sut(machine), partial(Simulated, machine))
        found, simulated = (conform(machine, sut, examples=5, steps=20) for sut in suts)
        assert (found.failures, found.missed) == ((), ())
        assert found.reached == simulated.reached


def test_random_classes_with_a_defect_fail_unless_nothing_can_be_noticed() -> None:
    """A simulated machine with the same defect, which needs no loop, fails in the same cases."""
    failed = 0
    for chance, machine in random_cases(amount(15, night=500)):
        known = [each for each in mutants(machine) if not each.name.endswith(": dropped") and _returns(each.machine)]
        for mutant in chance.sample(known, min(2, len(known))):
            suts = (async_sut(mutant.machine), partial(Simulated, mutant.machine))
            broken, simulated = (conform(machine, sut, examples=5, steps=20) for sut in suts)
            assert bool(broken.failures) == bool(simulated.failures), mutant.name
            failed += bool(broken.failures)
    assert failed > 5


def _returns(machine: fsm.Machine) -> bool:
    """Check that every call can end."""
    ends = (way for event in machine.events.values() for cell in event.ends.values() for way in cell.outcomes)
    return not any(way.begins for way in ends)


@pytest.mark.slow
def test_async_methods_get_the_arguments_of_their_events() -> None:
    class Safe:
        def __init__(self, limit: int = 2) -> None:
            self.state, self.failures, self.limit = "locked", 0, limit

        def shows(self) -> str:
            return self.state

        async def enter(self, code: int) -> str:
            await asyncio.sleep(1)
            if self.state != "locked":
                return "ALREADY_OPEN" if self.state == "open" else "BLOCKED"
            if code == 2:
                self.state, self.failures = "open", 0
                return "ok"
            self.failures += 1
            if self.failures <= self.limit:
                return "WRONG"
            self.state = "blocked"
            return "BLOCKED"

        async def shut(self) -> str:
            self.state = "locked" if self.state == "open" else self.state
            return "ok"

    safe = load("examples/models/safe.toml")

    assert not conform(safe, Safe).failures
    assert conform(safe, partial(Safe, 3)).failures
