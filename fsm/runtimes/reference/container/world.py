"""The world of a container or pod: processes, errors, and a simulated world that can fail."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.fault_injection import Faults, hide, restore

KILLED: Final = 137

LOST_CODE: Final = 255
LOST_REASON: Final = "Unknown"
"""Exit code and reason of an exit that was not observed."""


class Exit(NamedTuple):
    """The exit code of a process, and the time of its exit in nanoseconds since the epoch."""

    code: int
    at: int


class Task(NamedTuple):
    """The process of a container. It was created, has ``started``, or ended with ``exit``."""

    pid: int
    started: bool = True
    exit: Exit | None = None


class NoRecordError(WorldError):
    """containerd has no record of the container."""


class NoTaskError(WorldError):
    """The container has no process."""


class LateError(WorldError):
    """The process ended with ``exit``, but not in time."""

    def __init__(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        super().__init__(f"it ended too late, with code {exit.code}")
        self.exit = exit


@dataclass(eq=False)
class SimulatedWorld:
    """The world of one container on a disk at *root*. ``faults`` raise :class:`WorldError` until :meth:`end_event`.

    ``known`` says whether containerd has a record, and ``ended`` whether the current event has killed the process.
    """

    root: Path
    faults: Faults = field(default_factory=Faults)
    known: bool = False
    process: Task | None = None
    ended: bool = False
    _time: int = 1_000
    _pid: int = 100

    def now(self) -> int:
        """Return the time in nanoseconds since the epoch. It is never 0."""
        self._time += 1
        return self._time

    def make(self) -> None:
        self.faults.point("make")
        self.known = True

    def look(self) -> None:
        """Look up containerd's record. Raise :class:`NoRecordError` if there is none."""
        self.faults.point("look", effect=False)
        if "gone" in self.faults:
            self.known = False
        if not self.known or "no record" in self.faults:
            raise NoRecordError("no such container")

    def forget(self) -> None:
        self.faults.point("forget")
        self.known = False

    def run(self) -> int:
        """Start the process and return its id."""
        self.faults.point("run")
        self._pid += 1
        self.process = Task(self._pid)
        if "disk" in self.faults:
            hide(self.root)
        return self._pid

    def kill(self) -> Exit:
        """Kill the process. Raise :class:`NoTaskError` if there is none, or :class:`LateError` if it ends too late."""
        self.faults.point("kill", effect=False)
        if "no task" in self.faults or (self.process is None and "late" not in self.faults):
            raise NoTaskError("no such process")
        self.faults.effect()
        self.process, self.ended = None, True
        ended = Exit(KILLED, self.now())
        if "late" in self.faults:
            raise LateError(ended)
        return ended

    def task(self) -> Task | None:
        self.faults.point("task", effect=False)
        return self.process

    def drop(self) -> None:
        """Delete the remains of a process that never started or has ended."""
        self.faults.point("drop")
        self.process = None

    def use(self) -> None:
        """Do the work of a call such as exec, attach or update-resources."""
        self.faults.point("use")

    def end_event(self) -> None:
        """End the current event, and with it all faults."""
        self.faults.clear()
        self.ended = False
        restore(self.root)
