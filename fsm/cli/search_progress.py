"""Show the progress of a search on a terminal, and find out whether it has to stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from fsm.interruption import resident

if TYPE_CHECKING:
    from collections.abc import Callable

    from click._termui_impl import ProgressBar

    from fsm.machine.traversal import Explored

PAUSE: Final = 0.2
"""Number of seconds between updates of the progress bar."""


class SearchProgress:
    """Shows on *bar* the number of states covered, their rate, and the memory used. *over* returns why to stop."""

    def __init__(
        self,
        bar: ProgressBar[int],
        over: Callable[[], str],
        *,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] = resident,
    ) -> None:
        self._bar, self._over, self._clock, self._memory = bar, over, clock, memory
        self._label = bar.label
        self._began = self._shown = clock()

    def __call__(self, covered: Explored) -> str:
        """Show *covered*. Return why the search has to stop, or an empty string."""
        now = self._clock()
        if not covered.nodes:
            self._began = now
        elif now >= self._shown + PAUSE:
            self._shown = now
            rate = covered.nodes / max(now - self._began, PAUSE)
            self._bar.label = f"{self._label} {covered.nodes:,} states, {rate:,.0f}/s, {self._memory() >> 20:,} MiB"
            self._bar.render_progress()
        return self._over()
