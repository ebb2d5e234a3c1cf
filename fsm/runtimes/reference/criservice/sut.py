"""The reference CRI service under test, with a gate before each phase of Run.

Directories, sockets, tasks and failures are real. Only an error from closing the server is simulated.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final, NoReturn

from fsm.language.library import load_system
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.criservice import DRAIN_TIMEOUT, CloseError, CRIService, Parts, RunError
from fsm.runtimes.reference.criservice.components import Component, EventMonitor, Queue, Registration, StreamingServer
from fsm.runtimes.reference.criservice.parts_sut import Feed, ProcessExitError, ServiceSUT
from fsm.runtimes.reference.criservice.upstream import UnrecoverableError, UpstreamService
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.messages import Container, ContainerState, Domain, Pod
from fsm.sut import BrokenError, UnsupportedError

FOLDERS: Final = 2
TURNS: Final = 500
"""Number of event loop iterations after which nothing more will happen."""

WITH_TASK: Final = frozenset({"on", "stopping", "failed"})

SYSTEM: Final = load_system("cri-service")
POD: Final = Pod(id="pod")
CONTAINER: Final = Container(id="container", pod_id="pod", state=ContainerState.RUNNING)


class Gate:
    def __init__(self) -> None:
        self.at = ""
        self._opened = asyncio.Event()

    async def pause(self, phase: str) -> None:
        self.at = phase
        await self._opened.wait()
        self._opened.clear()

    def open(self, phase: str) -> None:
        if self.at != phase:
            raise BrokenError(f"Run does not reach its phase {phase!r}")
        self.at = ""
        self._opened.set()


class StubbornServer(StreamingServer):
    refuses = False

    def close(self) -> None:
        if self.refuses:
            self.refuses = False
            raise OSError("use of closed network connection")
        super().close()


class ImmediateRegistration(Registration):
    async def join(self) -> None:
        self.nri.domains.register(self._domain)
        self.nri.start()


class CRIServiceSUT(ServiceSUT[CRIService]):
    """The CRI service under test. Except under the profile ``mended``, this is containerd's service.

    >>> sut = CRIServiceSUT("mended")
    >>> [sut.do(event) for event in ("run", "launch", "ready", "monitor-ends", "shut-down", "run-returns")]
    ['ok', '', '', '', '', '']
    >>> sut.outputs(), sut.service.is_initialized()
    (['returned.monitor'], False)
    >>> sut.close()
    """

    kinds = (UpstreamService, CRIService)
    profiles = ("mended",)

    def __init__(self, profile: str = "", kind: type[CRIService] | None = None) -> None:
        super().__init__(profile, kind)
        self._in_use = self._lasting.enter_context(socket.create_server(("127.0.0.1", 0)))

    async def _begin(self) -> None:
        self._gate, self._feed, self._handled = Gate(), Feed(), asyncio.Event()
        self._clock = TurnedClock()
        self._recovery: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running: asyncio.Task[None] | None = None
        self._outcome, self._lingers = "", False
        self._listens = True
        folders = [self._home / str(number) for number in range(FOLDERS)]
        self.server = StubbornServer()
        parts = Parts(
            monitor=EventMonitor(lambda: self._feed, lambda _: self._handled.wait()),
            syncers=tuple(self._kind.syncer(self._watches, folder, lambda: None) for folder in folders),
            server=self.server,
            registration=ImmediateRegistration(NRI(listen=self._listen), Domain()),
            queue=Queue(),
        )
        self._made += parts
        self.service = self._kind(parts, self._recover, clock=self._clock, pause=self._gate.pause, fatal=self._fatal)

    def shows(self) -> str:
        parts, states = self.service.parts, {}
        for name, part, expected, exists in (
            ("monitor", parts.monitor, {"on", "stopping", "failed"}, parts.monitor.has_task),
            *(
                (f"syncer.{number}", syncer, {"off", "on"}, not syncer.watcher.closed)
                for number, syncer in enumerate(parts.syncers, start=1)
            ),
            ("server", parts.server, {"on"}, self.server.socket is not None),
            ("server", parts.server, {"on", "failed"}, parts.server.has_task),
            ("nri", parts.registration, {"on"}, parts.registration.nri.state == "started"),
            ("queue", parts.queue, {"on"}, not parts.queue.queue.is_shut),
        ):
            states[name] = part.state
            if exists != (part.state in expected) and not self._has_exited:
                raise BrokenError(f"{name} is {part.state}, and {'something' if exists else 'nothing'} of it is left")
        flag = "yes" if self.service.is_initialized() else "no"
        return _system_shows(service=self.service.position.state, flag=flag, **states)

    def arrange(self, _event: str, outcome: str) -> bool:
        self._outcome, _, rest = outcome.partition(": ")
        self._lingers = rest == "monitor lingers"
        return True

    def do(self, event: str) -> str:
        try:
            return self._runner.run(self._do(event))
        finally:
            self._outcome, self._lingers = "", False

    async def _do(self, event: str) -> str:
        if self._lingers:
            self._feed.put_nowait("slow")
            await self._run_until(lambda: self.service.parts.monitor.busy, "the monitor does not handle an event")
        self.server.refuses = self._outcome.endswith("not-closed")
        reply = await self._happen(event)
        await self._run_until(self._is_waiting, "it does not come to rest")
        self.server.refuses = False
        await self._collect_result()
        return reply

    async def _happen(self, event: str) -> str:
        family, _, number = event.partition(".")
        match family:
            case "run":
                return await self._call_run()
            case "close":
                try:
                    self.service.close()
                except CloseError:
                    return "UNKNOWN"
                return "ok"
            case "container-exits":
                with suppress(ProcessExitError):
                    self.service.exited(POD, CONTAINER)
            case "monitor-finishes":
                self._handled.set()
                monitor = self.service.parts.monitor
                await self._run_until(lambda: monitor.state != "stopping", "the monitor does not finish")
            case "monitor-ends" | "syncer-ends" | "server-ends":
                part = self._break_component(family, int(number or 0))
                await self._run_until(lambda: part.state != "on", "a broken component does not end")
            case _:
                await self._continue_run(event)
        return ""

    async def _continue_run(self, event: str) -> None:
        match event:
            case "recover-fails":
                error = UnrecoverableError if self._outcome == "exits" else OSError
                self._recovery.set_exception(error("cannot recover"))
            case "launch":
                if self._outcome == "server-not-started":
                    self.server.address = self._in_use.getsockname()
                self._recovery.set_result(None)
            case "ready" | "nri-fails":
                self._listens = event == "ready"
                self._gate.open("register")
            case "shut-down":
                chosen = self._outcome.removesuffix("-not-closed")
                if isinstance(self.service, UpstreamService):
                    self.service.chance = lambda ready: next(name for name in ready if name.startswith(chosen))
                self._gate.open("shut-down")
            case "run-returns":
                self._clock.turn(DRAIN_TIMEOUT)
                await self._run_until(lambda: self._gate.at == "return", "Run does not reach its end")
                self._gate.open("return")
            case _:
                raise UnsupportedError(event)

    def _break_component(self, event: str, number: int) -> Component:
        parts = self.service.parts
        if event == "monitor-ends":
            self._feed.put_nowait(OSError("the stream is broken"))
            return parts.monitor
        if event == "server-ends":
            if self.server.socket is not None:
                self.server.socket.shutdown(socket.SHUT_RDWR)
            return parts.server
        syncer = parts.syncers[number - 1]
        if self._outcome == "ended":
            syncer.watcher.close()
        elif number == 1:
            syncer.path.rmdir()
        else:
            syncer.path.rename(self._home / "renamed")
        return syncer

    async def _call_run(self) -> str:
        before = self._recovery
        called = asyncio.create_task(self.service.run(self._check_initialized))
        await self._run_until(lambda: called.done() or self._recovery is not before, "Run does not begin")
        if not called.done():
            self._running = called
            return "ok"
        error = called.exception()
        return "ok" if error is None else "EXIT" if isinstance(error, ProcessExitError) else "UNKNOWN"

    async def _recover(self) -> None:
        if self._outcome == "already-recovered":
            raise FileExistsError("sandbox: already exists")
        if self._outcome != "exits":
            self._recovery = asyncio.get_running_loop().create_future()
            await self._recovery

    def _listen(self, path: str) -> Callable[[], object]:
        if not self._listens:
            raise OSError(f"cannot listen at {path}")
        return bool

    def _check_initialized(self) -> None:
        if not self.service.is_initialized():
            raise BrokenError("it signals that it is ready before it counts as initialised")

    def _fatal(self, error: Exception) -> NoReturn:
        self._outputs.append("exited")
        raise ProcessExitError from error

    @property
    def _has_exited(self) -> bool:
        return self.service.position.state == "exited"

    def _is_waiting(self) -> bool:
        parts = self.service.parts
        if self._running is None or self._running.done() or self._has_exited:
            waits = True
        elif self.service.position.state == "recovering":
            waits = not self._recovery.done()
        else:
            serves = self.service.position.state == "serving" and all(part.state == "on" for part in parts.required)
            drains = self.service.position.state == "draining" and parts.monitor.state == "stopping"
            drains &= self._clock.now() < DRAIN_TIMEOUT
            waits = bool(self._gate.at) or serves or drains
        return waits and all(part.has_task == (part.state in WITH_TASK) for part in (parts.monitor, parts.server))

    async def _collect_result(self) -> None:
        if self._has_exited and self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        elif self._running is not None and self._running.done():
            error = self._running.exception()
            if error is not None and not isinstance(error, RunError):
                raise error
            what = "" if error is None else ".nri" if error.what == "registration" else f".{error.what}"
            self._outputs.append(f"returned{what}")
        else:
            return
        self._running = None

    async def _run_until(self, holds: Callable[[], bool], why: str) -> None:
        for _ in range(TURNS):
            if holds():
                return
            await asyncio.sleep(0)
        raise BrokenError(why)


@cache
def _system_shows(**states: str) -> str:
    return SYSTEM.shows(states)
