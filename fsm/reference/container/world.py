"""What the surroundings of a container or a pod report: processes, exits, and failures."""

from typing import NamedTuple


class Exit(NamedTuple):
    """The exit code of a process, and when it ended, in nanoseconds since 1970."""

    code: int
    at: int


class Task(NamedTuple):
    """The process of a container: created, ``started``, or ended with ``exit``."""

    pid: int
    started: bool = True
    exit: Exit | None = None


class WorldError(Exception):
    """The surroundings did not do what was asked, or did not answer."""


class NoRecordError(WorldError):
    """containerd has no record of the container."""


class NoTaskError(WorldError):
    """The container has no process, or no longer has one."""


class LateError(WorldError):
    """The process ended as ``exit`` says, but not in time."""

    def __init__(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        super().__init__(f"it ended too late, with code {exit.code}")
        self.exit = exit
