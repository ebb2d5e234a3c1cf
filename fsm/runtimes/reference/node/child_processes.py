"""Containers as processes of this machine, whose output goes to the container's log."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from shutil import which
from signal import SIGKILL, SIGTERM
from typing import IO, Final

from fsm.errors import reason
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.container.world import Exit
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.command import LONGEST_LINE, Command
from fsm.runtimes.reference.node.workloads import Write
from fsm.runtimes.reference.sandbox.processes import process_end, shell_code

TERM_GRACE: Final = "0"
"""Grace period in seconds when a reaper ends a process. It is 0 because the process was asked to end before."""

FLUSH: Final = 2.0
"""Number of seconds after the exit of a process in which its remaining output is read."""

BUFFER: Final = 1 << 16


class ChildProcess:
    """A process of this machine that runs *command* under a reaper, so that none of its descendants outlives fsm.

    Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command) -> None:
        arguments = _runnable(command)
        command.prepare()
        source = files("fsm.conformance.exec").joinpath("reaper.py").read_text(encoding="utf-8")
        reaper = [sys.executable, "-I", "-S", "-c", source, str(os.getpid()), TERM_GRACE]
        try:
            self._process = subprocess.Popen(  # noqa: S603  (running a given command is its purpose)
                [*reaper, *arguments],
                stdin=subprocess.PIPE if command.config.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.config.working_dir or None,
                env=_environment(command),
            )
        except (OSError, ValueError) as error:
            raise WorldError(f"cannot run {arguments[0]}: {reason(error)}") from error
        self.pid = self._process.pid
        self.exit: Exit | None = None
        self.readers: set[Write] = set()
        self._command = command
        self._feeding = asyncio.Queue[bytes]()
        self._reading, self._writing = Tasks(), Tasks()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe  # noqa: S101  (both were asked for)
            self._reading.start(self._read(pipe, error=pipe is self._process.stderr))
        if self._process.stdin:
            self._writing.start(self._write(self._process.stdin))

    def signal(self, number: int) -> None:
        """Send SIGTERM to the command. For any other signal, kill the command and everything that it has started."""
        if self._process.poll() is not None:
            return
        if number == SIGTERM and (leader := _child(_child(self.pid))):
            with suppress(OSError):
                os.killpg(leader, SIGTERM)
                return
        self._process.terminate()

    async def ended(self) -> Exit:
        code = shell_code(await process_end(self._process))
        self.exit = self.exit or Exit(code, time.time_ns())
        await self._writing.cancel()
        if self._reading:
            await asyncio.wait(self._reading, timeout=FLUSH)
            await self._reading.cancel()
        return self.exit

    def feed(self, data: bytes) -> None:
        self._feeding.put_nowait(data)

    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        if command.words[:1] == ("kill",) and command.words[-1] == "1":  # here, process 1 is not the container's
            self.signal(SIGKILL)
            return 0
        try:
            process = await asyncio.create_subprocess_exec(
                *_runnable(command),
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=command.config.working_dir or None,
                env=_environment(command),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise WorldError(f"cannot run {command.words[0]}: {reason(error)}") from error
        feeding = Tasks()
        if given and process.stdin:
            feeding.start(_forward(given, process.stdin))
        try:
            await asyncio.gather(
                *(_copy(stream, write, error=stream is process.stderr) for stream in (process.stdout, process.stderr)),
                process.wait(),
            )
        finally:
            await feeding.cancel()
            if process.returncode is None:
                with suppress(OSError):
                    os.killpg(process.pid, SIGKILL)
                await process.wait()
        return shell_code(process.returncode or 0)

    async def _read(self, pipe: IO[bytes], *, error: bool) -> None:
        """Copy everything from *pipe* to the log, line by line, and to the readers as it arrives."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        unfinished = b""
        try:
            while data := await reader.read(BUFFER):
                for write in [*self.readers]:
                    write(data, error)
                lines, end, unfinished = (unfinished + data).rpartition(b"\n")
                self._command.write(lines + end, error=error)
                if len(unfinished) >= LONGEST_LINE:
                    self._command.write(unfinished, error=error)
                    unfinished = b""
        finally:
            self._command.write(unfinished, error=error)
            transport.close()

    async def _write(self, pipe: IO[bytes]) -> None:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        with suppress(OSError):
            while data := await self._feeding.get():
                writer.write(data)
                await writer.drain()
        transport.close()


async def _copy(stream: asyncio.StreamReader | None, write: Write, *, error: bool) -> None:
    while stream and (data := await stream.read(BUFFER)):
        write(data, error)


async def _forward(given: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await given.read(BUFFER):
            to.write(data)
            await to.drain()
    to.close()


def _runnable(command: Command) -> list[str]:
    name = command.here(command.words[0]) if command.words else "sleep"
    path = which(name, path=command.variables.get("PATH", os.environ.get("PATH")))
    if path is None:
        raise WorldError(f'exec: "{name}": no such file or directory')
    return [path, *map(command.here, command.words[1:])] if command.words else [path, "infinity"]


def _environment(command: Command) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **command.variables}


def _child(pid: int) -> int:
    """Return the id of the first child process of *pid*, or 0."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(children[0]) if children else 0
