"""How the CRI service is made, step by step, as the machine ``service-construction`` says: what fails leaves nothing behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from fsm.library import load
from fsm.machine.driver import Driver
from fsm.reference.criservice.service import CRIService, Parts, exit_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from fsm.reference.criservice.components import Component, Queue, Registration
    from fsm.reference.criservice.event_monitor import EventMonitor
    from fsm.reference.criservice.streaming import StreamingServer
    from fsm.reference.criservice.syncer import Syncer

T = TypeVar("T")


class ConstructionError(Exception):
    """The service cannot be made: a step has failed."""


class SandboxController(Protocol):
    """The controller of pod sandboxes, which uses the service."""

    def init(self, parts: Parts) -> None:
        """What the service is made of is *parts*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """What each step makes, or why it cannot: whatever they raise.

    ``platform`` gives the folders with CNI configurations, ``watch`` the
    syncer of one; ``controller`` is ``None`` where none is configured.
    """

    queue: Callable[[], Queue]
    platform: Callable[[], Sequence[Path]]
    server: Callable[[], StreamingServer]
    monitor: Callable[[], EventMonitor]
    watch: Callable[[Path], Syncer]
    registration: Callable[[], Registration]
    controller: Callable[[], SandboxController | None]
    introspect: Callable[[], object]


class Construction:
    """Makes one service with *makers*; each step is a method, :meth:`make` takes all of them in order."""

    profile = ""
    """That of the machine."""

    def __init__(self, makers: Makers, *, fatal: Callable[[Exception], NoReturn] = exit_process) -> None:
        self.position = _driver(self.profile).position()
        self.makers = makers
        self.syncers: list[Syncer] = []
        self._fatal = fatal

    @property
    def held(self) -> Iterator[Component]:
        """What runs, or watches, and has to be stopped: last made first."""
        yield from reversed(self.syncers)
        if self.position.state != "begun":
            yield self.queue

    def make(self) -> CRIService:
        """The service; raises :class:`ConstructionError`, and then nothing is left of it."""
        self.start_queue()
        folders = self.platform()
        self.make_server()
        self.make_monitor()
        for folder in folders:
            self.watch_folder(folder)
        self.set_controller()
        return CRIService(self.introspect())

    # -- steps ---------------------------------------------------------------

    def start_queue(self) -> None:
        """The queue of container events runs from now on."""
        self.queue = self.makers.queue()
        self.position.take("start-queue")

    def platform(self) -> Sequence[Path]:
        """The folders in which there are CNI configurations."""
        return self._done("platform", self.makers.platform)

    def make_server(self) -> None:
        """The streaming server, which listens to nobody yet."""
        self.server = self._done("make-server", self.makers.server)

    def make_monitor(self) -> None:
        """The event monitor, which has not subscribed yet."""
        self.monitor = self._done("make-monitor", self.makers.monitor)

    def watch_folder(self, path: Path) -> None:
        """The folder *path* is watched from now on."""
        self.position.ways("watch-folder")
        self.syncers.append(self._done("watch-folder", lambda: self.makers.watch(path)))

    def set_controller(self) -> None:
        """The controller is given the parts of the service."""
        self.parts = Parts(
            monitor=self.monitor,
            syncers=tuple(self.syncers),
            server=self.server,
            registration=self.makers.registration(),
            queue=self.queue,
        )
        controller = self.makers.controller()
        if controller is None:
            self.missing()
        else:
            self._done("set-controller", lambda: controller.init(self.parts))

    def introspect(self) -> Parts:
        """Ask the runtimes for their features; what the service is made of is ready then."""
        self._done("introspect", self.makers.introspect)
        return self.parts

    # -- what goes wrong -------------------------------------------------------

    def missing(self) -> None:
        """There is no controller."""
        self.failed("set-controller", "missing", LookupError("no sandbox controller is configured"))

    def failed(self, step: str, outcome: str, error: Exception) -> NoReturn:
        """*step* ends in *outcome*, because of *error*: nothing is left."""
        for each in self.held:
            each.stop()
        self.position.take(step, outcome)
        message = f"{step}: {error}"
        raise ConstructionError(message) from error

    def _done(self, step: str, make: Callable[[], T]) -> T:
        try:
            made = make()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is returned)
            self.failed(step, "failed", error)
        self.position.take(step, "done")
        return made


class AsWritten(Construction):
    """As containerd makes it: an error is returned at once, and what was made goes on."""

    profile = "as-written"

    def missing(self) -> None:
        """It is not looked whether there is a controller."""
        self._deviate("set-controller")
        message = "interface conversion: interface is nil, not *podsandbox.Controller"
        self._fatal(TypeError(message))

    def failed(self, step: str, outcome: str, error: Exception) -> NoReturn:
        """Return."""
        del outcome
        self._deviate(step)
        message = f"{step}: {error}"
        raise ConstructionError(message) from error

    def _deviate(self, step: str) -> None:
        """Go the way that the machine has only as it is written."""
        (way,) = (each.name for each in self.position.ways(step) if each.to.startswith(("leaked", "panicked")))
        self.position.take(step, way)


@cache
def _driver(profile: str) -> Driver:
    machine = load("service-construction")
    return Driver(machine.under(profile))
