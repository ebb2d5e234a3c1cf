"""The reference pods and the reference sandbox controller under test, with real processes and files that can fail."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.names import NOT_READY, READY
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.container.world import Exit, Processes
from fsm.runtimes.reference.driven import (
    ABSENT,
    DAMAGE,
    Action,
    CallError,
    CrashedError,
    Damage,
    Faults,
    LoopSUT,
    damage,
    hide,
    methods,
    restore,
    turns,
)
from fsm.runtimes.reference.pods import MACHINE, Pods
from fsm.runtimes.reference.pods.sandbox_controller import MACHINE as SANDBOX
from fsm.runtimes.reference.pods.sandbox_controller import Controller, Sandbox, UpstreamController
from fsm.runtimes.reference.pods.surroundings import Containers, Leases, Pod
from fsm.sut import BrokenError, UnsupportedError

NAME: Final = "pod"

FAULTS: Final[Mapping[tuple[str, str], Sequence[tuple[str, ...]]]] = {
    **dict.fromkeys([("run", "ready"), ("stop", "stopped"), ("remove", "removed"), ("status", "read")], ((),)),
    **dict.fromkeys([("create-container", "created"), ("port-forward", "prepared"), ("restart", "ready")], ((),)),
    ("update-resources", "updated"): ((),),
    ("run", "undone"): [("setup",), ("read",), ("run",), ("describe",)],
    ("run", "left-over"): [("setup", "teardown"), ("read", "teardown"), ("run", "undo", "clear")],
    ("stop", "not-stopped"): [("stop containers",), ("kill",)],
    **dict.fromkeys([("stop", "half-stopped"), ("remove", "half-stopped")], (("teardown",),)),
    **dict.fromkeys([("stop", "failed"), ("stop", "unmonitored"), ("remove", "failed")], (("stop containers",),)),
    ("remove", "stopped-only"): [("remove containers",)],
    ("create-container", "failed"): [("create container",)],
    ("status", "failed"): [("addresses",)],
    ("port-forward", "failed"): [("forward",)],
    ("update-resources", "failed"): [("disk",)],
    ("restart", "notready"): [("dead",)],
    ("restart", "unknown"): [("task",)],
    ("restart", "skipped"): [("damage",)],
}
"""The sets of faults that cause each outcome of an event. If there are several, they are used in turn."""

METADATA_DAMAGE: Final[tuple[Damage, ...]] = (
    *DAMAGE,
    lambda _: b"[]",
    lambda data: data.replace(b'"state": "', b'"state": "un'),
    lambda data: data.replace(b'"id": "', b'"id": "0'),
)


class PodsSUT(LoopSUT[Pods]):
    """:class:`~fsm.runtimes.reference.pods.Pods` under test. They conform under every profile.

    >>> sut = PodsSUT()
    >>> sut.do("run"), sut.shows(), len(sut.record()["addresses"])
    ('ok', 'SANDBOX_READY', 1)
    >>> sut.arrange("stop", "half-stopped"), sut.do("stop"), sut.shows()
    (True, 'UNKNOWN', 'SANDBOX_NOTREADY')
    >>> sut.do("stop"), sut.do("remove"), sut.shows()
    ('ok', 'ok', 'absent')
    >>> sut.close()
    """

    machine = MACHINE
    turns = 2
    kinds = (Pods,)
    controller_kind: type[Controller] = Controller

    def __init__(self, profile: str = "", kind: type[Pods] | None = None) -> None:
        self._ways = {key: cycle(faults) for key, faults in FAULTS.items()}
        self._damage = cycle(METADATA_DAMAGE)
        super().__init__(profile, kind)

    def reset(self) -> None:
        super().reset()
        self._home = self._new_folder()
        self._runner.get_loop().set_exception_handler(_report)
        self.faults = Faults(self._home)
        self.worlds: dict[str, Processes] = {}
        self.containers = Containers(self.faults)
        self._now = partial(next, count(1_001))
        self._limits = count(1)
        self._last, self._restart_to = ABSENT, ""
        self._start()

    def _start(self) -> None:
        self.clock = TurnedClock(hurried=True)
        self._controller = self.controller_kind(self._world, self.clock)
        network = Leases(self._home / "network", faults=self.faults)
        self.pods = self._kind(self._home / "pods", self._controller, network, self.containers, self.clock)

    def shows(self) -> str:
        return self.pods.list().get(self._last, ABSENT)

    def record(self) -> dict[str, Any]:
        pod = self._pod
        if pod.state == ABSENT:
            return {}
        addresses = list(self.pods.network.addresses(pod.id)) if pod.state == "ready" else []
        return {"name": pod.name, "created": pod.created_at, "limits": dict(pod.limits), "addresses": addresses}

    def _contradiction(self) -> str:
        pod, name_holder = self._pod, self.pods.names.get(NAME, "")
        watched = (pod.watch and not pod.watch.done()) or self.pods.retries.delay(self._last)
        if pod.state == "ready" and not watched:
            return "the pod is ready, but its exit is not watched"
        if pod.state != ABSENT and name_holder != self._last:
            return "the pod exists, but its name is not reserved for it"
        if pod.state == "stopped" and self.pods.network.addresses(self._last):
            return "the pod was stopped, but still has a network"
        if pod.state != ABSENT:
            return ""
        left = {
            "its name": name_holder,
            "its metadata": [*self.pods.metadata.ids()],
            "a network": [*(self._home / "network").glob("*")],
            "an entry at its controller": self._controller._store,  # noqa: SLF001  (the store is not public)
            "a pause process": [world for world in self.worlds.values() if world.runs()],
        }
        found = [name for name, remains in left.items() if remains]
        return f"the pod is absent, but {', '.join(found)} is left" if found else ""

    def arrange(self, event: str, outcome: str) -> bool:
        state = self._pod.state
        never = {
            ("stop", "unmonitored"): state != "unknown-stopped",
            ("create-container", "created"): state != "ready",
            ("restart", "ready"): state not in {"ready", ABSENT},
        }
        if (event, outcome) not in FAULTS or never.get((event, outcome)):
            return False
        self.faults.update(next(self._ways[event, outcome]))
        self._restart_to = outcome
        return True

    def do(self, event: str) -> str:
        try:
            return super().do(event)
        finally:
            if wrong := self._contradiction():
                raise BrokenError(wrong)

    def crash(self, event: str, point: int) -> bool:
        later = self.faults & {"dead", "task", "damage"}
        self.faults -= later
        try:
            self._crash(event, point)
        finally:
            self._clear_faults()
        crashed = self.faults.crashed
        self.faults |= later
        self.do("restart")
        world = self.worlds.get(self._last)
        if self._restart_to == "ready" and self.shows() == NOT_READY and world is not None and not world.runs():
            raise UnsupportedError("the pause process of the pod has already ended, so the pod cannot be found ready")
        return crashed

    def _happen(self, event: str) -> object:
        if "disk" in self.faults:
            hide(self._pod_folder)
        return super()._happen(event)

    def _actions(self) -> Mapping[str, Action]:
        calls = ("stop", "remove", "create-container", "status", "port-forward")
        return {
            **methods(self.pods, *calls, arguments=(self._last,)),
            **methods(self, "run", "exit", "restart"),
            "update-resources": lambda: self.pods.update_resources(self._last, {"cpu_shares": next(self._limits)}),
        }

    async def run(self) -> None:
        try:
            self._last = await self.pods.run(NAME, {"cpu_shares": next(self._limits)})
        finally:
            self._last = self.pods.names.get(NAME, "") or self._last

    async def exit(self) -> None:
        pod, world, watch = self._pod, self.worlds.get(self._last), None
        with suppress(CallError):
            watch = pod.watch if self._controller.status(self._last).state == READY else None
        if world is not None:
            world.die()
        if watch is not None and not watch.done():
            # If the controller's own watch crashes, the watch of the pod never ends.
            own = self._controller.find(self._last).watch
            running = [watch, own] if own and not own.done() else [watch]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if not self.faults.crashed:
                await asyncio.wait([watch])
        else:
            self.pods.exited(pod, Exit(9, self._now()))

    async def restart(self) -> None:
        await self.pods.close()
        await self._controller.close()
        world, file = self.worlds.get(self._last), self._pod_folder / "metadata.json"
        if "dead" in self.faults and world is not None:
            world.die()
        if "damage" in self.faults and file.exists():
            damage(file, next(self._damage))
        self._start()
        await self.pods.recover()
        self._last = self.pods.names.get(NAME, "") or self._last

    @property
    def _pod(self) -> Pod:
        return self.pods.find(self._last)

    @property
    def _pod_folder(self) -> Path:
        return self._home / "pods" / self._last

    def _world(self, name: str) -> Processes:
        if name not in self.worlds:
            self.worlds[name] = Processes(self._home / f"pause-{name}", faults=self.faults, now=self._now)
            self._scope.callback(self.worlds[name].end)
        return self.worlds[name]

    def _clear_faults(self) -> None:
        super()._clear_faults()
        restore(self._pod_folder)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), CrashedError):
        loop.default_exception_handler(context)


SANDBOX_FAULTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
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

NOT_UPSTREAM: Final = frozenset({"undone", "left-over", "kept", "kept-uncleaned", "gone", "gone-uncleaned"})


class PodSandboxSUT(LoopSUT[Controller]):
    machine = SANDBOX
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
        self._last = self.controller.find(NAME)

    @property
    def _stored_sandbox(self) -> Sandbox | None:
        return self.controller._store.get(NAME)  # noqa: SLF001  (calling status would be an event)

    def shows(self) -> str:
        return self._stored_sandbox.record.state if self._stored_sandbox else ABSENT

    def record(self) -> dict[str, Any]:
        record = self._stored_sandbox and self._stored_sandbox.record
        return {"pid": record.pid, "created": record.created_at, "exit": record.exit} if record else {}

    def arrange(self, event: str, outcome: str) -> bool:
        faults = SANDBOX_FAULTS.get((event, outcome))
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
        return self._reply(event, self._end_wait)

    def _actions(self) -> Mapping[str, Action]:
        return {
            **methods(self.controller, "stop", "shutdown", "status", "platform", "update", arguments=(NAME,)),
            **methods(self, "create", "start", "handle", "unwatched"),
            "wait": lambda: self._finish(asyncio.create_task(self.controller.wait(NAME))),
            "exit": self._last.world.die,
        }

    def start(self) -> None:
        with suppress(CannotHappenError):  # the machine does not specify a second start
            self.controller.start(NAME)

    async def create(self) -> None:
        self.controller.create(NAME)
        self._last = self.controller._store[NAME]  # noqa: SLF001
        if self._waiting is not None:  # wait for the new sandbox instead, which has the same name
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
            self._waiting = asyncio.create_task(self.controller.wait(NAME))

    async def handle(self) -> None:
        watch = self._last.watch
        if watch is not None and not watch.done():
            self._last.world.gate.set()
            await asyncio.wait([watch])
        elif due := self.controller.retries.delay(NAME):
            self.clock.turn(due)
            await self.controller.retries.tick()
        else:
            self.controller.handle(self._last, Exit(9, 9))

    async def unwatched(self) -> None:
        world = self._last.world
        world.breaks = True
        world.gate.set()
        await turns(4)

    async def _begin_wait(self) -> None:
        waiting = asyncio.create_task(self.controller.wait(NAME))
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
