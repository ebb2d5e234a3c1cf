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
from typing import TYPE_CHECKING, Self

from fsm.reference.nri.errors import BlockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    fsm.reference.nri.errors.BlockedError: synchronisation of plugins was blocked for 0.01 seconds
    >>> with lock.joining(timeout=1):
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._blocks = 0
        self._joining = False

    def block(self) -> PluginSyncBlock:
        """Keep plugins from joining; waits for the one that is at it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._joining)
            self._blocks += 1
        return PluginSyncBlock(self._release)

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        """Join when nobody blocks; raises :class:`BlockedError` if that takes more than *timeout* seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._blocks and not self._joining, timeout):
                message = f"synchronisation of plugins was blocked for {timeout:g} seconds"
                raise BlockedError(message)
            self._joining = True
        try:
            yield
        finally:
            with self._changed:
                self._joining = False
                self._changed.notify_all()

    def _release(self) -> None:
        with self._changed:
            self._blocks -= 1
            self._changed.notify_all()
