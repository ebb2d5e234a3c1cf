"""Syncers of CNI folders: whenever a configuration there changes, they are loaded anew."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from asyncinotify import Inotify, Mask

from fsm.reference.criservice.components import Component

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from asyncinotify import Watch

GONE: Final = Mask.DELETE_SELF | Mask.MOVE_SELF
CHANGED: Final = Mask.CLOSE_WRITE | Mask.MOVE | Mask.DELETE


class SyncError(Exception):
    """The folder is not there any more."""


class Folders:
    """The watches of one event loop.

    All of them are of one inotify instance, since a user has no more than
    128 of those, and closing one takes the kernel milliseconds.
    """

    def __init__(self) -> None:
        self._inotify = Inotify(sync_timeout=0)
        self._watchers: dict[int, list[Watcher]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._inotify.fd, self._happened)

    def watch(self, path: Path) -> Watcher:
        """What happens to the folder *path* from now on, which is made if need be.

        Raises :class:`OSError` if it cannot be, or cannot be watched.
        """
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        watch = self._inotify.add_watch(path, GONE | CHANGED | Mask.ONLYDIR)
        watcher = Watcher(lambda: self._leave(watch, watcher))
        self._watchers.setdefault(watch.wd, []).append(watcher)
        return watcher

    @property
    def watched(self) -> int:
        """How many watchers there are."""
        return sum(map(len, self._watchers.values()))

    def close(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()

    def _happened(self) -> None:
        for event in self._inotify:
            for watcher in tuple(self._watchers.get(event.watch.wd, ())) if event.watch else ():
                watcher.happened(event.mask)

    def _leave(self, watch: Watch, watcher: Watcher) -> None:
        """A watch is of one folder, and of all who watch that."""
        watchers = self._watchers[watch.wd]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[watch.wd]
            with suppress(OSError):  # a folder that is gone is not watched any more
                self._inotify.rm_watch(watch)


class Watcher:
    """``async for mask in watcher``: what happens to one folder, until it is closed."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self.closed = False
        self._leave = leave
        self._masks: asyncio.Queue[Mask | None] = asyncio.Queue()

    def happened(self, mask: Mask) -> None:
        """Something has."""
        self._masks.put_nowait(mask)

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> Mask:
        mask = None if self.closed else await self._masks.get()
        if mask is None:
            raise StopAsyncIteration
        return mask

    def close(self) -> None:
        """Watch no more; again it does nothing."""
        if not self.closed:
            self.closed = True
            self._leave()
            self._masks.put_nowait(None)


class Syncer(Component):
    """Calls *load* whenever a file in the folder *path* is written, moved or removed.

    It watches from the beginning, so that nothing is missed before it is started.
    """

    buffered = True

    def __init__(self, folders: Folders, path: Path, load: Callable[[], None]) -> None:
        super().__init__()
        self.path = path
        self.watcher = folders.watch(path)
        self._load = load

    async def work(self) -> None:
        """Load what has changed; it fails when the folder is removed or renamed, or the watcher is closed by somebody."""
        async for mask in self.watcher:
            if mask & GONE:
                message = f"cni conf dir {self.path} is removed, stop watching"
                raise SyncError(message)
            self._load()
        if self.state == "on":
            self.unasked()

    def unasked(self) -> None:
        """Its watcher was closed, and it was not stopped."""
        message = f"cni conf dir {self.path} is watched no longer"
        raise SyncError(message)

    def shut(self) -> None:
        """Watch no more."""
        self.watcher.close()

    def _cancel(self) -> None:
        """It ends by itself, when the watcher is closed."""
