"""The thread on which one plugin is called: one call at a time, each with a deadline."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

from fsm.reference.clock import Clock
from fsm.reference.nri.nri_errors import PluginLateError, PluginLostError

T = TypeVar("T")


class PluginLocal(threading.local):
    """Whether the current thread is that of a plugin."""

    on_plugin_thread = False


class PluginThread:
    """A thread that runs calls of a plugin, which time out by *clock*; it marks itself in *local*.

    >>> thread = PluginThread(Clock(), PluginLocal())
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    42
    >>> thread.end()
    >>> thread.call(lambda: 6 * 7, until=Clock().now() + 10)
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.PluginLostError: it is closed
    """

    def __init__(self, clock: Clock, local: PluginLocal) -> None:
        self._clock: Final = clock
        self._local: Final = local
        self._changed: Final = threading.Condition()
        self._jobs: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._thread: Final = threading.Thread(target=self._work, daemon=True)
        self._ended = False

    def rename(self, name: str) -> None:
        self._thread.name = name

    def call(self, function: Callable[[], T], *, until: float) -> T:
        """The result of *function* on the thread, or its exception.

        Raises :class:`PluginLateError` after *until*, and :class:`PluginLostError` on an ended thread.
        """
        if self._ended:
            raise PluginLostError("it is closed")
        if not self._thread.is_alive():
            self._thread.start()
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  (the caller raises it, and this thread goes on)
                future.set_exception(error)
            with self._changed:
                self._changed.notify_all()

        begin = self._clock.now()
        self._jobs.put(job)
        with self._changed:
            if not self._clock.wait(self._changed, future.done, until=until):
                raise PluginLateError(f"did not answer in {max(0.0, until - begin):.3g} seconds")
        error = future.exception()
        if error is not None and not isinstance(error, Exception):
            raise PluginLostError(f"ended its thread: {error!r}") from error
        return future.result()

    def end(self) -> None:
        """End the thread after the calls that have begun."""
        self._ended = True
        self._jobs.put(None)

    def _work(self) -> None:
        self._local.on_plugin_thread = True
        while (job := self._jobs.get()) is not None:
            job()
