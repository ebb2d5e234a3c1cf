"""Files that are written, and removed, as a whole and for good.

Whatever system call is the last before a crash: what was there, or what was
written, is there then, complete.  A temporary file may be left behind beside
it; :func:`remove` clears those away too, and so does the next :func:`write`.

One process, and in it one thread at a time, writes one file.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MODE: Final = 0o600
"""What a file may be used for, and by whom: its owner reads and writes it."""


def write(path: Path, data: bytes) -> None:
    """Put *data* where *path* is, in one step that outlasts a crash.

    Raises :class:`OSError`; the file is then what it was before.
    """
    before = _read(path)
    with _folder(path) as folder:
        _replace(path, data)
        try:
            os.fsync(folder)
        except OSError:
            # It is there, but may not stay: a failure must not be half a success.
            if before is None:
                path.unlink()
            else:
                _replace(path, before)
            raise


def remove(path: Path, *others: Path) -> None:
    """See to it that no file is at *path*, nor at *others*, nor what writing it left behind.

    The file itself goes last, so that what is left of it after a crash can
    still be found.  Raises :class:`OSError`, and can be repeated.
    """
    for each in (*leftovers(path), *others, path):
        each.unlink(missing_ok=True)
    # Where there is no folder there is nothing in it.
    with suppress(FileNotFoundError), _folder(path) as folder:
        os.fsync(folder)


def leftovers(path: Path) -> tuple[Path, ...]:
    """The temporary files that unfinished writes of *path* left behind, ours and containerd's."""
    return tuple(sorted(path.parent.glob(f"{_prefix(path)}*")))


def _replace(path: Path, data: bytes) -> None:
    for each in leftovers(path):
        each.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path))
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  (it is open already)
            os.fchmod(handle, MODE)
            file.write(data)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _prefix(path: Path) -> str:
    return f".tmp-{path.name}"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    """The folder of *path*, open, so that what changes in it can be made to last."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)
