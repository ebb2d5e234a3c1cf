"""Following a file or pipe yields each line once, even if the file is rotated, truncated or missing."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from fsm.errors import InputError
from fsm.recordings.sources import Followed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.recordings.line_reader import Piece

LOOKS = 4
"""The number of attempts within which a follower must have read every new line."""


class Reader:
    def __init__(self, path: Path) -> None:
        self.over = False
        self.missing = 0
        self.gaps: list[bytes] = []
        self.numbers: list[int] = []
        self.notes: Counter[str] = Counter()
        source = Followed(name=str(path), over=lambda: self.over, missing=self._missing, look=0)
        self._pieces: Iterator[Piece] = source.pieces(self.notes)

    def _missing(self) -> None:
        self.missing += 1

    def read(self) -> list[bytes]:
        lines: list[bytes] = []
        looks = 0
        while looks < LOOKS:
            piece = next(self._pieces)
            looks += not piece.lines
            lines += piece.lines
            self.numbers += range(piece.first, piece.first + len(piece.lines))
            self.gaps += piece.lines[:1] if piece.gap else []
        return lines

    def end(self) -> list[bytes]:
        self.over = True
        return self.rest()

    def rest(self) -> list[bytes]:
        return [line for piece in self._pieces for line in piece.lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "containerd.log"


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_as_they_are_written(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    reader = Reader(path)

    assert reader.read() == [b"one"]
    _append(path, b"o\nthr")
    assert reader.read() == [b"two"]
    assert reader.read() == []
    assert reader.end() == [b"thr"]
    assert reader.numbers == [1, 2]


def test_rotation_by_renaming(path: Path) -> None:
    """Lines that are still being written to the renamed file are read before those in the new file."""
    path.write_bytes(b"one\n")
    reader = Reader(path)
    assert reader.read() == [b"one"]

    with path.open("ab") as old:
        old.write(b"two\n")
        path.rename(path.with_suffix(".log.1"))
        old.write(b"three\n")
        old.flush()
        assert reader.read() == [b"two", b"three"]
        old.write(b"four\n")
    path.write_bytes(b"five\n")

    assert reader.read() == [b"four", b"five"]
    assert reader.numbers == [1, 2, 3, 4, 1]
    assert not reader.gaps
    assert reader.notes["rotations"] == 1


def test_rotation_by_copying(path: Path) -> None:
    """Lines that were written after the last read are read from the copy."""
    path.write_bytes(b"one\n")
    reader = Reader(path)
    assert reader.read() == [b"one"]

    _append(path, b"two\n")
    shutil.copy(path, path.with_suffix(".log.1"))
    os.truncate(path, 0)
    _append(path, b"three\n")

    assert reader.read() == [b"two", b"three"]
    assert not reader.gaps


@pytest.mark.parametrize("after", [b"new\n", b"this is longer than what was there before\n", b"xyz\n"])
def test_truncation(path: Path, after: bytes) -> None:
    """A truncated file without a copy has a gap, even if the file has grown again."""
    path.write_bytes(b"one\n")
    reader = Reader(path)
    assert reader.read() == [b"one"]

    path.write_bytes(after)

    assert reader.read() == after.splitlines()
    assert reader.gaps == after.splitlines()
    assert reader.notes["truncations"] == 1


def test_a_file_that_is_missing_for_a_while(path: Path) -> None:
    reader = Reader(path)
    assert reader.read() == []
    assert reader.missing

    path.write_bytes(b"one\n")
    assert reader.read() == [b"one"]
    path.unlink()
    assert reader.read() == []
    path.write_bytes(b"two\n")

    assert reader.read() == [b"two"]
    assert not reader.gaps


def test_a_pipe_ends(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    reader = Reader(path)
    os.write(writer, b"one\ntw")

    assert reader.read() == [b"one"]
    os.write(writer, b"o\nthree")
    os.close(writer)

    assert reader.rest() == [b"two", b"three"]


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(b"\x1f\x8b\x08\x00rest")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")

    for name, what in ((tmp_path, "directory"), (packed, "compressed"), (plain / "log", "cannot be opened")):
        with pytest.raises(InputError, match=what):
            Reader(name).read()
