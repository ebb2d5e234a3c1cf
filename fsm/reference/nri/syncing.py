"""Plugins join while nothing changes: many may block that, and one plugin at a time waits for all of them.

Whoever blocks never waits for a plugin that is itself still waiting.  A lock
that lets the waiting plugin go first, as containerd's, hangs for ever when
a caller blocks, a plugin comes, and the caller blocks once more on its way
(removing a pod removes its containers).  The price is that a plugin may wait
as long as somebody blocks; it gives up when its registration has lasted too long.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from fsm.reference.clock import Clock
from fsm.reference.nri.nri_errors import BlockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALL: Final = "call"
"""Who blocks, as the machine ``sync-reader`` has it."""

PLUGIN: Final = "plugin"
"""Who joins, as the machine ``sync-writer`` has it."""


class PluginSyncBlock:
    """Plugins cannot join until this is unblocked; also a context manager.

    >>> block = SyncLock().block()
    >>> with block:
    ...     pass
    >>> block.unblock()  # once more is harmless
    """

    def __init__(self, unblock: Callable[[], None] | None = None) -> None:
        """Calls *unblock*, once."""
        self._lock = threading.Lock()
        self._unblock = unblock

    def unblock(self) -> None:
        """Let plugins join; from any thread."""
        with self._lock:
            unblock, self._unblock = self._unblock, None
        if unblock is not None:
            unblock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unblock()


class SyncLock:
    """Any number of blocks, or one plugin that joins.

    >>> lock = SyncLock()
    >>> with lock.block(), lock.block(), lock.joining(timeout=0.01):
    ...     pass
    Traceback (most recent call last):
        ...
    fsm.reference.nri.nri_errors.BlockedError: synchronisation of plugins was blocked for 0.01 seconds
    >>> with lock.joining(timeout=1):
    ...     pass
    """

    def __init__(self, clock: Clock | None = None, told: Callable[[str, str], None] | None = None) -> None:
        """One that goes by *clock*; *told* is told who does what, as the machines have it."""
        self._clock: Final = clock or Clock()
        self._told: Final = told or (lambda _who, _what: None)
        self._changed = threading.Condition()
        self._blocks = 0
        self._joining = False
        self._waiting = 0

    def block(self) -> PluginSyncBlock:
        """Keep plugins from joining; waits for the one that is at it."""
        with self._changed:
            self._goes(CALL, self._may_block)
            self._blocks += 1
        return PluginSyncBlock(self._release)

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        """Join when nobody blocks; raises :class:`BlockedError` if that takes more than *timeout* seconds."""
        with self._changed:
            self._waiting += 1
            try:
                if not self._goes(PLUGIN, self._may_join, timeout):
                    message = f"synchronisation of plugins was blocked for {timeout:g} seconds"
                    raise BlockedError(message)
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            self._joining = True
        try:
            yield
        finally:
            with self._changed:
                self._joining = False
                self._told(PLUGIN, "leaves")
                self._changed.notify_all()

    def _may_block(self) -> bool:
        return not self._joining

    def _may_join(self) -> bool:
        return not self._blocks and not self._joining

    def _goes(self, who: str, free: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until it is *free* for *who*; whether it was before *timeout*."""
        if free():
            self._told(who, "enters")
            return True
        self._told(who, "waits")
        if timeout is None:
            self._changed.wait_for(free)
        elif not self._clock.wait(self._changed, free, until=self._clock.now() + timeout):
            return False
        self._told(who, "gets")
        return True

    def _release(self) -> None:
        with self._changed:
            self._blocks -= 1
            self._told(CALL, "leaves")
            self._changed.notify_all()


class AsWritten(SyncLock):
    """The lock that containerd has: who waits to join goes before all who come later, also before who blocks already."""

    def _may_block(self) -> bool:
        return super()._may_block() and not self._waiting
