"""Read lines from a file or pipe that is still growing, or from the files of a rotated recording.

A followed file is polled, because inotify does not work on every file system and would not simplify rotation. If the
file is renamed, it is read until it no longer grows, and then the new file is read. If it is copied and truncated, the
rest is read from the copy. If no copy matches, lines are missing, and ``gap`` is set in the next piece.

Rotated files are sorted by time and read as a single run. Lines are numbered separately in each file.
"""

import os
import re
import select
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from fsm.errors import refused, stdin
from fsm.recordings import either, form_named
from fsm.recordings.form import UNKNOWN, RecordingForm, own_forms, recognised
from fsm.recordings.line_reader import PIECE, STDIN, LineReader, Piece, unreadable

LOOK: Final = 0.2
"""Seconds between two polls of a file that has not grown."""

_TAIL: Final = 256
"""Number of bytes before the current position to compare when checking that a followed file is still the same."""


@dataclass(slots=True, kw_only=True)
class Followed:
    """The file or pipe *name*, followed until ``over()`` is true or the pipe ends. ``-`` is standard input.

    ``missing`` is called whenever a poll finds that the file does not exist. Line numbers start again in each file.
    """

    name: str
    over: Callable[[], bool] = lambda: False
    missing: Callable[[], None] = lambda: None
    look: float = LOOK
    _file: int = -1
    _lost: bool = False
    _since: float = field(default_factory=time.monotonic)

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        reader = LineReader(name=self.name, notes=notes, advanced=advanced)
        try:
            yield from self._wait_for_file()
            while not self.over() and self._file >= 0:
                gap, self._lost = self._lost, False
                for piece in reader.pieces(self._data(notes)):
                    piece.gap, gap = gap and bool(piece.data), gap and not piece.data
                    piece.quiet = 0 if piece.data else int((time.monotonic() - self._since) * 1e9)
                    yield piece
        finally:
            self._close()

    def _data(self, notes: Counter[str]) -> Iterator[bytes]:
        regular = self.name != STDIN and stat.S_ISREG(os.fstat(self._file).st_mode)
        begun = False
        for data in self._read_growth(notes) if regular else self._read_pipe():
            if data:
                if not begun and data.startswith(b"\x1f\x8b"):
                    what = "the file cannot be followed, because it is compressed"
                    raise refused(self.name, "FSM201", what, "judge the file without --follow")
                begun, self._since = True, time.monotonic()
            yield data

    def _read_pipe(self) -> Iterator[bytes]:
        while not self.over():
            if not select.select([self._file], [], [], self.look)[0]:
                yield b""
            elif data := os.read(self._file, PIECE):
                yield data
            else:
                break
        self._file = -1

    def _read_growth(self, notes: Counter[str]) -> Iterator[bytes]:
        at, tail, replaced = 0, b"", False
        while not self.over():
            if os.pread(self._file, len(tail), at - len(tail)) != tail:  # Bytes that were already read have changed.
                notes["truncations"] += 1
                yield from self._read_copy(at, tail)
                return
            if data := os.pread(self._file, PIECE, at):
                at += len(data)
                tail = (tail + data)[-_TAIL:]
                replaced = False
                yield data
                continue
            if replaced:  # The old file has not grown since it was replaced.
                notes["rotations"] += 1
                self._close()
                for _ in self._wait_for_file():
                    yield b""
                return
            replaced = self._is_replaced()
            yield b""
            time.sleep(self.look)

    def _read_copy(self, at: int, tail: bytes) -> Iterator[bytes]:
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

    def _wait_for_file(self) -> Iterator[Piece]:
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
                    what = "a directory cannot be followed"
                    raise refused(self.name, "FSM201", what, "give the path of a log")
                return

    def _close(self) -> None:
        if self._file >= 0 and self.name != STDIN:
            os.close(self._file)
        self._file = -1


_OVERLAP: Final = 60_000_000_000
"""Maximum overlap of consecutive files in nanoseconds. Clocks may be set back, and lines may be out of order."""

_NUMBERED: Final = re.compile(r"(.*?)(?:\.(\d{1,6}))?(?:\.gz|\.zst)?")


class _File(NamedTuple):
    first: int
    name: str
    form: RecordingForm
    time: Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    names: Sequence[str]
    form: str = ""

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        """Yield the lines of each file, marking gaps between files.

        Raise :class:`InputError` if the files do not look like parts of the same rotated recording.
        """
        latest, before = 0, ""
        known = form_named(self.form) if self.form else None
        files = sorted(filter(None, (_file(name, known) for name in self.names)), key=lambda file: file[:2])
        for first, name, form, began in files:
            wrong = ""
            if form is not files[0].form:
                wrong = (
                    f"the form of the file is {form.title}, but the form of {files[0].name} is {files[0].form.title}"
                )
            elif latest > first + _OVERLAP:
                wrong = f"the file begins long before {before} ends, so the two are not parts of one rotated recording"
            if wrong:
                raise refused(name, "FSM217", wrong, "judge the files without --rotated")
            if gap := _has_gap_before(before, name):
                notes["rotated files that are missing"] += 1
            for piece in LineReader(name=name, notes=notes, advanced=advanced):
                latest = max(latest, next(filter(None, map(began, reversed(piece.lines))), 0))
                piece.file, piece.gap, gap = name, gap, False
                yield piece
            before = name


def _file(name: str, form: RecordingForm | None) -> _File | None:
    if name == STDIN:
        raise refused(name, "FSM217", "standard input cannot be sorted by time", "give the rotated files")
    lines = False
    for piece in LineReader(name=name, notes=Counter()):
        form = form or recognised(name, piece.lines)
        for line in piece.lines:
            lines = lines or bool(line.strip())
            if form and form.time and (at := form.time(line)):
                return _File(at, name, form, form.time)
    if not lines:
        return None
    title = form.title if form else UNKNOWN
    what = f"the file is {title}, and no line of it has a time" if form and form.time else f"the file is {title}"
    hint = f"give the files of one run, each of which is a {either(each.title for each in own_forms() if each.time)}"
    raise refused(name, "FSM217", f"the files cannot be sorted by time: {what}", hint)


def _has_gap_before(before: str, name: str) -> bool:
    one, other = _split_number(before), _split_number(name)
    return bool(before) and one[0] == other[0] and one[1] > other[1] + 1


def _split_number(name: str) -> tuple[str, int]:
    """Split the name of a rotated file into the name without its number, and the number.

    >>> _split_number("door.log.12.gz"), _split_number("door.log")
    (('door.log', 12), ('door.log', 0))
    """
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)
