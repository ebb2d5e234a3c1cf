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

from fsm.reference.container.world import KILLED, Exit, NoTaskError, SimulatedWorld, Task
from fsm.reference.driven import WorldError
from fsm.reference.node.command import Command
from fsm.reference.sandbox.processes import Processes

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

        Raises :class:`~fsm.reference.driven.WorldError` if there is no such command.
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
    """The surroundings of a container of a node, in which *launch* starts its workload.

    ``refusal`` is why what is tried next fails; it is empty if nothing is in the way.
    """

    def __init__(self, root: Path, launch: Callable[[], Workload]) -> None:
        super().__init__(root)
        self.workload: Workload | None = None
        self.refusal = ""
        self._launch = launch

    def now(self) -> int:
        return time.time_ns()

    def run(self) -> int:
        self.use()
        self.workload = self._launch()
        self.process = Task(self.workload.pid)
        return self.workload.pid

    def kill(self) -> Exit:
        if self.process is None or self.workload is None:
            raise NoTaskError("no such process")
        self.workload.signal(SIGKILL)
        self.process = None
        return self.workload.exit or Exit(KILLED, self.now())

    def use(self) -> None:
        if self.refusal:
            raise WorldError(self.refusal)


class SimulatedPause(Processes):
    """The world of a pod whose pause process is simulated too."""

    _there = False

    def run(self) -> int:
        self._there, self._over = True, asyncio.Event()
        return os.getpid()

    def undo(self) -> None:
        with suppress(NoTaskError):
            self.delete()

    def pid(self) -> int:
        return os.getpid()

    def task(self) -> bool:
        return self._there

    def ended(self) -> Exit | None:
        return self._exit

    async def exited(self) -> Exit:
        await self._over.wait()
        return self._exit or Exit(KILLED, self.now())

    async def dead(self) -> Exit:
        return await self.exited()

    def kill(self) -> None:
        if self._there and self._exit is None:
            self._exit = Exit(KILLED, self.now())
            self._over.set()

    def delete(self) -> None:
        if not self._there:
            raise NoTaskError("no task")
        self.kill()
        self._there = False

    def die(self) -> None:
        self.kill()

    def runs(self) -> bool:
        return self._there and self._exit is None
