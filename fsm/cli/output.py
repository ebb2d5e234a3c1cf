"""Output files of commands: written completely or not at all."""

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
"""The permissions of a new file, before the umask."""


@contextmanager
def whole_or_nothing() -> Iterator[Callable[[Path], None]]:
    """Remove all new files and folders if the block fails; it calls the yielded function before writing to a path."""
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
    """Call *begin* and write to the file at *path*, or to standard output without a path."""
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
    """Check whether *path* is the file *name*."""
    return path is not None and path.exists() and path.samefile(name)


def failed(path: Path, error: OSError) -> Exception:
    """Return the exception to raise for the *error* of writing to *path*: itself if the disk is to blame."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
    return error if full else click.FileError(str(path), reason(error))


def write(path: Path, content: str | bytes) -> None:
    """Write *content* to the file at *path*, like :func:`replacing`.  Raises ``OSError``."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open the file at *path* for new content; a reader sees the old content or the new, never a part.

    The new file has no name, or a temporary one, until it is complete, so that nothing is left if the command is
    interrupted.  If it is killed, a file is left only if the file system does not support files without a name, or in
    the moment before the rename.  Anything that is no ordinary file, such as a pipe, is written to directly.  Raises
    ``OSError``.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # only now: the real path of a pipe such as /dev/stdout is no file
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle, here = _new(beside)
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                shutil.copymode(path, here)
            yield file
            file.flush()
            if here != beside:
                os.link(here, beside, src_dir_fd=handle)  # any value: without one, the link would not be followed
            beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _new(beside: Path) -> tuple[int, Path]:
    """Open a new file, without a name if the file system can do that, else *beside*; return it with a path to it."""
    with suppress(AttributeError, OSError):
        handle = os.open(beside.parent, os.O_WRONLY | os.O_TMPFILE, ORDINARY)
        here = Path(f"/proc/self/fd/{handle}")
        if here.exists():
            return handle, here
        os.close(handle)
    return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ORDINARY), beside
