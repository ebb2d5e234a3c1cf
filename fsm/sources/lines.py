"""Lines of a file, a compressed file or standard input, whatever they hold.

Bytes come in large pieces and leave as whole lines with their numbers.
Damage is counted, never fatal: a compressed file that breaks off ends there,
and a line beyond :data:`LONGEST` is cut.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from fsm.errors import InputError, Problem

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

PIECE: Final = 1 << 20
"""Bytes read at once."""

LONGEST: Final = 1 << 20
"""Bytes of a line that are kept."""

STDIN: Final = "-"


@dataclass(slots=True, kw_only=True)
class Piece:
    """Whole lines, without their ends, of which the first has number ``first``."""

    first: int
    lines: list[bytes]


@dataclass(slots=True, kw_only=True)
class Lines:
    """The lines of one input.

    ``advanced`` is called with the number of bytes taken from the file, for
    progress; ``notes`` counts what was damaged.
    """

    name: str
    notes: Counter[str]
    advanced: Callable[[int], None] = field(default=lambda _: None)
    _last: bytes = b""

    def __iter__(self) -> Iterator[Piece]:
        with self._opened() as file:
            first, rest, cut = 1, b"", False
            for data in self._data(file):
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                if lines:
                    if cut:  # the piece starts with the end of a line that was given before
                        lines[0] = b""
                        cut = False
                    self.notes["lines"] += len(lines)
                    yield Piece(first=first, lines=[line.removesuffix(b"\r") for line in lines])
                    first += len(lines)
                if len(rest) > LONGEST:
                    if not cut:
                        self.notes["lines cut at 1 MiB"] += 1
                        yield Piece(first=first, lines=[rest[:LONGEST]])
                    rest, cut = b"", True
            if rest and not cut:
                self.notes["lines"] += 1
                yield Piece(first=first, lines=[rest.removesuffix(b"\r")])

    def _opened(self) -> IO[bytes]:
        if self.name == STDIN:
            return sys.stdin.buffer
        try:
            file = Path(self.name).open("rb")  # noqa: SIM115  (the caller closes it)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            problem = Problem(
                path=self.name,
                line=0,
                code="FSM201",
                what=f"cannot be opened: {reason}",
                hint="give the path of a log or a recording, or - for standard input",
            )
            raise InputError([problem]) from error
        return file

    def _data(self, file: IO[bytes]) -> Iterator[bytes]:
        """The bytes of *file*, decompressed if they are gzip's."""
        try:
            start = file.read(PIECE)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                [Problem(path=self.name, line=0, code="FSM201", what=f"cannot be read: {reason}", hint="give a file")]
            ) from error
        if not start.startswith(b"\x1f\x8b"):
            while start:
                self.advanced(len(start))
                yield start
                start = file.read(PIECE)
            return
        compressed = _Rewound(start, file, self.advanced)
        try:
            with gzip.GzipFile(fileobj=compressed, mode="rb") as plain:  # type: ignore[arg-type]  # reads only
                while data := plain.read(PIECE):
                    yield data
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.notes["compressed data damaged: read up to there"] += 1


class _Rewound:
    """A file of which the first bytes have been read already; enough of one for gzip."""

    def __init__(self, start: bytes, file: IO[bytes], advanced: Callable[[int], None]) -> None:
        self._start = start
        self._file = file
        self._advanced = advanced

    def read(self, size: int = -1) -> bytes:
        """At most *size* bytes."""
        data = self._start[:size] if self._start else self._file.read(size)
        self._start = self._start[len(data) :] if self._start else b""
        self._advanced(len(data))
        return data

    def seekable(self) -> bool:
        """Standard input is not."""
        return False
