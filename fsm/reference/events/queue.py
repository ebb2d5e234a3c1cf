"""Container events, on their way from who sends them to who listens: containerd's queue behind GetContainerEvents.

The life of each subscriber is the machine ``container-events``, as is that of
the one who is yet to come: for that one events are kept while nobody listens,
for five minutes.  Nobody who sends waits for a subscriber.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from fsm.library import load
from fsm.machine.driver import Driver, NoWayError
from fsm.reference.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fsm.machine.driver import Position

E = TypeVar("E")

DISCARD_AFTER: Final = 300.0
"""How long events are kept while nobody listens, in seconds."""

CAPACITY: Final = 100
"""How many events a subscriber may leave unread."""


class QueueShutError(Exception):
    """The queue was shut, and nobody is sent anything any more."""


class Subscription(Generic[E]):
    """A stream of events, for one reader: ``async for event in subscription``.

    ``ended`` says that it came to its end, since the queue was shut and all
    was read.
    """

    def __init__(self, queue: EventQueue[E], position: Position) -> None:
        self.queue = queue
        self.position = position
        self.unread: deque[E] = deque()
        self.waiting: deque[E] = deque()
        """What the queue waits with, as written, until there is room."""
        self.ended = False
        self._moved = asyncio.Event()

    @property
    def state(self) -> str:
        """The machine's name for where it is."""
        return self.position.state

    def __aiter__(self) -> Subscription[E]:
        return self

    async def __anext__(self) -> E:
        while self.state == "caught-up":
            self._moved.clear()
            await self._moved.wait()
        if self.state in {"left", "shut"}:
            raise StopAsyncIteration
        return self.read()

    def read(self) -> E:
        """The next event; raises :class:`~fsm.machine.driver.NoWayError` if there is none."""
        self.position.ways("read")
        way = self.position.take("read", self._reading())
        event = self.unread.popleft()
        if self.waiting:
            self.unread.append(self.waiting.popleft())
        self.moved(*way.emits)
        return event

    def close(self) -> None:
        """Hang up, whatever is unread; also again."""
        self.queue.leave(self)

    def moved(self, *emits: str) -> None:
        """Something has happened to it, and was told in these words."""
        self.ended |= "closed" in emits
        self._moved.set()
        self.queue.freed.set()

    def _reading(self) -> str:
        """What reading comes to, in the words of the machine."""
        match self.state:
            case "full":
                return "still-full" if len(self.unread) > self.queue.capacity else "room"
            case "blocked":
                return "next-waits" if len(self.waiting) > 1 else "freed"
            case _:
                return "more" if len(self.unread) > 1 else "last"


class EventQueue(Generic[E]):
    """Events for whoever subscribes; *discard* is called with each that nobody will read.

    For one event loop; :meth:`run` is its task there, which discards what was
    kept too long.

    >>> import asyncio
    >>> async def listens() -> list[str]:
    ...     queue = EventQueue(print)
    ...     await queue.send("created")
    ...     subscription = queue.subscribe()
    ...     await queue.send("started")
    ...     queue.shutdown()
    ...     return [event async for event in subscription]
    >>> asyncio.run(listens())
    ['created', 'started']
    """

    profile = ""
    """That of the machine."""

    def __init__(
        self,
        discard: Callable[[E], object],
        *,
        discard_after: float = DISCARD_AFTER,
        capacity: int = CAPACITY,
        clock: Clock | None = None,
    ) -> None:
        self.capacity = capacity
        self.freed = asyncio.Event()
        self._discard = discard
        self._discard_after = discard_after
        self._clock = clock or Clock()
        self._kept: deque[tuple[E, float]] = deque()
        self._keeps = asyncio.Event()
        self._subscriptions: list[Subscription[E]] = []
        self._to_come = self._position()
        self._turn = asyncio.Lock()
        self._shut = False

    # -- what is seen ------------------------------------------------------

    @property
    def is_shut(self) -> bool:
        """Whether it was shut."""
        return self._shut

    @property
    def subscribed(self) -> int:
        """How many are."""
        return 0 if self._shut else len(self._subscriptions)

    @property
    def kept(self) -> list[E]:
        """What is kept for who comes."""
        return [event for event, _ in self._kept]

    @property
    def due(self) -> float:
        """When the oldest that is kept is to be discarded; infinite if there is none."""
        return self._kept[0][1] if self._kept else float("inf")

    # -- who sends ---------------------------------------------------------

    async def send(self, event: E) -> None:
        """*event* is for all who listen now, or for the first who will; a queue that was shut drops it."""
        async with self._turn:
            if not self._subscriptions:
                self._unheard(event)
            for each in tuple(self._subscriptions):
                await self._give(each, event)

    def shutdown(self) -> None:
        """The end: what is kept is discarded, and who listens may read the rest; again it does nothing."""
        if self._shut:
            return
        if not self._subscriptions:
            self._to_come.take("shutdown")
        for each in self._subscriptions:
            each.moved(*each.position.take("shutdown").emits)
        self._to_come, self._shut = self._position("shut"), True
        while self._kept:
            self._discard(self._kept.popleft()[0])
        self._keeps.set()

    async def run(self) -> None:
        """Discard what was kept too long, until the queue is shut."""
        while not self._shut:
            if self._kept:
                await self._clock.sleep(max(self.due - self._clock.now(), 0))
                self.expire()
            else:
                self._keeps.clear()
                await self._keeps.wait()

    def expire(self) -> None:
        """Discard what was kept too long."""
        while self._clock.now() >= self.due:
            self._to_come.take("expire", "more" if len(self._kept) > 1 else "last")
            self._discard(self._kept.popleft()[0])

    # -- who listens -------------------------------------------------------

    def subscribe(self) -> Subscription[E]:
        """Listen; the first to do so finds what was kept.  Raises :class:`QueueShutError`."""
        position = self._position() if self.subscribed else self._to_come
        try:
            position.take("subscribe", self._found(len(self._kept)))
        except NoWayError:
            message = "container events subscription closed by server"
            raise QueueShutError(message) from None
        subscription = Subscription(self, position)
        subscription.unread.extend(self.kept)
        self._kept.clear()
        self._subscriptions.append(subscription)
        return subscription

    def leave(self, subscription: Subscription[E]) -> None:
        """*subscription* has ended, at its reader's wish."""
        if not subscription.position.ways("unsubscribe"):
            return
        before = subscription.state
        subscription.position.take("unsubscribe")
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._left(subscription, before)
        subscription.moved()

    # -- steps -------------------------------------------------------------

    def _position(self, at: str = "") -> Position:
        return _driver(self.profile).position(at)

    def _keep(self, events: Iterable[E]) -> None:
        now = self._clock.now()
        self._kept.extend((event, now + self._discard_after) for event in events)
        self._keeps.set()

    def _unheard(self, event: E) -> None:
        """Nobody listens to *event*."""
        if self._to_come.take("send", "done").to == "keeping":
            self._keep([event])

    async def _give(self, subscription: Subscription[E], event: E) -> None:
        """*event* is for *subscription*, or too much for it."""
        left = self.capacity - len(subscription.unread)
        way = subscription.position.take("send", "too-many" if left <= 0 else "fills" if left == 1 else "fits")
        if "discarded" in way.emits:
            self._discard(event)
        elif way.to in {"behind", "full"}:
            subscription.unread.append(event)
            subscription.moved()

    def _found(self, kept: int) -> str:
        """What who comes finds, in the words of the machine."""
        return "many" if kept >= self.capacity else "some"

    def _left(self, subscription: Subscription[E], before: str) -> None:
        """*subscription* is not one any more; it was in the state *before*."""
        del before
        subscription.unread.clear()
        if not self._subscriptions:
            self._to_come = self._position(subscription.state)


class AsWritten(EventQueue[E]):
    """The queue as containerd has it: one loop for all, which waits where a subscriber's buffer is full.

    And it notices that a subscriber has gone when it has something for it;
    if there is room in its buffer, by *chance* only.
    """

    profile = "as-written"

    chance: Callable[[], bool] = staticmethod(lambda: random.choice((True, False)))  # noqa: S311  (as Go chooses)

    def __init__(
        self,
        discard: Callable[[E], object],
        *,
        discard_after: float = DISCARD_AFTER,
        capacity: int = CAPACITY,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(discard, discard_after=discard_after, capacity=capacity, clock=clock)
        self._loop = asyncio.Lock()
        self._gone: list[Subscription[E]] = []

    async def send(self, event: E) -> None:
        """As it is, but whoever sends waits until the loop takes *event*, and has given it to all."""
        async with self._loop:
            for each in tuple(self._subscriptions):
                await self._unblocked(each)
            self._gone = [each for each in self._gone if len(each.unread) < self.capacity and self.chance()]
            for each in self._gone:
                each.unread.append(event)
            await super().send(event)

    def subscribe(self) -> Subscription[E]:
        """As it is, but what does not fit into the buffer waits, and all others with it."""
        subscription = super().subscribe()
        while len(subscription.unread) > self.capacity:
            subscription.waiting.appendleft(subscription.unread.pop())
        return subscription

    def _unheard(self, event: E) -> None:
        if self._to_come.take("send", "sent-to-who-has-gone" if self._gone else "done").to == "keeping":
            self._keep([event])

    async def _give(self, subscription: Subscription[E], event: E) -> None:
        if subscription.state != "full":
            await super()._give(subscription, event)
            return
        subscription.position.take("send", "the-slow-stop-all")
        subscription.waiting.append(event)
        await self._unblocked(subscription)

    async def _unblocked(self, subscription: Subscription[E]) -> None:
        while subscription.state == "blocked":
            self.freed.clear()
            await self.freed.wait()

    def _found(self, kept: int) -> str:
        return "kept-more-than-fits" if kept > self.capacity else super()._found(kept)

    def _left(self, subscription: Subscription[E], before: str) -> None:
        if before in {"caught-up", "behind", "full"}:
            self._gone.append(subscription)
        if before == "blocked" and not self._subscriptions:
            self._keep(subscription.waiting)
        if not self._subscriptions:
            self._to_come = self._position(subscription.state)


@cache
def _driver(profile: str) -> Driver:
    machine = load("container-events")
    return Driver(machine.under(profile))
