"""Follow the lines of a growing file through rotation, truncation and absence, or those of a pipe.

The file is polled, because inotify does not work on every file system and does not make rotation simpler. A renamed
file is read until it no longer grows; only then is the new file read. If the file was copied and truncated, the rest is
read from the copy. If no copy matches, lines are missing, and the next piece has ``gap`` set.
"""

import os
import select
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fsm.errors import refused, stdin
from fsm.recordings.line_reader import PIECE, STDIN, LineReader, Piece, unreadable

LOOK: Final = 0.2
"""Seconds between two polls of a file that has not grown."""

_TAIL: Final = 256
"""Number of bytes before the current position by which a file is recognised."""


@dataclass(slots=True, kw_only=True)
class Followed:
    """The file *name* (``-`` for standard input), followed until ``over()`` is true or the pipe ends.

    ``missing`` is called on every poll that finds no such file. Line numbers start again with each file.
    """

    name: str
    over: Callable[[], bool] = lambda: False
    missing: Callable[[], None] = lambda: None
    look: float = LOOK
    _file: int = -1
    _lost: bool = False
    _since: float = field(default_factory=time.monotonic)

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        """Yield whole lines as they arrive, and pieces without lines while none arrive."""
        reader = LineReader(name=self.name, notes=notes, advanced=advanced)
        try:
            yield from self._awaited()
            while not self.over() and self._file >= 0:
                gap, self._lost = self._lost, False
                for piece in reader.pieces(self._data(notes)):
                    piece.gap, gap = gap and bool(piece.lines), gap and not piece.lines
                    piece.quiet = 0 if piece.lines else int((time.monotonic() - self._since) * 1e9)
                    yield piece
        finally:
            self._close()

    def _data(self, notes: Counter[str]) -> Iterator[bytes]:
        """Yield the bytes of one file until it is replaced or truncated."""
        regular = self.name != STDIN and stat.S_ISREG(os.fstat(self._file).st_mode)
        begun = False
        for data in self._grown(notes) if regular else self._piped():
            if data:
                if not begun and data.startswith(b"\x1f\x8b"):
                    what = "cannot be followed: it is compressed"
                    raise refused(self.name, "FSM201", what, "judge it without --follow")
                begun, self._since = True, time.monotonic()
            yield data

    def _piped(self) -> Iterator[bytes]:
        while not self.over():
            if not select.select([self._file], [], [], self.look)[0]:
                yield b""
            elif data := os.read(self._file, PIECE):
                yield data
            else:
                break
        self._file = -1

    def _grown(self, notes: Counter[str]) -> Iterator[bytes]:
        at, tail, replaced = 0, b"", False
        while not self.over():
            if os.pread(self._file, len(tail), at - len(tail)) != tail:  # bytes already read are gone
                notes["truncations"] += 1
                yield from self._copied(at, tail)
                return
            if data := os.pread(self._file, PIECE, at):
                at += len(data)
                tail = (tail + data)[-_TAIL:]
                replaced = False
                yield data
                continue
            if replaced:  # and the old file has not grown since
                notes["rotations"] += 1
                self._close()
                for _ in self._awaited():
                    yield b""
                return
            replaced = self._is_replaced()
            yield b""
            time.sleep(self.look)

    def _copied(self, at: int, tail: bytes) -> Iterator[bytes]:
        path = Path(self.name)
        copies = (file for file in path.parent.glob(f"{path.name}[.-]*") if file.is_file())
        for copy in sorted(copies, key=lambda file: -file.stat().st_mtime_ns):
            with copy.open("rb") as file:
                file.seek(max(0, at - len(tail)))
                if file.read(len(tail)) == tail:
                    while data := file.read(PIECE):
                        yield data
                    return
        self._lost = True

    def _is_replaced(self) -> bool:
        mine = os.fstat(self._file)
        try:
            now = os.stat(self.name)  # noqa: PTH116  (like os.fstat for the open file)
        except OSError:
            self.missing()
            return False
        return (now.st_ino, now.st_dev) != (mine.st_ino, mine.st_dev)

    def _awaited(self) -> Iterator[Piece]:
        if self.name == STDIN:
            try:
                self._file = stdin().fileno()
            except OSError as error:
                raise unreadable(self.name, error, "opened") from error
            return
        while not self.over():
            try:
                self._file = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                self.missing()
                yield Piece()
                time.sleep(self.look)
            except (OSError, ValueError) as error:
                raise unreadable(self.name, error, "opened") from error
            else:
                if stat.S_ISDIR(os.fstat(self._file).st_mode):
                    what = "cannot be followed: it is a directory"
                    raise refused(self.name, "FSM201", what, "give the path of a log")
                return

    def _close(self) -> None:
        if self._file >= 0 and self.name != STDIN:
            os.close(self._file)
        self._file = -1
