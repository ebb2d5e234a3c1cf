"""The reference queue of container events under test: one subscriber, a small buffer, and a clock that is turned.

Each event has a number, by which it is seen that none comes twice, or out of
turn.  How many there are unread or kept is arranged by what happens besides
and moves nothing: another is sent, or one that was is read or discarded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fsm.machine.driver import NoWayError
from fsm.reference.clock import TurnedClock
from fsm.reference.events.queue import DISCARD_AFTER, AsWritten, EventQueue, QueueShutError, Subscription
from fsm.sut import BrokenError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

CAPACITY: Final = 3
"""How many events the buffer holds."""

WHERE: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("fits", "fills"), ("behind",)),
    **dict.fromkeys(("more", "last"), ("behind", "draining")),
    **dict.fromkeys(("room", "still-full"), ("full",)),
    **dict.fromkeys(("freed", "next-waits"), ("blocked",)),
}
"""The states of a subscriber in which sending and reading may end so."""


class EventsSUT:
    """An :class:`~fsm.reference.events.queue.EventQueue` under test; of another *kind* for those who try what is noticed.

    >>> sut = EventsSUT()
    >>> sut.do("send"), sut.arrange("subscribe", "some"), sut.do("subscribe"), sut.shows()
    ('', True, '', 'unread')
    >>> sut.arrange("read", "last"), sut.do("read"), sut.outputs()
    (True, '', ('delivered',))
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[EventQueue[int]] | None = None) -> None:
        self._kind = kind or (AsWritten if profile == "as-written" else EventQueue)
        self._runner = asyncio.Runner()
        self._sending: list[asyncio.Task[None]] = []
        self.reset()

    def reset(self) -> None:
        """A new queue, to which nobody has subscribed."""
        self._rest()
        self.clock = TurnedClock(hurried=True)
        self.queue = self._kind(self._discarded, discard_after=DISCARD_AFTER, capacity=CAPACITY, clock=self.clock)
        self._lose(lost=False)
        self._subscription: Subscription[int] | None = None
        self._sent = 0
        self._ended = False
        self._room = 0
        self._due: list[int] = []
        self._told: list[str] = []

    def close(self) -> None:
        """Nothing is left of the event loop."""
        self._rest()
        self._runner.close()

    def shows(self) -> str:
        """How much is unread, or kept; all that is due, and nothing else, must be."""
        there = [*self._subscription.unread, *self._subscription.waiting] if self._subscription else []
        if [*there, *self.queue.kept] != self._due:
            raise BrokenError(f"events {self._due} are due, and {[*there, *self.queue.kept]} are there")
        unread = len(there)
        if self.queue.kept:
            return "kept"
        if self.queue.is_shut:
            return "ending" if unread else "shut"
        if self._subscription is None:
            return "no-subscriber"
        return "full" if unread >= CAPACITY else "unread" if unread else "nothing-unread"

    def outputs(self) -> Sequence[str]:
        """What was delivered and discarded, and whether the stream has ended."""
        ended = bool(self._subscription and self._subscription.ended)
        told = (*self._told, *["closed"] * (ended and not self._ended))
        self._told.clear()
        self._ended = ended
        return told

    # -- arranging ---------------------------------------------------------

    def arrange(self, event: str, outcome: str) -> bool:
        """There are as many events unread, or kept, as the *outcome* takes."""
        told = list(self._told)
        try:
            return self._arranged(event, outcome)
        finally:
            self._told = told  # what happens besides is not looked at

    def _arranged(self, event: str, outcome: str) -> bool:
        if self._subscription and self._subscription.state not in WHERE.get(outcome, (self._subscription.state,)):
            return False
        match event:
            case "send":
                return self._arranged_send(outcome)
            case "read":
                return self._arranged_read(outcome)
            case "subscribe":
                self._kept({"some": 1, "many": CAPACITY}.get(outcome, CAPACITY + 1))
            case _:
                self._kept(2 if outcome == "more" else 1)
        return True

    def _arranged_send(self, outcome: str) -> bool:
        match outcome:
            case "fits":
                self._until(lambda: len(self._stream().unread) <= 1, self._read)
            case "fills":
                self._until(lambda: len(self._stream().unread) == CAPACITY - 1, self._send)
            case "too-many" | "the-slow-stop-all":
                return (outcome == "too-many") != isinstance(self.queue, AsWritten)
            case _:
                lost = outcome == "sent-to-who-has-gone"
                self._lose(lost=lost)
                return self._room > 0 or not lost
        return True

    def _arranged_read(self, outcome: str) -> bool:
        match outcome:
            case "last":
                self._until(lambda: len(self._stream().unread) <= 1, self._read)
            case "more" if len(self._stream().unread) == 1 and self.queue.is_shut:
                return False
            case "more" if len(self._stream().unread) == 1:
                self._send()
            case "room":
                self._until(lambda: len(self._stream().unread) == CAPACITY, self._read)
            case "still-full" if isinstance(self.queue, AsWritten):
                return False
            case "still-full" | "freed":
                self._kept(CAPACITY + 1)
            case "next-waits":
                self._kept(CAPACITY + 2)
            case _:
                pass
        return True

    def _kept(self, count: int) -> None:
        """So many events were kept, and if there is a subscriber it has only just come."""
        subscribed = self._subscription is not None
        if subscribed:
            self._unsubscribe()
            self._lose(lost=False)
        self._until(lambda: len(self.queue.kept) <= count, self._expire)
        self._until(lambda: len(self.queue.kept) >= count, self._send)
        if subscribed:
            self._subscription = self.queue.subscribe()

    @staticmethod
    def _until(done: Callable[[], bool], act: Callable[[], None]) -> None:
        for _ in range(3 * CAPACITY):
            if done():
                return
            act()
        raise BrokenError("events come and go, and there are never as many as there should be")

    def _lose(self, *, lost: bool) -> None:
        if isinstance(self.queue, AsWritten):
            self.queue.chance = lambda: lost

    # -- what happens ------------------------------------------------------

    def do(self, event: str) -> str:
        """*event*."""
        happens = {
            "send": self._send,
            "subscribe": self._subscribe,
            "read": self._read,
            "expire": self._expire,
            "unsubscribe": self._unsubscribe,
            "shutdown": self._shutdown,
        }.get(event)
        if happens is None:
            raise UnsupportedError(event)
        try:
            happens()
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        return ""

    def _send(self) -> None:
        """The next event; a second later, so that no two are due at once."""
        self.clock.time += 1
        self._sent += 1
        if not self.queue.is_shut:
            self._due.append(self._sent)
        self._sending.append(self._runner.get_loop().create_task(self.queue.send(self._sent)))
        self._settle()
        if self._lost_to_the_gone():
            self._due.pop()
            self._room -= 1

    def _lost_to_the_gone(self) -> bool:
        """Whether the last was sent to who has gone, as the queue may as written."""
        asked = isinstance(self.queue, AsWritten) and self.queue.chance()
        return asked and not self.queue.is_shut and not self.queue.subscribed and not self.queue.kept

    def _read(self) -> None:
        event = self._stream().read()
        self._took("delivered", event, self._due[:1])
        self._settle()

    def _expire(self) -> None:
        """The oldest is due, and no other."""
        self.clock.time = max(self.clock.time, self.queue.due)
        self.queue.expire()

    def _subscribe(self) -> None:
        try:
            self._subscription = self.queue.subscribe()
        except QueueShutError:
            return
        self._ended = False

    def _unsubscribe(self) -> None:
        if self._subscription is None:
            return
        blocked = len(self._subscription.waiting)
        self._room = CAPACITY - len(self._subscription.unread)
        self._subscription.close()
        self._subscription = None
        self._due[: len(self._due) - blocked] = []
        self._settle()

    def _shutdown(self) -> None:
        """The end; there is more than one event to be read then, or none."""
        if self._subscription and len(self._subscription.unread) == 1:
            self._send()
        told = len(self._told)
        self.queue.shutdown()
        discarded = self._told[told:]
        self._told[told:] = discarded[:1]

    def _discarded(self, event: int) -> None:
        newest = self._subscription is not None
        self._took("discarded", event, self._due[-1:] if newest else self._due[:1])

    def _took(self, how: str, event: int, due: list[int]) -> None:
        if [event] != due:
            raise BrokenError(f"event {event} was {how} where it was the turn of {due or 'none'}")
        self._due.remove(event)
        self._told.append(how)

    def _stream(self) -> Subscription[int]:
        if self._subscription is None:
            raise UnsupportedError("nobody is subscribed")
        return self._subscription

    # -- the loop ----------------------------------------------------------

    def _settle(self) -> None:
        """Who sends comes as far as that goes."""
        for _ in range(2):
            self._runner.get_loop().run_until_complete(asyncio.sleep(0))
        for each in [each for each in self._sending if each.done()]:
            self._sending.remove(each)
            each.result()

    def _rest(self) -> None:
        for each in self._sending:
            each.cancel()
        self._runner.run(asyncio.sleep(0))
        self._sending.clear()
