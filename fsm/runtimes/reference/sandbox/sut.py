"""The reference sandbox controller under test, with real processes that can fail."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.container.world import Exit, Processes
from fsm.runtimes.reference.driven import ABSENT, CallError
from fsm.runtimes.reference.harness import Action, LoopSUT, methods, turns
from fsm.runtimes.reference.sandbox.controller import MACHINE, Controller, Sandbox, UpstreamController
from fsm.sut import BrokenError, UnsupportedError

POD: Final = "pod"

FAULTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    **dict.fromkeys([("create", "created"), ("start", "started"), ("stop", "stopped"), ("stop", "cleaned")], ()),
    **dict.fromkeys([("shutdown", "removed"), ("handle", "deleted")], ()),
    ("create", "failed"): ("read",),
    ("start", "undone"): ("run",),
    ("start", "left-over"): ("run", "undo"),
    **dict.fromkeys([("stop", "gone"), ("handle", "gone")], ("no task",)),
    **dict.fromkeys([("stop", "kept"), ("handle", "kept")], ("delete",)),
    ("stop", "uncleaned"): ("clean",),
    ("stop", "gone-uncleaned"): ("no task", "clean"),
    ("stop", "kept-uncleaned"): ("delete", "clean"),
    ("stop", "cut-short"): ("late",),
    ("stop", "failed"): ("kill", "clean"),
    ("shutdown", "half"): ("forget",),
    ("shutdown", "failed"): ("clear",),
}
"""Maps an event and its outcome to the faults that cause it."""

NOT_UPSTREAM: Final = frozenset({"undone", "left-over", "kept", "kept-uncleaned", "gone", "gone-uncleaned"})
"""Outcomes that containerd does not have."""


class PodSandboxSUT(LoopSUT[Controller]):
    """A :class:`~fsm.runtimes.reference.sandbox.controller.Controller` under test."""

    machine = MACHINE
    turns = 1
    kinds = (Controller, UpstreamController)

    def reset(self) -> None:
        super().reset()
        self._home = self._new_folder()
        self.clock = TurnedClock(hurried=True)
        self._numbers = count()
        self._waiting: asyncio.Task[Exit] | None = None
        self.controller = self._kind(self._world, self.clock, on_exit=lambda _: self._outputs.append("wake"))
        self._runner.run(self._begin())

    async def _begin(self) -> None:
        self._last = self.controller.find(POD)

    @property
    def _stored(self) -> Sandbox | None:
        return self.controller._store.get(POD)  # noqa: SLF001  (calling status would be an event)

    def shows(self) -> str:
        return self._stored.record.state if self._stored else ABSENT

    def record(self) -> dict[str, Any]:
        record = self._stored and self._stored.record
        return {"pid": record.pid, "created": record.created_at, "exit": record.exit} if record else {}

    def arrange(self, event: str, outcome: str) -> bool:
        faults = FAULTS.get((event, outcome))
        upstream = isinstance(self.controller, UpstreamController)
        if faults is None or (upstream and (outcome in NOT_UPSTREAM or event in {"shutdown", "create"})):
            return False
        self.faults.clear()
        self.faults.update(faults)
        return True

    def begin(self, event: str) -> str | None:
        code = self._reply(event, self._begin_wait)
        return None if code == "ok" else code

    def end(self, event: str) -> str:
        """End the wait with the exit, or cancel it if no exit has occurred."""
        return self._reply(event, self._end_wait)

    def _actions(self) -> Mapping[str, Action]:
        return {
            **methods(self.controller, "stop", "shutdown", "status", "platform", "update", arguments=(POD,)),
            "create": self._create,
            "start": self._start,
            "wait": lambda: self._finish(asyncio.create_task(self.controller.wait(POD))),
            "exit": self._last.world.die,
            "handle": self._handle,
            "unwatched": self._break_watch,
        }

    def _start(self) -> None:
        with suppress(CannotHappenError):  # a second start is unspecified
            self.controller.start(POD)

    async def _create(self) -> None:
        self.controller.create(POD)
        self._last = self.controller._store[POD]  # noqa: SLF001
        if self._waiting is not None:  # a wait for the old sandbox becomes a wait for the new one of the same name
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
            self._waiting = asyncio.create_task(self.controller.wait(POD))

    async def _handle(self) -> None:
        watch = self._last.watch
        if watch is not None and not watch.done():
            self._last.world.gate.set()
            await asyncio.wait([watch])
        elif due := self.controller.retries.delay(POD):
            self.clock.turn(due)
            await self.controller.retries.tick()
        else:
            self.controller.handle(self._last, Exit(9, 9))

    async def _break_watch(self) -> None:
        world = self._last.world
        world.breaks = True
        world.gate.set()
        await turns(4)

    async def _begin_wait(self) -> None:
        waiting = asyncio.create_task(self.controller.wait(POD))
        await turns(2)
        if waiting.done():
            await waiting
        self._waiting = waiting

    async def _end_wait(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            raise UnsupportedError("no wait is in progress")
        await self._finish(waiting)

    async def _finish(self, waiting: asyncio.Task[Exit]) -> None:
        await turns(4)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
            if self._last.record.exit is not None:
                raise BrokenError("it has exited, but a waiting caller is not notified")
            raise CallError("wait", "CANCELED", "it has not exited")
        await waiting

    def _world(self, _name: str) -> Processes:
        root = self._home / f"{next(self._numbers)}"
        world = Processes(root, faults=self.faults, hook=lambda: self._outputs.append("hook"))
        world.gate.clear()
        self._scope.callback(world.end)
        return world
