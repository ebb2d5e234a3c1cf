"""containerd's queue of container events, where it differs from what the machine intends."""

import random
from collections.abc import Callable
from functools import cached_property

from fsm.runtimes.reference.events.queue import E, EventQueue, Subscription


class UpstreamEventQueue(EventQueue[E]):
    """A queue with a single loop, which waits while the buffer of a subscriber is full.

    It notices only at the next event that a subscriber has left, and then only by *chance* if the buffer has room.
    """

    profile = "upstream"

    chance: Callable[[], bool] = staticmethod(lambda: random.choice((True, False)))  # noqa: S311  (as Go chooses)

    @cached_property
    def _unnoticed(self) -> list[Subscription[E]]:
        """Subscriptions that have ended without being noticed yet."""
        return []

    async def _send(self, event: E) -> None:
        for subscription in tuple(self._subscriptions):
            await self._until_unblocked(subscription)
        self._unnoticed[:] = [left for left in self._unnoticed if len(left.unread) < self.capacity and self.chance()]
        for subscription in self._unnoticed:
            subscription.unread.append(event)
        await super()._send(event)

    def subscribe(self) -> Subscription[E]:
        """Subscribe. Retained events that overflow the buffer are queued, and no other event is sent before them."""
        subscription = super().subscribe()
        while len(subscription.unread) > self.capacity:
            subscription.waiting.appendleft(subscription.unread.pop())
        return subscription

    def _send_to_none(self, event: E) -> None:
        if self._next.take("send", "lost" if self._unnoticed else "done").to == "keeping":
            self._retain([event])

    async def _deliver(self, subscription: Subscription[E], event: E) -> None:
        if subscription.state != "full":
            await super()._deliver(subscription, event)
            return
        subscription.position.take("send", "the-slow-stop-all")
        subscription.waiting.append(event)
        await self._until_unblocked(subscription)

    async def _until_unblocked(self, subscription: Subscription[E]) -> None:
        while subscription.state == "blocked":
            self.freed.clear()
            await self.freed.wait()

    def _subscribe_outcome(self) -> str:
        return "kept-more-than-fits" if len(self._retained) > self.capacity else super()._subscribe_outcome()

    def _unsubscribe(self, subscription: Subscription[E], _before: str) -> None:
        if _before in {"caught-up", "behind", "full"}:
            self._unnoticed.append(subscription)
        if _before == "blocked" and not self._subscriptions:
            self._retain(subscription.waiting)
