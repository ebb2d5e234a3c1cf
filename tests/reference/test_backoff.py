"""The reference back-off: how long events wait, in which order they are tried, what is lost, and what the kit notices."""

# ruff: noqa: D102  (a method is the bug that its class tells of)

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import run
from fsm.library import load
from fsm.machine.driver import NoWayError
from fsm.reference.clock import Clock, TurnedClock
from fsm.reference.events.backoff import FIRST, AsWritten, Backlog, EventMonitor, HandlerError
from fsm.reference.events.backoff_sut import BackoffSUT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Handler:
    """Fails for the events *bad*, as often as that is left to it; ``tried`` is what it was given, and when.

    ``meanwhile`` is done while it is at work.
    """

    def __init__(self, bad: Collection[str] = (), times: int = 1_000) -> None:
        self.clock = TurnedClock(hurried=True)
        self.tried: list[tuple[float, str]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._bad, self._left = bad, times

    async def __call__(self, event: str) -> None:
        self.tried.append((self.clock.time, event))
        self.meanwhile()
        await asyncio.sleep(0)
        if event in self._bad and self._left:
            self._left -= 1
            raise HandlerError


async def pass_by(monitor: EventMonitor[str], handler: Handler, seconds: int) -> None:
    """So many seconds pass, and the monitor looks at the clock in each."""
    for _ in range(seconds):
        handler.clock.time += 1
        await monitor.tick()


def test_waits_double_up_to_five_minutes() -> None:
    handler = Handler(bad="x")
    waits = []

    async def fail() -> None:
        monitor = EventMonitor(handler, handler.clock)
        await monitor.happened("c", "x")
        for _ in range(12):
            waits.append(monitor.waits("c"))
            await pass_by(monitor, handler, int(waits[-1]))

    asyncio.run(fail())
    times = [at for at, _ in handler.tried]

    assert [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] == waits
    assert waits == [later - earlier for earlier, later in pairwise(times)]


def test_those_of_a_key_keep_their_order() -> None:
    """What comes while the first waits is not tried before it, nor by itself; of other keys, at once."""
    handler = Handler(bad="a", times=2)

    async def fail() -> None:
        monitor = EventMonitor(handler, handler.clock)
        await monitor.happened("c", "a")
        await monitor.happened("c", "b")
        await monitor.happened("d", "e")
        monitor.backoff("c", "c")
        assert ["a", "b", "c"] == monitor.queue("c")
        await pass_by(monitor, handler, 3)
        assert ("idle", []) == (monitor.shows("c"), monitor.queue("c"))

    asyncio.run(fail())
    assert [(0, "a"), (0, "e"), (1, "a"), (3, "a"), (3, "b"), (3, "c")] == handler.tried


def test_what_was_handled_is_not_tried_again() -> None:
    """A later event of a queue fails: those before it are done with."""
    handler = Handler(bad="b", times=1)

    async def fail() -> None:
        monitor = EventMonitor(handler, handler.clock)
        for event in "abc":
            monitor.backoff("c", event)
        await pass_by(monitor, handler, 3)

    asyncio.run(fail())
    assert [(1, "a"), (1, "b"), (3, "b"), (3, "c")] == handler.tried


@pytest.mark.parametrize(("kind", "lost"), [(EventMonitor, []), (AsWritten, [("c", "new")])])
def test_what_others_put_there_meanwhile(kind: type[EventMonitor[str]], lost: list[tuple[str, str]]) -> None:
    """It is tried after what failed; as containerd has it, it is lost."""
    handler = Handler(bad=["old"], times=1)

    async def race() -> None:
        monitor = kind(handler, handler.clock)
        monitor.backoff("c", "old")
        handler.meanwhile = lambda: monitor.backoff("c", "new")
        await pass_by(monitor, handler, 1)
        handler.meanwhile = lambda: None
        assert ((["old"] if lost else ["old", "new"]), lost) == (monitor.queue("c"), monitor.dropped)
        await pass_by(monitor, handler, 2)
        assert [] == monitor.queue("c")

    asyncio.run(race())
    assert ["old", "old"] + ["new"] * (not lost) == [event for _, event in handler.tried]


@pytest.mark.parametrize(("kind", "order"), [(EventMonitor, ["old", "new"]), (AsWritten, ["new", "old"])])
def test_what_fails_first_is_first(kind: type[EventMonitor[str]], order: list[str]) -> None:
    handler = Handler(bad=["old"], times=1)

    async def race() -> None:
        monitor = kind(handler, handler.clock)
        handler.meanwhile = lambda: monitor.backoff("c", "new")
        await monitor.happened("c", "old")
        assert (order, 1) == (monitor.queue("c"), monitor.waits("c"))

    asyncio.run(race())


def test_one_thing_at_a_time() -> None:
    """A second event waits until the first is handled, whatever its key."""
    handler = Handler()

    async def both() -> None:
        monitor = EventMonitor(handler, handler.clock)
        busy = []
        handler.meanwhile = lambda: busy.append([monitor.shows(key) for key in "cd"])
        await asyncio.gather(monitor.happened("c", "a"), monitor.happened("d", "b"), monitor.tick())
        assert [["handling", "idle"], ["idle", "handling"]] == busy

    asyncio.run(both())


def test_a_stop_drops_what_waits_and_lets_the_handler_finish() -> None:
    handler = Handler(bad="a")

    async def stop() -> None:
        monitor = EventMonitor(handler, handler.clock)
        monitor.backoff("c", "a")
        monitor.backoff("c", "b")
        monitor.backoff("d", "e")
        handler.meanwhile = monitor.stop
        await pass_by(monitor, handler, 1)
        assert sorted(monitor.dropped) == [("c", "a"), ("c", "b"), ("d", "e")]
        monitor.stop()
        monitor.backoff("c", "late")
        assert ("c", "late") == monitor.dropped[-1]
        with pytest.raises(NoWayError):
            await monitor.happened("c", "later")

    asyncio.run(stop())
    assert [(1, "a")] == handler.tried


def test_the_loop_looks_every_second() -> None:
    handler = Handler(bad="a")

    async def loop() -> None:
        monitor = EventMonitor(handler, handler.clock)
        await monitor.happened("c", "a")
        handler.meanwhile = lambda: monitor.stop() if handler.clock.time >= 7 else None
        await monitor.run()

    asyncio.run(loop())
    assert [0, 1, 3, 7] == [at for at, _ in handler.tried]


def test_the_clock_of_the_loop_goes_on() -> None:
    async def look() -> bool:
        clock = Clock()
        before = clock.now()
        await clock.sleep(0)
        return before <= clock.now()

    assert asyncio.run(look())


def test_it_takes_the_test_of_its_machine() -> None:
    """All that can be reached is covered, every way of it."""
    tested = run(load("event-backoff"), BackoffSUT, examples=5, steps=30)

    assert () == tested.failures
    assert () == tested.missed
    assert set() == tested.cover.unarranged | tested.cover.unsupported


def test_as_written_is_as_its_profile_says() -> None:
    """Which of the two losses it is has one name, and cannot be asked for."""
    tested = run(load("event-backoff"), lambda: BackoffSUT("as-written"), profile="as-written", examples=0)

    assert ((), ()) == (tested.failures, tested.missed)
    assert {"overwritten"} == set(tested.cover.deviations)


def test_as_written_does_not_conform() -> None:
    found = run(load("event-backoff"), lambda: BackoffSUT("as-written"), examples=0, most=1)

    assert ["backoff; tick; backoff; failed"] == [
        "; ".join(step.event for step in each.steps) for each in found.failures
    ]


# -- bugs ----------------------------------------------------------------------


class Overtakes(EventMonitor[int]):
    """A new event is handled at once, whoever waits."""

    async def happened(self, key: str, event: int) -> None:
        if key in self._keys:
            self._keys.pop(key)
        await super().happened(key, event)


class Hurries(EventMonitor[int]):
    """What is put into the queue ends the wait of what is there."""

    def backoff(self, key: str, event: int) -> None:
        super().backoff(key, event)
        kept = self._keys.get(key)
        if kept and not kept.at_handler:
            kept.wait(FIRST, self._clock.now())


class NeverDoubles(EventMonitor[int]):
    """Each wait is a second."""

    def _failed(self, key: str, kept: Backlog[int]) -> None:
        super()._failed(key, kept)
        kept.wait(FIRST, self._clock.now())


class DoublesForEver(EventMonitor[int]):
    """The longest wait is not the longest."""

    def _failed(self, key: str, kept: Backlog[int]) -> None:
        before = kept.duration
        super()._failed(key, kept)
        kept.wait(2 * before or FIRST, self._clock.now())


class ForgetsTheQueue(EventMonitor[int]):
    """What came meanwhile is forgotten when the rest is handled."""

    def _handled(self, key: str, kept: Backlog[int]) -> None:
        super()._handled(key, kept)
        if not kept.at_handler:
            self._keys.pop(key, None)


class GivesUp(EventMonitor[int]):
    """What fails is dropped."""

    def _failed(self, key: str, kept: Backlog[int]) -> None:
        super()._failed(key, kept)
        del self._keys[key]


class StopsAtTheFirst(EventMonitor[int]):
    """The rest of a queue is forgotten when its first event is handled."""

    def _handled(self, key: str, kept: Backlog[int]) -> None:
        super()._handled(key, kept)
        if kept.at_handler:
            kept.at_handler = False
            del self._keys[key]


class GoesOn(EventMonitor[int]):
    """A stop is forgotten."""

    def stop(self) -> None:
        super().stop()
        self._stopped = False


BUGS: dict[type[EventMonitor[int]], str] = {
    Overtakes: "backoff; event",
    Hurries: "backoff; tick; failed; backoff",
    NeverDoubles: "backoff; tick; failed",
    DoublesForEver: "backoff; tick; failed; tick; failed",
    ForgetsTheQueue: "event; backoff; handled",
    GivesUp: "event; failed",
    StopsAtTheFirst: "backoff; tick; handled",
    GoesOn: "stop",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[EventMonitor[int]]) -> None:
    found = run(load("event-backoff"), lambda: BackoffSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in found.failures] == [BUGS[kind]]
