"""What a container asks of the world: containerd's own record of it, its process, and the time.

Whoever runs containers says here what happens to them; all else about them is
:class:`~fsm.reference.container.container.Container`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from fsm.reference.container.record import Resources


class Exit(NamedTuple):
    """How a process ended, and when, in nanoseconds since 1970."""

    code: int
    at: int


class Task(NamedTuple):
    """The process of a container: made, ``started``, or ended with ``exit``."""

    pid: int
    started: bool = True
    exit: Exit | None = None


class WorldError(Exception):
    """The world did not do, or did not tell, what it was asked."""


class NoRecordError(WorldError):
    """containerd has no record of the container."""


class NoTaskError(WorldError):
    """The container has no process, or none any more."""


class LateError(WorldError):
    """The process ended as ``exit`` says, but not in time."""

    def __init__(self, exit: Exit) -> None:  # noqa: A002  (what it is)
        """It ended with *exit*."""
        super().__init__(f"it ended too late, with code {exit.code}")
        self.exit = exit


class World(Protocol):
    """The surroundings of one container; every method may raise :class:`WorldError`."""

    def now(self) -> int:
        """The time, in nanoseconds since 1970; never 0."""

    def make(self) -> None:
        """Have containerd make its record of the container."""

    def look(self) -> None:
        """Ask containerd for its record; raises :class:`NoRecordError` if there is none."""

    def forget(self) -> None:
        """Have containerd delete its record."""

    def run(self) -> int:
        """Start the process; its id."""

    def kill(self) -> Exit:
        """End the process, by force in the end; how it ended.

        Raises :class:`NoTaskError` if there is none, and :class:`LateError`.
        The exit is told here, and need not be told by an ``exit`` event too.
        """

    def task(self) -> Task | None:
        """The process as it is, if there is one."""

    def drop(self) -> None:
        """Delete what is left of a process that never started, or that has ended."""

    def use(self, event: str, resources: Resources | None = None) -> None:
        """Do to the running container what the call *event* is for: exec, attach, update-resources and the like."""
