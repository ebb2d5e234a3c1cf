"""The construction of the CRI service in steps, driven by the machine ``service-construction``; a failure leaves nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from fsm.reference.criservice.components import Component, EventMonitor, Queue, Registration, StreamingServer, Syncer
from fsm.reference.criservice.service import CRIService, Parts, exit_process
from fsm.reference.driven import driver

T = TypeVar("T")


class ConstructionError(Exception):
    """The service cannot be constructed: a step has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """A function for each part, which may raise any error.

    ``platform`` returns the folders with CNI configurations; ``controller`` what gives the parts to the controller
    of pod sandboxes, or ``None`` if none is configured.
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
    """Constructs one service with *makers*: each step is a method, and :meth:`make` does all of them."""

    profile = ""

    def __init__(self, makers: Makers, *, fatal: Callable[[Exception], NoReturn] = exit_process) -> None:
        self.position = driver("service-construction", self.profile).position()
        self.makers = makers
        self.syncers: list[Syncer] = []
        self._fatal = fatal

    @property
    def running(self) -> Iterator[Component]:
        """The components that run or watch already, and have to be stopped: the last made first."""
        yield from reversed(self.syncers)
        if self.position.state != "begun":
            yield self.queue

    def make(self) -> CRIService:
        """The service; raises :class:`ConstructionError`, and nothing is left then."""
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
        """Initialise the platform; the folders with CNI configurations."""
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
        """Ask the runtimes for their features; the parts of the service."""
        self._step("introspect", self.makers.introspect)
        return self.parts

    def miss_controller(self) -> None:
        self.fail("set-controller", "missing", LookupError("no sandbox controller is configured"))

    def fail(self, step: str, outcome: str, error: Exception) -> NoReturn:
        """Let *step* end in *outcome* because of *error*, and stop everything."""
        for each in self.running:
            each.stop()
        self.position.take(step, outcome)
        raise ConstructionError(f"{step}: {error}") from error

    def _step(self, step: str, make: Callable[[], T]) -> T:
        try:
            made = make()
        except Exception as error:  # noqa: BLE001  (any error is returned)
            self.fail(step, "failed", error)
        self.position.take(step, "done")
        return made
