"""The construction of the reference CRI service under test; it shows what runs and watches in the world."""

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeVar

from fsm.reference.criservice.components import Component, Queue, Registration, StreamingServer
from fsm.reference.criservice.construction import Construction, ConstructionError, Makers
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import Feed, ProcessExitError, ServiceSUT
from fsm.reference.criservice.service import nothing
from fsm.reference.criservice.syncer import Syncer
from fsm.reference.criservice.upstream import UpstreamConstruction
from fsm.reference.nri.api import NRI
from fsm.reference.nri.domain import Domain, Domains

C = TypeVar("C", bound=Component)
T = TypeVar("T")

FAILS: Final = ("failed", "missing")
LEAKS: Final = ("leaked", "panic")
"""The outcomes in which a step fails, as it should and as in containerd."""


class ConstructionSUT(ServiceSUT[Construction]):
    """A :class:`~fsm.reference.criservice.construction.Construction` under test."""

    machine = "service-construction"
    kinds = (Construction, UpstreamConstruction)

    async def _begin(self) -> None:
        (self._home / "file").touch()
        self._fails = False
        self._made: list[Component] = []
        makers = Makers(
            queue=lambda: self._kept(Queue()),
            platform=lambda: self._unless_it_fails((), "no CNI plugin is installed"),
            server=lambda: self._unless_it_fails(StreamingServer(), "a certificate is missing"),
            monitor=lambda: EventMonitor(Feed, nothing),
            watch=lambda path: self._kept(Syncer(self._watches, path, lambda: None)),
            registration=lambda: Registration(NRI(), Domains(), Domain()),
            controller=lambda: None if self._fails else bool,
            introspect=lambda: self._unless_it_fails(None, "runtimes cannot be asked"),
        )
        self.construction = self._kind(makers, fatal=self._fatal)

    def _components(self) -> list[Component]:
        return self._made

    def shows(self) -> str:
        queues = [each for each in self._made if isinstance(each, Queue) and not each.queue.is_shut]
        if self._watches.count:
            return "watchers" if queues else "watchers without a queue"
        return "queue" if queues else "nothing"

    def arrange(self, event: str, outcome: str) -> bool:
        """Let the step fail or not; in which way it fails cannot be chosen."""
        del event
        self._fails = outcome in (LEAKS if issubclass(self._kind, UpstreamConstruction) else FAILS)
        return self._fails or outcome not in LEAKS + FAILS

    def _actions(self) -> Mapping[str, Callable[[], object]]:
        construction = self.construction
        folder = self._home / ("file/folder" if self._fails else str(len(construction.syncers)))
        return {
            "start-queue": construction.start_queue,
            "platform": construction.platform,
            "make-server": construction.make_server,
            "make-monitor": construction.make_monitor,
            "watch-folder": lambda: construction.watch_folder(folder),
            "set-controller": construction.set_controller,
            "introspect": self._introspect,
        }

    async def _settle(self, act: Callable[[], object]) -> None:
        try:
            act()
        except ConstructionError:
            self._outputs.append("error")
        except ProcessExitError:
            self._outputs.append("panic")
            await self._end()

    def _introspect(self) -> None:
        self.construction.introspect()
        self._outputs.append("made")

    def _mend(self) -> None:
        self._fails = False

    def _kept(self, component: C) -> C:
        self._made.append(component)
        return component

    def _fatal(self, error: Exception) -> NoReturn:
        raise ProcessExitError from error

    def _unless_it_fails(self, part: T, why: str) -> T:
        if self._fails:
            raise OSError(why)
        return part
