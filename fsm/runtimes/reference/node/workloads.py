"""What runs in a container of a node: a simulated command, or a process of this machine; and the world around it."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final, Protocol, TypeAlias

from fsm.runtimes.reference.container.world import KILLED, Exit, NoTaskError, SimulatedWorld, Task
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.command import Command
from fsm.runtimes.reference.sandbox.processes import Processes

Write: TypeAlias = Callable[[bytes, bool], object]
"""Takes what a command writes, and whether that is an error."""

KEPT: Final = 16 << 20
"""Bytes that are kept of what a command writes, as containerd does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """How a command that was run in a container has ended, and what it has written."""

    code: int
    output: bytes = b""
    errors: bytes = b""


class Workload(Protocol):
    """The first process of a container, which runs; ``readers`` are given what it writes."""

    pid: int
    exit: Exit | None
    """How it ended, if it has."""
    readers: set[Write]

    def signal(self, number: int) -> None:
        """Send a signal; it has no effect on what has ended."""

    async def ended(self) -> Exit:
        """Wait for its end."""

    def feed(self, data: bytes) -> None:
        """Write *data* to its standard input, if it has one; empty data end that."""

    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        """Run another command beside it, with *given* as its standard input; its code.

        Raises :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
        """


class Heard:
    """Keeps what a command writes, up to :data:`KEPT` bytes of each kind."""

    def __init__(self) -> None:
        self.output, self.errors = bytearray(), bytearray()

    def __call__(self, data: bytes, error: bool) -> None:  # noqa: FBT001  (as Write has it)
        kept = self.errors if error else self.output
        kept += data[: KEPT - len(kept)]

    def executed(self, code: int) -> Executed:
        return Executed(code=code, output=bytes(self.output), errors=bytes(self.errors))


class ContainerWorld(SimulatedWorld):
    """The surroundings of a container of a node, in which *launch* starts its workload; *changed* is told of what is to be kept.

    ``refusal`` is why what is tried next fails; it is empty if nothing is in the way.
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
        """After a restart of the server *workload* runs on, or has ended meanwhile."""
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
    """The world of a pod whose pause process is simulated too; a file tells whether it is there, and how it has ended."""

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
