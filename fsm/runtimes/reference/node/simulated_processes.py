"""Processes of simulated containers. They do what their commands would do, timed by a clock."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from signal import SIGTERM
from typing import Final

from fsm.runtimes.reference.clock import Clock
from fsm.runtimes.reference.container.world import KILLED, Exit
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.command import Command, ContainerRecord
from fsm.runtimes.reference.node.commands import Script, exit_code, script
from fsm.runtimes.reference.node.workloads import Write
from fsm.runtimes.reference.sandbox.processes import SIGNALLED

SECOND: Final = 10**9
OPEN_INPUT: Final = 1 << 20
"""Maximum number of bytes of standard input that wait for a command."""


class SimulatedProcess:
    """A process that does what *command* would do, timed by *clock*.

    For a process that continues after a restart, *started_at* is its start time in nanoseconds since the epoch. Raise
    :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """

    def __init__(self, command: Command, pid: int, clock: Clock, started_at: int = 0) -> None:
        self.pid = pid
        self.exit: Exit | None = None
        self.readers: set[Write] = set()
        self._plan = script(command.words, command)
        self._command = command
        self._passed = max(0, time.time_ns() - started_at) / SECOND if started_at else 0.0
        self._clock = clock
        self._over = asyncio.Event()
        self._input = asyncio.StreamReader(limit=OPEN_INPUT) if command.config.stdin else None
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
        assert self.exit is not None  # noqa: S101  (the event is set after it)
        return self.exit

    def feed(self, data: bytes) -> None:
        if self._input is None or self._input.at_eof() or self.exit:
            return
        if data:
            self._input.feed_data(data)
        else:
            self._input.feed_eof()

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
        for write in [*self.readers]:
            write(data, error)

    async def _act(
        self, plan: Script, command: Command, write: Write, given: asyncio.StreamReader | None, now: float = 0.0
    ) -> int:
        """Do what *plan* says from second *now* on. Return the exit code."""
        code, passed = plan.code, now
        if plan.reads:
            line = await _first_line(command.here(plan.reads))
            code = exit_code(line.decode(errors="replace").strip()) if plan.as_read else code
        for said in plan.speech():
            if said.at < passed:
                continue
            if said.at > now:
                await self._clock.sleep(said.at - now)
                now = said.at
            write(said.data, said.error)
        if plan.listens and given:
            return await (_echo(given, write) if plan.listens == "cat" else self._obey(command, write, given))
        if plan.seconds == inf:
            await asyncio.Event().wait()
        elif plan.seconds > now:
            await self._clock.sleep(plan.seconds - now)
        if plan.kills:
            self.signal(plan.kills)
        return code

    async def _obey(self, command: Command, write: Write, given: asyncio.StreamReader) -> int:
        code = 0
        while line := await _next_line(given):
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


def simulated(pids: Callable[[], int], clock: Clock) -> Callable[[Command], SimulatedProcess]:
    """Return a function that starts simulated processes, with process ids from *pids*."""

    def launch(command: Command) -> SimulatedProcess:
        try:
            command.prepare()
            return SimulatedProcess(command, pids(), clock)
        except WorldError as error:
            raise WorldError(f"failed to create containerd task: {error}") from error

    return launch


def resumed(record: ContainerRecord, clock: Clock) -> SimulatedProcess:
    """Return the process of *record*, which continues."""
    return SimulatedProcess(Command.requested(record.request), record.pid, clock, record.started_at)


async def _echo(given: asyncio.StreamReader, write: Write) -> int:
    while data := await given.read(OPEN_INPUT):
        write(data, False)  # noqa: FBT003  (the signature of Write)
    return 0


async def _next_line(given: asyncio.StreamReader) -> bytes:
    """Return the next line, or no bytes at the end of input or if the line is too long."""
    try:
        return await given.readline()
    except ValueError:
        return b""


async def _first_line(path: str) -> bytes:
    """Return the first line of a file or pipe, or ``-`` if it cannot be opened."""
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
