"""Measure the memory of ``fsm judge --follow`` as the number of events grows.

Usage: ``python tests/bench/follow.py``. A recording is repeated, each time with fresh ids and a day later, so that
entities keep appearing and disappearing.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.monitor.judgement import Judging
from fsm.recordings import open_recording
from fsm.recordings.line_reader import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
ID = re.compile(rb"\b[0-9a-f]{64}\b")
TIME = re.compile(rb"\b2026-11-\d\d(?=T)|\b\d{19}\b")


class Turns:
    """A recording that is repeated a number of times, or until it has at least *lines* lines."""

    def __init__(self, recording: str, lines: int, *, turns: int = 0) -> None:
        self._recorded = (RECORDINGS / recording).read_bytes()
        self._turns = turns or lines // self._recorded.count(b"\n") + 1
        self.turn = 0

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        del advanced
        for turn in range(self._turns):
            self.turn = turn
            salt = b"%08x" % turn
            renamed = ID.sub(lambda found, salt=salt: salt + found[0][8:], self._recorded)  # type: ignore[misc]
            lines = TIME.sub(lambda found, turn=turn: later(found[0], turn), renamed).splitlines()  # type: ignore[misc]
            if turn:  # a plugin stays connected
                lines = [each for each in lines if b'"Configure"' not in each and b'"Synchronize"' not in each]
            notes["lines"] += len(lines)
            yield Piece(first=turn * len(lines) + 1, data=b"\n".join(lines))


def later(written: bytes, days: int) -> bytes:
    """Move a date, or a number of nanoseconds since the epoch, by a number of days."""
    if written.isdigit():
        return b"%d" % (int(written) + days * 86_400_000_000_000)
    return (date.fromisoformat(written.decode()) + timedelta(days=days)).isoformat().encode()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--recording", default="containerd-1.6.20.log")
    options.add_argument("--lines", type=int, default=10_000_000)
    options.add_argument("--every", type=int, default=1_000_000)
    asked = options.parse_args()
    judging = Judging(open_recording(asked.recording, source=Turns(asked.recording, asked.lines)))
    told: Counter[str] = Counter()
    judging.tell(lambda violation: told.update([violation.clause.name]))
    start, shown, observations = time.perf_counter(), 0, 0
    for batch in judging.recording.batches:
        judging.take(batch)
        judging.shed()
        observations += len(batch.observations)
        lines = judging.recording.notes["lines"]
        if lines >= shown:
            rate = lines / (time.perf_counter() - start)
            figures = f"{lines:>12,} lines {observations:>12,} observations {resident():>6} MiB {rate:>10,.0f} lines/s"
            print(figures, flush=True)  # noqa: T201
            shown += asked.every
    print(f"violations told of: {sum(told.values()):,}")  # noqa: T201


if __name__ == "__main__":
    main()
