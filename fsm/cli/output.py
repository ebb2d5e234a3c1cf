"""Files that commands write: whole, or not at all."""

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from fsm.errors import reason

ORDINARY = 0o666
"""The rights of a new file, from which the system takes some away."""


@contextmanager
def whole_or_nothing() -> Iterator[Callable[[Path], None]]:
    """Remove all new files and folders if the block fails; call what it yields with each path before writing to it."""
    made: list[Path] = []

    def begin(path: Path) -> None:
        for each in (*reversed(path.parents), path):
            if not os.path.lexists(each):
                if each is not path:
                    each.mkdir()
                made.append(each)

    try:
        yield begin
    except BaseException:
        for each in reversed(made):
            with suppress(OSError):
                each.rmdir() if each.is_dir() else each.unlink()
        raise


def put(written: str | bytes, path: Path | None, begin: Callable[[Path], None] = lambda _: None) -> None:
    """Call *begin* and write to the file at *path*, or without a path to standard output."""
    if path is None:
        if isinstance(written, bytes) and written.startswith(b"\x89PNG") and sys.stdout and sys.stdout.isatty():
            raise click.UsageError("a terminal cannot show PNG: use --output FILE.png, or > FILE.png")
        click.echo(written, nl=False)
        return
    try:
        begin(path)
        write(path, written)
    except OSError as error:
        raise failed(path, error) from error


def same(name: str, path: Path | None) -> bool:
    """Whether *path* is the file *name*."""
    return path is not None and path.exists() and path.samefile(name)


def failed(path: Path, error: OSError) -> Exception:
    """What to raise for the *error* of writing to *path*: it is itself where the path is not to blame."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
    return error if full else click.FileError(str(path), reason(error))


def write(path: Path, content: str | bytes) -> None:
    """Put *content* into the file at *path*, as :func:`replacing` does.  Raises ``OSError``."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """The new content of the file at *path*; a reader meets the old content or the new.

    It has no name, or another one, until it is complete, so that nothing is left if the command is interrupted; if it is
    killed, only where the file system cannot hold what has no name, or in the moment between two names.  What is no
    ordinary file, such as a pipe, is written to as it is.  Raises ``OSError``.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # of a pipe, as /dev/stdout may be, it would be no file
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle, here = _new(beside)
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                shutil.copymode(path, here)
            yield file
            file.flush()
            if here != beside:
                os.link(here, beside, src_dir_fd=handle)  # any folder, or the link at *here* would not be followed
            beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _new(beside: Path) -> tuple[int, Path]:
    """A new file and a path to it: it has no name where the file system can hold such files, else the name *beside*."""
    with suppress(AttributeError, OSError):
        handle = os.open(beside.parent, os.O_WRONLY | os.O_TMPFILE, ORDINARY)
        here = Path(f"/proc/self/fd/{handle}")
        if here.exists():
            return handle, here
        os.close(handle)
    return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ORDINARY), beside
