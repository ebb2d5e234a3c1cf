"""Read a containerd log line by line, or in bulk if it is large and the extra ``fast`` is installed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from fsm.recordings.line_reader import Piece
from fsm.scratch import is_compiled
from fsm.trace import Batch

if TYPE_CHECKING:
    from fsm.runtimes.recordings.line_templates import Scanned
    from fsm.runtimes.recordings.log_in_bulk import Bulk
from fsm.runtimes.recordings.containerd_log import Log

ENOUGH: Final = 12 << 20
"""Maximum size in bytes of a log that is read line by line, because loading the libraries would take longer."""
UNCOMPILED: Final = 64 << 20
"""Replaces :data:`ENOUGH` if the code must first be compiled, which takes as long as reading 50 MiB."""
AHEAD: Final = 2  # number of pieces to scan in advance


@dataclass(slots=True, kw_only=True)
class LogReader:
    """Reads ``log`` line by line or in bulk, depending on its ``size`` in bytes (0 if the size is unknown)."""

    log: Log
    size: int = 0
    _read: int = 0
    _bulk: Bulk | None = None
    _tried: bool = False
    _cut: Scanned | None = None

    def scanned(self, pieces: Iterable[Piece], ahead: int = AHEAD) -> Iterator[Piece]:
        """Yield *pieces* for use with :meth:`whole`, while a thread scans up to *ahead* pieces in advance."""
        waiting: deque[tuple[Piece, Future[Scanned | None] | None]] = deque()
        with ThreadPoolExecutor(1) as thread:
            for piece in pieces:
                bulk = self._bulk_reader(piece)
                waiting.append((piece, thread.submit(bulk.scan, piece.data) if bulk else None))
                if len(waiting) > ahead:
                    yield self._next(*waiting.popleft())
            while waiting:
                yield self._next(*waiting.popleft())

    def _next(self, piece: Piece, cut: Future[Scanned | None] | None) -> Piece:
        self._cut = cut.result() if cut else None
        return piece

    def _bulk_reader(self, piece: Piece) -> Bulk | None:
        if self._bulk is None and not self._tried:
            self._read += len(piece.data)
            size = max(self._read, self.size)
            worth = size > ENOUGH and (size > UNCOMPILED or is_compiled("fsm.runtimes.recordings.log_scanner", "scan"))
            if worth and not self.log.as_called:
                self._tried = True
                with suppress(ImportError):  # the extra ``fast`` is not installed or does not work
                    self._bulk = import_module("fsm.runtimes.recordings.log_in_bulk").Bulk(self.log)
        return self._bulk

    def whole(self, piece: Piece) -> Batch | None:
        """Return the observations in *piece*, or ``None`` if its lines must be read one by one.

        *piece* must be the last piece that :meth:`scanned` has yielded.
        """
        return self._bulk.batch(self._cut, piece.first, piece.file) if self._bulk else None
