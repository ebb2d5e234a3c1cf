"""A back-off that handles events of the CRI service and retries failures after a growing delay.

The machine ``event-backoff`` drives each key, such as a container id. While an event of a key waits for its retry,
later events of that key queue up behind it. Clients read container events from a ``queue``.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from fsm.machine.driver import Position
from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.driven import driver

E = TypeVar("E")

MACHINE: Final = "event-backoff"

FIRST: Final = 1.0
LONGEST: Final = 300.0
CHECK: Final = 1.0
"""The first delay, the longest delay, and the interval between checks of the clock, in seconds."""

STOPPED: Final = "stopped"


class HandlerError(Exception):
    """An event could not be handled, and must be retried."""


@dataclass(eq=False)
class Backlog(Generic[E]):
    """The events of one key. While the handler has the first event (``at_handler``), new ones go to ``incoming``.

    ``delay`` is the length of the current wait, or 0 before the first wait. ``due`` is the time of the next try.
    """

    position: Position
    events: deque[E] = field(default_factory=deque)
    incoming: deque[E] = field(default_factory=deque)
    at_handler: bool = False
    delay: float = 0.0
    due: float = 0.0

    def wait(self, delay: float, now: float) -> None:
        self.events += self.incoming
        self.incoming.clear()
        self.at_handler = False
        self.delay, self.due = delay, now + delay


class Backoff(Generic[E]):
    """Passes events to *handler*, and retries the events for which *handler* raises :class:`HandlerError`.

    ``dropped`` lists the dropped events with their keys, including the events that were waiting when the back-off was
    stopped. A back-off belongs to one event loop, on which :meth:`run` must run as a task.

    >>> from fsm.runtimes.reference.clock import TurnedClock
    >>> tried = []
    >>> async def handler(event: str) -> None:
    ...     tried.append((clock.time, event))
    ...     if len(tried) < 3:
    ...         raise HandlerError
    >>> async def example() -> None:
    ...     await backoff.handle("c1", "exit")
    ...     while backoff.delay("c1"):
    ...         await clock.sleep(1)
    ...         await backoff.tick()
    >>> clock = TurnedClock(hurried=True)
    >>> backoff = Backoff(handler, clock)
    >>> asyncio.run(example())
    >>> tried
    [(0.0, 'exit'), (1.0, 'exit'), (3.0, 'exit')]
    """

    def __init__(self, handler: Callable[[E], Awaitable[None]], clock: Clock | None = None) -> None:
        self.dropped: list[tuple[str, E]] = []
        self._handler = handler
        self._clock = clock or Clock()
        self._keys: dict[str, Backlog[E]] = {}
        self._stopped = False
        self._lock = asyncio.Lock()

    def shows(self, key: str) -> str:
        if self._stopped:
            return STOPPED
        backlog = self._keys.get(key)
        if backlog is None:
            return "idle"
        if backlog.at_handler:
            return "retrying" if backlog.delay else "handling"
        return {FIRST: "waits-1s", LONGEST: "waits-300s"}.get(backlog.delay, "waits-longer")

    def delay(self, key: str) -> float:
        """Return the current retry delay of *key* in seconds, or 0 if none of its events is waiting."""
        backlog = self._keys.get(key)
        return backlog.delay if backlog and not backlog.at_handler else 0.0

    async def run(self) -> None:
        while not self._stopped:
            await self._clock.sleep(CHECK)
            await self.tick()

    async def handle(self, key: str, event: E) -> None:
        """Handle *event*, or queue it if earlier events of *key* are waiting."""
        async with self._lock:
            backlog = self._backlog_of(key)
            before = backlog.position.state
            handled_now = backlog.position.take("event").to != before
            self._keys[key] = backlog
            backlog.events.append(event)
            if handled_now:
                await self._try_events(key, backlog)

    def defer(self, key: str, event: E) -> None:
        """Queue *event*, which could not be handled elsewhere, for a retry. After a stop, drop *event*."""
        if self._stopped:
            self._drop(key, event)
            return
        backlog = self._backlog_of(key)
        backlog.position.take("backoff")
        self._keys[key] = backlog
        if backlog.at_handler:
            backlog.incoming.append(event)
            return
        backlog.events.append(event)
        if not backlog.delay:
            backlog.wait(FIRST, self._clock.now())

    async def tick(self) -> None:
        async with self._lock:
            for key, backlog in list(self._keys.items()):
                if self._stopped:
                    return
                due = self._clock.now() >= backlog.due
                backlog.position.take("tick", "due" if due else "early")
                if due:
                    await self._try_events(key, backlog)

    def stop(self) -> None:
        """Stop permanently. Drop the waiting events, but let the handler finish its current event."""
        self._stopped = True
        for key, backlog in self._keys.items():
            backlog.position.take("stop")
            self._drop(key, *list(backlog.events)[backlog.at_handler :], *backlog.incoming)
        self._keys.clear()

    async def _try_events(self, key: str, backlog: Backlog[E]) -> None:
        backlog.at_handler = True
        while backlog.at_handler:
            event = backlog.events[0]
            try:
                await self._handler(event)
            except HandlerError:
                if self._stopped:
                    self._drop(key, event)
                    return
                self._fail(key, backlog)
            else:
                if self._stopped:
                    return
                self._succeed(key, backlog)

    def _succeed(self, key: str, backlog: Backlog[E]) -> None:
        backlog.position.take("handled", "next" if len(backlog.events) > 1 else "last")
        backlog.events.popleft()
        if backlog.events:
            return
        if backlog.incoming:
            backlog.wait(FIRST, self._clock.now())
        else:
            backlog.at_handler = False
            del self._keys[key]

    def _fail(self, _key: str, backlog: Backlog[E]) -> None:
        longer = min(2 * backlog.delay, LONGEST) or FIRST
        backlog.position.take("failed", "longest" if longer == LONGEST else "longer")
        backlog.wait(longer, self._clock.now())

    def _drop(self, key: str, *events: E) -> None:
        self.dropped += [(key, event) for event in events]

    def _backlog_of(self, key: str) -> Backlog[E]:
        return self._keys.get(key) or Backlog(driver(MACHINE).position(STOPPED if self._stopped else ""))


class UpstreamBackoff(Backoff[E]):
    """containerd's back-off, which mishandles events that are deferred while the handler fails.

    If the failed try was a retry, the deferred events are dropped. Otherwise, they are put before the failed event.
    """

    def _fail(self, _key: str, backlog: Backlog[E]) -> None:
        if backlog.delay:
            self._drop(_key, *backlog.incoming)
            backlog.incoming.clear()
        else:
            backlog.incoming.append(backlog.events.popleft())
        super()._fail(_key, backlog)
