"""Files that are written and removed atomically and durably, and durable directories.

After a crash at any time, a file has its old or its new content. Leftover temporary files are deleted by
:func:`remove` and by the next :func:`write`. Two processes or threads must not write a file at the same time.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MODE: Final = 0o600


class UnknownContentError(OSError):
    """The new content of a file was not made durable, and the old content was not restored."""


def write(path: Path, data: bytes) -> None:
    """Replace the content of *path* with *data*. After an :class:`OSError`, the file has its old content.

    After an :class:`UnknownContentError`, however, the file may have either content and should be read again.
    """
    before = path.read_bytes() if path.exists() else None
    with _folder(path) as folder:
        _replace(path, data)
        try:
            os.fsync(folder)
        except OSError as error:
            # The new content is in place but may not be durable. After a failure, the file must have its old content.
            try:
                if before is None:
                    path.unlink()
                else:
                    _replace(path, before)
            except OSError as second:
                what = f"{path}: has the old or the new content: {error}"
                raise UnknownContentError(f"{what}; the old content was not restored: {second}") from second
            raise


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    if not path.parent.exists():
        make_folder(path.parent, exist_ok=True)
    path.mkdir(exist_ok=exist_ok)
    with _folder(path) as parent:
        os.fsync(parent)


def remove(path: Path, *others: Path) -> None:
    """Delete *path*, its temporary files and *others*, if they exist. Raise :class:`OSError` on failure.

    *path* is deleted last, so that the remaining files can still be found after a crash.
    """
    for file in (*leftovers(path), *others, path):
        file.unlink(missing_ok=True)
    # If the directory does not exist, there is nothing to make durable.
    with suppress(FileNotFoundError), _folder(path) as folder:
        os.fsync(folder)


def leftovers(path: Path) -> tuple[Path, ...]:
    return tuple(sorted(path.parent.glob(f".tmp-{path.name}*")))


def _replace(path: Path, data: bytes) -> None:
    for leftover in leftovers(path):
        leftover.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".tmp-{path.name}")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  (a descriptor, not a path)
            os.fchmod(handle, MODE)
            file.write(data)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)
