"""What a container needs from its surroundings: containerd's own record of it, its process, and the time."""

from typing import NamedTuple, Protocol

from fsm.reference.container.record import Resources


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


class World(Protocol):
    """The surroundings of one container; every method may raise :class:`WorldError`."""

    def now(self) -> int:
        """The time, in nanoseconds since 1970; never 0."""

    def make(self) -> None:
        """Create containerd's record of the container."""

    def look(self) -> None:
        """Look up containerd's record; raises :class:`NoRecordError` if there is none."""

    def forget(self) -> None:
        """Delete containerd's record."""

    def run(self) -> int:
        """Start the process; its id."""

    def kill(self) -> Exit:
        """End the process, by force if necessary; its exit.

        Raises :class:`NoTaskError` if there is none, and :class:`LateError`.
        No ``exit`` event need follow.
        """

    def task(self) -> Task | None:
        """The process, if there is one."""

    def drop(self) -> None:
        """Delete the remains of a process that never started or has ended."""

    def use(self, event: str, resources: Resources | None = None) -> None:
        """Do what the call *event* is for, such as exec, attach or update-resources, to the running container."""
