"""A containerd log, line by line or, where it is large and the extra ``fast`` is installed, in bulk."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Final

from fsm.recordings.containerd_log import Log
from fsm.recordings.line_reader import Piece
from fsm.trace import Batch, Line, Observation

if TYPE_CHECKING:
    from fsm.recordings.log_in_bulk import Bulk

ENOUGH: Final = 12 << 20
"""Bytes of a log that are read sooner than the libraries are loaded."""


@dataclass(slots=True, kw_only=True)
class LogReader:
    """Reads *log*, one line by itself, or a piece as a whole; it is of so many bytes, if that is known before."""

    log: Log
    size: int = 0
    _read: int = 0
    _bulk: Bulk | None = None
    _tried: bool = False

    def observations(self, line: bytes, number: int | Line) -> Iterable[tuple[int | Line, Observation]]:
        return zip(repeat(number), self.log.observations(line))

    def whole(self, piece: Piece) -> Batch | None:
        """What is in *piece*; ``None`` if its lines are to be read one by one."""
        if self._bulk is None and not self._tried:
            self._read += sum(map(len, piece.lines))
            if max(self._read, self.size) > ENOUGH and not self.log.as_called:
                self._tried = True
                with suppress(ImportError):  # if the extra is not installed, or does not work
                    self._bulk = import_module("fsm.recordings.log_in_bulk").Bulk(self.log)
        return self._bulk.batch(piece.lines, piece.first, piece.file) if self._bulk else None

    def paused(self, quiet: int) -> Iterable[tuple[int | Line, Observation]]:
        return self.log.paused(quiet)

    def gap(self) -> Iterable[tuple[int | Line, Observation]]:
        if self._bulk:
            self._bulk.give_back()
        return self.log.gap()
