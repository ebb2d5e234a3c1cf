"""The reference sandbox controller under test: real processes, in a world in which it can be arranged what goes wrong."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsm.machine.driver import NoWayError
from fsm.reference.clock import TurnedClock
from fsm.reference.container.world import Exit, LateError
from fsm.reference.driven import CallError
from fsm.reference.fault_injection import Faults
from fsm.reference.sandbox.controller import ABSENT, Controller
from fsm.reference.sandbox.processes import Processes
from fsm.reference.sandbox.upstream import AsWritten
from fsm.reference.sandbox.world import WatchError
from fsm.sut import BrokenError, UnsupportedError, drained

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

POD: Final = "pod"
SIGNALS: Final = ("exit", "handle", "unwatched")

OTHERWISE: Final = frozenset({"undone", "left-over", "kept", "kept-uncleaned", "gone", "gone-uncleaned"})
"""Outcomes of which containerd makes something else."""

FAULTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("create", "created"): (),
    ("create", "failed"): ("read",),
    ("start", "started"): (),
    ("start", "undone"): ("run",),
    ("start", "left-over"): ("run", "undo"),
    ("stop", "stopped"): (),
    ("stop", "cleaned"): (),
    ("stop", "gone"): ("no task",),
    ("stop", "kept"): ("delete",),
    ("stop", "uncleaned"): ("clean",),
    ("stop", "gone-uncleaned"): ("no task", "clean"),
    ("stop", "kept-uncleaned"): ("delete", "clean"),
    ("stop", "cut-short"): ("late",),
    ("stop", "failed"): ("kill", "clean"),
    ("shutdown", "removed"): (),
    ("shutdown", "half"): ("forget",),
    ("shutdown", "failed"): ("clear",),
    ("handle", "deleted"): (),
    ("handle", "gone"): ("no task",),
    ("handle", "kept"): ("delete",),
}
"""What has to go wrong for an event to end in an outcome."""


class ArrangedWorld(Processes):
    """A world in which ``faults`` are what goes wrong, until they are cleared, and exits are seen when the ``gate`` is open."""

    def __init__(self, root: Path, outputs: list[str], faults: Faults | None = None) -> None:
        super().__init__(root)
        self.faults = Faults() if faults is None else faults
        self.gate = asyncio.Event()
        self.breaks = False
        self._outputs = outputs

    def read(self) -> None:
        """Nothing."""
        self.faults.meet("read", effect=False)

    def run(self) -> int:
        """It runs, and may fail all the same."""
        pid = super().run()
        self.faults.meet("run", effect=False)
        return pid

    def describe(self) -> None:
        """Nothing."""
        self.faults.meet("describe", effect=False)

    def undo(self) -> None:
        """Nothing is left."""
        self.faults.meet("undo", effect=False)
        super().undo()

    def task(self) -> bool:
        """Whether there is one; it may have been deleted by somebody."""
        if "no task" in self.faults and super().task():
            super().delete()
        return super().task()

    async def exited(self) -> Exit:
        """When the gate is open."""
        await self.gate.wait()
        if self.breaks:
            self.breaks = False
            self.gate.clear()
            message = "the stream has ended"
            raise WatchError(message)
        return await super().exited()

    def kill(self) -> None:
        """Its end is near."""
        self.faults.meet("kill")
        super().kill()

    async def dead(self) -> Exit:
        """Its end, if that is waited for."""
        ended = await super().dead()
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def delete(self) -> None:
        """Nothing is left of it."""
        self.faults.meet("delete")
        super().delete()

    def hook(self) -> None:
        """An output."""
        self._outputs.append("hook")

    def clean(self) -> None:
        """Remove the file."""
        self.faults.meet("clean", effect=False)
        super().clean()

    def clear(self) -> None:
        """Remove the directory."""
        self.faults.meet("clear", effect=False)
        super().clear()

    def forget(self) -> None:
        """Nothing."""
        self.faults.meet("forget", effect=False)

    def die(self) -> None:
        """The process ends by itself."""
        if self._process is not None and self.ended() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()

    def end(self) -> None:
        """Nothing is left, whatever goes wrong."""
        self.faults.clear()
        if super().task():
            super().delete()
        super().clear()


class PodSandboxSUT:
    """A :class:`~fsm.reference.sandbox.controller.Controller` under test; of another *kind* for those who try what is noticed.

    >>> sut = PodSandboxSUT()
    >>> [sut.do(event) for event in ("create", "start", "exit")], sut.shows()
    (['ok', 'ok', ''], 'SANDBOX_READY')
    >>> sut.arrange("handle", "kept"), sut.do("handle"), sut.shows(), sut.outputs()
    (True, '', 'SANDBOX_NOTREADY', ['told'])
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[Controller] | None = None) -> None:
        self._kind = kind or (AsWritten if profile == "as-written" else Controller)
        self._runner = asyncio.Runner()
        self._home = Path(tempfile.mkdtemp(prefix="fsm-"))
        self._controller: Controller | None = None
        self.reset()

    def reset(self) -> None:
        """A new controller, and no process."""
        self._rest()
        self._runner.run(self._made())

    async def _made(self) -> None:
        self.clock = TurnedClock(hurried=True)
        self.worlds: list[ArrangedWorld] = []
        self._faults: tuple[str, ...] = ()
        self._outputs: list[str] = []
        self._waiting: asyncio.Task[Exit] | None = None
        self._controller = self._kind(self._world, self.clock, told=lambda _: self._outputs.append("told"))
        self._last = self.controller._of(POD)  # noqa: SLF001  (which is in no store)

    def close(self) -> None:
        """Nothing is left of the event loop, of processes and directories."""
        self._rest()
        self._runner.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def controller(self) -> Controller:
        """What is tested."""
        if self._controller is None:
            raise AssertionError
        return self._controller

    def shows(self) -> str:
        """What a client is told."""
        known = self.controller._store.get(POD)  # noqa: SLF001  (a status is an event, too)
        return known.record.state if known else ABSENT

    def outputs(self) -> list[str]:
        """Who was told, and which hooks ran."""
        return drained(self._outputs)

    def record(self) -> dict[str, Any]:
        """The record; nothing, where there is none."""
        known = self.controller._store.get(POD)  # noqa: SLF001
        return {"pid": known.record.pid, "created": known.record.created_at, "exit": known.record.exit} if known else {}

    def arrange(self, event: str, outcome: str) -> bool:
        """What goes wrong."""
        faults = FAULTS.get((event, outcome))
        otherwise = isinstance(self.controller, AsWritten) and (outcome in OTHERWISE or event in {"shutdown", "create"})
        if faults is None or otherwise:
            return False
        self._faults = faults
        return True

    def do(self, event: str) -> str:
        """*event*, from beginning to end."""
        return str(self._answered(event, self._happens(event)))

    def begin(self, event: str) -> str | None:
        """Somebody waits from now on."""
        return None if (reply := self._answered(event, self._waits())) is None else str(reply)

    def end(self, event: str) -> str:
        """What he is told, unless he gives up."""
        return str(self._answered(event, self._returns()))

    # -- what happens ------------------------------------------------------

    def _answered(self, event: str, act: Coroutine[None, None, str | None]) -> str | None:
        for world in self.worlds:
            world.faults.update(self._faults)
        try:
            reply = self._runner.run(act)
        except CallError as error:
            return error.code
        except NoWayError as error:
            raise UnsupportedError(str(error)) from error
        finally:
            self._faults = ()
            for world in self.worlds:
                world.faults.clear()
        return "" if event in SIGNALS else reply

    async def _happens(self, event: str) -> str:
        match event:
            case "create":
                await self._create()
            case "start":
                with suppress(NoWayError):  # nobody says what a second start does
                    self.controller.start(POD)
            case "stop" | "shutdown":
                await getattr(self.controller, event)(POD)
            case "wait":
                return await self._returned(asyncio.create_task(self.controller.wait(POD)))
            case "exit":
                self._arranged().die()
            case "handle":
                await self._handled()
            case "unwatched":
                await self._unwatched()
            case _:
                getattr(self.controller, event)(POD)
        await asyncio.sleep(0)
        return "ok"

    async def _create(self) -> None:
        self.controller.create(POD)
        self._last = self.controller._store[POD]  # noqa: SLF001
        if self._waiting is not None:  # who waits for what is gone waits for what has its name now
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
            self._waiting = asyncio.create_task(self.controller.wait(POD))

    async def _handled(self) -> None:
        """The exit is seen, or it is time to try again; or it is told once more."""
        watch = self._last.watch
        if watch is not None and not watch.done():
            self._arranged().gate.set()
            await asyncio.wait([watch])
        elif due := self.controller.monitor.waits(POD):
            self.clock.time += due
            await self.controller.monitor.tick()
        else:
            self.controller.handle(self._last, Exit(9, 9))

    async def _unwatched(self) -> None:
        gate = self._arranged().gate
        self._arranged().breaks = True
        gate.set()
        for _ in range(4):
            await asyncio.sleep(0)

    def _arranged(self) -> ArrangedWorld:
        return next(each for each in self.worlds if each is self._last.world)

    async def _waits(self) -> str | None:
        waiting = asyncio.create_task(self.controller.wait(POD))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if waiting.done():
            await waiting
        self._waiting = waiting
        return None

    async def _returns(self) -> str:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            message = "nobody waits"
            raise UnsupportedError(message)
        return await self._returned(waiting)

    async def _returned(self, waiting: asyncio.Task[Exit]) -> str:
        """What who waits is told; that he gives up, if he is not."""
        for _ in range(4):
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
            if self._last.record.exit is not None:
                message = "it has exited, and who waits is not told"
                raise BrokenError(message)
            return "CANCELED"
        await waiting
        return "ok"

    # -- the world ---------------------------------------------------------

    def _world(self, _name: str) -> ArrangedWorld:
        world = ArrangedWorld(self._home / f"{len(self.worlds)}", self._outputs)
        world.faults.update(self._faults)
        self.worlds.append(world)
        return world

    def _rest(self) -> None:
        if self._controller is None:
            return
        self._runner.run(self._ended())
        for world in self.worlds:
            world.end()

    async def _ended(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self.controller.close()
