"""A queue that a thread empties, so that putting an item into it never waits for its processing."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 65_536  # maximum number of waiting items. Further items are dropped.


class Outbox(Generic[T]):
    """Calls *take* with each item in order, on its own thread, and *idle* whenever the queue has become empty.

    Items that arrive while *most* items are waiting or being taken are dropped, as is everything after *take* has
    failed. ``dropped`` counts them. ``error`` is the failure, and *failed* is called with ``failure``, its reason.
    """

    def __init__(
        self,
        take: Callable[[T], object],
        *,
        idle: Callable[[], None] = lambda: None,
        failed: Callable[[str], None] = lambda _: None,
        most: int = MOST,
    ) -> None:
        self.dropped = 0
        self.failure = ""
        self.error: OSError | ValueError | None = None
        self._put = self._done = 0
        self._take, self._idle, self._failed, self._most = take, idle, failed, most
        self._waiting: SimpleQueue[T | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of items that have been neither taken nor dropped yet."""
        return self._put - self._done

    def put(self, thing: T) -> bool:
        """Queue *thing*. Return False if it is dropped."""
        if self.failure or self.waiting >= self._most:
            self.dropped += 1
            return False
        self._put += 1
        self._waiting.put(thing)
        return True

    def close(self, seconds: float | None = None) -> None:
        """Wait until the queue is empty, for at most *seconds* if given. Then drop the remaining items."""
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
                self.error = error
                self.failure = (getattr(error, "strerror", None) or str(error)).lower()
                self.dropped += 1
                self._failed(self.failure)
            self._done += 1
