"""A queue that a thread empties, so that putting an item into it never waits for its processing."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 65_536
"""Maximum number of waiting items.  Further items are dropped."""


class Outbox(Generic[T]):
    """Calls *take* with each item in order, on its own thread, and *idle* whenever the queue has become empty.

    Items that arrive while *most* items are waiting are dropped, as is everything after *take* has failed.  ``dropped``
    counts them, and ``failure`` is the reason.  *failed* is called with the reason.
    """

    def __init__(
        self,
        take: Callable[[T], None],
        *,
        idle: Callable[[], None] = lambda: None,
        failed: Callable[[str], None] = lambda _: None,
        most: int = MOST,
    ) -> None:
        self.dropped = 0
        self.failure = ""
        self._take, self._idle, self._failed, self._most = take, idle, failed, most
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, thing: T) -> None:
        if self.failure or self._waiting.qsize() >= self._most:
            self.dropped += 1
        else:
            self._waiting.put(thing)

    def close(self, seconds: float) -> None:
        """Wait at most *seconds* until the queue is empty, and then drop what is left."""
        self._waiting.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.failure = self.failure or "it takes too long"
            self.dropped += max(0, self._waiting.qsize() - 1)

    def _run(self) -> None:
        while (thing := self._waiting.get()) is not None:
            try:
                if not self.failure:
                    self._take(thing)
                    if self._waiting.empty():
                        self._idle()
                else:
                    self.dropped += 1
            except (OSError, ValueError) as error:
                self.failure = (getattr(error, "strerror", None) or str(error)).lower()
                self.dropped += 1
                self._failed(self.failure)
