"""Pause processes with faults, and the faults that lead to each outcome of the sandbox controller."""

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fsm.reference.container.world import Exit, LateError
from fsm.reference.fault_injection import Faults
from fsm.reference.sandbox.processes import Processes, WatchError

FAULTS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    **dict.fromkeys([("create", "created"), ("start", "started"), ("stop", "stopped"), ("stop", "cleaned")], ()),
    **dict.fromkeys([("shutdown", "removed"), ("handle", "deleted")], ()),
    ("create", "failed"): ("read",),
    ("start", "undone"): ("run",),
    ("start", "left-over"): ("run", "undo"),
    **dict.fromkeys([("stop", "gone"), ("handle", "gone")], ("no task",)),
    **dict.fromkeys([("stop", "kept"), ("handle", "kept")], ("delete",)),
    ("stop", "uncleaned"): ("clean",),
    ("stop", "gone-uncleaned"): ("no task", "clean"),
    ("stop", "kept-uncleaned"): ("delete", "clean"),
    ("stop", "cut-short"): ("late",),
    ("stop", "failed"): ("kill", "clean"),
    ("shutdown", "half"): ("forget",),
    ("shutdown", "failed"): ("clear",),
}
"""The faults that make an event end in an outcome."""


class FaultyProcesses(Processes):
    """Processes that fail at *faults*; exits are seen while the ``gate`` is open, and the watch ``breaks`` once."""

    def __init__(
        self, root: Path, outputs: list[str], *, faults: Faults | None = None, now: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(root, faults=faults, now=now)
        self.gate = asyncio.Event()
        self.breaks = False
        self._outputs = outputs

    def task(self) -> bool:
        """Whether there is a task; the fault ``no task`` deletes it first."""
        self.faults.point("task", effect=False)
        if "no task" in self.faults and super().task():
            self.delete()
        return super().task()

    async def exited(self) -> Exit:
        await self.gate.wait()
        if self.breaks:
            self.breaks = False
            self.gate.clear()
            raise WatchError("the stream has ended")
        return await super().exited()

    async def dead(self) -> Exit:
        ended = await super().dead()
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def hook(self) -> None:
        self._outputs.append("hook")

    def die(self) -> None:
        """End the process with a signal, as if by itself."""
        if self._process is not None and self.ended() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()

    def runs(self) -> bool:
        return super().task() and self.ended() is None

    def end(self) -> None:
        self.faults.clear()
        self.undo()
