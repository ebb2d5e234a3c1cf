"""SUTs for the construction and the event monitor of the reference CRI service, and their base class."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final, NoReturn, TypeVar

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.clock import cancel_others
from fsm.runtimes.reference.criservice import Construction, ConstructionError, Makers, nothing
from fsm.runtimes.reference.criservice.components import (
    Component,
    EventMonitor,
    Queue,
    Registration,
    StreamingServer,
    Syncer,
    Watches,
)
from fsm.runtimes.reference.criservice.upstream import UpstreamConstruction
from fsm.runtimes.reference.driven import Action, K, LoopSUT, methods
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.messages import Domain
from fsm.sut import BrokenError

C = TypeVar("C", bound=Component)
T = TypeVar("T")

FAILS: Final = ("failed", "missing")
LEAKS: Final = ("leaked", "panic")
"""Behaviour when a step fails. ``FAILS`` is intended, but containerd shows ``LEAKS``."""

SHOWS: Final = {"off": "idle", "on": "running", "closed": "stopped", "ended": "stopped", "failed": "failed"}


class ProcessExitError(Exception):
    """Raised instead of exiting the process."""


class ServiceSUT(LoopSUT[K]):
    def reset(self) -> None:
        super().reset()
        self._home = self._new_folder()
        self._made: list[Component] = []
        self._runner.run(self._begin())
        self._scope.callback(lambda: self._runner.run(self._end()))

    @cached_property
    def _watches(self) -> Watches:
        watches = Watches(self._runner.get_loop())
        self._lasting.callback(watches.close)
        return watches

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        for component in self._made:
            component.discard()
        await cancel_others()


class Feed(asyncio.Queue[str | Exception], AsyncIterator[tuple[str, str]]):
    async def __anext__(self) -> tuple[str, str]:
        event = await self.get()
        if isinstance(event, Exception):
            raise event
        return "container", event


class ConstructionSUT(ServiceSUT[Construction]):
    machine = "service-construction"
    kinds = (Construction, UpstreamConstruction)

    async def _begin(self) -> None:
        (self._home / "file").touch()
        self._fails = False
        makers = Makers(
            queue=lambda: self._keep_component(Queue()),
            platform=lambda: self._fail_or_return((), "no CNI plugin is installed"),
            server=lambda: self._fail_or_return(StreamingServer(), "a certificate is missing"),
            monitor=lambda: EventMonitor(Feed, nothing),
            watch=lambda path: self._keep_component(Syncer(self._watches, path, lambda: None)),
            registration=lambda: Registration(NRI(), Domain()),
            controller=lambda: None if self._fails else bool,
            introspect=lambda: self._fail_or_return(None, "runtimes cannot be asked"),
        )
        self.construction = self._kind(makers, fatal=self._fatal)

    def shows(self) -> str:
        queues = [part for part in self._made if isinstance(part, Queue) and not part.queue.is_shut]
        if self._watches.count:
            return "watchers" if queues else "watchers without a queue"
        return "queue" if queues else "nothing"

    def arrange(self, _event: str, outcome: str) -> bool:
        self._fails = outcome in (LEAKS if issubclass(self._kind, UpstreamConstruction) else FAILS)
        return self._fails or outcome not in LEAKS + FAILS

    def _actions(self) -> Mapping[str, Action]:
        construction = self.construction
        folder = self._home / ("file/folder" if self._fails else str(len(construction.syncers)))
        return {
            **methods(construction, "start-queue", "platform", "make-server", "make-monitor", "set-controller"),
            "watch-folder": lambda: construction.watch_folder(folder),
            "introspect": self._introspect,
        }

    async def _settle(self, act: Action) -> None:
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

    def _clear_faults(self) -> None:
        self._fails = False

    def _keep_component(self, component: C) -> C:
        self._made.append(component)
        return component

    def _fatal(self, error: Exception) -> NoReturn:
        raise ProcessExitError from error

    def _fail_or_return(self, part: T, why: str) -> T:
        if self._fails:
            raise OSError(why)
        return part


class MonitorSUT(LoopSUT[EventMonitor]):
    machine = "event-monitor"
    turns = 20
    kinds = (EventMonitor,)

    def reset(self) -> None:
        super().reset()
        self._feed = Feed()
        self.monitor = self._kind(lambda: self._feed, nothing)

    def shows(self) -> str:
        shown = SHOWS[self.monitor.state]
        if self.monitor.has_task != (shown in {"running", "failed"}):
            raise BrokenError(f"it is {shown}, and has {'a' if self.monitor.has_task else 'no'} task")
        return shown

    def _actions(self) -> Mapping[str, Action]:
        return {
            **methods(self.monitor, "subscribe", "stop"),
            "start": self._start,
            "stream-ends": lambda: self._feed.put_nowait(OSError("the stream is broken")),
        }

    def _start(self) -> None:
        with suppress(CannotHappenError):  # the machine does not specify a second start
            self.monitor.start()

    async def _settle(self, act: Action) -> None:
        before = self.monitor.state
        await super()._settle(act)
        if before != self.monitor.state == "failed":
            self._outputs.append("error")
