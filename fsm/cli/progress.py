"""Progress on standard error: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import io
import sys
import time
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import click

from fsm.interruption import resident

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.machine.traversal import Explored

PAUSE: Final = 0.2
"""Minimum number of seconds between two updates of the bar during a search."""

REPORTING: Final = 10.0
"""Number of seconds between progress reports."""


class CommandProgress:
    """Progress through *size* units of work. Nothing is shown if *size* is 0."""

    def __init__(
        self,
        label: str,
        size: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] = resident,
    ) -> None:
        self._label, self._clock, self._memory = label, clock, memory
        self._terminal = bool(size) and sys.stderr is not None and sys.stderr.isatty()  # stderr may be closed
        self.bar = click.progressbar(length=size, label=label, file=sys.stderr if self._terminal else io.StringIO())
        self._began = self._search_began = self._shown = clock()

    def advance(self, units: int = 1) -> None:
        """Add *units* to the work that is done."""
        self.bar.update(units)

    def reach(self, done: int, size: int) -> None:
        """Set the work that is done, and its new *size*."""
        self.bar.length = size
        self.bar.update(done - self.bar.pos)

    def searched(self, covered: Explored) -> None:
        """Show on the bar what a search has *covered*: the number of states, their rate, and the memory used."""
        now = self._clock()
        if not covered.nodes:
            self._search_began = now
        elif now >= self._shown + PAUSE:
            self._shown = now
            rate = covered.nodes / max(now - self._search_began, PAUSE)
            self._relabel(f"{covered.nodes:,} states, {rate:,.0f}/s, {self._memory() >> 20:,} MiB")

    def report(self) -> None:
        """Show how long the work has taken so far."""
        spent = f"{self._clock() - self._began:,.0f} s"
        if self._terminal:
            self._relabel(spent)
        else:
            with suppress(OSError, ValueError):  # the reader is gone, or stderr is closed
                click.echo(f"{self._label}: {self.bar.pos:,} of {self.bar.length or 0:,} after {spent}", err=True)

    def _relabel(self, about: str) -> None:
        self.bar.label = f"{self._label} {about}"
        self.bar.render_progress()


@contextmanager
def progress(label: str, size: int) -> Iterator[CommandProgress]:
    """Show progress through *size* units of work. If time or memory runs out, report how much was done."""
    shown, over = CommandProgress(label, size), Event()

    def report() -> None:
        while not over.wait(REPORTING):
            shown.report()

    try:
        with shown.bar:
            if size:
                with suppress(RuntimeError):  # no memory for a thread
                    Thread(target=report, daemon=True).start()
            yield shown
    except (KeyboardInterrupt, MemoryError) as error:
        if size and (error.args or isinstance(error, MemoryError)):  # not if the user interrupted it
            click.echo(f"{label}: {shown.bar.pos:,} of {size:,} done", err=True)
        raise
    finally:
        over.set()
