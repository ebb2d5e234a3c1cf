"""The reference queue of container events: who finds what, the kit, and bugs planted in it."""

# ruff: noqa: D102  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

import asyncio
from collections import deque
from functools import wraps
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.library import load
from fsm.machine.driver import CannotHappenError
from fsm.reference.clock import TurnedClock
from fsm.reference.events.queue import CAPACITY, DISCARD_AFTER, EventQueue, QueueShutError, Subscription
from fsm.reference.events.queue_sut import EventsSUT
from fsm.reference.events.upstream import UpstreamEventQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable


def in_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    @wraps(test)
    def runs() -> None:
        asyncio.run(test())

    return runs


EXPECTED = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def lost(event: int) -> None:
    """Nothing is to be."""
    pytest.fail(f"event {event} was discarded")


async def sent(queue: EventQueue[int], events: Iterable[int]) -> None:
    for each in events:
        await queue.send(each)


async def collected(subscription: Subscription[int]) -> list[int]:
    return [each async for each in subscription]


@in_a_loop
async def test_all_who_listen_find_all() -> None:
    queue = EventQueue[int](lost)
    several = [asyncio.create_task(collected(queue.subscribe())) for _ in range(10)]

    await sent(queue, EXPECTED)
    queue.shutdown()

    assert [EXPECTED] * 10 == await asyncio.gather(*several)


@in_a_loop
async def test_who_comes_first_finds_what_was_missed() -> None:
    """And who comes later only what is sent then."""
    queue = EventQueue[int](lost)
    await sent(queue, EXPECTED[:2])
    first = queue.subscribe()
    await sent(queue, EXPECTED[2:4])
    second = queue.subscribe()
    await sent(queue, EXPECTED[4:])
    queue.shutdown()

    assert (EXPECTED, EXPECTED[4:]) == (await collected(first), await collected(second))


@in_a_loop
async def test_what_was_kept_too_long_is_discarded() -> None:
    clock = TurnedClock(hurried=True)
    discarded: list[int] = []
    queue = EventQueue(discarded.append, clock=clock)
    await sent(queue, EXPECTED[:2])
    clock.time = 1.0
    await sent(queue, EXPECTED[2:3])

    clock.time = DISCARD_AFTER - 0.001
    queue.expire()
    assert ([], EXPECTED[:3]) == (discarded, queue.retained)
    clock.time = DISCARD_AFTER
    queue.expire()
    assert (EXPECTED[:2], EXPECTED[2:3]) == (discarded, queue.retained)

    subscription = queue.subscribe()
    clock.time = 10 * DISCARD_AFTER
    queue.expire()
    await sent(queue, EXPECTED[3:])
    queue.shutdown()
    assert (EXPECTED[:2], EXPECTED[2:]) == (discarded, await collected(subscription))


@in_a_loop
async def test_a_task_discards_by_the_clock() -> None:
    clock = TurnedClock(hurried=True)
    discarded: list[tuple[float, int]] = []
    queue = EventQueue[int](lambda event: discarded.append((clock.time, event)), clock=clock)
    task = asyncio.create_task(queue.run())
    await sent(queue, [1])
    clock.time = 7.0
    await sent(queue, [2])

    for _ in range(9):
        await asyncio.sleep(0)
    assert [(300.0, 1), (307.0, 2)] == discarded

    await asyncio.sleep(0)
    await sent(queue, [3])
    queue.shutdown()
    await task
    assert [1, 2, 3] == [event for _, event in discarded]


@in_a_loop
async def test_what_is_kept_is_discarded_at_the_end() -> None:
    discarded: list[int] = []
    queue = EventQueue(discarded.append)
    await sent(queue, EXPECTED)

    queue.shutdown()
    queue.shutdown()
    await sent(queue, [10])

    assert (EXPECTED, []) == (discarded, queue.retained)
    with pytest.raises(QueueShutError, match="subscription closed by server"):
        queue.subscribe()


@in_a_loop
async def test_nobody_subscribes_to_a_queue_that_is_shut() -> None:
    """Not even where somebody else still reads."""
    queue = EventQueue[int](lost)
    subscription = queue.subscribe()
    await sent(queue, [1])
    queue.shutdown()

    with pytest.raises(QueueShutError):
        queue.subscribe()
    assert ("draining", [1]) == (subscription.state, await collected(subscription))


@in_a_loop
async def test_who_has_gone_is_not_there_any_more() -> None:
    """For who goes again, nor for who came after it."""
    queue = EventQueue[int](lost)
    first = queue.subscribe()
    reader = asyncio.create_task(collected(first))
    await asyncio.sleep(0)
    first.close()
    assert [] == await reader

    await sent(queue, [1])
    second = queue.subscribe()
    first.close()
    await sent(queue, [2])
    queue.shutdown()

    assert ("left", True, [1, 2]) == (first.state, queue.is_shut, await collected(second))
    with pytest.raises(CannotHappenError):
        second.read()


@in_a_loop
async def test_one_who_goes_leaves_the_others_alone() -> None:
    queue = EventQueue[int](lost)
    first, second = queue.subscribe(), queue.subscribe()
    await sent(queue, [1])
    first.close()
    await sent(queue, [2])
    queue.shutdown()

    assert ([], [1, 2]) == (await collected(first), await collected(second))


@in_a_loop
async def test_who_does_not_read_stops_nobody() -> None:
    """What is too much for one is discarded, and the other has it all."""
    discarded: list[int] = []
    queue = EventQueue(discarded.append)
    slow, quick = queue.subscribe(), queue.subscribe()

    for each in range(CAPACITY + 2):
        await asyncio.wait_for(queue.send(each), 0.1)
        assert each == quick.read()

    assert ("full", [CAPACITY, CAPACITY + 1]) == (slow.state, discarded)
    assert list(range(CAPACITY)) == [slow.read() for _ in range(CAPACITY)]
    assert "caught-up" == slow.state


@in_a_loop
async def test_more_may_be_kept_than_a_buffer_holds() -> None:
    queue = EventQueue[int](lost)
    await sent(queue, range(CAPACITY + 5))
    subscription = queue.subscribe()
    queue.shutdown()

    assert list(range(CAPACITY + 5)) == await collected(subscription)


@in_a_loop
async def test_as_written_who_does_not_read_stops_all() -> None:
    """The 101st event stops who sends it, and all who send after; they go on when it is read, or hung up."""
    queue = UpstreamEventQueue[int](lost)
    slow, quick = queue.subscribe(), queue.subscribe()
    await sent(queue, range(CAPACITY))
    tasks = [asyncio.create_task(queue.send(CAPACITY + each)) for each in range(3)]
    await asyncio.sleep(0)

    assert ("blocked", [False] * 3) == (slow.state, [each.done() for each in tasks])
    assert list(range(CAPACITY)) == [quick.read() for _ in range(CAPACITY)]
    assert "caught-up" == quick.state

    assert 0 == slow.read()
    for _ in range(3):
        await asyncio.sleep(0)
    assert [True, False, False] == [each.done() for each in tasks]
    slow.close()
    await asyncio.gather(*tasks)
    assert [CAPACITY, CAPACITY + 1, CAPACITY + 2] == [quick.read() for _ in range(3)]


@in_a_loop
async def test_as_written_what_was_kept_may_stop_all() -> None:
    queue = UpstreamEventQueue[int](lost)
    await sent(queue, range(CAPACITY + 2))
    subscription = queue.subscribe()
    task = asyncio.create_task(queue.send(CAPACITY + 2))
    await asyncio.sleep(0)

    assert ("blocked", False) == (subscription.state, task.done())
    assert [0, 1, 2] == [subscription.read() for _ in range(3)]
    await task
    subscription.close()

    queue.chance = lambda: False
    await sent(queue, [7])
    assert [7] == queue.retained


@in_a_loop
async def test_as_written_who_hangs_up_while_all_wait_leaves_what_waits() -> None:
    queue = UpstreamEventQueue[int](lost)
    subscription = queue.subscribe()
    await sent(queue, range(CAPACITY))
    task = asyncio.create_task(queue.send(CAPACITY))
    await asyncio.sleep(0)
    subscription.close()
    await task

    assert ([CAPACITY], 0) == (queue.retained, queue.subscribed)


@in_a_loop
async def test_as_written_events_are_lost_to_who_has_gone() -> None:
    queue = UpstreamEventQueue[int](lost)
    queue.subscribe().close()
    queue.chance = lambda: True
    await sent(queue, [1])
    queue.chance = lambda: False
    await sent(queue, [2])

    assert [2] == queue.retained


@pytest.mark.parametrize("profile", [None, "as-written"])
def test_passes_the_kit(profile: str | None) -> None:
    tested = conform(load("container-events"), lambda: EventsSUT(profile or ""), profile=profile, examples=5, steps=20)

    assert ((), ()) == (tested.failures, tested.missed)
    assert (set() if profile is None else {("send", "too-many"), ("read", "still-full")}) >= set(tested.unarranged)


class Forgets(EventQueue[int]):
    """What is sent while nobody listens is lost."""

    def _retain(self, events: Iterable[int]) -> None:
        del events


class KeepsForGood(EventQueue[int]):
    """Nothing is ever too old."""

    def expire(self) -> None:
        pass


class DiscardsTheNewest(EventQueue[int]):
    """What was kept last is discarded first."""

    def expire(self) -> None:
        self._retained = deque((event, self.due) for event, _ in reversed(self._retained))
        super().expire()


class DiscardsAll(EventQueue[int]):
    """When one event is too old all are."""

    def expire(self) -> None:
        self._retained = deque((event, self.due) for event, _ in self._retained)
        super().expire()


class TurnsRound(EventQueue[int]):
    """Who comes finds the newest first."""

    def subscribe(self) -> Subscription[int]:
        subscription = super().subscribe()
        subscription.unread.reverse()
        return subscription


class GivesNothing(EventQueue[int]):
    """Who comes finds nothing of what was kept."""

    def subscribe(self) -> Subscription[int]:
        if self._subscriptions or self.is_shut:
            return super().subscribe()
        for each in self.retained:
            self._discard(each)
        self._retained.clear()
        self._next = self._position()
        return super().subscribe()


class DropsTheOldest(EventQueue[int]):
    """Where an event does not fit, another goes."""

    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        if subscription.state == "full":
            self._discard(subscription.unread.popleft())
            subscription.unread.append(event)
        else:
            await super()._deliver(subscription, event)


class DropsSilently(EventQueue[int]):
    """Nobody is told of what does not fit."""

    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        if subscription.state != "full":
            await super()._deliver(subscription, event)


class Repeats(EventQueue[int]):
    """What comes to a reader that waits comes twice."""

    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        waits = subscription.state == "caught-up"
        await super()._deliver(subscription, event)
        if waits:
            subscription.unread.append(event)


class ForgetsTheUnread(EventQueue[int]):
    """Nothing can be read of a queue that was shut."""

    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.unread.clear()
            each.ended = True


class NeverEnds(EventQueue[int]):
    """The reader of a queue that was shut waits for good."""

    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.ended = False


class EndsEarly(EventQueue[int]):
    """The stream ends before it was read."""

    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.ended = True


class KeepsAtTheEnd(EventQueue[int]):
    """What is kept is neither discarded nor read."""

    def shutdown(self) -> None:
        self._retained.clear()
        super().shutdown()


class KeepsListening(EventQueue[int]):
    """Who has gone is sent the next event all the same, and it is lost."""

    ghosts = 0

    def _unsubscribe(self, subscription: Subscription[int], before: str) -> None:
        super()._unsubscribe(subscription, before)
        self.ghosts = 1

    def _send_to_none(self, event: int) -> None:
        if self.ghosts:
            self.ghosts = 0
        else:
            super()._send_to_none(event)


class OpensAgain(EventQueue[int]):
    """An event opens a queue that was shut."""

    def _send_to_none(self, event: int) -> None:
        if self._next.state == "shut":
            self._next = self._position()
        super()._send_to_none(event)


class StopsAll(UpstreamEventQueue[int]):
    """As containerd has it, but nobody is lost events to."""

    chance = staticmethod(lambda: False)


BUGS: dict[type[EventQueue[int]], str] = {
    Forgets: "send",
    KeepsForGood: "send; expire",
    DiscardsTheNewest: "send; expire",
    DiscardsAll: "send; expire",
    TurnsRound: "send; subscribe",
    GivesNothing: "send; subscribe",
    DropsTheOldest: "send; subscribe; send",
    DropsSilently: "send; subscribe; send",
    Repeats: "subscribe; send",
    ForgetsTheUnread: "send; subscribe; shutdown",
    NeverEnds: "subscribe; shutdown",
    EndsEarly: "send; subscribe; shutdown",
    KeepsAtTheEnd: "send; shutdown",
    KeepsListening: "send; subscribe; read",  # who reads has come anew before, as much was to be unread
    OpensAgain: "shutdown; send",
    StopsAll: "send; subscribe; send",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[EventQueue[int]]) -> None:
    tested = conform(load("container-events"), lambda: EventsSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in tested.failures] == [BUGS[kind]], [
        ("; ".join(map(str, each.steps)), each.broken, each.violation and each.violation.illegal)
        for each in tested.failures
    ]
