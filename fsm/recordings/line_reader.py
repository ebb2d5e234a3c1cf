"""Read lines from a file, a compressed file or standard input.

Files are read in large pieces, which are returned as whole lines with their numbers. Damage is counted, but is never an
error. A truncated compressed file is read as far as possible (:data:`BROKEN_OFF`). Lines longer than :data:`LONGEST`
are cut.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final, TypeVar

import msgspec

from fsm.errors import InputError, of_extra, reason, refused, stdin
from fsm.trace import Line

T = TypeVar("T")

PIECE: Final = 1 << 20

LONGEST: Final = 1 << 20

BROKEN_OFF: Final = "breaks in the compressed data: the rest is missing"
"""The note on an input whose end cannot be read."""

STDIN: Final = "-"

COMPRESSED: Final = 8
"""The assumed compression ratio of compressed recordings."""

_ZSTD: Final = b"\x28\xb5\x2f\xfd"

_GZIP: Final = 31
"""The value of ``wbits`` for a gzip header and the largest window."""


@dataclass(kw_only=True)
class Piece:
    """Consecutive whole lines, separated by line feeds in ``data``.

    ``first`` is the number of the first line. If there are several files, ``file`` names the file that contains the
    lines. ``gap`` is true if lines are missing before the piece. ``partial`` is true if the piece is the last line of
    the input and has no line ending. When a growing file is followed, a piece with empty ``data`` means that no line
    has arrived for ``quiet`` nanoseconds.
    """

    first: int = 1
    data: bytes = b""
    file: str = ""
    gap: bool = False
    quiet: int = 0
    partial: bool = False

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n") if self.data else []


@dataclass(slots=True, kw_only=True)
class LineReader:
    """Reads the lines of an input.

    ``advanced`` is called with the number of bytes of each read. ``notes`` counts lines and damage.
    """

    name: str
    notes: Counter[str]
    advanced: Callable[[int], None] = field(default=lambda _: None)

    def __iter__(self) -> Iterator[Piece]:
        return self.pieces(self.data())

    def data(self) -> Iterator[bytes]:
        with self._open_file() as file:
            data = self._read(file)
            if data.startswith(b"\x1f\x8b"):
                yield from self._decompress_gzip(file, data)
                return
            if data.startswith(_ZSTD):
                yield from self._decompress_zstd(file, data)
                return
            while data:
                yield data
                data = self._read(file)

    def pieces(self, data: Iterable[bytes]) -> Iterator[Piece]:
        """Yield the lines of *data* in pieces. An empty item of *data* yields a piece without lines."""
        first, rest, cut = 1, b"", False
        for each in data:
            if not each:
                yield Piece(first=first)
                continue
            taken = rest + each
            if taken.isspace() and b"\n" in taken:  # Count blank lines without yielding them: there may be a billion.
                blank = taken.count(b"\n")
                self.notes["lines"] += blank
                first, rest, cut = first + blank, taken[taken.rfind(b"\n") + 1 :], False
                continue
            end = taken.rfind(b"\n")
            rest = taken[end + 1 :]
            if end >= 0:
                start = taken.index(b"\n") if cut else 0  # Skip the rest of a line that was cut.
                cut = False
                count = taken.count(b"\n", start, end) + 1
                self.notes["lines"] += count
                if lines := taken[start:end].replace(b"\r\n", b"\n").removesuffix(b"\r"):
                    yield Piece(first=first, data=lines)
                first += count
            if len(rest) > LONGEST:
                if not cut:
                    self.notes["lines cut at 1 MiB"] += 1
                    yield Piece(first=first, data=rest[:LONGEST])
                rest, cut = b"", True
        self.notes["lines"] += bool(rest or cut)
        if rest and not cut:
            yield Piece(first=first, data=rest.removesuffix(b"\r"), partial=True)

    def _open_file(self) -> IO[bytes]:
        try:
            return stdin() if self.name == STDIN else Path(self.name).open("rb")
        except OSError as error:
            raise unreadable(self.name, error, "opened") from error

    def _decompress_gzip(self, file: IO[bytes], data: bytes) -> Iterator[bytes]:
        inflate = zlib.decompressobj(wbits=_GZIP)
        while data:
            try:
                piece = inflate.decompress(data, PIECE)
            except zlib.error:
                break
            if piece:
                yield piece
            data = inflate.unconsumed_tail
            if inflate.eof:
                # A file may have several gzip members, like the output of "cat a.gz b.gz".
                data = inflate.unused_data or self._read(file)
                if not data:
                    return
                inflate = zlib.decompressobj(wbits=_GZIP)
            elif not data:
                data = self._read(file)
        self.notes[BROKEN_OFF] += 1

    def _decompress_zstd(self, file: IO[bytes], data: bytes) -> Iterator[bytes]:
        """Decompress zstd data. If the data are truncated, the last few lines before the break are lost as well."""
        arrow = of_extra("pyarrow", f"{self.name} (compressed with zstd)", extra="fast")
        unpacked = arrow.CompressedInputStream(arrow.PythonFile(_Resumed(data, partial(self._read, file)), "r"), "zstd")
        try:
            while piece := unpacked.read(PIECE >> 4):
                yield piece
        except OSError:
            self.notes[BROKEN_OFF] += 1

    def _read(self, file: IO[bytes]) -> bytes:
        try:
            data = file.read(PIECE)
        except OSError as error:
            raise unreadable(self.name, error, "read") from error
        self.advanced(len(data))
        return data


def unreadable(name: str, error: OSError | ValueError, what: str) -> InputError:
    hint = "give the path of a log or a recording, or - for standard input"
    return refused(name or "''", "FSM201", f"the file cannot be {what}: {reason(error)}", hint)


class _Resumed(io.RawIOBase):
    def __init__(self, data: bytes, more: Callable[[], bytes]) -> None:
        self._data, self._more = data, more

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._data or self._more()
        taken = data if size < 0 else data[:size]
        self._data = data[len(taken) :]
        return taken


def decode(data: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode untrusted *data*. Raise ``ValueError`` with the reason if *decoder* cannot decode it.

    >>> decode(b"[" * 10_000, msgspec.json.Decoder(object))
    Traceback (most recent call last):
    ValueError: the text is nested too deeply
    """
    try:
        return decoder.decode(data)
    except UnicodeError as error:
        raise ValueError("the text is not UTF-8") from error
    except RecursionError as error:
        raise ValueError("the text is nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def decoded(line: bytes | str, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Decode *line*, or return ``None`` if the line is foreign or damaged.

    >>> decoded(b"[1, 2", msgspec.json.Decoder(list[int])) is None
    True
    """
    try:
        return decode(line, decoder)
    except ValueError:
        return None


def estimated_size(name: str) -> int:
    """Estimate the uncompressed size of the file *name* in bytes. Return 0 if it is unknown."""
    try:
        status = Path(name).stat()
    except (OSError, ValueError):
        return 0
    size = status.st_size if S_ISREG(status.st_mode) else 0
    return size * COMPRESSED if name.endswith((".gz", ".zst")) else size


FOREIGN: Final = "foreign or damaged lines"

INCOMPLETE: Final = "incomplete last lines"
"""The note that counts incomplete last lines, which a program may still be writing."""

LISTED: Final = 5


class Notes(Counter[str]):
    """Counts the notes made while reading. ``places`` contains the first lines of each note."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, list[int | Line]] = {}

    def add(self, line: int | Line, note: str = FOREIGN) -> None:
        self[note] += 1
        if self[note] <= LISTED:
            self.places.setdefault(note, []).append(line)

    def join(self, other: Notes, file: str) -> None:
        self.update(other)
        for note, lines in other.places.items():
            own = self.places.setdefault(note, [])
            own += [Line.of(each, file) for each in lines[: LISTED - len(own)]]
