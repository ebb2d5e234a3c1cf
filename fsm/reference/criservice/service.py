"""The CRI service: Run starts what it is made of, says that it is ready, and waits for the first that ends.

How far Run has come is the machine ``service-run``, whether it counts as
initialised ``service-flag``; what it starts are ``service-component``.  All
that Run has started has stopped when it returns, and it returns why.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from fsm.reference.clock import Clock
from fsm.reference.criservice.components import driver, until
from fsm.reference.criservice.syncer import Syncer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from fsm.reference.criservice.components import Component, Queue, Registration
    from fsm.reference.criservice.event_monitor import EventMonitor
    from fsm.reference.criservice.streaming import StreamingServer
    from fsm.reference.nri.messages import Container, Pod

_log = logging.getLogger(__name__)

PATIENCE: Final = 10.0
"""For how many seconds Run waits for an event that is being handled, when all has been stopped."""


class RunError(Exception):
    """What Run returns: ``what`` has failed, with ``errors``, the first of which is the reason."""

    def __init__(self, what: str, *errors: Exception) -> None:
        told = "; ".join(str(each) or type(each).__name__ for each in errors)
        super().__init__(f"{what}: {told}" if told else what)
        self.what = what
        self.errors = errors


class CloseError(Exception):
    """The streaming server could not be closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the service is made of: one syncer for each CNI folder, of which there may be none."""

    monitor: EventMonitor
    syncers: tuple[Syncer, ...]
    server: StreamingServer
    registration: Registration
    queue: Queue

    def __iter__(self) -> Iterator[Component]:
        """All that are stopped when it is closed, last started first."""
        yield self.registration
        yield self.server
        yield from self.syncers
        yield self.monitor
        yield self.queue

    @property
    def watched(self) -> tuple[Component, ...]:
        """Those without which the service does not go on."""
        return (self.monitor, self.server, *self.syncers)


async def nothing_to_recover() -> None:
    """There are no pods and no containers."""


async def at_once(phase: str) -> None:
    """Do not wait before *phase*."""
    del phase


def exit_process(error: Exception) -> NoReturn:
    """End the process, because of *error*."""
    raise SystemExit(str(error)) from error


class CRIService:
    """The service of *parts*; *recover* brings back pods and containers, and raises what stands against that.

    *pause* is awaited before each phase of Run: ``register``, ``shut-down``,
    ``wait`` and ``return``.  *clock* says when Run has waited long enough.
    For one event loop.
    """

    def __init__(
        self,
        parts: Parts,
        recover: Callable[[], Awaitable[None]] = nothing_to_recover,
        *,
        clock: Clock | None = None,
        pause: Callable[[str], Awaitable[None]] = at_once,
        fatal: Callable[[Exception], NoReturn] = exit_process,
    ) -> None:
        self.parts = parts
        self.position = driver("service-run").position()
        self.flag = driver("service-flag").position()
        self._recover = recover
        self._clock = clock or Clock()
        self._pause = pause
        self._fatal = fatal
        self._exits: list[tuple[Pod, Container]] = []
        self._changed = asyncio.Event()
        for each in parts:
            each.changed = self._changed

    syncer: type[Syncer] = Syncer
    """What each of its syncers is."""

    def is_initialized(self) -> bool:
        """Whether calls are taken; they are refused else."""
        return self.flag.state == "yes"

    # -- Run -----------------------------------------------------------------

    async def run(self, ready: Callable[[], None]) -> None:
        """Start all, call *ready*, and return when the service was closed.

        It can be run once.  Raises :class:`RunError` with the reason for
        which it could not be started, or has ended without being closed.
        """
        if self.position.state != "idle":
            what = "run"
            message = f"the service was run before, and is {self.position.state}"
            raise RunError(what, RuntimeError(message))
        self.position.take("starts")
        self.parts.monitor.subscribe()
        try:
            await self._recover()
        except Exception as error:
            self.position.take("fails")
            self._stop_all()
            what = "recovery"
            raise RunError(what, error) from error
        self._launch()
        await self._pause("register")
        await self.parts.registration.register()
        if self.parts.registration.state == "failed" or not self._all_on():
            self.position.take("closes")
            self._stop_all()
        else:
            self._serve(ready)
            await until(self._changed, lambda: not self._all_on())
            await self._pause("shut-down")
            self.position.take("closes")
            self._stop_all()
        await self._drained()
        await self._pause("return")
        self._return()

    def exited(self, pod: Pod, container: Container) -> None:
        """*container*, which was recovered or made, has exited: NRI is told, as soon as it can be."""
        if self.parts.registration.state == "on":
            self.parts.registration.nri.notify_container_exit(pod, container)
        else:
            self._exits.append((pod, container))

    # -- Close ---------------------------------------------------------------

    def close(self) -> None:
        """Stop all, whenever that is, and again; Run returns when it has seen it.

        Raises :class:`CloseError` if something could not be closed in good
        order, and was cut off.
        """
        errors = self._stop_all()
        if errors:
            raise CloseError(str(errors[0])) from errors[0]

    # -- steps ---------------------------------------------------------------

    def _launch(self) -> None:
        """Start what runs beside Run."""
        self.position.take("recovers")
        self.parts.monitor.start()
        for each in self.parts.syncers:
            each.start()
        self.parts.server.start()

    def _serve(self, ready: Callable[[], None]) -> None:
        """It is registered with NRI, and takes calls from now on."""
        self.position.take("registers")
        self.flag.take("sets")
        for pod, container in self._exits:
            self.parts.registration.nri.notify_container_exit(pod, container)
        self._exits.clear()
        ready()

    def _all_on(self) -> bool:
        return all(each.state == "on" for each in self.parts.watched)

    def _stop_all(self) -> list[OSError]:
        """Stop everything; what could not be closed in good order is cut off."""
        self.flag.take("clears")
        errors = []
        for each in self.parts:
            try:
                each.stop()
            except OSError as error:
                _log.info("could not be closed, and is cut off: %s", error)
                each.cut_off()
                errors.append(error)
        return errors

    async def _drained(self) -> None:
        """Wait for the monitor, for as long as an event may take."""
        gone = asyncio.ensure_future(until(self._changed, lambda: self.parts.monitor.state != "stopping"))
        late = asyncio.ensure_future(self._clock.sleep(PATIENCE))
        await asyncio.wait({gone, late}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        late.cancel()

    def _return(self) -> None:
        """Read every error, and return the first as the reason, all others with it."""
        named = [
            ("registration", self.parts.registration),
            ("monitor", self.parts.monitor),
            ("server", self.parts.server),
            *(("syncer", each) for each in self.parts.syncers),
        ]
        told = [(what, each.tell()) for what, each in named if each.state == "failed"]
        if self.parts.monitor.state == "stopping":
            told.append(("timeout", TimeoutError("an event is still being handled")))
        what = told[0][0] if told else "nothing"
        self.position.take("returns", what)
        if told:
            raise RunError(what, *(error for _, error in told)) from told[0][1]
