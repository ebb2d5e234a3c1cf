"""What a sandbox needs from its surroundings: its pause process (the task), its container, files and the hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fsm.reference.container.world import WorldError

if TYPE_CHECKING:
    from fsm.reference.container.world import Exit


class WatchError(WorldError):
    """The stream that was to report an exit broke, or ended without one."""


class World(Protocol):
    """The surroundings of one sandbox; every method may raise :class:`~fsm.reference.container.world.WorldError`."""

    def now(self) -> int:
        """The time, in nanoseconds since 1970; never 0."""

    def read(self) -> None:
        """Read the configuration of the sandbox."""

    def run(self) -> int:
        """Create directories, container and task, and start the pause process; its id."""

    def describe(self) -> None:
        """Read back what was started, for the caller of the start."""

    def undo(self) -> None:
        """Delete everything that a failed start has made."""

    def pid(self) -> int:
        """The id of the running process."""

    def task(self) -> bool:
        """Whether there is a task: a process, or the remains of one."""

    def ended(self) -> Exit | None:
        """How the process ended, as far as is known; ``None`` while it runs."""

    async def exited(self) -> Exit:
        """Wait until the process has ended; raises :class:`WatchError` too."""

    def kill(self) -> None:
        """Start killing the process; :meth:`dead` waits for its end."""

    async def dead(self) -> Exit:
        """Wait for the end of a killed process; raises :class:`~fsm.reference.container.world.LateError` if that takes too long."""

    def delete(self) -> None:
        """Delete the task, and kill it first if it runs; raises :class:`~fsm.reference.container.world.NoTaskError`."""

    def hook(self) -> None:
        """Notify plugins of NRI 0.1 that the task was deleted."""

    def clean(self) -> None:
        """Clean up the files of a stopped sandbox; can be repeated."""

    def clear(self) -> None:
        """Remove its directories, if they exist."""

    def forget(self) -> None:
        """Delete its container, if there is one."""
