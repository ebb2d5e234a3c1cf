"""Processes of containers, which are either real or simulated without side effects."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from math import inf
from pathlib import Path
from shutil import which
from signal import SIGKILL, SIGTERM
from typing import IO, Final

from fsm.errors import reason
from fsm.runtimes.reference.clock import Clock, Tasks
from fsm.runtimes.reference.container.world import KILLED, SIGNALLED, Exit, process_end, shell_code
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.commands import Script, exit_code, script
from fsm.runtimes.reference.node.workloads import BUFFER, LONGEST_LINE, Command, ContainerRecord, Workload, Write

TERM_GRACE: Final = "0"
"""Grace period of the reaper. It is zero, because the process has already been asked to end."""

FLUSH: Final = 2.0
"""Time limit in seconds for reading the remaining output of a process that has exited."""


class ChildProcess(Workload):
    """The process of a container. It runs under a reaper, so that no descendant of the process outlives fsm.

    Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, record: ContainerRecord) -> None:
        command = Command.requested(record.request)
        arguments = _host_command(command)
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
        super().__init__(command, self._process.pid)
        self._reading, self._writing = Tasks(), Tasks()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe  # noqa: S101  (both pipes were requested)
            self._reading.start(self._read(pipe, error=pipe is self._process.stderr))
        if self._process.stdin and self._input:
            self._writing.start(self._write(self._process.stdin, self._input))

    def signal(self, number: int) -> None:
        """Send SIGTERM to the command. Any other signal kills the command and everything that it has started."""
        if self._process.poll() is not None:
            return
        if number == SIGTERM and (leader := _first_child(_first_child(self.pid))):
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

    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        # Process 1 of this machine is not the first process of the container.
        if command.words[:1] == ("kill",) and command.words[-1] == "1":
            self.signal(SIGKILL)
            return 0
        try:
            process = await asyncio.create_subprocess_exec(
                *_host_command(command),
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
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        unfinished = b""
        try:
            while data := await reader.read(BUFFER):
                self._show(data, error=error)
                lines, end, unfinished = (unfinished + data).rpartition(b"\n")
                self._command.write(lines + end, error=error)
                if len(unfinished) >= LONGEST_LINE:
                    self._command.write(unfinished, error=error)
                    unfinished = b""
        finally:
            self._command.write(unfinished, error=error)
            transport.close()

    async def _write(self, pipe: IO[bytes], given: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        await _forward(given, asyncio.StreamWriter(transport, protocol, None, loop))


async def _copy(stream: asyncio.StreamReader | None, write: Write, *, error: bool) -> None:
    while stream and (data := await stream.read(BUFFER)):
        write(data, error)


async def _forward(given: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await given.read(BUFFER):
            to.write(data)
            await to.drain()
    to.close()


def _host_command(command: Command) -> list[str]:
    name, *arguments = map(command.here, command.words or ("sleep", "infinity"))
    path = which(name, path=command.variables.get("PATH", os.environ.get("PATH")))
    if path is None:
        raise WorldError(f'exec: "{name}": no such file or directory')
    return [path, *arguments]


def _environment(command: Command) -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **command.variables}


def _first_child(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])
    return 0


SECOND: Final = 10**9


class SimulatedProcess(Workload):
    """A simulated process that behaves like *command*.

    To continue an earlier process, pass the time at which that process was started as *started_at*.

    Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command, pid: int, clock: Clock, started_at: int = 0) -> None:
        super().__init__(command, pid)
        self._plan = script(command.words, command)
        self._passed = max(0, time.time_ns() - started_at) / SECOND if started_at else 0.0
        self._clock = clock
        self._over = asyncio.Event()
        self._timer = asyncio.create_task(self._run())
        if self._plan.seconds <= self._passed > 0 and not (self._plan.reads or (self._plan.listens and self._input)):
            self._end(self._plan.code, started_at + int(self._plan.seconds * SECOND))

    def signal(self, number: int) -> None:
        if number == SIGTERM:
            if self._plan.on_term is not None:
                self._end(self._plan.on_term)
        else:
            self._end(SIGNALLED + number)

    async def ended(self) -> Exit:
        await self._over.wait()
        assert self.exit is not None  # noqa: S101  (the exit is set before the event)
        return self.exit

    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        plan = script(command.words, command)
        acting = asyncio.create_task(self._act(plan, command, write, given))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({acting, over}, return_when=asyncio.FIRST_COMPLETED)
            return acting.result() if acting.done() else KILLED
        finally:
            acting.cancel()
            over.cancel()

    async def _run(self) -> None:
        self._end(await self._act(self._plan, self._command, self._write, self._input, self._passed))

    def _write(self, data: bytes, error: bool) -> None:  # noqa: FBT001  (the signature of Write)
        self._command.write(data, error=error)
        self._show(data, error=error)

    async def _act(
        self, plan: Script, command: Command, write: Write, given: asyncio.StreamReader | None, now: float = 0.0
    ) -> int:
        code, passed = plan.code, now
        if plan.reads:
            line = await _read_first_line(command.here(plan.reads))
            code = exit_code(line.decode(errors="replace").strip()) if plan.as_read else code
        for said in plan.speech():
            if said.at < passed:
                continue
            if said.at > now:
                await self._clock.sleep(said.at - now)
                now = said.at
            write(said.data, said.error)
        if plan.listens == "cat" and given:
            await _copy(given, write, error=False)
        elif plan.listens and given:
            return await self._run_shell_lines(command, write, given)
        if plan.seconds == inf:
            await asyncio.Event().wait()
        elif plan.seconds > now:
            await self._clock.sleep(plan.seconds - now)
        if plan.kills:
            self.signal(plan.kills)
        return code

    async def _run_shell_lines(self, command: Command, write: Write, given: asyncio.StreamReader) -> int:
        code = 0
        with suppress(ValueError):  # raised for a line that is too long
            while line := await given.readline():
                text = line.decode(errors="surrogateescape").strip()
                if text:
                    code = await self._act(script(["sh", "-c", text], command), command, write, None)
                if text.split()[:1] == ["exit"]:
                    break
        return code

    def _end(self, code: int, at: int = 0) -> None:
        if self.exit is None:
            self.exit = Exit(code, at or time.time_ns())
            self._over.set()
            self._timer.cancel()


def simulated(pids: Callable[[], int], clock: Clock) -> Callable[[ContainerRecord], SimulatedProcess]:
    def launch(record: ContainerRecord) -> SimulatedProcess:
        command = Command.requested(record.request)
        if record.pid:
            return SimulatedProcess(command, record.pid, clock, record.started_at)
        try:
            command.prepare()
            return SimulatedProcess(command, pids(), clock)
        except WorldError as error:
            raise WorldError(f"failed to create containerd task: {error}") from error

    return launch


async def _read_first_line(path: str) -> bytes:
    loop, readable, received = asyncio.get_running_loop(), asyncio.Event(), b""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return b"-"
    try:
        with suppress(PermissionError):  # raised for a regular file, which is always readable
            loop.add_reader(file, readable.set)
            await readable.wait()
        while True:
            with suppress(BlockingIOError):
                part = os.read(file, 1024)
                received += part
                if not part or b"\n" in received:
                    return received.partition(b"\n")[0]
            readable.clear()
            await readable.wait()
    finally:
        loop.remove_reader(file)
        os.close(file)
