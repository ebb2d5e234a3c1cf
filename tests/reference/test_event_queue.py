"""The reference event queue delivers events to its subscribers, and planted bugs are found."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.events.queue import (
    CAPACITY,
    DISCARD_AFTER,
    EventQueue,
    QueueShutError,
    Subscription,
    UpstreamEventQueue,
)
from fsm.runtimes.reference.events.sut import EventsSUT

if TYPE_CHECKING:
    from collections.abc import Iterable


EXPECTED = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def lost(event: int) -> None:
    pytest.fail(f"event {event} was discarded")


async def send(queue: EventQueue[int], events: Iterable[int]) -> None:
    for each in events:
        await queue.send(each)


async def collect(subscription: Subscription[int]) -> list[int]:
    return [each async for each in subscription]


async def test_every_subscriber_gets_all_events() -> None:
    queue = EventQueue[int](lost)
    several = [asyncio.create_task(collect(queue.subscribe())) for _ in range(10)]

    await send(queue, EXPECTED)
    queue.shutdown()

    assert [EXPECTED] * 10 == await asyncio.gather(*several)


async def test_the_first_subscriber_gets_what_was_retained() -> None:
    """The first subscriber also receives the retained events.

    All others receive only events that are sent after their subscription.
    """
    queue = EventQueue[int](lost)
    await send(queue, EXPECTED[:2])
    first = queue.subscribe()
    await send(queue, EXPECTED[2:4])
    second = queue.subscribe()
    await send(queue, EXPECTED[4:])
    queue.shutdown()

    assert (EXPECTED, EXPECTED[4:]) == (await collect(first), await collect(second))


async def test_events_that_were_retained_too_long_are_discarded() -> None:
    clock = TurnedClock(hurried=True)
    discarded: list[int] = []
    queue = EventQueue(discarded.append, clock=clock)
    await send(queue, EXPECTED[:2])
    clock.time = 1.0
    await send(queue, EXPECTED[2:3])

    clock.time = DISCARD_AFTER - 0.001
    queue.expire()
    assert ([], EXPECTED[:3]) == (discarded, queue.retained)
    clock.time = DISCARD_AFTER
    queue.expire()
    assert (EXPECTED[:2], EXPECTED[2:3]) == (discarded, queue.retained)

    subscription = queue.subscribe()
    clock.time = 10 * DISCARD_AFTER
    queue.expire()
    await send(queue, EXPECTED[3:])
    queue.shutdown()
    assert (EXPECTED[:2], EXPECTED[2:]) == (discarded, await collect(subscription))


async def test_its_task_discards_by_the_clock() -> None:
    clock = TurnedClock(hurried=True)
    discarded: list[tuple[float, int]] = []
    queue = EventQueue[int](lambda event: discarded.append((clock.time, event)), clock=clock)
    task = asyncio.create_task(queue.run())
    await send(queue, [1])
    clock.time = 7.0
    await send(queue, [2])

    for _ in range(9):
        await asyncio.sleep(0)
    assert [(300.0, 1), (307.0, 2)] == discarded

    await asyncio.sleep(0)
    await send(queue, [3])
    queue.shutdown()
    await task
    assert [1, 2, 3] == [event for _, event in discarded]


async def test_the_shutdown_discards_what_is_retained() -> None:
    discarded: list[int] = []
    queue = EventQueue(discarded.append)
    await send(queue, EXPECTED)

    queue.shutdown()
    queue.shutdown()
    await send(queue, [10])

    assert (EXPECTED, []) == (discarded, queue.retained)
    with pytest.raises(QueueShutError, match="subscription closed by server"):
        queue.subscribe()


async def test_a_queue_that_is_shut_has_no_new_subscribers() -> None:
    queue = EventQueue[int](lost)
    subscription = queue.subscribe()
    await send(queue, [1])
    queue.shutdown()

    with pytest.raises(QueueShutError):
        queue.subscribe()
    assert ("draining", [1]) == (subscription.state, await collect(subscription))


async def test_closing_a_subscription_twice_has_no_effect() -> None:
    queue = EventQueue[int](lost)
    first = queue.subscribe()
    reader = asyncio.create_task(collect(first))
    await asyncio.sleep(0)
    first.close()
    assert [] == await reader

    await send(queue, [1])
    second = queue.subscribe()
    first.close()
    await send(queue, [2])
    queue.shutdown()

    assert ("left", True, [1, 2]) == (first.state, queue.is_shut, await collect(second))
    with pytest.raises(CannotHappenError):
        second.read()


async def test_closing_a_subscription_does_not_affect_others() -> None:
    queue = EventQueue[int](lost)
    first, second = queue.subscribe(), queue.subscribe()
    await send(queue, [1])
    first.close()
    await send(queue, [2])
    queue.shutdown()

    assert ([], [1, 2]) == (await collect(first), await collect(second))


async def test_a_slow_subscriber_does_not_block_others() -> None:
    discarded: list[int] = []
    queue = EventQueue(discarded.append)
    slow, quick = queue.subscribe(), queue.subscribe()

    for each in range(CAPACITY + 2):
        await asyncio.wait_for(queue.send(each), 0.1)
        assert each == quick.read()

    assert ("full", [CAPACITY, CAPACITY + 1]) == (slow.state, discarded)
    assert list(range(CAPACITY)) == [slow.read() for _ in range(CAPACITY)]
    assert "caught-up" == slow.state


async def test_more_events_can_be_retained_than_a_buffer_holds() -> None:
    queue = EventQueue[int](lost)
    await send(queue, range(CAPACITY + 5))
    subscription = queue.subscribe()
    queue.shutdown()

    assert list(range(CAPACITY + 5)) == await collect(subscription)


async def test_upstream_a_slow_subscriber_blocks_everything() -> None:
    """In containerd, the 101st event blocks all senders until the reader takes an event or leaves."""
    queue = UpstreamEventQueue[int](lost)
    slow, quick = queue.subscribe(), queue.subscribe()
    await send(queue, range(CAPACITY))
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


async def test_upstream_retained_events_may_block_everything() -> None:
    queue = UpstreamEventQueue[int](lost)
    await send(queue, range(CAPACITY + 2))
    subscription = queue.subscribe()
    task = asyncio.create_task(queue.send(CAPACITY + 2))
    await asyncio.sleep(0)

    assert ("blocked", False) == (subscription.state, task.done())
    assert [0, 1, 2] == [subscription.read() for _ in range(3)]
    await task
    subscription.close()

    queue.chance = lambda: False
    await send(queue, [7])
    assert [7] == queue.retained


async def test_upstream_a_blocked_event_is_retained_when_its_subscriber_leaves() -> None:
    queue = UpstreamEventQueue[int](lost)
    subscription = queue.subscribe()
    await send(queue, range(CAPACITY))
    task = asyncio.create_task(queue.send(CAPACITY))
    await asyncio.sleep(0)
    subscription.close()
    await task

    assert ([CAPACITY], 0) == (queue.retained, queue.subscribed)


async def test_upstream_events_are_sent_to_a_subscriber_that_has_left() -> None:
    queue = UpstreamEventQueue[int](lost)
    queue.subscribe().close()
    queue.chance = lambda: True
    await send(queue, [1])
    queue.chance = lambda: False
    await send(queue, [2])

    assert [2] == queue.retained


@pytest.mark.parametrize("profile", [None, "upstream"])
def test_passes_the_test_of_its_machine(profile: str | None) -> None:
    tested = conform(load("container-events"), lambda: EventsSUT(profile or ""), profile=profile, examples=5, steps=20)

    assert ((), ()) == (tested.failures, tested.missed)
    assert (set() if profile is None else {("send", "too-many"), ("read", "still-full")}) >= set(tested.unarranged)


class DropsWithoutSubscriber(EventQueue[int]):
    def _retain(self, events: Iterable[int]) -> None:
        del events


class NeverExpires(EventQueue[int]):
    def expire(self) -> None:
        pass


class DiscardsTheNewest(EventQueue[int]):
    def expire(self) -> None:
        self._retained = deque((event, self.due) for event, _ in reversed(self._retained))
        super().expire()


class DiscardsAll(EventQueue[int]):
    def expire(self) -> None:
        self._retained = deque((event, self.due) for event, _ in self._retained)
        super().expire()


class Reverses(EventQueue[int]):
    def subscribe(self) -> Subscription[int]:
        subscription = super().subscribe()
        subscription.unread.reverse()
        return subscription


class DropsTheRetained(EventQueue[int]):
    def subscribe(self) -> Subscription[int]:
        if self._subscriptions or self.is_shut:
            return super().subscribe()
        for each in self.retained:
            self._discard(each)
        self._retained.clear()
        self._next = self._position()
        return super().subscribe()


class DropsTheOldest(EventQueue[int]):
    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        if subscription.state == "full":
            self._discard(subscription.unread.popleft())
            subscription.unread.append(event)
        else:
            await super()._deliver(subscription, event)


class DropsSilently(EventQueue[int]):
    """A queue that drops events without calling *discard* when a buffer is full."""

    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        if subscription.state != "full":
            await super()._deliver(subscription, event)


class Repeats(EventQueue[int]):
    async def _deliver(self, subscription: Subscription[int], event: int) -> None:
        waits = subscription.state == "caught-up"
        await super()._deliver(subscription, event)
        if waits:
            subscription.unread.append(event)


class ForgetsTheUnread(EventQueue[int]):
    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.unread.clear()
            each.ended = True


class NeverEnds(EventQueue[int]):
    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.ended = False


class EndsEarly(EventQueue[int]):
    def shutdown(self) -> None:
        super().shutdown()
        for each in self._subscriptions:
            each.ended = True


class KeepsAfterShutdown(EventQueue[int]):
    def shutdown(self) -> None:
        self._retained.clear()
        super().shutdown()


class SendsToTheGone(EventQueue[int]):
    """A queue that loses an event by sending it to a subscriber that has left."""

    ghosts = 0

    def _unsubscribe(self, subscription: Subscription[int], before: str) -> None:
        super()._unsubscribe(subscription, before)
        self.ghosts = 1

    def _send_to_none(self, event: int) -> None:
        if self.ghosts:
            self.ghosts = 0
        else:
            super()._send_to_none(event)


class Reopens(EventQueue[int]):
    def _send_to_none(self, event: int) -> None:
        if self._next.state == "shut":
            self._next = self._position()
        super()._send_to_none(event)


class BlocksEverything(UpstreamEventQueue[int]):
    """A queue that behaves like containerd's, but does not send to subscribers that have left."""

    chance = staticmethod(lambda: False)


BUGS: dict[type[EventQueue[int]], str] = {
    DropsWithoutSubscriber: "send",
    NeverExpires: "send; expire",
    DiscardsTheNewest: "send; expire",
    DiscardsAll: "send; expire",
    Reverses: "send; subscribe",
    DropsTheRetained: "send; subscribe",
    DropsTheOldest: "send; subscribe; send",
    DropsSilently: "send; subscribe; send",
    Repeats: "subscribe; send",
    ForgetsTheUnread: "send; subscribe; shutdown",
    NeverEnds: "subscribe; shutdown",
    EndsEarly: "send; subscribe; shutdown",
    KeepsAfterShutdown: "send; shutdown",
    SendsToTheGone: "send; subscribe; read",  # to arrange the outcome, the SUT subscribes again before the read
    Reopens: "shutdown; send",
    BlocksEverything: "send; subscribe; send",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[EventQueue[int]]) -> None:
    tested = conform(load("container-events"), lambda: EventsSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in tested.failures] == [BUGS[kind]], [
        ("; ".join(map(str, each.steps)), each.broken, each.violation and each.violation.illegal)
        for each in tested.failures
    ]
