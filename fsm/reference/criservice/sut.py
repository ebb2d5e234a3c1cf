"""The reference CRI service under test: real folders, sockets and tasks, and gates at which Run waits for the next step.

What is made to go wrong goes wrong in the world: a folder is removed, a
watcher closed, a socket shut or its address taken, a stream broken off, an
event kept at its handler.  Only that a server cannot be closed is pretended.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from fsm.library import load_system
from fsm.product.flatten import shown
from fsm.reference.clock import TurnedClock
from fsm.reference.criservice.components import Queue
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import (
    ArrangedRegistration,
    ArrangedServer,
    Feed,
    Gates,
    Listener,
    ProcessExitError,
    cancelled,
)
from fsm.reference.criservice.service import PATIENCE, CloseError, CRIService, Parts, RunError
from fsm.reference.criservice.syncer import Folders
from fsm.reference.criservice.upstream import AsWritten, UnrecoverableError
from fsm.reference.events.queue import EventQueue
from fsm.reference.nri.api import NRI
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fake_domain import FakeDomain
from fsm.reference.nri.messages import Container, ContainerState, Pod
from fsm.sut import BrokenError, UnsupportedError, drained

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.reference.criservice.components import Component

FOLDERS: Final = 2
TURNS: Final = 500
"""Turns of the event loop in which all that is going to happen does."""

RETURNED: Final = {"returned.registration": "returned.nri"}
"""What is returned, where the model calls it otherwise."""

IN_TASKS: Final = frozenset({"on", "stopping", "failed"})
"""Where a part is as long as it has a task."""

SYSTEM: Final = load_system("cri-service")
POD: Final = Pod(id="pod")
CONTAINER: Final = Container(id="container", pod_id="pod", state=ContainerState.RUNNING)


class CRIServiceSUT:
    """A :class:`~fsm.reference.criservice.service.CRIService` under test; of another *kind* for those who try what is noticed.

    Without the profile ``mended`` it is the service as containerd has it.

    >>> sut = CRIServiceSUT("mended")
    >>> [sut.do(event) for event in ("run", "launch", "ready", "monitor-ends", "shut-down", "run-returns")]
    ['ok', '', '', '', '', '']
    >>> sut.outputs(), sut.service.is_initialized()
    (['returned.monitor'], False)
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[CRIService] | None = None) -> None:
        self._kind = kind or (CRIService if profile == "mended" else AsWritten)
        self._runner = asyncio.Runner()
        self._home = Path(tempfile.mkdtemp(prefix="fsm-"))
        self._taken = socket.create_server(("127.0.0.1", 0))
        self._folders = self._runner.get_loop().run_until_complete(_folders())
        self._service: CRIService | None = None
        self._run: asyncio.Task[None] | None = None
        self.reset()

    def reset(self) -> None:
        """A new service, of new parts."""
        self._runner.get_loop().run_until_complete(self._rest())
        self._runner.get_loop().run_until_complete(self._made())

    def close(self) -> None:
        """Nothing is left of tasks, sockets, watches and folders."""
        self._runner.get_loop().run_until_complete(self._rest())
        self._folders.close()
        self._runner.close()
        self._taken.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def service(self) -> CRIService:
        """What is tested."""
        if self._service is None:
            raise AssertionError
        return self._service

    async def _made(self) -> None:
        self._gates, self._clock, self._feed, self._handler = Gates(), TurnedClock(), Feed(), asyncio.Event()
        self._recovery: asyncio.Future[None] | None = None
        self._run = None
        self._way, self._lingers = "", False
        self._listens = True
        self._fault = ""
        self._outputs: list[str] = []
        domains = Domains()
        self.server = ArrangedServer()
        parts = Parts(
            monitor=EventMonitor(lambda: self._feed, self._handled),
            syncers=tuple(
                self._kind.syncer(self._folders, self._home / str(each), lambda: None) for each in range(FOLDERS)
            ),
            server=self.server,
            registration=ArrangedRegistration(NRI(domains=domains, listen=self._listened), domains, FakeDomain()),
            queue=Queue(EventQueue(lambda _: None)),
        )
        self._service = self._kind(parts, self._recover, clock=self._clock, pause=self._gates.pause, fatal=self._fatal)

    async def _rest(self) -> None:
        if self._service is not None:
            for each in self._service.parts:
                each.release()
        await cancelled()

    # -- what is seen ------------------------------------------------------

    def shows(self) -> str:
        """Where Run stands, and each part; that the world is as they say is looked at, too."""
        if self._fault:
            raise BrokenError(self._fault)
        parts, states = self.service.parts, {}
        for name, part, where, is_there in (
            ("monitor", parts.monitor, {"on", "stopping", "failed"}, parts.monitor.left),
            *(
                (f"syncer.{number}", each, {"off", "on"}, not each.watcher.closed)
                for number, each in enumerate(parts.syncers, start=1)
            ),
            ("server", parts.server, {"on"}, self.server.socket is not None),
            ("server", parts.server, {"on", "failed"}, parts.server.left),
            ("nri", parts.registration, {"on"}, parts.registration.nri.state == "started"),
            ("queue", parts.queue, {"on"}, not parts.queue.queue.is_shut),
        ):
            states[name] = part.state
            if is_there != (part.state in where) and not self._has_exited:
                raise BrokenError(
                    f"{name} is {part.state}, and of it there is {'something' if is_there else 'nothing'}"
                )
        flag = "yes" if self.service.is_initialized() else "no"
        return _shown(service=self.service.position.state, flag=flag, **states)

    def outputs(self) -> list[str]:
        """What Run has returned, or that the process has exited."""
        return drained(self._outputs)

    # -- what happens ------------------------------------------------------

    def arrange(self, event: str, outcome: str) -> bool:
        """Everything can be; what the monitor is at when it is stopped stands behind the colon."""
        del event
        self._way, _, rest = outcome.partition(": ")
        self._lingers = rest == "monitor lingers"
        return True

    def do(self, event: str) -> str:
        """*event*, until there is nothing to do but to wait."""
        try:
            return self._runner.get_loop().run_until_complete(self._done(event))
        finally:
            self._way, self._lingers = "", False

    async def _done(self, event: str) -> str:
        if self._lingers:
            self._feed.put("slow")
            await self._until(lambda: self.service.parts.monitor.busy, "the monitor does not handle an event")
        self.server.refuses = self._way.endswith("not-closed")
        reply = await self._happens(event)
        await self._until(self._rests, "it does not come to rest")
        self.server.refuses = False
        await self._look()
        return reply

    async def _happens(self, event: str) -> str:
        family, _, number = event.partition(".")
        match family:
            case "run":
                return await self._called()
            case "close":
                return self._closed()
            case "container-exits":
                with suppress(ProcessExitError):
                    self.service.exited(POD, CONTAINER)
            case "monitor-finishes":
                self._handler.set()
                monitor = self.service.parts.monitor
                await self._until(lambda: monitor.state != "stopping", "the monitor does not finish")
            case "monitor-ends" | "syncer-ends" | "server-ends":
                part = self._breaks(family, int(number or 0))
                await self._until(lambda: part.state != "on", "a part that is broken does not end")
            case _:
                await self._goes_on(event)
        return ""

    async def _goes_on(self, event: str) -> None:
        """Run comes to its next phase."""
        match event:
            case "recover-fails":
                error = UnrecoverableError if self._way == "exits" else OSError
                self._recovering.set_exception(error("cannot recover"))
            case "launch":
                if self._way == "server-not-started":
                    self.server.address = self._taken.getsockname()
                self._recovering.set_result(None)
            case "ready" | "nri-fails":
                self._listens = event == "ready"
                self._let_on("register")
            case "shut-down":
                chosen = self._way.removesuffix("-not-closed")
                if isinstance(self.service, AsWritten):
                    self.service.chance = lambda ready: next(each for each in ready if each.startswith(chosen))
                self._let_on("shut-down")
            case "run-returns":
                self._clock.turn(PATIENCE)
                await self._until(lambda: self._gates.at == "return", "Run does not come to its end")
                self._let_on("return")
            case _:
                raise UnsupportedError(event)

    def _breaks(self, event: str, number: int) -> Component:
        """What breaks a part; of two folders one is removed, and one renamed."""
        parts = self.service.parts
        if event == "monitor-ends":
            self._feed.put(OSError("the stream is broken"))
            return parts.monitor
        if event == "server-ends":
            if self.server.socket is not None:
                self.server.socket.shutdown(socket.SHUT_RDWR)
            return parts.server
        syncer = parts.syncers[number - 1]
        if self._way == "ended":
            syncer.watcher.close()
        elif number == 1:
            syncer.path.rmdir()
        else:
            syncer.path.rename(self._home / "renamed")
        return syncer

    async def _called(self) -> str:
        """Run is called; what it replies where it returns at once."""
        before = self._recovery
        called = asyncio.create_task(self.service.run(self._ready))
        await self._until(lambda: called.done() or self._recovery is not before, "Run does not begin")
        if not called.done():
            self._run = called
            return "ok"
        error = called.exception()
        return "ok" if error is None else "EXIT" if isinstance(error, ProcessExitError) else "UNKNOWN"

    def _closed(self) -> str:
        try:
            self.service.close()
        except CloseError:
            return "UNKNOWN"
        return "ok"

    # -- the world ---------------------------------------------------------

    async def _recover(self) -> None:
        """Until it is said how it goes; what is there already cannot be recovered."""
        if self._way == "already-recovered":
            message = "sandbox: already exists"
            raise FileExistsError(message)
        if self._way != "exits":
            self._recovery = asyncio.get_running_loop().create_future()
            await self._recovery

    async def _handled(self, event: str) -> None:
        del event
        await self._handler.wait()

    def _listened(self, path: str) -> Listener:
        if not self._listens:
            message = f"cannot listen at {path}"
            raise OSError(message)
        return Listener()

    def _ready(self) -> None:
        if not self.service.is_initialized():
            self._fault = "it is said to be ready before it counts as initialised"

    def _fatal(self, error: Exception) -> NoReturn:
        self._outputs.append("exited")
        raise ProcessExitError from error

    # -- steps -------------------------------------------------------------

    @property
    def _has_exited(self) -> bool:
        return self.service.position.state == "exited"

    @property
    def _recovering(self) -> asyncio.Future[None]:
        if self._recovery is None or self._recovery.done():
            message = "Run does not recover"
            raise BrokenError(message)
        return self._recovery

    def _let_on(self, place: str) -> None:
        if self._gates.at != place:
            raise BrokenError(f"Run does not come to its phase {place!r}")
        self._gates.let_on()

    def _rests(self) -> bool:
        """Whether nothing happens any more, until somebody sees to it."""
        parts = self.service.parts
        if self._run is None or self._run.done() or self._has_exited:
            waits = True
        elif self.service.position.state == "recovering":
            waits = self._recovery is not None and not self._recovery.done()
        else:
            serves = self.service.position.state == "serving" and all(each.state == "on" for each in parts.watched)
            drains = self.service.position.state == "draining" and parts.monitor.state == "stopping"
            drains &= self._clock.now() < PATIENCE
            waits = bool(self._gates.at) or serves or drains
        return waits and all(each.left == (each.state in IN_TASKS) for each in (parts.monitor, parts.server))

    async def _look(self) -> None:
        """What has become of Run."""
        if self._has_exited and self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])
        elif self._run is not None and self._run.done():
            error = self._run.exception()
            if error is not None and not isinstance(error, RunError):
                raise error
            what = "returned" if error is None else f"returned.{error.what}"
            self._outputs.append(RETURNED.get(what, what))
        else:
            return
        self._run = None

    async def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        for _ in range(TURNS):
            if holds():
                return
            await asyncio.sleep(0)
        raise BrokenError(otherwise)


@cache
def _shown(**states: str) -> str:
    return shown(SYSTEM, states)


async def _folders() -> Folders:
    return Folders()
