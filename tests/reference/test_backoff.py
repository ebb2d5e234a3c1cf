"""The reference back-off: how long events wait, in which order they are tried, what is lost, and what the kit notices."""

# ruff: noqa: D102  (a method is the bug that its class tells of)

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.library import load
from fsm.machine.driver import CannotHappenError
from fsm.reference.clock import Clock, TurnedClock
from fsm.reference.events.backoff import FIRST, Backlog, Backoff, HandlerError
from fsm.reference.events.backoff_sut import BackoffSUT
from fsm.reference.events.upstream import UpstreamBackoff

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Handler:
    """Fails for the events *bad*, as often as that is left to it; ``tried`` is what it was given, and when.

    ``while_busy`` is done while it is at work.
    """

    def __init__(self, bad: Collection[str] = (), times: int = 1_000) -> None:
        self.clock = TurnedClock(hurried=True)
        self.tried: list[tuple[float, str]] = []
        self.while_busy: Callable[[], None] = lambda: None
        self._bad, self._left = bad, times

    async def __call__(self, event: str) -> None:
        self.tried.append((self.clock.time, event))
        self.while_busy()
        await asyncio.sleep(0)
        if event in self._bad and self._left:
            self._left -= 1
            raise HandlerError


async def pass_by(backoff: Backoff[str], handler: Handler, seconds: int) -> None:
    """So many seconds pass, and the backoff looks at the clock in each."""
    for _ in range(seconds):
        handler.clock.time += 1
        await backoff.tick()


def test_waits_double_up_to_five_minutes() -> None:
    handler = Handler(bad="x")
    waits = []

    async def fail() -> None:
        backoff = Backoff(handler, handler.clock)
        await backoff.handle("c", "x")
        for _ in range(12):
            waits.append(backoff.delay("c"))
            await pass_by(backoff, handler, int(waits[-1]))

    asyncio.run(fail())
    times = [at for at, _ in handler.tried]

    assert [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] == waits
    assert waits == [later - earlier for earlier, later in pairwise(times)]


def test_those_of_a_key_keep_their_order() -> None:
    """What comes while the first waits is not tried before it, nor by itself; of other keys, at once."""
    handler = Handler(bad="a", times=2)

    async def fail() -> None:
        backoff = Backoff(handler, handler.clock)
        await backoff.handle("c", "a")
        await backoff.handle("c", "b")
        await backoff.handle("d", "e")
        backoff.defer("c", "c")
        assert ["a", "b", "c"] == backoff.pending("c")
        await pass_by(backoff, handler, 3)
        assert ("idle", []) == (backoff.shows("c"), backoff.pending("c"))

    asyncio.run(fail())
    assert [(0, "a"), (0, "e"), (1, "a"), (3, "a"), (3, "b"), (3, "c")] == handler.tried


def test_what_was_handled_is_not_tried_again() -> None:
    """A later event of a queue fails: those before it are done with."""
    handler = Handler(bad="b", times=1)

    async def fail() -> None:
        backoff = Backoff(handler, handler.clock)
        for event in "abc":
            backoff.defer("c", event)
        await pass_by(backoff, handler, 3)

    asyncio.run(fail())
    assert [(1, "a"), (1, "b"), (3, "b"), (3, "c")] == handler.tried


@pytest.mark.parametrize(("kind", "lost"), [(Backoff, []), (UpstreamBackoff, [("c", "new")])])
def test_what_others_put_there_while_busy(kind: type[Backoff[str]], lost: list[tuple[str, str]]) -> None:
    """It is tried after what failed; as containerd has it, it is lost."""
    handler = Handler(bad=["old"], times=1)

    async def race() -> None:
        backoff = kind(handler, handler.clock)
        backoff.defer("c", "old")
        handler.while_busy = lambda: backoff.defer("c", "new")
        await pass_by(backoff, handler, 1)
        handler.while_busy = lambda: None
        assert ((["old"] if lost else ["old", "new"]), lost) == (backoff.pending("c"), backoff.dropped)
        await pass_by(backoff, handler, 2)
        assert [] == backoff.pending("c")

    asyncio.run(race())
    assert ["old", "old"] + ["new"] * (not lost) == [event for _, event in handler.tried]


@pytest.mark.parametrize(("kind", "order"), [(Backoff, ["old", "new"]), (UpstreamBackoff, ["new", "old"])])
def test_what_fails_first_is_first(kind: type[Backoff[str]], order: list[str]) -> None:
    handler = Handler(bad=["old"], times=1)

    async def race() -> None:
        backoff = kind(handler, handler.clock)
        handler.while_busy = lambda: backoff.defer("c", "new")
        await backoff.handle("c", "old")
        assert (order, 1) == (backoff.pending("c"), backoff.delay("c"))

    asyncio.run(race())


def test_one_thing_at_a_time() -> None:
    """A second event waits until the first is handled, whatever its key."""
    handler = Handler()

    async def both() -> None:
        backoff = Backoff(handler, handler.clock)
        busy = []
        handler.while_busy = lambda: busy.append([backoff.shows(key) for key in "cd"])
        await asyncio.gather(backoff.handle("c", "a"), backoff.handle("d", "b"), backoff.tick())
        assert [["handling", "idle"], ["idle", "handling"]] == busy

    asyncio.run(both())


def test_a_stop_drops_what_waits_and_lets_the_handler_finish() -> None:
    handler = Handler(bad="a")

    async def stop() -> None:
        backoff = Backoff(handler, handler.clock)
        backoff.defer("c", "a")
        backoff.defer("c", "b")
        backoff.defer("d", "e")
        handler.while_busy = backoff.stop
        await pass_by(backoff, handler, 1)
        assert sorted(backoff.dropped) == [("c", "a"), ("c", "b"), ("d", "e")]
        backoff.stop()
        backoff.defer("c", "late")
        assert ("c", "late") == backoff.dropped[-1]
        with pytest.raises(CannotHappenError):
            await backoff.handle("c", "later")

    asyncio.run(stop())
    assert [(1, "a")] == handler.tried


def test_the_loop_looks_every_second() -> None:
    handler = Handler(bad="a")

    async def loop() -> None:
        backoff = Backoff(handler, handler.clock)
        await backoff.handle("c", "a")
        handler.while_busy = lambda: backoff.stop() if handler.clock.time >= 7 else None
        await backoff.run()

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
    tested = conform(load("event-backoff"), BackoffSUT, examples=5, steps=30)

    assert () == tested.failures
    assert () == tested.missed
    assert set() == tested.cover.unarranged | tested.cover.unsupported


def test_as_written_is_as_its_profile_says() -> None:
    """Which of the two losses it is has one name, and cannot be asked for."""
    tested = conform(load("event-backoff"), lambda: BackoffSUT("as-written"), profile="as-written", examples=0)

    assert ((), ()) == (tested.failures, tested.missed)
    assert {"overwritten"} == set(tested.cover.deviations)


def test_as_written_does_not_conform() -> None:
    found = conform(load("event-backoff"), lambda: BackoffSUT("as-written"), examples=0, most=1)

    assert ["backoff; tick; backoff; failed"] == [
        "; ".join(step.event for step in each.steps) for each in found.failures
    ]


class Overtakes(Backoff[int]):
    """A new event is handled at once, whoever waits."""

    async def handle(self, key: str, event: int) -> None:
        if key in self._keys:
            self._keys.pop(key)
        await super().handle(key, event)


class Hurries(Backoff[int]):
    """What is put into the queue ends the wait of what is there."""

    def defer(self, key: str, event: int) -> None:
        super().defer(key, event)
        backlog = self._keys.get(key)
        if backlog and not backlog.at_handler:
            backlog.wait(FIRST, self._clock.now())


class NeverDoubles(Backoff[int]):
    """Each wait is a second."""

    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        super()._fail(key, backlog)
        backlog.wait(FIRST, self._clock.now())


class DoublesForEver(Backoff[int]):
    """The longest wait is not the longest."""

    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        before = backlog.delay
        super()._fail(key, backlog)
        backlog.wait(2 * before or FIRST, self._clock.now())


class ForgetsTheQueue(Backoff[int]):
    """What came while_busy is forgotten when the rest is handled."""

    def _succeed(self, key: str, backlog: Backlog[int]) -> None:
        super()._succeed(key, backlog)
        if not backlog.at_handler:
            self._keys.pop(key, None)


class GivesUp(Backoff[int]):
    """What fails is dropped."""

    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        super()._fail(key, backlog)
        del self._keys[key]


class StopsAtTheFirst(Backoff[int]):
    """The rest of a queue is forgotten when its first event is handled."""

    def _succeed(self, key: str, backlog: Backlog[int]) -> None:
        super()._succeed(key, backlog)
        if backlog.at_handler:
            backlog.at_handler = False
            del self._keys[key]


class GoesOn(Backoff[int]):
    """A stop is forgotten."""

    def stop(self) -> None:
        super().stop()
        self._stopped = False


BUGS: dict[type[Backoff[int]], str] = {
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
def test_a_bug_is_found_by_the_shortest_test(kind: type[Backoff[int]]) -> None:
    found = conform(load("event-backoff"), lambda: BackoffSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in found.failures] == [BUGS[kind]]
