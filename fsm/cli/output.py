"""Files that commands write: whole, or not at all."""

import os
import sys
import tempfile
from pathlib import Path

import click

ORDINARY = 0o666


def put(written: str | bytes, path: Path | None, *, folders: bool = False) -> None:
    """Write it to the file at *path*, or to standard output; with *folders*, missing folders are made."""
    if path is None:
        if isinstance(written, bytes) and written.startswith(b"\x89PNG") and sys.stdout and sys.stdout.isatty():
            raise click.UsageError("a terminal cannot show PNG: use --output FILE.png, or > FILE.png")
        click.echo(written, nl=False)
        return
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        write(path, written)
    except OSError as error:
        raise click.FileError(str(path), (error.strerror or str(error)).lower()) from error


def write(path: Path, content: str | bytes) -> None:
    """Put *content* into the file at *path*; a reader meets the old content or the new.

    It is written beside it first and then given its name, so that nothing is left if the command is interrupted.
    What is no ordinary file, such as a pipe, is written to as it is.  Raises ``OSError``.
    """
    data = content.encode() if isinstance(content, str) else content
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), path.stat().st_mode if path.exists() else ORDINARY & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The rights that new files do not get; it can only be asked by setting it."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
