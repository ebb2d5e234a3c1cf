"""The reference back-off and the reference queue of container events as systems under test."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Final

from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.driven import Action, LoopSUT, ReferenceSUT, methods
from fsm.runtimes.reference.events import FIRST, MACHINE, Backlog, Backoff, HandlerError, UpstreamBackoff
from fsm.runtimes.reference.events.queue import EventQueue, QueueShutError, Subscription, UpstreamEventQueue
from fsm.sut import BrokenError, UnsupportedError

KEY: Final = "key"
ALMOST: Final = 256.0

CAPACITY: Final = 3

STATES: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("fits", "fills"), ("behind",)),
    **dict.fromkeys(("more", "last"), ("behind", "draining")),
    **dict.fromkeys(("room", "still-full"), ("full",)),
    **dict.fromkeys(("freed", "next-waits"), ("blocked",)),
}

UNREAD: Final = {"fits": 1, "fills": CAPACITY - 1, "last": 1, "more": 2, "room": CAPACITY}
RETAINED: Final = {"last": 1, "more": 2, "some": 1, "many": CAPACITY, "next-waits": CAPACITY + 2} | dict.fromkeys(
    ("kept-more-than-fits", "still-full", "freed"), CAPACITY + 1
)
"""Number of events that must be unread (``UNREAD``) or retained (``RETAINED``) to get an outcome."""


class BackoffSUT(LoopSUT[Backoff[int]]):
    machine = MACHINE
    turns = 8
    kinds = (Backoff[int], UpstreamBackoff[int])

    def reset(self) -> None:
        super().reset()
        self._work: asyncio.Task[None] | None = None
        self._at_handler: asyncio.Future[None] | None = None
        self.clock = TurnedClock(hurried=True)
        self.backoff = self._kind(self._handle, self.clock)
        self._last_event = 0
        self._due = False

    def shows(self) -> str:
        return self.backoff.shows(KEY)

    def outputs(self) -> list[str]:
        dropped, self.backoff.dropped = self.backoff.dropped, []
        return ["dropped"] if dropped and self.shows() != "stopped" else []

    def arrange(self, event: str, outcome: str) -> bool:
        backlog = self._backlog()
        if backlog is None:
            return False
        if event == "failed" and backlog.incoming and backlog.delay and isinstance(self.backoff, UpstreamBackoff):
            return False  # the delay decides which of two outcomes with a loss occurs
        match event, outcome:
            case "tick", ("due" | "early"):
                self._due = outcome == "due"
            case "handled", "next" if len(backlog.events) == 1:
                backlog.events.append(self._new())
            case "handled", "last":
                backlog.events = type(backlog.events)([backlog.events[0]])
            case "failed", "longest" if backlog.delay > FIRST:
                backlog.delay = max(backlog.delay, ALMOST)
            case "failed", "longer" if backlog.delay == ALMOST:
                backlog.delay = ALMOST / 2
        return True

    def _actions(self) -> Mapping[str, Action]:
        return {
            "event": lambda: self._begin(self.backoff.handle(KEY, self._new())),
            "tick": self._tick,
            "backoff": lambda: self.backoff.defer(KEY, self._new()),
            "stop": self.backoff.stop,
            "handled": lambda: self._end_handler(None),
            "failed": lambda: self._end_handler(HandlerError()),
        }

    def _new(self) -> int:
        self._last_event += 1
        return self._last_event

    def _backlog(self) -> Backlog[int] | None:
        return self.backoff._keys.get(KEY)  # noqa: SLF001  (the test changes it)

    def _tick(self) -> None:
        if (backlog := self._backlog()) and self._due:
            self.clock.time = max(self.clock.time, backlog.due)
        self._due = False
        self._begin(self.backoff.tick())

    async def _handle(self, _event: int) -> None:
        self._at_handler = asyncio.get_running_loop().create_future()
        await self._at_handler

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        if self._work is not None:
            work.close()
            raise UnsupportedError("an event is at the handler")
        self._work = asyncio.create_task(work)

    def _end_handler(self, error: HandlerError | None) -> None:
        ended, self._at_handler = self._at_handler, None
        if ended and error:
            ended.set_exception(error)
        elif ended:  # after a stop, the result is unspecified
            ended.set_result(None)

    async def _settle(self, act: Action) -> None:
        await super()._settle(act)
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            await work


class EventsSUT(ReferenceSUT[EventQueue[int]]):
    """An :class:`~fsm.runtimes.reference.events.queue.EventQueue` under test, with one subscriber and a small buffer.

    Events are numbered, so that duplicates and events out of order are noticed. To arrange an outcome, the SUT may
    first send, read or discard some events, which does not change the state.
    """

    machine = "container-events"
    kinds = (EventQueue[int], UpstreamEventQueue[int])

    def reset(self) -> None:
        super().reset()
        self._loop = self._scope.enter_context(asyncio.Runner()).get_loop()
        self._sending: list[asyncio.Task[None]] = []
        self.clock = TurnedClock(hurried=True)
        self.queue = self._kind(self._discard_event, capacity=CAPACITY, clock=self.clock)
        self._set_loss(lost=False)
        self._subscription: Subscription[int] | None = None
        self._sent = 0
        self._ended = False
        self._room = 0
        self._due: list[int] = []

    def shows(self) -> str:
        unread = [*self._subscription.unread, *self._subscription.waiting] if self._subscription else []
        if [*unread, *self.queue.retained] != self._due:
            raise BrokenError(f"events {self._due} are due, and the queue has {[*unread, *self.queue.retained]}")
        if self.queue.retained:
            return "kept"
        if self.queue.is_shut:
            return "ending" if unread else "shut"
        if self._subscription is None:
            return "no-subscriber"
        return "full" if len(unread) >= CAPACITY else "unread" if unread else "nothing-unread"

    def outputs(self) -> Sequence[str]:
        ended = bool(self._subscription and self._subscription.ended)
        self._outputs += ["closed"] * (ended and not self._ended)
        self._ended = ended
        return super().outputs()

    def arrange(self, _event: str, outcome: str) -> bool:
        outputs = list(self._outputs)
        try:
            return self._arrange(outcome)
        finally:
            self._outputs = outputs  # drop the outputs of preparatory events

    def _arrange(self, outcome: str) -> bool:
        subscription, upstream = self._subscription, isinstance(self.queue, UpstreamEventQueue)
        if subscription and subscription.state not in STATES.get(outcome, (subscription.state,)):
            return False
        match outcome:
            case "too-many" | "the-slow-stop-all":
                return (outcome == "too-many") != upstream
            case "done" | "lost":
                self._set_loss(lost=outcome != "done")
                return self._room > 0 or outcome == "done"
            case "still-full" if upstream:
                return False
            case "more" if subscription and self.queue.is_shut:
                return len(subscription.unread) > 1
            case _ if subscription and outcome in UNREAD:
                fewer = len(subscription.unread) < UNREAD[outcome]
                self._act_until(lambda: len(subscription.unread) == UNREAD[outcome], self.send if fewer else self.read)
            case _:
                self._retain(RETAINED[outcome])
        return True

    def _retain(self, count: int) -> None:
        subscribed = self._subscription is not None
        if subscribed:
            self.unsubscribe()
            self._set_loss(lost=False)
        self._act_until(lambda: len(self.queue.retained) <= count, self.expire)
        self._act_until(lambda: len(self.queue.retained) >= count, self.send)
        if subscribed:
            self._subscription = self.queue.subscribe()

    @staticmethod
    def _act_until(done: Callable[[], bool], act: Callable[[], None]) -> None:
        for _ in range(3 * CAPACITY):
            if done():
                return
            act()
        raise BrokenError("sending and reading never leads to the number of events that is needed")

    def _set_loss(self, *, lost: bool) -> None:
        if isinstance(self.queue, UpstreamEventQueue):
            self.queue.chance = lambda: lost

    def _actions(self) -> Mapping[str, Action]:
        return methods(self, "send", "subscribe", "read", "expire", "unsubscribe", "shutdown")

    def send(self) -> None:
        self.clock.time += 1
        self._sent += 1
        if not self.queue.is_shut:
            self._due.append(self._sent)
        self._sending.append(self._loop.create_task(self.queue.send(self._sent)))
        self._settle()
        if self._was_lost():
            self._due.pop()
            self._room -= 1

    def _was_lost(self) -> bool:
        lost = isinstance(self.queue, UpstreamEventQueue) and self.queue.chance()
        return lost and not self.queue.is_shut and not self.queue.subscribed and not self.queue.retained

    def read(self) -> None:
        if self._subscription is None:
            raise UnsupportedError("there is no subscriber")
        self._take("delivered", self._subscription.read(), self._due[:1])
        self._settle()

    def expire(self) -> None:
        self.clock.time = max(self.clock.time, self.queue.due)
        self.queue.expire()

    def subscribe(self) -> None:
        try:
            self._subscription = self.queue.subscribe()
        except QueueShutError:
            return
        self._ended = False

    def unsubscribe(self) -> None:
        if self._subscription is None:
            return
        waiting = len(self._subscription.waiting)
        self._room = CAPACITY - len(self._subscription.unread)
        self._subscription.close()
        self._subscription = None
        self._due[: len(self._due) - waiting] = []
        self._settle()

    def shutdown(self) -> None:
        if self._subscription and len(self._subscription.unread) == 1:
            self.send()
        before = len(self._outputs)
        self.queue.shutdown()
        self._outputs[before:] = self._outputs[before : before + 1]

    def _discard_event(self, event: int) -> None:
        self._take("discarded", event, self._due[-1:] if self._subscription else self._due[:1])

    def _take(self, how: str, event: int, expected: list[int]) -> None:
        if [event] != expected:
            raise BrokenError(f"event {event} was {how} instead of {expected or 'none'}")
        self._due.remove(event)
        self._outputs.append(how)

    def _settle(self) -> None:
        for _ in range(2):
            self._loop.run_until_complete(asyncio.sleep(0))
        for task in [task for task in self._sending if task.done()]:
            self._sending.remove(task)
            task.result()
