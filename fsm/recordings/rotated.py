"""Read the files of a rotated recording as one, in order of time, whatever their names.

If the names are numbered (``NAME``, ``NAME.1``, ``NAME.2.gz``) and a number is missing, lines are missing between its
neighbours.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from fsm.errors import refused
from fsm.recordings import either
from fsm.recordings.form import UNKNOWN, RecordingForm, own_forms, recognised
from fsm.recordings.line_reader import STDIN, LineReader, Piece

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
    """The lines of the files *names*, one file after another."""

    names: Sequence[str]

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        """Yield the lines of each file and any gap before it. Raise :class:`InputError` for files of several runs."""
        latest, before = 0, ""
        files = sorted(filter(None, map(_file, self.names)), key=lambda file: file[:2])
        for first, name, form, time in files:
            wrong = ""
            if form is not files[0].form:
                wrong = f"is {form.title}, and {files[0].name} is {files[0].form.title}"
            elif latest > first + _OVERLAP:
                wrong = f"begins long before {before} ends, so they are not one recording that was rotated"
            if wrong:
                raise refused(name, "FSM217", wrong, "judge them without --rotated")
            if gap := _missing(before, name):
                notes["rotated files that are missing"] += 1
            for piece in LineReader(name=name, notes=notes, advanced=advanced):
                latest = max(latest, next(filter(None, map(time, reversed(piece.lines))), 0))
                piece.file, piece.gap, gap = name, gap, False
                yield piece
            before = name


def _file(name: str) -> _File | None:
    """Return the first time, the name and the form of the file *name*, or ``None`` if it has only blank lines."""
    if name == STDIN:
        raise refused(name, "FSM217", "cannot be put in the order of times", "give the files")
    form, lines = None, False
    for piece in LineReader(name=name, notes=Counter()):
        form = form or recognised(name, piece.lines)
        for line in piece.lines:
            lines = lines or bool(line.strip())
            if form and form.time and (at := form.time(line)):
                return _File(at, name, form, form.time)
    if not lines:
        return None
    title = form.title if form else UNKNOWN
    what = f"no line of it has a time, and it is {title}" if form and form.time else f"it is {title}"
    hint = f"give the files of one run, each a {either(each.title for each in own_forms() if each.time)}"
    raise refused(name, "FSM217", f"cannot be put in the order of times: {what}", hint)


def _missing(before: str, name: str) -> bool:
    one, other = _numbered(before), _numbered(name)
    return bool(before) and one[0] == other[0] and one[1] > other[1] + 1


def _numbered(name: str) -> tuple[str, int]:
    """Split the name of a rotated file into the name without its number, and the number.

    >>> _numbered("door.log.12.gz"), _numbered("door.log")
    (('door.log', 12), ('door.log', 0))
    """
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)
