"""What runs in a container of a node: a simulated command, or a process of this machine; and the world around it."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from math import inf
from pathlib import Path
from shutil import which
from signal import SIGKILL, SIGTERM
from typing import Final, Protocol

from fsm.reference.clock import Clock
from fsm.reference.container.world import KILLED, Exit, NoTaskError, SimulatedWorld, Task
from fsm.reference.driven import WorldError
from fsm.reference.node.commands import exit_code, script
from fsm.reference.sandbox.processes import SIGNALLED, Processes, process_end

TERM_GRACE: Final = "0"
"""Seconds that a process has to end when its reaper is told to end it: it was asked before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with its surroundings; ``folder`` and ``log`` are empty for the default one, and for none.

    ``mounts`` are paths in the container, each with the one of this machine that is there.
    """

    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    log: str = ""
    mounts: tuple[tuple[str, str], ...] = ()

    def here(self, inside: str) -> str:
        """The path of this machine that is *inside* the container, which may be within other text.

        >>> Command(mounts=(("/in", "/tmp/out"),)).here("read a < /in/pipe")
        'read a < /tmp/out/pipe'
        """
        for path, own in filter(all, self.mounts):
            inside = re.sub(rf"(?<![\w/.-]){re.escape(path)}(?![\w.-])", lambda _, own=own: own, inside)  # type: ignore[misc]  # mypy loses the lambda's default
        return inside

    def prepare(self) -> None:
        """Begin the log; raises :class:`~fsm.reference.driven.WorldError` if that fails, or a mounted path is gone."""
        for _, own in self.mounts:
            if not Path(own).exists():
                raise WorldError(f"failed to create shim task: error mounting {own!r}: no such file or directory")
        self.write("")

    def write(self, output: str) -> None:
        """Write *output* to the log as CRI has it, which is made if it is not there; raises as :meth:`prepare`."""
        now = datetime.now(UTC).isoformat()
        lines = "".join(f"{now} stdout F {line}\n" for line in output.splitlines())
        try:
            if self.log:
                with Path(self.log).open("a", encoding="utf-8") as file:
                    file.write(lines)
        except OSError as error:
            raise WorldError(
                f"failed to open log file {self.log!r}: {(error.strerror or str(error)).lower()}"
            ) from error


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
    """What *command* would do happens, by *clock*.

    Raises :class:`~fsm.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command, pid: int, clock: Clock) -> None:
        self.pid = pid
        self.exit: Exit | None = None
        self._plan = script(command.words)
        self._command = command
        command.write(self._plan.output)
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
        code = self._plan.code
        if self._plan.reads:
            said = await _line_of(self._command.here(self._plan.reads))
            code = exit_code(said.decode(errors="replace").strip()) if self._plan.as_read else code
        if self._plan.seconds < inf:
            await self._clock.sleep(self._plan.seconds)
            self._end(code)

    def _end(self, code: int) -> None:
        if self.exit is None:
            self.exit = Exit(code, time.time_ns())
            self._over.set()
            self._timer.cancel()


async def _line_of(path: str) -> bytes:
    """The first line of a file, or of what is written to a pipe; ``-`` if it cannot be read."""
    loop, readable, said = asyncio.get_running_loop(), asyncio.Event(), b""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return b"-"
    try:
        with suppress(PermissionError):  # of a file that is always readable
            loop.add_reader(file, readable.set)
            await readable.wait()
        while True:
            with suppress(BlockingIOError):
                part = os.read(file, 1024)
                said += part
                if not part or b"\n" in said:
                    return said.partition(b"\n")[0]
            readable.clear()
            await readable.wait()
    finally:
        loop.remove_reader(file)
        os.close(file)


class ChildProcess:
    """A process of this machine that runs *command*, below a reaper that lets none of its descendants outlive us.

    Raises :class:`~fsm.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command) -> None:
        arguments = _runnable(command)
        command.prepare()
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
        except (OSError, ValueError) as error:
            raise WorldError(f"cannot run {arguments[0]}: {_reason(error)}") from error
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
        try:
            process = await asyncio.create_subprocess_exec(
                *_runnable(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(command),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise WorldError(f"cannot run {command.words[0]}: {_reason(error)}") from error
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                with suppress(OSError):
                    os.killpg(process.pid, SIGKILL)
                await process.wait()
        code = process.returncode or 0
        return Executed(code=code if code >= 0 else SIGNALLED - code, output=output, errors=errors)


def _reason(error: OSError | ValueError) -> str:
    return ((error.strerror if isinstance(error, OSError) else "") or str(error)).lower()


def _kills_first(words: Sequence[str]) -> bool:
    """Whether *words* end the first process of a container, which is another process here."""
    return words[:1] == ("kill",) and words[-1] == "1"


def _runnable(command: Command) -> list[str]:
    name = command.here(command.words[0]) if command.words else "sleep"
    path = which(name, path=dict(command.environment).get("PATH", os.environ.get("PATH")))
    if path is None:
        raise WorldError(f'exec: "{name}": no such file or directory')
    return [path, *map(command.here, command.words[1:])] if command.words else [path, "infinity"]


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
