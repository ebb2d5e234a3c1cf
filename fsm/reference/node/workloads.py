"""What runs in a container of a node: a simulated command, or a process of this machine; and the world around it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from math import inf
from pathlib import Path
from shutil import which
from signal import SIGKILL, SIGTERM
from typing import Final, Protocol

from fsm.reference.clock import Clock
from fsm.reference.container.world import KILLED, Exit, NoTaskError, SimulatedWorld, Task
from fsm.reference.driven import WorldError
from fsm.reference.node.commands import Script, script
from fsm.reference.sandbox.processes import SIGNALLED, Processes, process_end

TERM_GRACE: Final = "0"
"""Seconds that a process has to end when its reaper is told to end it: it was asked before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with its surroundings; ``folder`` is empty for the default one."""

    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """How a command that was run in a container has ended, and what it has written."""

    code: int
    output: bytes = b""
    errors: bytes = b""


class Workload(Protocol):
    """The first process of a container, which runs."""

    pid: int
    exit: Exit | None
    """How it ended, if it has."""

    def signal(self, number: int) -> None:
        """Send a signal; it has no effect on what has ended."""

    async def ended(self) -> Exit:
        """Wait for its end."""

    async def execute(self, command: Command) -> Executed:
        """Run another command beside it; raises :class:`~fsm.reference.driven.WorldError` if there is none of this name."""


class SimulatedProcess:
    """What *plan* says happens, by *clock*."""

    def __init__(self, plan: Script, pid: int, clock: Clock) -> None:
        self.pid = pid
        self.exit: Exit | None = None
        self._plan = plan
        self._clock = clock
        self._over = asyncio.Event()
        self._timer = asyncio.create_task(self._run())

    def signal(self, number: int) -> None:
        if number == SIGTERM:
            if self._plan.on_term is not None:
                self._end(self._plan.on_term)
        else:
            self._end(SIGNALLED + number)

    async def ended(self) -> Exit:
        await self._over.wait()
        assert self.exit is not None  # noqa: S101  (it is what the event says)
        return self.exit

    async def execute(self, command: Command) -> Executed:
        plan = script(command.words)
        if plan.seconds < inf:
            await self._clock.sleep(plan.seconds)
        else:
            await self._over.wait()
        if plan.kills:
            self.signal(plan.kills)
        return Executed(code=plan.code, output=plan.output.encode())

    async def _run(self) -> None:
        if self._plan.seconds < inf:
            await self._clock.sleep(self._plan.seconds)
            self._end(self._plan.code)

    def _end(self, code: int) -> None:
        if self.exit is None:
            self.exit = Exit(code, time.time_ns())
            self._over.set()
            self._timer.cancel()


class ChildProcess:
    """A process of this machine that runs *command*, below a reaper that lets none of its descendants outlive us.

    Raises :class:`~fsm.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command) -> None:
        arguments = _runnable(command)
        text = files("fsm.conformance.exec").joinpath("reaper.py").read_text(encoding="utf-8")
        own = [sys.executable, "-I", "-S", "-c", text, str(os.getpid()), TERM_GRACE]
        try:
            self._process = subprocess.Popen(  # noqa: S603  (what it is for)
                [*own, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=command.folder or None,
                env=_environment(command),
            )
        except OSError as error:
            raise WorldError(f"cannot run {arguments[0]}: {error.strerror}") from error
        self.pid = self._process.pid
        self.exit: Exit | None = None

    def signal(self, number: int) -> None:
        """Send SIGTERM to the command, or anything else to all that it has started: they are killed."""
        if self._process.poll() is not None:
            return
        if number == SIGTERM and (leader := _child(_child(self.pid))):
            with suppress(OSError):
                os.killpg(leader, SIGTERM)
                return
        self._process.terminate()

    async def ended(self) -> Exit:
        code = await process_end(self._process)
        self.exit = self.exit or Exit(code if code >= 0 else SIGNALLED - code, time.time_ns())
        return self.exit

    async def execute(self, command: Command) -> Executed:
        if _kills_first(command.words):
            self.signal(SIGKILL)
            return Executed(code=0)
        process = await asyncio.create_subprocess_exec(
            *_runnable(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(command),
            start_new_session=True,
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                with suppress(OSError):
                    os.killpg(process.pid, SIGKILL)
                await process.wait()
        code = process.returncode or 0
        return Executed(code=code if code >= 0 else SIGNALLED - code, output=output, errors=errors)


def _kills_first(words: Sequence[str]) -> bool:
    """Whether *words* end the first process of a container, which is another process here."""
    return words[:1] == ("kill",) and words[-1] == "1"


def _runnable(command: Command) -> list[str]:
    name = command.words[0] if command.words else "sleep"
    path = which(name, path=dict(command.environment).get("PATH", os.environ.get("PATH")))
    if path is None:
        raise WorldError(f'exec: "{name}": no such file or directory')
    return [path, *command.words[1:]] if command.words else [path, "infinity"]


def _environment(command: Command) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **dict(command.environment)}


def _child(pid: int) -> int:
    """The first child of process *pid*, 0 if there is none."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(found[0]) if found else 0


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
