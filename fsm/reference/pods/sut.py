"""The reference pods under test: real processes and files, in a world in which it can be arranged what goes wrong."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from itertools import cycle
from os import W_OK, access
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fsm.machine.driver import NoWayError
from fsm.reference.clock import TurnedClock
from fsm.reference.container.world import Exit
from fsm.reference.driven import ABSENT, CallError
from fsm.reference.fault_injection import MEMORY, DeadError, Death, Faults
from fsm.reference.pods.faults import DAMAGE, FAULTS, ArrangedNetwork, CountedContainers, PodWorld
from fsm.reference.pods.service import NOT_READY, READY, Pods
from fsm.reference.pods.upstream import AsWritten
from fsm.reference.sandbox.controller import Controller
from fsm.reference.sandbox.upstream import AsWritten as ControllerAsWritten
from fsm.sut import BrokenError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from fsm.reference.pods.pod import Pod

T = TypeVar("T")

NAME: Final = "pod"
SIGNALS: Final = ("exit", "restart")


class PodsSUT:
    """:class:`~fsm.reference.pods.service.Pods` under test; of another *kind* for those who try what is noticed.

    >>> sut = PodsSUT()
    >>> sut.do("run"), sut.shows(), len(sut.record()["addresses"])
    ('ok', 'SANDBOX_READY', 1)
    >>> sut.arrange("stop", "half-stopped"), sut.do("stop"), sut.shows()
    (True, 'UNKNOWN', 'SANDBOX_NOTREADY')
    >>> sut.do("stop"), sut.do("remove"), sut.shows()
    ('ok', 'ok', 'absent')
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[Pods] = Pods) -> None:
        del profile  # none forbids what is right
        self._kind = kind
        self._runner = asyncio.Runner()
        self._runner.get_loop().set_exception_handler(_heard)
        self._home = Path(tempfile.mkdtemp(prefix="fsm-", dir=MEMORY if access(MEMORY, W_OK) else None))
        self._death = Death(self._home)
        self.faults = Faults(self._death)
        self._ways: dict[tuple[str, str], Iterator[tuple[str, ...]]] = {
            key: cycle(each) for key, each in FAULTS.items()
        }
        self._damage = cycle(DAMAGE)
        self._pods: Pods | None = None
        self.reset()

    def reset(self) -> None:
        """A new world, and nothing on the disk."""
        self._rest()
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir()
        self.worlds: dict[str, PodWorld] = {}
        self.containers = CountedContainers(self.faults)
        self._time, self._limits, self._last, self._hoped = 1_000, 0, ABSENT, ""
        self._runner.run(self._made())

    def close(self) -> None:
        """Nothing is left of the event loop, of processes and files."""
        self._rest()
        self._runner.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def pods(self) -> Pods:
        """What is tested."""
        if self._pods is None:
            raise AssertionError
        return self._pods

    def now(self) -> int:
        """A time that was never before."""
        self._time += 1
        return self._time

    def shows(self) -> str:
        """What a list says."""
        return self.pods.list().get(self._last, ABSENT)

    def record(self) -> dict[str, Any]:
        """What is remembered of it: all but its exit and its addresses, which what is not ready may have, or not."""
        pod = self._pod
        if pod.position.state == ABSENT:
            return {}
        record = {"name": pod.name, "created": pod.created_at, "limits": dict(pod.limits)}
        ready = pod.position.state == "ready"
        return {**record, "addresses": list(self.pods.network.addresses(pod.id)) if ready else []}

    def arrange(self, event: str, outcome: str) -> bool:
        """What goes wrong."""
        state = self._pod.position.state
        never = {
            ("stop", "unmonitored"): state != "unknown-stopped",
            ("create-container", "created"): state != "ready",
        }
        if (event, outcome) not in FAULTS or never.get((event, outcome)):
            return False
        self.faults.update(next(self._ways[event, outcome]))
        self._hoped = outcome
        return True

    def do(self, event: str) -> str:
        """*event*, from beginning to end."""
        try:
            self._runner.run(self._happens(event))
        except CallError as error:
            return error.code
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        finally:
            self._mend()
            if wrong := self._wrong():
                raise BrokenError(wrong)
        return "" if event in SIGNALS else "ok"

    def awaited(self, act: Coroutine[None, None, T]) -> T:
        """What *act* comes to, for those who ask for more than a test does."""
        return self._runner.run(act)

    def crash(self, event: str, point: int) -> bool:
        """*event* happens as far as its effect number *point*, and then a restart."""
        later = self.faults & {"dead", "task", "damage"}
        self.faults -= later
        try:
            # Who dies on a thread of control of his own is not heard of here.
            with self._death.at(point), suppress(CallError, DeadError):
                self._runner.run(self._happens(event))
        finally:
            self._mend()
        died = self._death.dead
        self.faults |= later
        self.do("restart")
        world = self.worlds.get(self._last)
        if self._hoped == "ready" and self.shows() == NOT_READY and world is not None and not world.runs():
            message = "its pause process has ended before: it cannot be found ready"
            raise UnsupportedError(message)
        return died

    def _wrong(self) -> str:
        """What is wrong with what a pod holds."""
        pod = self._pod
        watched = (pod.watch and not pod.watch.done()) or self.pods.monitor.waits(self._last)
        if pod.position.state == "ready" and not watched:
            return "it is ready, and nobody waits for its end"
        if pod.position.state != ABSENT and self.pods.names.holder(NAME) != self._last:
            return "it is there, and its name is not reserved for it"
        if pod.position.state == "stopped" and self.pods.network.addresses(self._last):
            return "it was stopped, and has a network"
        if pod.position.state != ABSENT:
            return ""
        left = {
            "its name": self.pods.names.holder(NAME),
            "its metadata": [*self.pods.metadata.ids()],
            "a network": [*(self._home / "network").glob("*")],
            "a place with its controller": self._controller._store,  # noqa: SLF001  (which tells nobody whom it knows)
            "a pause process": [world for world in self.worlds.values() if world.runs()],
        }
        found = [name for name, found in left.items() if found]
        return f"it is gone, but for {', '.join(found)}" if found else ""

    # -- what happens ------------------------------------------------------

    async def _happens(self, event: str) -> None:
        pods, id_ = self.pods, self._last
        if "disk" in self.faults:
            self._disk.rename(self._disk.with_name("away"))
        match event:
            case "run":
                await self._run()
            case "stop":
                await pods.stop(id_)
            case "remove":
                await pods.remove(id_)
            case "create-container":
                pods.create_container(id_)
            case "status":
                pods.status(id_)
            case "port-forward":
                pods.port_forward(id_)
            case "update-resources":
                pods.update_resources(id_, self._more())
            case "exit":
                await self._exits()
            case _:
                await self._restart()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _run(self) -> None:
        try:
            self._last = await self.pods.run(NAME, self._more())
        finally:
            self._last = self.pods.names.holder(NAME) or self._last

    def _more(self) -> dict[str, int]:
        """Limits that were never before."""
        self._limits += 1
        return {"cpu_shares": self._limits}

    async def _exits(self) -> None:
        """The pause process ends, and that is noticed: by who waits for it, or as it is told by somebody."""
        pod, world = self._pod, self.worlds.get(self._last)
        told = pod.watch if self._state() == READY else None
        if world is not None:
            world.die()
        if told is not None and not told.done():
            # Where the controller dies on the way nobody is told.
            first = [told, *(each for each in self._watches() if not each.done())]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not self._death.dead:
                await asyncio.wait([told])
        else:
            self.pods.exited(pod, Exit(9, self.now()))

    def _watches(self) -> list[asyncio.Task[None]]:
        """Who sees that the process ends."""
        return [watch] if (watch := self._controller._of(self._last).watch) else []  # noqa: SLF001

    def _state(self) -> str:
        """What the controller says."""
        try:
            return self._controller.status(self._last).state
        except CallError:
            return ""

    # -- restarts ----------------------------------------------------------

    async def _restart(self) -> None:
        await self._closed()
        world, file = self.worlds.get(self._last), self._disk / "metadata.json"
        if "dead" in self.faults and world is not None:
            world.die()
        if "damage" in self.faults and file.exists():
            damaged = next(self._damage)(file.read_bytes())
            file.unlink() if damaged is None else file.write_bytes(damaged)
        await self._made()
        await self.pods.recover()
        self._last = self.pods.names.holder(NAME) or self._last

    async def _made(self) -> None:
        self.clock = TurnedClock(hurried=True)
        controller = ControllerAsWritten if issubclass(self._kind, AsWritten) else Controller
        self._controller: Controller = controller(self._world, self.clock)
        network = ArrangedNetwork(self._home / "network", self.faults)
        self._pods = self._kind(self._home / "pods", self._controller, network, self.containers, self.clock)

    async def _closed(self) -> None:
        await self.pods.close()
        await self._controller.close()

    def _rest(self) -> None:
        if self._pods is not None:
            self.faults.clear()
            self._runner.run(self._closed())
            for world in self.worlds.values():
                world.end()

    # -- the world ---------------------------------------------------------

    @property
    def _pod(self) -> Pod:
        return self.pods._of(self._last)  # noqa: SLF001  (a status is an event, too)

    @property
    def _disk(self) -> Path:
        return self._home / "pods" / self._last

    def _world(self, name: str) -> PodWorld:
        if name not in self.worlds:
            self.worlds[name] = PodWorld(self._home / f"pause-{name}", self.faults, self.now)
        return self.worlds[name]

    def _mend(self) -> None:
        self.faults.clear()
        away = self._disk.with_name("away")
        if away.exists():
            away.rename(self._disk)


def _heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What ends a task that nobody waits for is told, but for a death that was arranged."""
    if not isinstance(context.get("exception"), DeadError):
        loop.default_exception_handler(context)
