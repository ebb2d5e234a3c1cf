"""Files that commands write: whole, or not at all."""

import os
import secrets
import shutil
import sys
from pathlib import Path

import click


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
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            if path.exists():
                shutil.copymode(path, beside)
            file.write(data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
