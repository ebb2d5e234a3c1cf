"""The components that the CRI service starts and stops, each driven by the machine ``service-component``."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fsm.reference.driven import Driven, driver
from fsm.reference.events.queue import EventQueue
from fsm.reference.nri.api import NRI
from fsm.reference.nri.domain import Domain, Domains

MACHINE: Final = "service-component"


class Component(Driven):
    """One component; ``changed`` is set whenever its state changes.

    Its ``error`` waits until Run takes it.  The task of a component that is
    not ``buffered`` waits with it, as a goroutine at an unbuffered channel.

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
    """Whether its task ends when it is closed; others are cancelled."""

    def __init__(self, state: str = "") -> None:
        self.position = driver(MACHINE).position(state)
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_task(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Whether it has work to finish if it is stopped now."""
        return False

    def start(self) -> None:
        """Start its task, which ends at once after a stop; it cannot happen a second time."""
        if self.state == "closed":
            self.position.take("starts")
            return
        self.position.outcomes("starts")  # raises before anything is opened a second time
        try:
            self.open()
        except OSError as error:
            self.position.take("starts", "cannot")
            self.error = error
        else:
            self.position.take("starts", "runs")
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop it for good, without waiting for its end.  Raises :class:`OSError` if it cannot be closed."""
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

    def release(self) -> None:
        """Release everything at once, as at the end of the process."""
        with suppress(OSError):
            self.close()
        if self._task is not None:
            self._task.cancel()

    def discard(self) -> None:
        """End with the process, and return to the initial state."""
        self.release()
        self.position = driver(MACHINE).position()

    def open(self) -> None:
        """Acquire what it needs; raises :class:`OSError` if that fails."""

    async def work(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Release what it has acquired, if anything; raises :class:`OSError` if that fails."""

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


class Registration(Component):
    """The registration of the service as a *domain* of NRI, and the plugins that start with it."""

    def __init__(self, nri: NRI, domains: Domains, domain: Domain) -> None:
        super().__init__()
        self.nri = nri
        self._domains = domains
        self._domain = domain

    async def register(self) -> None:
        """Register, which may take seconds; if it is stopped in the meantime, NRI is stopped once it has started."""
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
        self._domains.register(self._domain)
        await asyncio.to_thread(self.nri.start)

    def close(self) -> None:
        if self.state == "on":
            self.nri.stop()


class StreamingServer(Component):
    """A server that listens at *address*, where port 0 is any free port, and hangs up: it has no streams."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__()
        self.address = address
        self.socket: socket.socket | None = None

    def open(self) -> None:
        self.socket = socket.create_server(self.address)
        self.socket.setblocking(False)  # noqa: FBT003  (its only argument)

    async def work(self) -> None:
        while self.socket is not None:
            with suppress(ConnectionError):  # the client has closed it already
                client, _ = await asyncio.get_running_loop().sock_accept(self.socket)
                client.close()

    def close(self) -> None:
        if self.socket is not None:
            asyncio.get_running_loop().remove_reader(self.socket)
            self.socket.close()
            self.socket = None


class Queue(Component):
    """The queue of container events, which runs from the beginning; without one, what is discarded is dropped."""

    ends_by_itself = True

    def __init__(self, queue: EventQueue[str] | None = None) -> None:
        super().__init__("on")
        self.queue = queue or EventQueue(bool)
        self._task = asyncio.create_task(self.queue.run())

    def close(self) -> None:
        self.queue.shutdown()

    def discard(self) -> None:
        self.stop()


async def until(changed: asyncio.Event, holds: Callable[[], bool]) -> None:
    """Wait until *holds* is true, which may change whenever *changed* is set."""
    while not holds():
        changed.clear()
        await changed.wait()
