"""The environment of a container or pod, which is either real or a simulation that can fail on request."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from fsm.runtimes.reference.driven import Faults, WorldError, hide, restore

KILLED: Final = 137

LOST_CODE: Final = 255
LOST_REASON: Final = "Unknown"


class Exit(NamedTuple):
    """The exit code of a process, and the time of its exit in nanoseconds since the epoch."""

    code: int
    at: int


class Task(NamedTuple):
    pid: int
    started: bool = True
    exit: Exit | None = None


class NoRecordError(WorldError):
    """containerd has no record of the container."""


class NoTaskError(WorldError):
    """The container has no process."""


class LateError(WorldError):
    """The process ended too late. Its exit is in ``exit``."""

    def __init__(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        super().__init__(f"it ended too late, with code {exit.code}")
        self.exit = exit


@dataclass(eq=False)
class SimulatedWorld:
    """The simulated environment of the container in *root*. The steps in ``faults`` fail until :meth:`end_event`.

    ``known`` is true if containerd has a record of the container, and ``ended`` if the event has killed the process.
    """

    root: Path
    faults: Faults = field(default_factory=Faults)
    known: bool = False
    process: Task | None = None
    ended: bool = False
    _time: int = 1_000
    _pid: int = 100

    def now(self) -> int:
        self._time += 1
        return self._time

    def make(self) -> None:
        self.faults.point("make")
        self.known = True

    def look(self) -> None:
        self.faults.point("look", effect=False)
        if "gone" in self.faults:
            self.known = False
        if not self.known or "no record" in self.faults:
            raise NoRecordError("no such container")

    def forget(self) -> None:
        self.faults.point("forget")
        self.known = False

    def run(self) -> int:
        self.faults.point("run")
        self._pid += 1
        self.process = Task(self._pid)
        if "disk" in self.faults:
            hide(self.root)
        return self._pid

    def kill(self) -> Exit:
        self.faults.point("kill", effect=False)
        if "no task" in self.faults or (self.process is None and "late" not in self.faults):
            raise NoTaskError("no such process")
        self.faults.effect()
        self.process, self.ended = None, True
        ended = Exit(KILLED, self.now())
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def task(self) -> Task | None:
        self.faults.point("task", effect=False)
        return self.process

    def drop(self) -> None:
        self.faults.point("drop")
        self.process = None

    def use(self) -> None:
        self.faults.point("use")

    def end_event(self) -> None:
        self.faults.clear()
        self.ended = False
        restore(self.root)


PAUSE: Final = ("cat",)
"""A command that does nothing, like a pause process. It ends when its parent exits."""

POD: Final = "FSM_POD"

SIGNALLED: Final = 128


def shell_code(code: int) -> int:
    """Convert the return code of a process, which is negative after a signal, to the exit code of a shell.

    >>> shell_code(3), shell_code(-9)
    (3, 137)
    """
    return code if code >= 0 else SIGNALLED - code


class WatchError(WorldError):
    """The stream that reports exits was broken, or ended without reporting an exit."""


async def process_end(process: subprocess.Popen[bytes]) -> int:
    while (code := process.poll()) is None:
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        loop.add_reader(descriptor, seen.set)
        try:
            await seen.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    return code


@dataclass(eq=False)
class Processes:
    """The environment of one pod sandbox, with a real process. Every method may raise :class:`WorldError`.

    Each step in *faults* always fails. *hook* is called after the sandbox's task was deleted, when containerd notifies
    NRI 0.1 plugins. Exits are reported only while ``gate`` is open. If ``breaks`` is true, the next report fails.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     world = Processes(Path(folder, "pod"))
    ...     pid = world.run()
    ...     print(world.task(), world.ended())
    ...     world.kill()
    ...     print(asyncio.run(world.dead()).code)
    ...     world.delete()
    ...     print(world.task())
    True None
    137
    False
    """

    root: Path
    faults: Faults = field(default_factory=Faults)
    hook: Callable[[], object] = bool
    now: Callable[[], int] = time.time_ns
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    breaks: bool = False
    _process: subprocess.Popen[bytes] | None = None
    _exit: Exit | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    def pretend(self, step: str) -> None:
        self.faults.point(step, effect=False)

    def run(self) -> int:
        self.faults.point("begin")
        try:
            self.root.mkdir()
            (self.root / "hosts").touch()
            named = os.environ | {POD: self.root.name}
            self._process = subprocess.Popen(PAUSE, stdin=subprocess.PIPE, env=named)  # noqa: S603  (a constant)
        except OSError as error:
            raise WorldError(str(error)) from error
        self.faults.point("run", effect=False)
        return self._process.pid

    def undo(self) -> None:
        self.faults.point("undo", effect=False)
        with suppress(NoTaskError):
            self.delete()
        self.clear()

    def pid(self) -> int:
        return self._require_process().pid

    def task(self) -> bool:
        """Check whether there is a task, even if its process has ended. The fault ``no task`` deletes it first."""
        self.faults.point("task", effect=False)
        if "no task" in self.faults and self._process is not None:
            self.delete()
        return self._process is not None

    def ended(self) -> Exit | None:
        if self._process is not None and self._exit is None and (code := self._process.poll()) is not None:
            self._exit = Exit(shell_code(code), self.now())
        return self._exit

    async def exited(self) -> Exit:
        await self.gate.wait()
        if self.breaks:
            self.breaks = False
            self.gate.clear()
            raise WatchError("the stream has ended")
        return await self._wait()

    async def _wait(self) -> Exit:
        while (ended := self.ended()) is None:
            await process_end(self._require_process())
        return ended

    def kill(self) -> None:
        self.faults.point("kill")
        if self._process is not None:
            self._process.kill()

    async def dead(self) -> Exit:
        """Wait for the end of a killed process. Raise :class:`LateError` if that takes too long."""
        ended = await self._wait()
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def delete(self) -> None:
        """Kill the process if it still runs, and delete the task. Raise :class:`NoTaskError` if there is no task."""
        self.faults.point("delete")
        with self._require_process() as process:  # leaving the context closes the input and waits
            process.kill()
        self.ended()
        self._process = None

    def clean(self) -> None:
        self.faults.point("clean", effect=False)
        (self.root / "hosts").unlink(missing_ok=True)

    def clear(self) -> None:
        self.faults.point("clear", effect=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def die(self) -> None:
        if self._process is not None and self.runs():
            self._process.terminate()
            self._process.wait()

    def runs(self) -> bool:
        return self._process is not None and self.ended() is None

    def end(self) -> None:
        self.faults.clear()
        self.undo()

    def _require_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NoTaskError("no task")
        return self._process
