"""The queue of container events behind GetContainerEvents. Sending never waits for a subscriber.

The machine ``container-events`` drives each subscriber, even a future subscriber for which events are retained.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cached_property
from typing import Final, Generic, TypeVar

from fsm.machine.driver import CannotHappenError, Position
from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.driven import Driven, driver

E = TypeVar("E")

DISCARD_AFTER: Final = 300.0
CAPACITY: Final = 100
"""Maximum number of unread events of a subscriber.

``DISCARD_AFTER`` is the number of seconds for which events are retained without a subscriber.
"""


class QueueShutError(Exception):
    """The queue was shut down."""


class Subscription(Driven, AsyncIterator[E]):
    """A stream of events for one reader. ``ended`` becomes true once the queue is shut down and all events are read.

    Only containerd's queue uses ``waiting``, for events that do not fit into ``unread``.
    """

    def __init__(self, queue: EventQueue[E], position: Position) -> None:
        super().__init__(position)
        self.queue = queue
        self.unread: deque[E] = deque()
        self.waiting: deque[E] = deque()
        self.ended = False
        self._changed = asyncio.Event()

    async def __anext__(self) -> E:
        while self.state == "caught-up":
            self._changed.clear()
            await self._changed.wait()
        if self.state in {"left", "shut"}:
            raise StopAsyncIteration
        return self.read()

    def read(self) -> E:
        self.position.outcomes("read")
        way = self.position.take("read", self._read_outcome())
        event = self.unread.popleft()
        if self.waiting:
            self.unread.append(self.waiting.popleft())
        self.notify(*way.emits)
        return event

    def close(self) -> None:
        self.queue.leave(self)

    def notify(self, *outputs: str) -> None:
        self.ended |= "closed" in outputs
        self._changed.set()
        self.queue.freed.set()

    def _read_outcome(self) -> str:
        match self.state:
            case "full":
                return "still-full" if len(self.unread) > self.queue.capacity else "room"
            case "blocked":
                return "next-waits" if len(self.waiting) > 1 else "freed"
            case _:
                return "more" if len(self.unread) > 1 else "last"


class EventQueue(Generic[E]):
    """A queue that sends every event to all subscribers. It calls *discard* with each event that nobody will read.

    It belongs to one event loop, where the task :meth:`run` discards events that were retained too long.

    >>> async def example() -> list[str]:
    ...     queue = EventQueue(print)
    ...     await queue.send("created")
    ...     subscription = queue.subscribe()
    ...     await queue.send("started")
    ...     queue.shutdown()
    ...     return [event async for event in subscription]
    >>> asyncio.run(example())
    ['created', 'started']
    """

    profile = ""

    def __init__(self, discard: Callable[[E], object], *, capacity: int = CAPACITY, clock: Clock | None = None) -> None:
        self.capacity = capacity
        self.freed = asyncio.Event()
        self._discard = discard
        self._clock = clock or Clock()
        self._retained: deque[tuple[E, float]] = deque()
        self._retaining = asyncio.Event()
        self._subscriptions: list[Subscription[E]] = []
        self._next = self._position()
        self._sending = asyncio.Lock()
        self.is_shut = False

    @property
    def subscribed(self) -> int:
        return 0 if self.is_shut else len(self._subscriptions)

    @property
    def retained(self) -> list[E]:
        return [event for event, _ in self._retained]

    @property
    def due(self) -> float:
        return self._retained[0][1] if self._retained else float("inf")

    async def send(self, event: E) -> None:
        async with self._sending:
            await self._send(event)

    def shutdown(self) -> None:
        """Discard the retained events, and end each subscription once all its events are read."""
        if self.is_shut:
            return
        if not self._subscriptions:
            self._next.take("shutdown")
        for subscription in self._subscriptions:
            subscription.notify(*subscription.position.take("shutdown").emits)
        self._next, self.is_shut = self._position("shut"), True
        while self._retained:
            self._discard(self._retained.popleft()[0])
        self._retaining.set()

    async def run(self) -> None:
        while not self.is_shut:
            if self._retained:
                await self._clock.sleep(max(self.due - self._clock.now(), 0))
                self.expire()
            else:
                self._retaining.clear()
                await self._retaining.wait()

    def expire(self) -> None:
        while self._clock.now() >= self.due:
            self._next.take("expire", "more" if len(self._retained) > 1 else "last")
            self._discard(self._retained.popleft()[0])

    def subscribe(self) -> Subscription[E]:
        """Return a new subscription with all retained events. Raise :class:`QueueShutError` after the shutdown."""
        position = self._position() if self.subscribed else self._next
        try:
            position.take("subscribe", self._subscribe_outcome())
        except CannotHappenError:
            raise QueueShutError("container events subscription closed by server") from None
        subscription = Subscription(self, position)
        subscription.unread.extend(self.retained)
        self._retained.clear()
        self._subscriptions.append(subscription)
        return subscription

    def leave(self, subscription: Subscription[E]) -> None:
        before = subscription.state
        subscription.position.take("unsubscribe")
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._unsubscribe(subscription, before)
            if not self._subscriptions:
                self._next = self._position(subscription.state)
        subscription.notify()

    def _position(self, state: str = "") -> Position:
        return driver("container-events", self.profile).position(state)

    def _retain(self, events: Iterable[E]) -> None:
        now = self._clock.now()
        self._retained.extend((event, now + DISCARD_AFTER) for event in events)
        self._retaining.set()

    async def _send(self, event: E) -> None:
        if not self._subscriptions:
            self._send_to_none(event)
        for subscription in tuple(self._subscriptions):
            await self._deliver(subscription, event)

    def _send_to_none(self, event: E) -> None:
        if self._next.take("send", "done").to == "keeping":
            self._retain([event])

    async def _deliver(self, subscription: Subscription[E], event: E) -> None:
        room = self.capacity - len(subscription.unread)
        way = subscription.position.take("send", "too-many" if room <= 0 else "fills" if room == 1 else "fits")
        if "discarded" in way.emits:
            self._discard(event)
        elif way.to in {"behind", "full"}:
            subscription.unread.append(event)
            subscription.notify()

    def _subscribe_outcome(self) -> str:
        return "many" if len(self._retained) >= self.capacity else "some"

    def _unsubscribe(self, subscription: Subscription[E], _before: str) -> None:
        subscription.unread.clear()


class UpstreamEventQueue(EventQueue[E]):
    """containerd's queue, whose single loop waits while the buffer of any subscriber is full.

    Only when the queue sends another event can it notice that a subscriber has left. While there is room in the
    subscriber's buffer, ``chance`` decides whether the queue does notice.
    """

    profile = "upstream"

    chance: Callable[[], bool] = staticmethod(lambda: random.choice((True, False)))  # noqa: S311  (as in Go)

    @cached_property
    def _unnoticed_ends(self) -> list[Subscription[E]]:
        return []

    async def _send(self, event: E) -> None:
        for subscription in tuple(self._subscriptions):
            await self._wait_until_unblocked(subscription)
        self._unnoticed_ends[:] = [
            left for left in self._unnoticed_ends if len(left.unread) < self.capacity and self.chance()
        ]
        for subscription in self._unnoticed_ends:
            subscription.unread.append(event)
        await super()._send(event)

    def subscribe(self) -> Subscription[E]:
        """Return a new subscription. Retained events that do not fit into its buffer delay all later events."""
        subscription = super().subscribe()
        while len(subscription.unread) > self.capacity:
            subscription.waiting.appendleft(subscription.unread.pop())
        return subscription

    def _send_to_none(self, event: E) -> None:
        if self._next.take("send", "lost" if self._unnoticed_ends else "done").to == "keeping":
            self._retain([event])

    async def _deliver(self, subscription: Subscription[E], event: E) -> None:
        if subscription.state != "full":
            await super()._deliver(subscription, event)
            return
        subscription.position.take("send", "the-slow-stop-all")
        subscription.waiting.append(event)
        await self._wait_until_unblocked(subscription)

    async def _wait_until_unblocked(self, subscription: Subscription[E]) -> None:
        while subscription.state == "blocked":
            self.freed.clear()
            await self.freed.wait()

    def _subscribe_outcome(self) -> str:
        return "kept-more-than-fits" if len(self._retained) > self.capacity else super()._subscribe_outcome()

    def _unsubscribe(self, subscription: Subscription[E], _before: str) -> None:
        if _before in {"caught-up", "behind", "full"}:
            self._unnoticed_ends.append(subscription)
        if _before == "blocked" and not self._subscriptions:
            self._retain(subscription.waiting)
