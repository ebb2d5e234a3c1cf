"""containerd's CRI service as asyncio tasks, from its construction to Close.

The service is constructed step by step, and if a step fails, nothing is left running. Run starts the ``components``,
which are the event monitor, a syncer for each CNI directory, the streaming server, the NRI registration and the queue
of container events. It then signals readiness and waits until the first component ends.

The machine ``service-construction`` drives the construction, and ``service-run`` drives Run. ``service-flag`` tells
whether the service counts as initialised.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.criservice.components import (
    Component,
    EventMonitor,
    Queue,
    Registration,
    StreamingServer,
    Syncer,
    until,
)
from fsm.runtimes.reference.driven import driver
from fsm.runtimes.reference.nri.messages import Container, Pod

T = TypeVar("T")

_log = logging.getLogger(__name__)

DRAIN_TIMEOUT: Final = 10.0
"""Number of seconds that Run waits for a busy event handler after it has stopped everything else."""


class RunError(Exception):
    """Run has failed. ``what`` names the part that failed, and ``errors`` begins with the reason."""

    def __init__(self, what: str, *errors: Exception) -> None:
        reasons = "; ".join(str(error) or type(error).__name__ for error in errors)
        super().__init__(f"{what}: {reasons}" if reasons else what)
        self.what = what
        self.errors = errors


class CloseError(Exception):
    """The streaming server could not be closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    monitor: EventMonitor
    syncers: tuple[Syncer, ...]
    server: StreamingServer
    registration: Registration
    queue: Queue

    def __iter__(self) -> Iterator[Component]:
        return iter((self.registration, self.server, *self.syncers, self.monitor, self.queue))

    @property
    def required(self) -> tuple[Component, ...]:
        """The components without which the service cannot continue. If one of them ends, the service ends."""
        return (self.monitor, self.server, *self.syncers)


async def nothing(*_: object) -> None:
    """Do nothing. This is the default recovery and the default pause."""


def exit_process(error: Exception) -> NoReturn:
    raise SystemExit(str(error)) from error


class CRIService:
    """The CRI service. It belongs to one event loop.

    *recover* restores the pods and containers. Before Run enters the phase ``register``, ``shut-down`` or ``return``,
    *pause* is called with the name of the phase. *clock* measures how long Run may wait for an event handler to finish.
    """

    syncer: type[Syncer] = Syncer

    def __init__(
        self,
        parts: Parts,
        recover: Callable[[], Awaitable[None]] = nothing,
        *,
        clock: Clock | None = None,
        pause: Callable[[str], Awaitable[None]] = nothing,
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
        for part in parts:
            part.changed = self._changed

    def is_initialized(self) -> bool:
        return self.flag.state == "yes"

    async def run(self, ready: Callable[[], None]) -> None:
        """Run the service until it is closed, and call *ready* once the service is ready. This works only once.

        Raise :class:`RunError` if the service could not start, or ended without being closed, or if an event is still
        being handled when the time limit expires.
        """
        if not self._may_run():
            await self._run_again()
        self.position.take("starts")
        self.parts.monitor.subscribe()
        try:
            await self._recover()
        except Exception as error:  # noqa: BLE001  (any error is returned)
            self._fail("recovery", error)
        self.position.take("recovers")
        self.parts.monitor.start()
        for part in (*self.parts.syncers, self.parts.server):
            part.start()
        await self._pause("register")
        await self.parts.registration.register()
        await self._run_until_end(ready)

    def _may_run(self) -> bool:
        return self.position.state == "idle"

    async def _run_again(self) -> None:
        raise RunError("run", RuntimeError(f"the service was run before, and is {self.position.state}"))

    async def _run_until_end(self, ready: Callable[[], None]) -> None:
        if self.parts.registration.state != "failed" and self._all_on():
            await self._serve_until_end(ready)
        self.position.take("closes")
        self._stop_all()
        await self._drain()
        await self._pause("return")
        self._return(self._take_errors())

    async def _serve_until_end(self, ready: Callable[[], None]) -> None:
        self._serve(ready)
        await until(self._changed, lambda: not self._all_on())
        await self._pause("shut-down")

    def _fail(self, what: str, error: Exception) -> NoReturn:
        self.position.take("fails")
        self._stop_all()
        raise RunError(what, error) from error

    def exited(self, pod: Pod, container: Container) -> None:
        """Notify NRI of the exit of *container* as soon as the service is registered."""
        if self.parts.registration.state == "on":
            self.parts.registration.nri.notify_container_exit(pod, container)
        else:
            self._exits.append((pod, container))

    def close(self) -> None:
        """Stop all components, whatever their state. Raise :class:`CloseError` if a component had to be aborted."""
        errors = self._stop_all()
        if errors:
            raise CloseError(str(errors[0])) from errors[0]

    def _serve(self, ready: Callable[[], None]) -> None:
        self.position.take("registers")
        self.flag.take("sets")
        for pod, container in self._exits:
            self.parts.registration.nri.notify_container_exit(pod, container)
        self._exits.clear()
        ready()

    def _all_on(self) -> bool:
        return all(part.state == "on" for part in self.parts.required)

    def _stop_all(self) -> list[OSError]:
        self.flag.take("clears")
        errors = []
        for part in self.parts:
            try:
                part.stop()
            except OSError as error:
                _log.info("could not be closed, and is aborted: %s", error)
                part.abort()
                errors.append(error)
        return errors

    async def _drain(self) -> None:
        finished = asyncio.ensure_future(until(self._changed, lambda: self.parts.monitor.state != "stopping"))
        late = asyncio.ensure_future(self._clock.sleep(DRAIN_TIMEOUT))
        await asyncio.wait({finished, late}, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        late.cancel()

    def _take_errors(self) -> list[tuple[str, Exception]]:
        named = [
            ("registration", self.parts.registration),
            ("monitor", self.parts.monitor),
            ("server", self.parts.server),
            *(("syncer", syncer) for syncer in self.parts.syncers),
        ]
        errors = [(what, part.take_error()) for what, part in named if part.state == "failed"]
        if self.parts.monitor.state == "stopping":
            errors.append(("timeout", TimeoutError("an event is still being handled")))
        return errors

    def _return(self, errors: Sequence[tuple[str, Exception]]) -> None:
        what = errors[0][0] if errors else "nothing"
        self.position.take("returns", what)
        if errors:
            raise RunError(what, *(error for _, error in errors)) from errors[0][1]


class ConstructionError(Exception):
    """A step in the construction of the service has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """The functions that make the parts of a service.

    ``platform`` returns the directories with CNI configurations. ``controller`` returns a function that passes the
    parts to the sandbox controller, or ``None`` if no controller is configured. ``queue``, ``registration`` and
    ``controller`` must not raise exceptions. All others may, including the function that ``controller`` returns.
    """

    queue: Callable[[], Queue]
    platform: Callable[[], Sequence[Path]]
    server: Callable[[], StreamingServer]
    monitor: Callable[[], EventMonitor]
    watch: Callable[[Path], Syncer]
    registration: Callable[[], Registration]
    controller: Callable[[], Callable[[Parts], object] | None]
    introspect: Callable[[], object]


class Construction:
    """The construction of a service. Each step has a method, and :meth:`make` performs all steps."""

    profile = ""

    def __init__(self, makers: Makers, *, fatal: Callable[[Exception], NoReturn] = exit_process) -> None:
        self.position = driver("service-construction", self.profile).position()
        self.makers = makers
        self.syncers: list[Syncer] = []
        self._fatal = fatal

    @property
    def running(self) -> Iterator[Component]:
        yield from reversed(self.syncers)
        if self.position.state != "begun":
            yield self.queue

    def make(self) -> CRIService:
        """Construct the service. Raise :class:`ConstructionError` and leave nothing running if that fails."""
        self.start_queue()
        folders = self.platform()
        self.make_server()
        self.make_monitor()
        for folder in folders:
            self.watch_folder(folder)
        self.set_controller()
        return CRIService(self.introspect())

    def start_queue(self) -> None:
        self.queue = self.makers.queue()
        self.position.take("start-queue")

    def platform(self) -> Sequence[Path]:
        return self._step("platform", self.makers.platform)

    def make_server(self) -> None:
        self.server = self._step("make-server", self.makers.server)

    def make_monitor(self) -> None:
        self.monitor = self._step("make-monitor", self.makers.monitor)

    def watch_folder(self, path: Path) -> None:
        self.position.outcomes("watch-folder")
        self.syncers.append(self._step("watch-folder", lambda: self.makers.watch(path)))

    def set_controller(self) -> None:
        self.parts = Parts(
            monitor=self.monitor,
            syncers=tuple(self.syncers),
            server=self.server,
            registration=self.makers.registration(),
            queue=self.queue,
        )
        controller = self.makers.controller()
        if controller is None:
            self.miss_controller()
        else:
            self._step("set-controller", lambda: controller(self.parts))

    def introspect(self) -> Parts:
        self._step("introspect", self.makers.introspect)
        return self.parts

    def miss_controller(self) -> None:
        self.fail("set-controller", "missing", LookupError("no sandbox controller is configured"))

    def fail(self, step: str, outcome: str, error: Exception) -> NoReturn:
        for part in self.running:
            part.stop()
        self.position.take(step, outcome)
        raise ConstructionError(f"{step}: {error}") from error

    def _step(self, step: str, make: Callable[[], T]) -> T:
        try:
            made = make()
        except Exception as error:  # noqa: BLE001  (any error is returned)
            self.fail(step, "failed", error)
        self.position.take(step, "done")
        return made
