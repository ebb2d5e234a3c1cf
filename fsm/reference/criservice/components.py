"""What runs beside Run of the CRI service: it is started, stopped, or ends by itself, as the machine ``service-component`` says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from fsm.library import load
from fsm.machine.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.reference.events.queue import EventQueue
    from fsm.reference.nri.api import NRI
    from fsm.reference.nri.domain import Domain, Domains


class Component:
    """One of them, which others are told of by *changed*.

    Its ``error`` waits until Run reads it.  The task of a component that is
    not ``buffered`` waits with it, as a goroutine at a channel without room.

    >>> import asyncio
    >>> class Short(Component):
    ...     async def work(self) -> None:
    ...         raise OSError("gone")
    >>> async def fails() -> str:
    ...     component = Short()
    ...     component.start()
    ...     await until(component.changed, lambda: component.state == "failed")
    ...     return f"{component.tell()}, {component.state}"
    >>> asyncio.run(fails())
    'gone, told'
    """

    buffered = False

    def __init__(self, at: str = "") -> None:
        self.position = driver("service-component").position(at)
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        self._read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """The machine's name for where it is."""
        return self.position.state

    @property
    def left(self) -> bool:
        """Whether a task of it is still there."""
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Whether it is at something that it would finish if it were stopped now."""
        return False

    # -- what Run does with it ---------------------------------------------

    def start(self) -> None:
        """Begin, on a task of its own; what was stopped before ends at once.

        Raises :class:`~fsm.machine.driver.NoWayError` where it was started before.
        """
        if self.state == "closed":
            self.position.take("starts")
            return
        self.position.ways("starts")  # before anything is opened a second time
        try:
            self.open()
        except OSError as error:
            self.position.take("starts", "cannot")
            self.error = error
        else:
            self.position.take("starts", "runs")
        self._task = asyncio.create_task(self._lives())

    def stop(self) -> None:
        """Stop it for good; whoever wants to see it end waits.  Raises :class:`OSError` if it cannot be."""
        if self.state in {"off", "on"}:
            self.shut()
        self._stopped()

    def cut_off(self) -> None:
        """Stop what cannot be closed in good order."""
        self._stopped()

    def tell(self) -> Exception:
        """Its error, which is told once."""
        self.position.take("tells")
        self._read.set()
        if self.error is None:
            raise AssertionError
        return self.error

    def release(self) -> None:
        """Give back everything at once, as it is when the process ends."""
        with suppress(OSError):
            self.shut()
        if self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """The process ends, and with it all of this: it is as if it had never been."""
        self.release()
        self.position = driver("service-component").position()

    # -- what it is --------------------------------------------------------

    def open(self) -> None:
        """Take what it needs; raises :class:`OSError` if it cannot be had."""

    async def work(self) -> None:
        """Do what it is there for, until it is cancelled or fails."""
        await asyncio.Event().wait()

    def shut(self) -> None:
        """Give back what it has, if it has that still; raises :class:`OSError` if that cannot be."""

    # -- steps -------------------------------------------------------------

    def _stopped(self) -> None:
        before = self.state
        to = self.position.take("stops", "lingers" if self.busy else "ends").to
        if before == "on" and to == "ended":
            self._cancel()
        self.changed.set()

    async def _lives(self) -> None:
        try:
            if self.error is None:
                await self.work()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what Run returns)
            self.error = error
        finally:
            with suppress(OSError):
                self.shut()
        if self.state == "on":
            self.position.take("dies", "failed" if self.error else "ended")
        elif self.state == "stopping":
            self.position.take("finishes")
        self.changed.set()
        if self.state == "failed" and not self.buffered:
            await self._read.wait()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Registration(Component):
    """The service as a *domain* of NRI, and the plugins that are started with it."""

    def __init__(self, nri: NRI, domains: Domains, domain: Domain) -> None:
        super().__init__()
        self.nri = nri
        self._domains = domains
        self._domain = domain

    async def register(self) -> None:
        """Start it, as seconds may pass with plugins; it fails with the error of NRI.

        If it is stopped meanwhile, NRI is stopped when it has started.
        """
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
        """Register the domain, and start what is configured."""
        self._domains.register(self._domain)
        await asyncio.to_thread(self.nri.start)

    def shut(self) -> None:
        """NRI is stopped, where it was started."""
        if self.state == "on":
            self.nri.stop()


class Queue(Component):
    """The queue of container events, which is there from the beginning."""

    def __init__(self, queue: EventQueue[str]) -> None:
        super().__init__("on")
        self.queue = queue
        self._task = asyncio.create_task(queue.run())

    def shut(self) -> None:
        """Its task ends."""
        self.queue.shutdown()

    def abandon(self) -> None:
        """It is made with the process, and ends with it."""
        self.stop()

    def _cancel(self) -> None:
        """It ends by itself, when it was shut."""


async def until(changed: asyncio.Event, holds: Callable[[], bool]) -> None:
    """Return when *holds*, which is asked whenever something has *changed*."""
    while not holds():
        changed.clear()
        await changed.wait()


@cache
def driver(machine: str) -> Driver:
    """What *machine* is executed by."""
    return Driver(load(machine))
