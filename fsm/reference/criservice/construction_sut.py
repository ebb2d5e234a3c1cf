"""The construction of the reference CRI service under test; it shows what runs and watches in the world."""

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from fsm.reference.criservice.components import Component, Queue, Registration
from fsm.reference.criservice.construction import Construction, ConstructionError, Makers
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import Feed, ProcessExitError, ServiceSUT, empty_queue
from fsm.reference.criservice.streaming import StreamingServer
from fsm.reference.criservice.syncer import Syncer
from fsm.reference.criservice.upstream import UpstreamConstruction
from fsm.reference.nri.api import NRI
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fakes import FakeDomain

C = TypeVar("C", bound=Component)
T = TypeVar("T")

FAILS: Final = ("failed", "missing")
LEAKS: Final = ("-leaks", "-panics")
"""The endings of outcomes in which a step fails, as it should and as in containerd."""


class ConstructionSUT(ServiceSUT):
    """A :class:`~fsm.reference.criservice.construction.Construction` under test; *kind* may have planted bugs."""

    def __init__(self, profile: str = "", *, kind: type[Construction] | None = None) -> None:
        self._kind = kind or (UpstreamConstruction if profile == "upstream" else Construction)
        super().__init__()
        (self._home / "file").touch()

    async def _begin(self) -> None:
        await super()._begin()
        self._fails = False
        self._made: list[Component] = []
        makers = Makers(
            queue=lambda: self._kept(empty_queue()),
            platform=lambda: self._unless_it_fails((), "no CNI plugin is installed"),
            server=lambda: self._unless_it_fails(StreamingServer(), "a certificate is missing"),
            monitor=lambda: EventMonitor(Feed, self._handle),
            watch=lambda path: self._kept(Syncer(self._watches, path, lambda: None)),
            registration=lambda: Registration(NRI(), Domains(), FakeDomain()),
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
        self._fails = outcome.endswith(LEAKS if issubclass(self._kind, UpstreamConstruction) else FAILS)
        return self._fails or not outcome.endswith(LEAKS + FAILS)

    def do(self, event: str) -> str:
        try:
            self._loop.run_until_complete(self._step(event))
        except ConstructionError:
            self._outputs.append("error")
        except ProcessExitError:
            self._outputs.append("panic")
            self._loop.run_until_complete(self._end())
        finally:
            self._fails = False
        return ""

    async def _step(self, event: str) -> None:
        folder = self._home / ("file/folder" if self._fails else str(len(self.construction.syncers)))
        actions: dict[str, Callable[[], object]] = {
            "start-queue": self.construction.start_queue,
            "platform": self.construction.platform,
            "make-server": self.construction.make_server,
            "make-monitor": self.construction.make_monitor,
            "watch-folder": lambda: self.construction.watch_folder(folder),
            "set-controller": self.construction.set_controller,
            "introspect": self.construction.introspect,
        }
        actions[event]()
        self._outputs += ["made"] * (event == "introspect")

    def _kept(self, component: C) -> C:
        self._made.append(component)
        return component

    async def _handle(self, event: str) -> None: ...

    def _fatal(self, error: Exception) -> NoReturn:
        raise ProcessExitError from error

    def _unless_it_fails(self, part: T, why: str) -> T:
        if self._fails:
            raise OSError(why)
        return part
