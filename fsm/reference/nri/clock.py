"""The time by which plugins, and those who wait for others, give up: the machine's, or one that a test turns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable


class Clock:
    """The clock of this machine.

    >>> import threading
    >>> clock, changed = Clock(), threading.Condition()
    >>> with changed:
    ...     clock.wait(changed, lambda: True, until=clock.now()), clock.wait(changed, lambda: False, until=clock.now())
    (True, False)
    """

    def now(self) -> float:
        """Seconds since whenever."""
        return time.monotonic()

    def wait(self, changed: threading.Condition, there: Callable[[], bool], *, until: float) -> bool:
        """Wait for *there*, as *changed*, which the caller holds, tells of it; ``False`` if *until* comes first."""
        return changed.wait_for(there, max(0.0, until - self.now()))
