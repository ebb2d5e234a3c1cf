"""A lock between any number of calls that block plugin synchronisation, and one joining plugin.

A caller that blocks never waits for a plugin that is itself waiting. Otherwise, a nested block would deadlock, for
example when the removal of a pod removes its containers. The price is that a plugin waits as long as anything blocks.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.nri.messages import BlockedError

CALL: Final = "call"
PLUGIN: Final = "plugin"
"""Process names: a call that blocks, as in the machine ``sync-reader``, and a joining plugin, as in ``sync-writer``."""


class PluginSyncBlock:
    """Keeps plugins from joining until it is released by :meth:`unblock`. Also a context manager.

    >>> block = SyncLock().block()
    >>> with block:
    ...     pass
    >>> block.unblock()  # has no effect the second time
    """

    def __init__(self, unblock: Callable[[], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._unblock = unblock

    def unblock(self) -> None:
        with self._lock:
            unblock, self._unblock = self._unblock, None
        if unblock is not None:
            unblock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unblock()


class SyncLock:
    """A lock held by any number of blocks, or by one joining plugin.

    >>> lock = SyncLock()
    >>> with lock.block(), lock.block(), lock.joining(timeout=0.01):
    ...     pass
    Traceback (most recent call last):
        ...
    fsm.runtimes.reference.nri.messages.BlockedError: synchronisation of plugins was blocked for 0.01 seconds
    >>> with lock.joining(timeout=1):
    ...     pass
    """

    def __init__(self, clock: Clock | None = None, observe: Callable[[str, str], None] | None = None) -> None:
        """Use *clock* for timeouts. Call *observe(process, step)* for each step, named as in the machines."""
        self._clock: Final = clock or Clock()
        self._observe: Final = observe or (lambda _process, _step: None)
        self._changed = threading.Condition()
        self._blocks = 0
        self._joining = False
        self._waiting = 0

    def block(self) -> PluginSyncBlock:
        """Keep plugins from joining. If a plugin is joining, wait for it first."""
        with self._changed:
            self._acquire(CALL, self._may_block)
            self._blocks += 1
        return PluginSyncBlock(self._release)

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        """Join once nothing blocks. Raise :class:`BlockedError` after *timeout* seconds."""
        with self._changed:
            self._waiting += 1
            try:
                if not self._acquire(PLUGIN, self._may_join, timeout):
                    raise BlockedError(f"synchronisation of plugins was blocked for {timeout:g} seconds")
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            self._joining = True
        try:
            yield
        finally:
            with self._changed:
                self._joining = False
                self._observe(PLUGIN, "leaves")
                self._changed.notify_all()

    def _may_block(self) -> bool:
        return not self._joining

    def _may_join(self) -> bool:
        return not self._blocks and not self._joining

    def _acquire(self, process: str, free: Callable[[], bool], timeout: float | None = None) -> bool:
        if free():
            self._observe(process, "enters")
            return True
        self._observe(process, "waits")
        if timeout is None:
            self._changed.wait_for(free)
        elif not self._clock.wait(self._changed, free, until=self._clock.now() + timeout):
            return False
        self._observe(process, "gets")
        return True

    def _release(self) -> None:
        with self._changed:
            self._blocks -= 1
            self._observe(CALL, "leaves")
            self._changed.notify_all()


class UpstreamSyncLock(SyncLock):
    """A lock in which a waiting plugin precedes all later blocks, even blocks by a caller that already blocks."""

    def _may_block(self) -> bool:
        return super()._may_block() and not self._waiting
