"""Faults injected into references under test: errors at named points, a crash before any effect, damaged files."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from os import O_RDWR, O_WRONLY, PathLike
from pathlib import Path
from typing import Final, TypeAlias

from fsm.runtimes.reference.driven import WorldError

Damage: TypeAlias = Callable[[bytes], bytes | None]

EFFECTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""Python audit events of operations that change a disk."""

DAMAGE: Final[tuple[Damage, ...]] = (lambda data: data[: len(data) // 2], lambda _: None, lambda _: b"")
"""Damage that a crash may do to a file: truncate it to half, delete it, or empty it."""


class CrashedError(BaseException):
    """The process crashes here. Not an :class:`Exception`, so that no error handler catches it."""


class Faults(set[str]):
    """The names of the points that fail, and a crash of the process under test before one of its effects.

    An effect changes the process's world, or the disk below *home*. Once ``crashed``, every further effect fails too,
    so that cleanup has no effect either.
    """

    def __init__(self, home: Path | None = None) -> None:
        super().__init__()
        self._home = home
        self._left: int | None = None
        self.crashed = False

    def point(self, name: str, *, effect: bool = True) -> None:
        """Raise :class:`WorldError` if *name* is a fault. Otherwise, count an effect unless *effect* is false."""
        if name in self:
            raise WorldError(f"cannot {name}")
        if effect:
            self.effect()

    @contextmanager
    def crash_at(self, effect: int) -> Iterator[None]:
        """Crash before effect number *effect*, counted from 0, among those that this thread has in the context."""
        _audit()
        self._left, self.crashed = effect, False
        _THREAD.faults = self
        try:
            yield
        finally:
            _THREAD.faults = None
            self._left = None

    def effect(self) -> None:
        """Count an imminent effect. Raise :class:`CrashedError` if the process crashes before it."""
        if self._left is None:
            return
        if self._left == 0:
            self.crashed = True
            raise CrashedError
        self._left -= 1

    def audited(self, event: str, path: object, *arguments: object) -> None:
        """Count the audit event *event*, one of :data:`EFFECTS`, as an effect if it writes below *home*."""
        reads = event == "open" and isinstance(arguments[1], int) and not arguments[1] & (O_WRONLY | O_RDWR)
        if isinstance(path, str | PathLike) and str(path).startswith(f"{self._home}/") and not reads:
            self.effect()


class _Thread(threading.local):
    faults: Faults | None = None


_THREAD: Final = _Thread()


@cache
def _audit() -> None:
    """Install the audit hook only once, because it cannot be removed and slows everything down."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in EFFECTS and _THREAD.faults is not None:
            _THREAD.faults.audited(event, *arguments)

    sys.addaudithook(hook)


def damage(file: Path, how: Damage) -> None:
    """Replace the content of *file* with the result of *how*. Delete the file if the result is ``None``."""
    data = how(file.read_bytes())
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def hide(folder: Path) -> None:
    """Move *folder* away, so that nothing can be written to it."""
    folder.rename(folder.with_name("away"))


def restore(folder: Path) -> None:
    """Move *folder* back if it was hidden."""
    away = folder.with_name("away")
    if away.exists():
        away.rename(folder)
