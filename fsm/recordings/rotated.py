"""Read the files of a rotated recording as one, in order of time, whatever their names.

If the names are numbered (``NAME``, ``NAME.1``, ``NAME.2.gz``) and a number is missing, lines are missing between its
neighbours.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from fsm.errors import refused
from fsm.recordings import RecordingKind, kind_of
from fsm.recordings.line_reader import STDIN, LineReader, Piece, decoded
from fsm.recordings.log_entries import entry
from fsm.trace import Nanoseconds, nanoseconds

_OVERLAP: Final = 60_000_000_000
"""Maximum overlap of consecutive files in nanoseconds. Clocks may be set back, and lines may be out of order."""

_NUMBERED: Final = re.compile(r"(.*?)(?:\.(\d{1,6}))?(?:\.gz|\.zst)?")

_KINDS: Final = (RecordingKind.LOG, RecordingKind.CALLS, RecordingKind.EVENTS)


class _Times(msgspec.Struct):
    ts: Nanoseconds | None = None
    end: Nanoseconds | None = None
    start: Nanoseconds | None = None


_DECODER: Final = msgspec.json.Decoder(_Times)


class _File(NamedTuple):
    first: int
    name: str
    kind: RecordingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """The lines of the files *names*, one file after another."""

    names: Sequence[str]

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        """Yield the lines of each file and any gap before it. Raise :class:`InputError` for files of several runs."""
        latest, before = 0, ""
        files = sorted(filter(None, map(_file, self.names)))
        for each in files:
            if each.kind is not files[0].kind:
                what = f"is {each.kind.value}, and {files[0].name} is {files[0].kind.value}"
                raise refused(each.name, "FSM217", what, "judge them without --rotated")
            if latest > each.first + _OVERLAP:
                what = f"begins long before {before} ends, so they are not one recording that was rotated"
                raise refused(each.name, "FSM217", what, "judge them without --rotated")
            gap = _missing(before, each.name)
            if gap:
                notes["rotated files that are missing"] += 1
            for piece in LineReader(name=each.name, notes=notes, advanced=advanced):
                latest = max(latest, next(filter(None, map(_time, reversed(piece.lines))), 0))
                piece.file, piece.gap, gap = each.name, gap, False
                yield piece
            before = each.name


def _file(name: str) -> _File | None:
    """Return the first time, the name and the kind of the file *name*, or ``None`` if it has only blank lines."""
    if name == STDIN:
        raise refused(name, "FSM217", "cannot be put in the order of times", "give the files")
    kind, lines = RecordingKind.NOTHING, False
    for piece in LineReader(name=name, notes=Counter()):
        for line in piece.lines:
            lines = lines or bool(line.strip())
            kind = kind if kind is not RecordingKind.NOTHING else kind_of(line)
            if kind in _KINDS and (at := _time(line)):
                return _File(at, name, kind)
    if not lines:
        return None
    what = f"no line of it has a time, and it is {kind.value}" if kind in _KINDS else f"it is {kind.value}"
    hint = "give containerd logs, recorded calls, or recorded events, the files of one run"
    raise refused(name, "FSM217", f"cannot be put in the order of times: {what}", hint)


def _time(line: bytes) -> int | None:
    """Return the time in *line* in nanoseconds since the epoch. For a call, this is the time at which it ended."""
    if (found := entry(line)) is not None:
        return nanoseconds(found.at)
    times = decoded(line, _DECODER)
    return None if times is None else times.ts or times.end or times.start


def _missing(before: str, name: str) -> bool:
    one, other = _numbered(before), _numbered(name)
    return bool(before) and one[0] == other[0] and one[1] > other[1] + 1


def _numbered(name: str) -> tuple[str, int]:
    """Split the name of a rotated file into the name without its number, and the number.

    >>> _numbered("containerd.log.12.gz"), _numbered("containerd.log")
    (('containerd.log', 12), ('containerd.log', 0))
    """
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)
