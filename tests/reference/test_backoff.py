"""The reference back-off delays and orders events correctly, and planted bugs are found."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.clock import Clock, TurnedClock
from fsm.runtimes.reference.events import FIRST, Backlog, Backoff, HandlerError, UpstreamBackoff
from fsm.runtimes.reference.events.sut import BackoffSUT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Handler:
    """A handler that fails for the events in *bad*. In total, the number of failures is at most *times*.

    ``tried`` lists the handled events with their times. ``while_busy`` is called while an event is handled.
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


async def wait(backoff: Backoff[str], handler: Handler, seconds: int) -> None:
    """Advance the clock by *seconds*, one second at a time, and call ``tick`` after each second."""
    for _ in range(seconds):
        handler.clock.time += 1
        await backoff.tick()


async def test_delays_double_up_to_five_minutes() -> None:
    handler = Handler(bad="x")
    backoff = Backoff(handler, handler.clock)
    delays = []
    await backoff.handle("c", "x")
    for _ in range(12):
        delays.append(backoff.delay("c"))
        await wait(backoff, handler, int(delays[-1]))
    times = [at for at, _ in handler.tried]

    assert [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] == delays
    assert delays == [later - earlier for earlier, later in pairwise(times)]


def pending(backoff: Backoff[str]) -> list[str]:
    backlog = backoff._keys.get("c")  # noqa: SLF001
    return [*backlog.events, *backlog.incoming] if backlog else []


async def test_the_events_of_a_key_keep_their_order() -> None:
    handler = Handler(bad="a", times=2)
    backoff = Backoff(handler, handler.clock)
    await backoff.handle("c", "a")
    await backoff.handle("c", "b")
    await backoff.handle("d", "e")
    backoff.defer("c", "c")
    assert ["a", "b", "c"] == pending(backoff)
    await wait(backoff, handler, 3)

    assert ("idle", []) == (backoff.shows("c"), pending(backoff))
    assert [(0, "a"), (0, "e"), (1, "a"), (3, "a"), (3, "b"), (3, "c")] == handler.tried


async def test_handled_events_are_not_retried() -> None:
    handler = Handler(bad="b", times=1)
    backoff = Backoff(handler, handler.clock)
    for event in "abc":
        backoff.defer("c", event)
    await wait(backoff, handler, 3)

    assert [(1, "a"), (1, "b"), (3, "b"), (3, "c")] == handler.tried


@pytest.mark.parametrize(("kind", "lost"), [(Backoff, []), (UpstreamBackoff, [("c", "new")])])
async def test_an_event_deferred_during_a_retry(kind: type[Backoff[str]], lost: list[tuple[str, str]]) -> None:
    """An event that is deferred during a retry is tried after the failed event. Containerd loses it."""
    handler = Handler(bad=["old"], times=1)
    backoff = kind(handler, handler.clock)
    backoff.defer("c", "old")
    handler.while_busy = lambda: backoff.defer("c", "new")
    await wait(backoff, handler, 1)
    handler.while_busy = lambda: None
    assert ((["old"] if lost else ["old", "new"]), lost) == (pending(backoff), backoff.dropped)
    await wait(backoff, handler, 2)

    assert [] == pending(backoff)
    assert ["old", "old"] + ["new"] * (not lost) == [event for _, event in handler.tried]


@pytest.mark.parametrize(("kind", "order"), [(Backoff, ["old", "new"]), (UpstreamBackoff, ["new", "old"])])
async def test_an_event_deferred_during_the_first_try(kind: type[Backoff[str]], order: list[str]) -> None:
    """An event that is deferred during the first try waits behind the failed event. In containerd, it comes first."""
    handler = Handler(bad=["old"], times=1)
    backoff = kind(handler, handler.clock)
    handler.while_busy = lambda: backoff.defer("c", "new")
    await backoff.handle("c", "old")

    assert (order, 1) == (pending(backoff), backoff.delay("c"))


async def test_events_are_handled_one_at_a_time() -> None:
    handler = Handler()
    backoff = Backoff(handler, handler.clock)
    busy = []
    handler.while_busy = lambda: busy.append([backoff.shows(key) for key in "cd"])
    await asyncio.gather(backoff.handle("c", "a"), backoff.handle("d", "b"), backoff.tick())

    assert [["handling", "idle"], ["idle", "handling"]] == busy


async def test_a_stop_drops_waiting_events_and_lets_the_handler_finish() -> None:
    handler = Handler(bad="a")
    backoff = Backoff(handler, handler.clock)
    backoff.defer("c", "a")
    backoff.defer("c", "b")
    backoff.defer("d", "e")
    handler.while_busy = backoff.stop
    await wait(backoff, handler, 1)
    assert sorted(backoff.dropped) == [("c", "a"), ("c", "b"), ("d", "e")]
    backoff.stop()
    backoff.defer("c", "late")
    assert ("c", "late") == backoff.dropped[-1]
    with pytest.raises(CannotHappenError):
        await backoff.handle("c", "later")
    assert [(1, "a")] == handler.tried


async def test_its_task_looks_at_the_clock_every_second() -> None:
    handler = Handler(bad="a")
    backoff = Backoff(handler, handler.clock)
    await backoff.handle("c", "a")
    handler.while_busy = lambda: backoff.stop() if handler.clock.time >= 7 else None
    await backoff.run()

    assert [0, 1, 3, 7] == [at for at, _ in handler.tried]


async def test_the_real_clock_advances() -> None:
    clock = Clock()
    before = clock.now()
    await clock.sleep(0)

    assert before <= clock.now()


def test_passes_the_test_of_its_machine() -> None:
    tested = conform(load("event-backoff"), BackoffSUT, examples=5, steps=30)

    assert () == tested.failures
    assert () == tested.missed
    assert (set(), ()) == (tested.cover.unarranged, tested.left_out)


def test_upstream_conforms_with_its_profile() -> None:
    """The upstream behaviour conforms under its profile.

    In one state, the profile has two outcomes that lose events. The test cannot choose which of them occurs.
    """
    tested = conform(load("event-backoff"), lambda: BackoffSUT("upstream"), profile="upstream", examples=0)

    assert ((), ()) == (tested.failures, tested.missed)
    assert {"overwritten"} == set(tested.cover.deviations)


def test_upstream_does_not_conform_without_its_profile() -> None:
    found = conform(load("event-backoff"), lambda: BackoffSUT("upstream"), examples=0, most=1)

    assert ["backoff; tick; backoff; failed"] == [
        "; ".join(step.event for step in each.steps) for each in found.failures
    ]


class Overtakes(Backoff[int]):
    """A back-off that drops the waiting events of a key and handles the new event at once."""

    async def handle(self, key: str, event: int) -> None:
        if key in self._keys:
            self._keys.pop(key)
        await super().handle(key, event)


class Hurries(Backoff[int]):
    """A back-off in which a deferred event restarts the wait of earlier events."""

    def defer(self, key: str, event: int) -> None:
        super().defer(key, event)
        backlog = self._keys.get(key)
        if backlog and not backlog.at_handler:
            backlog.wait(FIRST, self._clock.now())


class NeverDoubles(Backoff[int]):
    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        super()._fail(key, backlog)
        backlog.wait(FIRST, self._clock.now())


class DoublesForever(Backoff[int]):
    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        before = backlog.delay
        super()._fail(key, backlog)
        backlog.wait(2 * before or FIRST, self._clock.now())


class ForgetsTheQueue(Backoff[int]):
    """A back-off that loses events deferred during a retry."""

    def _succeed(self, key: str, backlog: Backlog[int]) -> None:
        super()._succeed(key, backlog)
        if not backlog.at_handler:
            self._keys.pop(key, None)


class GivesUp(Backoff[int]):
    def _fail(self, key: str, backlog: Backlog[int]) -> None:
        super()._fail(key, backlog)
        del self._keys[key]


class StopsAtTheFirst(Backoff[int]):
    """A back-off that loses every event in a queue except the first."""

    def _succeed(self, key: str, backlog: Backlog[int]) -> None:
        super()._succeed(key, backlog)
        if backlog.at_handler:
            backlog.at_handler = False
            del self._keys[key]


class IgnoresTheStop(Backoff[int]):
    def stop(self) -> None:
        super().stop()
        self._stopped = False


BUGS: dict[type[Backoff[int]], str] = {
    Overtakes: "backoff; event",
    Hurries: "backoff; tick; failed; backoff",
    NeverDoubles: "backoff; tick; failed",
    DoublesForever: "backoff; tick; failed; tick; failed",
    ForgetsTheQueue: "event; backoff; handled",
    GivesUp: "event; failed",
    StopsAtTheFirst: "backoff; tick; handled",
    IgnoresTheStop: "stop",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Backoff[int]]) -> None:
    found = conform(load("event-backoff"), lambda: BackoffSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in found.failures] == [BUGS[kind]]
