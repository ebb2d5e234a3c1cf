"""A world for sandboxes in which pause processes are processes of this machine, so that exits are real exits."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fsm.reference.container.world import Exit, NoTaskError, WorldError

if TYPE_CHECKING:
    from pathlib import Path

PAUSE: Final = ("cat",)
"""What does nothing, as a pause process does: it reads what nobody writes, and ends with whoever started it."""

SIGNALLED: Final = 128
"""Added to the number of the signal that ended a process, its exit code."""


class Processes:
    """The world of one sandbox, whose directory is *root*, on Linux.

    ``hooks`` counts how often the hook ran.

    >>> import tempfile
    >>> from pathlib import Path
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

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hooks = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watched = -1
        self._exit: Exit | None = None

    def now(self) -> int:
        """The time."""
        return time.time_ns()

    def read(self) -> None:
        """There is nothing to be read."""

    def run(self) -> int:
        """Its directory, a file in it, and a process."""
        try:
            self.root.mkdir()
            (self.root / "hosts").touch()
            self._process = subprocess.Popen(PAUSE, stdin=subprocess.PIPE)  # noqa: S603  (nobody else says what)
            self._watched = os.pidfd_open(self._process.pid)
        except OSError as error:
            raise WorldError(str(error)) from error
        return self._process.pid

    def describe(self) -> None:
        """There is nothing to be read."""

    def undo(self) -> None:
        """Nothing is left."""
        with suppress(NoTaskError):
            self.delete()
        self.clear()

    def pid(self) -> int:
        """Its id."""
        if self._process is None:
            message = "no task"
            raise NoTaskError(message)
        return self._process.pid

    def task(self) -> bool:
        """Whether there is a process that runs, or one whose end was not asked for."""
        return self._process is not None

    def ended(self) -> Exit | None:
        """How it has ended."""
        if self._process is not None and self._exit is None and (code := self._process.poll()) is not None:
            self._exit = Exit(code if code >= 0 else SIGNALLED - code, self.now())
        return self._exit

    async def exited(self) -> Exit:
        """Wait for it, and for nothing else."""
        while (ended := self.ended()) is None:
            loop = asyncio.get_running_loop()
            seen = asyncio.Event()
            descriptor = os.dup(self._watched)
            loop.add_reader(descriptor, seen.set)
            try:
                await seen.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        return ended

    def kill(self) -> None:
        """Its end is near."""
        if self._process is not None:
            self._process.kill()

    async def dead(self) -> Exit:
        """Wait for it."""
        return await Processes.exited(self)

    def delete(self) -> None:
        """Nothing is left of the process, and how it ended is known."""
        if self._process is None:
            message = "no task"
            raise NoTaskError(message)
        self._process.kill()
        select.select([self._watched], [], [])
        self.ended()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        os.close(self._watched)

    def hook(self) -> None:
        """Count."""
        self.hooks += 1

    def clean(self) -> None:
        """Remove the file."""
        (self.root / "hosts").unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.root, ignore_errors=True)

    def forget(self) -> None:
        """The container was no more than its process."""
