"""Write the output files of commands completely or not at all."""

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

from fsm.cli.options import layout
from fsm.errors import reason
from fsm.report.layout import Layout

ORDINARY = 0o666
"""Permissions of a new file before the umask is applied."""


@contextmanager
def whole_or_nothing() -> Iterator[Callable[[Path], None]]:
    """Remove all new files and folders if the block fails.

    The block must call the yielded function with each path before writing to it.
    """
    made: list[Path] = []

    def begin(path: Path) -> None:
        for part in (*reversed(path.parents), path):
            if not os.path.lexists(part):
                if part is not path:
                    part.mkdir()
                made.append(part)

    try:
        yield begin
    except BaseException:
        for part in reversed(made):
            with suppress(OSError):
                part.rmdir() if part.is_dir() else part.unlink()
        raise


def put(written: str | bytes, path: Path | None, begin: Callable[[Path], None] = lambda _: None) -> None:
    """Call *begin* and write to the file at *path*. If *path* is ``None``, just write to standard output."""
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


def put_text(text: Callable[[Layout], str], path: Path | None) -> None:
    """Like :func:`put`, with *text* in the layout for a file or for standard output."""
    put(text(layout(coloured=path is None)), path)


def same(name: str, path: Path | None) -> bool:
    """Check whether *path* is the file *name*."""
    return path is not None and path.exists() and path.samefile(name)


def failed(path: Path, error: OSError) -> Exception:
    """Return the exception to raise for an *error* in writing to *path*: *error* itself if the disk is at fault."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
    return error if full else click.FileError(str(path), reason(error))


def write(path: Path, content: str | bytes) -> None:
    """Write *content* to the file at *path* with :func:`replacing`. Raise ``OSError`` if that fails."""
    with replacing(path) as file:
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open the file at *path* for new content. Readers see either the old content or the new, never a part of it.

    Until it is complete, the new file has no name or a temporary one, so that nothing is left behind if the command is
    interrupted. If the command is killed, a file is left behind only if the file system does not support unnamed files
    or if it happens just before the rename. Anything that is not a regular file, such as a pipe, is written directly.
    Raise ``OSError`` if writing fails.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # not earlier, as the real path of a pipe such as /dev/stdout is no file
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle, opened = _new_file(temporary)
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                shutil.copymode(path, opened)
            yield file
            file.flush()
            if opened != temporary:
                os.link(opened, temporary, src_dir_fd=handle)  # giving any src_dir_fd makes it follow the link
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _new_file(temporary: Path) -> tuple[int, Path]:
    """Open a new file, unnamed if the file system supports that, else called *temporary*. Return it and its path."""
    with suppress(AttributeError, OSError):
        handle = os.open(temporary.parent, os.O_WRONLY | os.O_TMPFILE, ORDINARY)
        unnamed = Path(f"/proc/self/fd/{handle}")
        if unnamed.exists():
            return handle, unnamed
        os.close(handle)
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ORDINARY), temporary
