"""What goes wrong on purpose in the systems under test: faults of their surroundings, and the death of their process.

A process dies in the middle of an event, so that a test sees what it leaves on a disk.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import cache
from os import O_RDWR, O_WRONLY, PathLike
from typing import TYPE_CHECKING, Final

from fsm.reference.container.world import WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEMORY: Final = "/dev/shm"  # noqa: S108  (names in it are random)
"""Where files are made to last in no time, if it is there; to a process that dies it is a disk as any other."""

EFFECTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""What Python audits that changes what is on a disk."""


class DeadError(BaseException):
    """The process dies here; not an error, so that no handler of errors catches it."""


class Death:
    """When a process dies: before one of its effects, on the world or on the disk at *home*.

    Effects on the disk are seen in the events that Python audits.  A process
    that is ``dead`` has no effect any more, not even in clearing up.
    """

    def __init__(self, home: Path) -> None:
        self._home = f"{home}/"
        self._left: int | None = None
        self.dead = False

    @contextmanager
    def at(self, point: int) -> Iterator[None]:
        """Die before effect number *point* of what happens meanwhile in this thread, counted from 0."""
        _audit()
        self._left, self.dead = point, False
        _THREAD.dying = self
        try:
            yield
        finally:
            _THREAD.dying = None
            self._left = None

    def effect(self) -> None:
        """An effect is about to be."""
        if self._left is None:
            return
        if self._left == 0:
            self.dead = True
            raise DeadError
        self._left -= 1

    def audited(self, event: str, arguments: tuple[object, ...]) -> None:
        """*event*, one of :data:`EFFECTS`, is about to be."""
        path = arguments[0]
        here = isinstance(path, str | PathLike) and str(path).startswith(self._home)
        reads = event == "open" and isinstance(arguments[2], int) and not arguments[2] & (O_WRONLY | O_RDWR)
        if here and not reads:
            self.effect()


class _Thread(threading.local):
    dying: Death | None = None


_THREAD: Final = _Thread()


@cache
def _audit() -> None:
    """Audit from now on, by one hook: it cannot be removed, and each makes everything slower."""
    sys.addaudithook(_audited)


def _audited(event: str, arguments: tuple[object, ...]) -> None:
    if event in EFFECTS and _THREAD.dying:
        _THREAD.dying.audited(event, arguments)


class Faults(set[str]):
    """The names of what goes wrong; an effect that goes well counts for *death*.

    >>> faults = Faults()
    >>> faults.meet("run")
    >>> faults.add("run")
    >>> faults.meet("run")
    Traceback (most recent call last):
        ...
    fsm.reference.container.world.WorldError: cannot run
    """

    def __init__(self, death: Death | None = None) -> None:
        """No faults yet."""
        super().__init__()
        self._death = death

    def meet(self, name: str, *, effect: bool = True) -> None:
        """Raise :class:`WorldError` if *name* is to go wrong; otherwise it is done, or only read if it has no *effect*."""
        if name in self:
            message = f"cannot {name}"
            raise WorldError(message)
        if effect and self._death is not None:
            self._death.effect()
