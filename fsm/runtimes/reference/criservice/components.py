"""Components that the CRI service starts and stops. The machine ``service-component`` drives each of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from asyncinotify import Inotify, Mask, Watch

from fsm.runtimes.reference.clock import Clock, Tasks
from fsm.runtimes.reference.driven import Driven, driver
from fsm.runtimes.reference.events import Backoff
from fsm.runtimes.reference.events.queue import EventQueue
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.messages import Domain

MACHINE: Final = "service-component"

GONE: Final = Mask.DELETE_SELF | Mask.MOVE_SELF
CHANGED: Final = Mask.CLOSE_WRITE | Mask.MOVE | Mask.DELETE


class Component(Driven):
    """A component that the service starts, watches and stops. ``changed`` is set whenever its state changes.

    ``error`` is kept until Run takes it. Until then, the task of a component that is not ``buffered`` waits too, like a
    goroutine that sends to an unbuffered channel. If ``ends_by_itself`` is true, closing the component is enough to end
    its task. Otherwise, the task is cancelled.

    >>> class Short(Component):
    ...     async def work(self) -> None:
    ...         raise OSError("gone")
    >>> async def example() -> str:
    ...     component = Short()
    ...     component.start()
    ...     await until(component.changed, lambda: component.state == "failed")
    ...     return f"{component.take_error()}, {component.state}"
    >>> asyncio.run(example())
    'gone, reported'
    """

    buffered = False
    ends_by_itself = False

    def __init__(self, state: str = "") -> None:
        super().__init__(driver(MACHINE).position(state))
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_task(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        return False

    def start(self) -> None:
        """Start the component's task. This works only once. After a stop, nothing is started."""
        if self.state == "closed":
            self.take("starts")
            return
        self.position.outcomes("starts")  # a second start raises here, before anything is opened
        try:
            self.open()
        except OSError as error:
            self.error = error
        self.take("starts", "cannot" if self.error else "runs")
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop the component permanently without waiting for its end. Raise :class:`OSError` if closing fails."""
        if self.state in {"off", "on"}:
            self.close()
        self.abort()

    def abort(self) -> None:
        before = self.state
        to = self.position.take("stops", "lingers" if self.busy else "ends").to
        if before == "on" and to == "ended" and self._task is not None and not self.ends_by_itself:
            self._task.cancel()
        self.changed.set()

    def take_error(self) -> Exception:
        self.position.take("reports")
        self._taken.set()
        if self.error is None:
            raise AssertionError
        return self.error

    def discard(self) -> None:
        """End the component as if the process had ended, and return to the initial state."""
        with suppress(OSError):
            self.close()
        if self._task is not None:
            self._task.cancel()
        self.position = driver(MACHINE).position()

    def open(self) -> None:
        """Acquire everything that the component needs. Raise :class:`OSError` if that fails."""

    async def work(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Release everything that the component has acquired. Raise :class:`OSError` if that fails."""

    async def _run(self) -> None:
        try:
            if self.error is None:
                await self.work()
        except Exception as error:  # noqa: BLE001  (Run returns any error)
            self.error = error
        finally:
            with suppress(OSError):
                self.close()
        if self.state == "on":
            self.position.take("dies", "failed" if self.error else "ended")
        elif self.state == "stopping":
            self.position.take("finishes")
        self.changed.set()
        if self.state == "failed" and not self.buffered:
            await self._taken.wait()


class SubscriptionError(Exception):
    """The event stream has ended."""


class EventMonitor(Component):
    """Handles the events of a stream, and retries the events that could not be handled.

    *subscribe* returns the stream, in which each event comes with the key of its object. *handler* raises
    :class:`~fsm.runtimes.reference.events.HandlerError` for an event that must be retried.
    """

    def __init__(
        self,
        subscribe: Callable[[], AsyncIterator[tuple[str, str]]],
        handler: Callable[[str], Awaitable[object]],
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.backoff: Backoff[str] = Backoff(self._handle, clock)
        self._handler = handler
        self._subscribe = subscribe
        self._stream: AsyncIterator[tuple[str, str]] | None = None
        self._stopping = asyncio.Event()
        self._at_handler = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._at_handler.locked()

    def subscribe(self) -> None:
        self._stream = self._subscribe()

    async def work(self) -> None:
        tasks = Tasks()
        tasks.start(self.backoff.run())
        stopping = tasks.start(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                coming = tasks.start(self._next())
                await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
                async with self._at_handler:  # wait for a retry in progress
                    pass
                if coming.done():
                    await self.backoff.handle(*coming.result())
        except StopAsyncIteration:
            raise SubscriptionError("the subscription has ended") from None
        finally:
            for task in tasks:
                task.cancel()

    def close(self) -> None:
        self._stopping.set()
        self.backoff.stop()

    async def _next(self) -> tuple[str, str]:
        while self._stream is None:
            await asyncio.Event().wait()
        return await anext(self._stream)

    async def _handle(self, event: str) -> None:
        async with self._at_handler:
            await self._handler(event)


class Registration(Component):
    """The registration of the service with NRI, which also starts NRI and its plugins."""

    def __init__(self, nri: NRI, domain: Domain) -> None:
        super().__init__()
        self.nri = nri
        self._domain = domain

    async def register(self) -> None:
        if self.state == "closed":
            self.position.take("starts")
            return
        try:
            await self.join()
        except Exception as error:  # noqa: BLE001  (plugins may fail in any way)
            self.error = error
        way = self.position.take("starts", "cannot" if self.error else "runs")
        if way.to == "ended" and not self.error:
            self.nri.stop()
        if way.to != "failed":
            self.error = None

    async def join(self) -> None:
        self.nri.domains.register(self._domain)
        await asyncio.to_thread(self.nri.start)

    def close(self) -> None:
        if self.state == "on":
            self.nri.stop()


class Watches:
    """The directory watches of one event loop. They share an inotify instance, because a user may have only 128."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inotify = Inotify(sync_timeout=0)
        self._watchers: dict[int, list[Watcher]] = {}
        self._loop = loop
        self._loop.add_reader(self._inotify.fd, self._read)

    def watch(self, path: Path) -> Watcher:
        """Watch the directory *path*, and create it if necessary. Raise :class:`OSError` if that fails."""
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
                watcher.put_nowait(event.mask)

    def _remove(self, watch: Watch, watcher: Watcher) -> None:
        watchers = self._watchers[watch.wd]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[watch.wd]
            with suppress(OSError):  # the kernel itself removes the watch of a deleted directory
                self._inotify.rm_watch(watch)


class Watcher(asyncio.Queue[Mask | None]):
    """A queue of the events of one directory. It ends with ``None`` when the watcher is closed."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        super().__init__()
        self.closed = False
        self._on_close = on_close

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._on_close()
            self.put_nowait(None)


class Syncer(Component):
    """Calls *load* whenever a file in the directory *path* is written, moved or deleted.

    The directory is watched as soon as the syncer is created, so that no change is missed before the syncer starts.
    """

    buffered = True
    ends_by_itself = True

    def __init__(self, watches: Watches, path: Path, load: Callable[[], None]) -> None:
        super().__init__()
        self.path = path
        self.watcher = watches.watch(path)
        self._load = load

    async def work(self) -> None:
        while not self.watcher.closed and (mask := await self.watcher.get()) is not None:
            if mask & GONE:
                raise OSError(f"cni conf dir {self.path} is removed, stop watching")
            self._load()
        if self.state == "on":
            self.lose_watcher()

    def lose_watcher(self) -> None:
        raise OSError(f"cni conf dir {self.path} is watched no longer")

    def close(self) -> None:
        self.watcher.close()


class StreamingServer(Component):
    """A streaming server without streams, which hangs up on every client.

    If the port in *address* is 0, the server listens at any free port.
    """

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__()
        self.address = address
        self.socket: socket.socket | None = None

    def open(self) -> None:
        self.socket = socket.create_server(self.address)
        self.socket.setblocking(False)  # noqa: FBT003  (the only argument of the method)

    async def work(self) -> None:
        while self.socket is not None:
            with suppress(ConnectionError):  # the client has already closed the connection
                client, _ = await asyncio.get_running_loop().sock_accept(self.socket)
                client.close()

    def close(self) -> None:
        if self.socket is not None:
            asyncio.get_running_loop().remove_reader(self.socket)
            self.socket.close()
            self.socket = None


class Queue(Component):
    """The queue of container events as a component. It runs as soon as it is created."""

    ends_by_itself = True

    def __init__(self) -> None:
        super().__init__("on")
        self.queue: EventQueue[str] = EventQueue(bool)
        self._task = asyncio.create_task(self.queue.run())

    def close(self) -> None:
        self.queue.shutdown()

    def discard(self) -> None:
        self.stop()


async def until(changed: asyncio.Event, holds: Callable[[], bool]) -> None:
    while not holds():
        changed.clear()
        await changed.wait()
