"""What a sandbox asks of the world: its pause process, which is its task, and its container, files and hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fsm.reference.container.world import WorldError

if TYPE_CHECKING:
    from fsm.reference.container.world import Exit


class WatchError(WorldError):
    """The stream on which an exit was awaited broke, or ended without a word."""


class World(Protocol):
    """The surroundings of one sandbox; every method may raise :class:`~fsm.reference.container.world.WorldError`."""

    def now(self) -> int:
        """The time, in nanoseconds since 1970; never 0."""

    def read(self) -> None:
        """Read what the sandbox is to be."""

    def run(self) -> int:
        """Make directories, container and task, and start the pause process; its id."""

    def describe(self) -> None:
        """Read back what was started, for the caller of the start."""

    def undo(self) -> None:
        """Clear away all that a start has made that failed."""

    def pid(self) -> int:
        """The id of the process that runs."""

    def task(self) -> bool:
        """Whether there is a task: a process, or what is left of one."""

    def ended(self) -> Exit | None:
        """How the process has ended, as far as that is known; ``None`` while it runs."""

    async def exited(self) -> Exit:
        """Wait until the process has ended; raises :class:`WatchError` too."""

    def kill(self) -> None:
        """End the process by force; that it has is told by :meth:`dead`."""

    async def dead(self) -> Exit:
        """Wait until what was killed has ended; raises :class:`~fsm.reference.container.world.LateError` if nobody waits so long."""

    def delete(self) -> None:
        """Delete the task, and kill it before if need be; raises :class:`~fsm.reference.container.world.NoTaskError` if there is none."""

    def hook(self) -> None:
        """Let plugins of NRI 0.1 know that the task was deleted."""

    def clean(self) -> None:
        """Clean up the files of a sandbox that has stopped; again, if need be."""

    def clear(self) -> None:
        """Remove its directories, if they are there."""

    def forget(self) -> None:
        """Delete its container, if there is one."""
