"""Let threads take turns that may end at any line of the tested code.

Other threads can therefore run between any two adjacent lines.
"""

import random
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from os import sep
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import hypothesis

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SHARES: Final = (1.0, 0.7, 0.5, 0.35, 0.25)
"""Fractions of the lines at which turns end. With a large fraction, threads in the same code advance in step."""

BLOCKED: Final = 1e-3  # number of seconds without a new line after which the running thread counts as blocked

LONGEST: Final = 1000  # maximum number of lines in a turn, because a thread may wait for another one in a loop

_FOLDERS: Final = (sysconfig.get_path("stdlib"), *(str(Path(file).parent) for file in (hypothesis.__file__, __file__)))
_UNTESTED: Final = ("<", *(folder + sep for folder in _FOLDERS))


class Turns:
    """Runs the threads 1 to *threads* one at a time.

    A thread runs until its turn ends, it returns, or it blocks. A turn ends when the thread reaches one of certain
    lines for the first time. *chance* chooses these lines, which are the same for all threads.
    """

    def __init__(self, threads: int, chance: random.Random) -> None:
        self.lines = 0
        self._share, self._chance = chance.choice(SHARES), chance
        self._waiting: list[int | None] = [*chance.sample(range(1, threads + 1), threads)]
        self._running = self._waiting.pop(0)
        self._ends: dict[tuple[str, int], bool] = {}
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, thread: int) -> Iterator[None]:
        """Let *thread*, the current thread, take turns with the others within the context, using its trace function."""
        before = sys.gettrace()
        with self._changed:  # The function settrace() refuses to run in two threads simultaneously.
            sys.settrace(self._trace_function(thread))
        try:
            self._wait(thread)
            yield
        finally:
            with self._changed:
                sys.settrace(before)
                if self._running == thread:
                    self._next()

    def _trace_function(self, thread: int) -> "TraceFunction":
        met: set[tuple[str, int]] = set()

        def trace(frame: FrameType, what: str, _arg: object) -> "TraceFunction | None":
            place = (frame.f_code.co_filename, frame.f_lineno)
            if what == "call" and place[0].startswith(_UNTESTED):
                return None
            if what == "line":
                self.lines += 1
                ends = self._ends.setdefault(place, self._chance.random() < self._share) and place not in met
                met.add(place)
                self._wait(thread, ends=ends or self.lines % LONGEST == 0)
            return trace

        return trace

    def _wait(self, thread: int, *, ends: bool = False) -> None:
        if self._running == thread and not ends:
            return
        with self._changed:
            if self._running == thread:
                self._waiting.append(thread)
                self._next()
            while self._running != thread:
                if thread not in self._waiting:  # The thread was blocked, or it lost its turn before it woke up.
                    self._waiting.append(thread)
                lines = self.lines
                if not self._changed.wait(BLOCKED) and self.lines == lines and self._waiting[:1] == [thread]:
                    self._next()

    def _next(self) -> None:
        self._running = self._waiting.pop(0) if self._waiting else None
        self._changed.notify_all()
