"""Syncers of CNI folders, which load the configurations again when one of them changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from asyncinotify import Inotify, Mask, Watch

from fsm.reference.criservice.components import Component

GONE: Final = Mask.DELETE_SELF | Mask.MOVE_SELF
CHANGED: Final = Mask.CLOSE_WRITE | Mask.MOVE | Mask.DELETE


class Watches:
    """The watches of one *loop*; all share one inotify instance, of which a user may have only 128."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inotify = Inotify(sync_timeout=0)
        self._watchers: dict[int, list[Watcher]] = {}
        self._loop = loop
        self._loop.add_reader(self._inotify.fd, self._read)

    def watch(self, path: Path) -> Watcher:
        """A watcher of the folder *path*, which is created if necessary; raises :class:`OSError` if it cannot be."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        watch = self._inotify.add_watch(path, GONE | CHANGED | Mask.ONLYDIR)
        watcher = Watcher(lambda: self._remove(watch, watcher))
        self._watchers.setdefault(watch.wd, []).append(watcher)
        return watcher

    @property
    def count(self) -> int:
        return sum(map(len, self._watchers.values()))

    def close(self) -> None:
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()

    def _read(self) -> None:
        for event in self._inotify:
            for watcher in tuple(self._watchers.get(event.watch.wd, ())) if event.watch else ():
                watcher.add(event.mask)

    def _remove(self, watch: Watch, watcher: Watcher) -> None:
        """Remove *watcher*, and the kernel's *watch* with the last watcher of the folder."""
        watchers = self._watchers[watch.wd]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[watch.wd]
            with suppress(OSError):  # the kernel removes the watch of a deleted folder itself
                self._inotify.rm_watch(watch)


class Watcher:
    """``async for mask in watcher``: the events of one folder, until it is closed."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        self.closed = False
        self._on_close = on_close
        self._masks: asyncio.Queue[Mask | None] = asyncio.Queue()

    def add(self, mask: Mask) -> None:
        self._masks.put_nowait(mask)

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> Mask:
        mask = None if self.closed else await self._masks.get()
        if mask is None:
            raise StopAsyncIteration
        return mask

    def close(self) -> None:
        """Stop watching; has no effect the second time."""
        if not self.closed:
            self.closed = True
            self._on_close()
            self._masks.put_nowait(None)


class Syncer(Component):
    """Calls *load* whenever a file in the folder *path* is written, moved or deleted, also before it is started."""

    buffered = True
    ends_by_itself = True

    def __init__(self, watches: Watches, path: Path, load: Callable[[], None]) -> None:
        super().__init__()
        self.path = path
        self.watcher = watches.watch(path)
        self._load = load

    async def work(self) -> None:
        """Load after each change; fail when the folder is deleted or renamed, or the watcher is closed from outside."""
        async for mask in self.watcher:
            if mask & GONE:
                raise OSError(f"cni conf dir {self.path} is removed, stop watching")
            self._load()
        if self.state == "on":
            self.lose_watcher()

    def lose_watcher(self) -> None:
        raise OSError(f"cni conf dir {self.path} is watched no longer")

    def close(self) -> None:
        self.watcher.close()
