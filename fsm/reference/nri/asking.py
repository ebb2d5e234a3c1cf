"""The thread on which one plugin is asked: one thing after the other, each until its time is over."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from fsm.reference.nri.nri_errors import PluginLateError, PluginLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.reference.clock import Clock

T = TypeVar("T")


class Line:
    """What is said to a plugin through it comes back in time, or not at all.

    >>> from fsm.reference.clock import Clock
    >>> line = Line(Clock(), threading.local())
    >>> line.ask(lambda: 6 * 7, until=Clock().now() + 10)
    42
    >>> line.end()
    >>> line.ask(lambda: 6 * 7, until=Clock().now() + 10)
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.PluginLostError: it is closed
    """

    def __init__(self, clock: Clock, here: threading.local) -> None:
        """One that goes by *clock*; its thread says in *here* that it is ``working``."""
        self._clock: Final = clock
        self._here: Final = here
        self._changed: Final = threading.Condition()
        self._jobs: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._thread: Final = threading.Thread(target=self._work, daemon=True)
        self._ended = False

    def named(self, name: str) -> None:
        """What its thread is called."""
        self._thread.name = name

    def ask(self, what: Callable[[], T], *, until: float) -> T:
        """What *what* returns or raises on the thread.

        Raises :class:`PluginLateError` if it does neither before *until*,
        :class:`PluginLostError` if it ends the thread, or that is ended.
        """
        if self._ended:
            message = "it is closed"
            raise PluginLostError(message)
        if not self._thread.is_alive():
            self._thread.start()
        answers: list[tuple[T | None, BaseException | None]] = []

        def job() -> None:
            answer: tuple[T | None, BaseException | None]
            try:
                answer = what(), None
            except BaseException as error:  # noqa: BLE001  # whoever asks is told, and this thread goes on
                answer = None, error
            with self._changed:
                answers.append(answer)
                self._changed.notify_all()

        asked = self._clock.now()
        self._jobs.put(job)
        with self._changed:
            if not self._clock.wait(self._changed, lambda: bool(answers), until=until):
                message = f"did not answer in {max(0.0, until - asked):.3g} seconds"
                raise PluginLateError(message)
        result, error = answers[0]
        if isinstance(error, Exception):
            raise error
        if error is not None:
            message = f"ended its thread: {error!r}"
            raise PluginLostError(message) from error
        return result  # type: ignore[return-value]  # there is one if there is no error

    def end(self) -> None:
        """Ask nothing more: the thread ends when it is done with what it was asked."""
        self._ended = True
        self._jobs.put(None)

    def _work(self) -> None:
        self._here.working = True
        while (job := self._jobs.get()) is not None:
            job()
