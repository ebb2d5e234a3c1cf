"""Workloads of a node's containers, either simulated commands or processes of this machine, and their world."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final, Protocol, TypeAlias

from fsm.runtimes.reference.container.world import KILLED, Exit, NoTaskError, Processes, SimulatedWorld, Task
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.command import Command

Write: TypeAlias = Callable[[bytes, bool], object]
"""``write(data, error)`` receives the output of a command. *error* is true for standard error."""

KEPT: Final = 16 << 20
"""Maximum number of bytes of command output to keep. Same as containerd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """Exit code and output of a command that was run in a container."""

    code: int
    output: bytes = b""
    errors: bytes = b""


class Workload(Protocol):
    """The running first process of a container. ``readers`` receive its output."""

    pid: int
    exit: Exit | None
    """The exit of the process, or ``None`` while it is running."""
    readers: set[Write]

    def signal(self, number: int) -> None:
        """Send a signal. Has no effect on a process that has ended."""

    async def ended(self) -> Exit:
        """Wait until the process has ended. Return its exit."""

    def feed(self, data: bytes) -> None:
        """Write *data* to the process's standard input, if it has one. Empty data closes the standard input."""

    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        """Run another command in the same container with *given* as its standard input. Return its exit code.

        Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
        """


class Heard:
    """A :data:`Write` that keeps up to :data:`KEPT` bytes of each stream."""

    def __init__(self) -> None:
        self.output, self.errors = bytearray(), bytearray()

    def __call__(self, data: bytes, error: bool) -> None:  # noqa: FBT001  (the signature of Write)
        kept = self.errors if error else self.output
        kept += data[: KEPT - len(kept)]

    def executed(self, code: int) -> Executed:
        return Executed(code=code, output=bytes(self.output), errors=bytes(self.errors))


class ContainerWorld(SimulatedWorld):
    """The world of a container on a node.

    *launch* starts its workload. *changed* is called when its record must be saved or deleted. ``refusal`` is the
    reason why the next operations fail, or empty if they succeed.
    """

    def __init__(self, root: Path, launch: Callable[[], Workload], changed: Callable[["ContainerWorld"], None]) -> None:
        super().__init__(root)
        self.workload: Workload | None = None
        self.made_at = self.started_at = 0
        self.refusal = ""
        self._launch = launch
        self._changed = changed

    def now(self) -> int:
        return time.time_ns()

    def make(self) -> None:
        super().make()
        self.made_at = self.now()
        self._changed(self)

    def forget(self) -> None:
        super().forget()
        self._changed(self)

    def run(self) -> int:
        self.use()
        self.workload = self._launch()
        self.process, self.started_at = Task(self.workload.pid), self.now()
        self._changed(self)
        return self.workload.pid

    def resume(self, workload: Workload, started_at: int) -> None:
        """Continue with *workload*, which is running or has ended, after a restart of the server."""
        self.workload, self.started_at = workload, started_at
        self.process = Task(workload.pid, exit=workload.exit)

    def kill(self) -> Exit:
        if self.process is None or self.workload is None:
            raise NoTaskError("no such process")
        self.workload.signal(SIGKILL)
        self.drop()
        return self.workload.exit or Exit(KILLED, self.now())

    def drop(self) -> None:
        self.process = None
        self._changed(self)

    def use(self) -> None:
        if self.refusal:
            raise WorldError(self.refusal)


class SimulatedPause(Processes):
    """The world of a pod with a simulated pause process. A file records whether it exists, and how it ended."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._task, self._over = root / "task", asyncio.Event()
        with suppress(OSError, ValueError):
            code, at = self._task.read_text(encoding="ascii").split()
            self._exit = Exit(int(code), int(at))
            self._over.set()

    def run(self) -> int:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._task.touch()
        except OSError as error:
            raise WorldError(str(error)) from error
        return os.getpid()

    def undo(self) -> None:
        with suppress(NoTaskError):
            self.delete()
        self.clear()

    def pid(self) -> int:
        return os.getpid()

    def task(self) -> bool:
        return self._task.exists()

    def ended(self) -> Exit | None:
        return self._exit

    async def exited(self) -> Exit:
        await self._over.wait()
        return self._exit or Exit(KILLED, self.now())

    async def dead(self) -> Exit:
        return await self.exited()

    def kill(self) -> None:
        if self.runs():
            self._exit = Exit(KILLED, self.now())
            with suppress(OSError):
                self._task.write_text(f"{self._exit.code} {self._exit.at}", encoding="ascii")
            self._over.set()

    def delete(self) -> None:
        if not self.task():
            raise NoTaskError("no task")
        self.kill()
        self._task.unlink(missing_ok=True)

    def die(self) -> None:
        self.kill()

    def runs(self) -> bool:
        return self.task() and self._exit is None
