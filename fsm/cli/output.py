"""Write files, and show the progress of commands on standard error.

Files are written completely or not at all. Progress is a bar on a terminal, and elsewhere a line every ten seconds.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from fsm.cli.options import layout
from fsm.errors import reason, stdin
from fsm.interruption import resident
from fsm.machine.traversal import Explored
from fsm.recordings.line_reader import STDIN
from fsm.report.layout import Layout

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged
    from fsm.monitor.judgement.part import Telling

ORDINARY = 0o666


@contextmanager
def remove_on_failure() -> Iterator[Callable[[Path], None]]:
    """Yield a function to call before writing to a path. New files and folders are removed if the block fails."""
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
    """Write to the file at *path*, after calling *begin*, or to standard output if *path* is ``None``."""
    if path is None:
        if isinstance(written, bytes) and written.startswith(b"\x89PNG") and sys.stdout and sys.stdout.isatty():
            raise click.UsageError("a terminal cannot show a PNG picture; use --output FILE.png, or > FILE.png")
        click.echo(written, nl=False)
        return
    try:
        begin(path)
        write(path, written)
    except OSError as error:
        raise failed(path, error) from error


def put_text(text: Callable[[Layout], str], path: Path | None) -> None:
    put(text(layout(coloured=path is None)), path)


def same(name: str, path: Path | None) -> bool:
    return path is not None and path.exists() and path.samefile(name)


def failed(path: Path, error: OSError) -> Exception:
    """Convert an error in writing to *path* to a command-line error. Disk errors are returned unchanged."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
    return error if full else click.FileError(str(path), reason(error))


def write(path: Path, content: str | bytes) -> None:
    """Replace the content of the file at *path* atomically. Raise ``OSError`` if that fails."""
    with replacing(path) as file:
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open *path* so that its content is replaced atomically. Special files such as pipes are written directly.

    If the file system supports unnamed files, the new file has no name until it is complete, so an interrupted command
    leaves nothing behind. Other file systems need a temporary name. Raise ``OSError`` if writing fails.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # only now, because a pipe such as /dev/stdout has no real path
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle, opened = _new_file(temporary)
        with os.fdopen(handle, "wb") as file:
            if path.exists():
                shutil.copymode(path, opened)
            yield file
            file.flush()
            if opened != temporary:
                os.link(opened, temporary, src_dir_fd=handle)  # The link is followed only if src_dir_fd is given.
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _new_file(temporary: Path) -> tuple[int, Path]:
    """Open a new unnamed file, or the new file *temporary* if the file system does not support unnamed files."""
    with suppress(AttributeError, OSError):
        handle = os.open(temporary.parent, os.O_WRONLY | os.O_TMPFILE, ORDINARY)
        unnamed = Path(f"/proc/self/fd/{handle}")
        if unnamed.exists():
            return handle, unnamed
        os.close(handle)
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ORDINARY), temporary


@contextmanager
def drawing(what: str = "a page", advice: str = "") -> Iterator[None]:
    """Report a missing or failing Graphviz as a command-line error. *what* is the feature that needs it."""
    from fsm.diagrams.draw.dot import HOW_TO_GET_DOT, DotFailedError, NoDotError  # noqa: PLC0415  (commands that draw)

    try:
        yield
    except NoDotError as error:
        message = f"{what} needs Graphviz's program 'dot', which is not installed: {HOW_TO_GET_DOT}{advice}"
        raise click.ClickException(message) from error
    except DotFailedError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def read_again(names: Collection[str]) -> Iterator[Callable[[], None]]:
    """Yield a function that rewinds standard input if *names* includes it. Otherwise, the function does nothing."""
    before = sys.stdin
    if STDIN not in names or before is None:
        yield lambda: None
        return
    with tempfile.TemporaryFile() as kept:
        try:
            shutil.copyfileobj(stdin(), kept)
        except OSError:  # The error is reported when standard input is read.
            yield lambda: None
            return

        def rewind() -> None:
            kept.seek(0)
            sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(kept.fileno()), "rb"))

        rewind()
        try:
            yield rewind
        finally:
            sys.stdin = before


def judge_with_stories(judged: Judged, rewind: Callable[[], None], judge: Callable[..., Judged]) -> Judged:
    from fsm.monitor.judgement.part import with_stories  # noqa: PLC0415  (slow to import)

    def collect(telling: Telling) -> Judged:
        rewind()
        return judge(telling=telling)

    return with_stories(judged, collect)


PAUSE: Final = 0.2  # minimum number of seconds between updates of the progress bar

REPORTING: Final = 10.0  # number of seconds between progress reports


class CommandProgress:
    """Shows progress towards *size* units of work. Nothing is shown if *size* is 0."""

    def __init__(self, label: str, size: int) -> None:
        self._label = label
        self._terminal = bool(size) and sys.stderr is not None and sys.stderr.isatty()  # stderr may be closed
        self.bar = click.progressbar(length=size, label=label, file=sys.stderr if self._terminal else io.StringIO())
        self._began = self._search_began = self._shown = time.monotonic()

    def advance(self, units: int = 1) -> None:
        self.bar.update(units)

    def reach(self, done: int, size: int) -> None:
        self.bar.length = size
        self.bar.update(done - self.bar.pos)

    def searched(self, covered: Explored) -> None:
        now = time.monotonic()
        if not covered.nodes:
            self._search_began = now
        elif now >= self._shown + PAUSE:
            self._shown = now
            rate = covered.nodes / max(now - self._search_began, PAUSE)
            self._relabel(f"{covered.nodes:,} states, {rate:,.0f}/s, {resident() >> 20:,} MiB")

    def report(self) -> None:
        spent = f"{time.monotonic() - self._began:,.0f} s"
        if self._terminal:
            self._relabel(spent)
        else:
            with suppress(OSError, ValueError):  # The reader may be gone, or stderr may be closed.
                click.echo(f"{self._label}: {self.bar.pos:,} of {self.bar.length or 0:,} after {spent}", err=True)

    def _relabel(self, about: str) -> None:
        self.bar.label = f"{self._label} {about}"
        self.bar.render_progress()


@contextmanager
def progress(label: str, size: int) -> Iterator[CommandProgress]:
    """Show progress towards *size* units of work. If time or memory runs out, report how much was done."""
    shown, over = CommandProgress(label, size), Event()

    def report() -> None:
        while not over.wait(REPORTING):
            shown.report()

    try:
        with shown.bar:
            if size:
                with suppress(RuntimeError):  # A thread cannot be started if memory is short.
                    Thread(target=report, daemon=True).start()
            yield shown
    except (KeyboardInterrupt, MemoryError) as error:
        if size and (error.args or isinstance(error, MemoryError)):  # A user's interrupt is not reported.
            click.echo(f"{label}: {shown.bar.pos:,} of {size:,} done", err=True)
        raise
    finally:
        over.set()
