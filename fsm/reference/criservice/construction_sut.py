"""The construction of the reference CRI service under test: what it shows is what is there in the world."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from fsm.reference.criservice.components import Queue, Registration
from fsm.reference.criservice.construction import AsWritten, Construction, ConstructionError, Makers
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import Feed, ProcessExitError, cancelled
from fsm.reference.criservice.streaming import StreamingServer
from fsm.reference.criservice.syncer import Folders, Syncer
from fsm.reference.events.queue import EventQueue
from fsm.reference.nri.api import NRI
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fake_domain import FakeDomain
from fsm.sut import drained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.reference.criservice.components import Component
    from fsm.reference.criservice.service import Parts

FAILS: Final = ("failed", "missing")
LEAKS: Final = ("-leaks", "-panics")
"""How outcomes end for which the world has to be against it, as it should be and as it is."""


class Controller:
    """A sandbox controller that is content with any service."""

    def init(self, parts: Parts) -> None:
        """Nothing."""


class ConstructionSUT:
    """A :class:`~fsm.reference.criservice.construction.Construction` under test; of another *kind* for those who try what is noticed.

    >>> sut = ConstructionSUT()
    >>> [sut.do(step) for step in ("start-queue", "platform", "make-server", "make-monitor", "watch-folder")][0]
    ''
    >>> sut.shows(), sut.arrange("set-controller", "missing"), sut.do("set-controller"), sut.shows()
    ('watchers', True, '', 'nothing')
    >>> sut.outputs()
    ['error']
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[Construction] | None = None) -> None:
        self._kind = kind or (AsWritten if profile == "as-written" else Construction)
        self._runner = asyncio.Runner()
        self._home = Path(tempfile.mkdtemp(prefix="fsm-"))
        (self._home / "file").touch()
        self._folders = self._runner.run(self._watches())
        self._construction: Construction | None = None
        self._made: list[Component] = []
        self.reset()

    def reset(self) -> None:
        """Nothing was made."""
        self._runner.run(self._rest())
        self._outputs: list[str] = []
        self._fails = False
        self._made = []
        self._construction = self._kind(
            Makers(
                queue=self._queue,
                platform=self._platform,
                server=self._server,
                monitor=lambda: EventMonitor(Feed, self._handled),
                watch=self._watch,
                registration=self._registration,
                controller=lambda: None if self._fails else Controller(),
                introspect=self._introspect,
            ),
            fatal=self._fatal,
        )

    def close(self) -> None:
        """Nothing is left of event loop and folders."""
        self._runner.run(self._rest())
        self._folders.close()
        self._runner.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def construction(self) -> Construction:
        """What is tested."""
        if self._construction is None:
            raise AssertionError
        return self._construction

    def shows(self) -> str:
        """What runs, and watches."""
        queues = [each for each in self._made if isinstance(each, Queue) and not each.queue.is_shut]
        if self._folders.watched:
            return "watchers" if queues else "watchers without a queue"
        return "queue" if queues else "nothing"

    def outputs(self) -> list[str]:
        """What the caller was given, or that the process has ended."""
        return drained(self._outputs)

    def arrange(self, event: str, outcome: str) -> bool:
        """Whether the step fails; how it does then is not for the world to say."""
        del event
        self._fails = outcome.endswith(LEAKS if issubclass(self._kind, AsWritten) else FAILS)
        return self._fails or not outcome.endswith(LEAKS + FAILS)

    def do(self, event: str) -> str:
        """One step."""
        try:
            self._runner.run(self._step(event))
        except ConstructionError:
            self._outputs.append("error")
        except ProcessExitError:
            self._outputs.append("panic")
            self._runner.run(self._rest())
        finally:
            self._fails = False
        return ""

    async def _step(self, event: str) -> None:
        if event == "watch-folder":
            name = "file/folder" if self._fails else str(len(self.construction.syncers))
            self.construction.watch_folder(self._home / name)
        else:
            getattr(self.construction, event.replace("-", "_"))()
        if event == "introspect":
            self._outputs.append("made")

    # -- the world -----------------------------------------------------------

    async def _watches(self) -> Folders:
        return Folders()

    async def _rest(self) -> None:
        """The process ends, and takes all with it."""
        for each in self._made:
            each.release()
        await cancelled()

    def _queue(self) -> Queue:
        queue = Queue(EventQueue(lambda _: None))
        self._made.append(queue)
        return queue

    def _watch(self, path: Path) -> Syncer:
        syncer = Syncer(self._folders, path, lambda: None)
        self._made.append(syncer)
        return syncer

    def _platform(self) -> Sequence[Path]:
        self._against("no CNI plugin can be had")
        return ()

    def _server(self) -> StreamingServer:
        self._against("a certificate is missing")
        return StreamingServer()

    def _introspect(self) -> None:
        self._against("runtimes cannot be asked")

    def _registration(self) -> Registration:
        return Registration(NRI(), Domains(), FakeDomain())

    async def _handled(self, event: str) -> None:
        """Nothing."""

    def _fatal(self, error: Exception) -> NoReturn:
        raise ProcessExitError from error

    def _against(self, why: str) -> None:
        if self._fails:
            raise OSError(why)
