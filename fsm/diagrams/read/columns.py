"""Why nothing in a drawing meets: tabs, or a line that has lost a blank.

One such mistake tears apart all lines and boxes that meet there, and each would be a problem of its own.  It is found by
mending: where a drawing can be read with narrower tabs, or with one blank more, that is the problem.  What is read then is
used for nothing else.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Final

from fsm.diagrams.read import ascii as characters
from fsm.diagrams.read.canvas import Canvas, canvas
from fsm.diagrams.read.drawing import Drawing
from fsm.errors import Problem

_WIDTHS: Final = (4, 2, 3)
"""Columns of a tab that are tried; tabs are read as eight."""

_MOST: Final = 100_000
"""Number of characters other than blanks that are read anew to find the places of lost blanks."""

_GAP: Final = re.compile(r"(?<=\S)(?=[ ])|^")
"""Where a line may have lost a blank: at its beginning, and before those that are left."""


def explained(found: Sequence[Drawing], sheet: Canvas, lines: Sequence[str]) -> Iterator[Drawing]:
    """Those *found* in *sheet*, with the one problem that all problems of a drawing come from, if that is known.

    *lines* are those of the text.
    """
    broken = sum(bool(each.problems) for each in found)
    for each in found:
        if each.problems:
            rows = sheet.paragraphs[bisect(sheet.paragraphs, each.line - 1, key=attrgetter("start")) - 1]
            cause = tabs(sheet, lines, rows) or _lost_blank(sheet, lines, rows, each, _MOST // broken)
            yield replace(each, problems=(cause,)) if cause else each
        else:
            yield each


def tabs(sheet: Canvas, lines: Sequence[str], rows: range) -> Problem | None:
    """The problem with the tabs in a drawing in these *rows*, which cannot be read; ``None`` if it has none."""
    own = lines[rows.start : rows.stop]
    indents = {line[: len(line) - len(line.lstrip("\t"))] for line in own}
    row = next((at for at in rows if "\t" in lines[at].lstrip("\t") or ("\t" in lines[at] and len(indents) > 1)), None)
    if row is None:
        return None
    wide = next((wide for wide in _WIDTHS if _read([line.expandtabs(wide) for line in own])), None)
    what = "has tabs, which are read as up to 8 columns, and then nothing meets"
    hint = "replace the tabs of the drawing with blanks"
    if wide is not None:
        what, hint = f"{what}; it can be read with tabs of {wide}", f"{hint}, as 'expand -t {wide}' does"
    return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)


def _lost_blank(sheet: Canvas, lines: Sequence[str], rows: range, found: Drawing, most: int) -> Problem | None:
    """The lost blank near the problems of the drawing that was *found* in these *rows*, reading *most* characters."""
    own = lines[rows.start : rows.stop]
    size = sum(len(line) - line.count(" ") for line in own)
    near = sorted({row for each in found.problems for row in range(each.line - 2, each.line + 1) if row in rows})
    places = ((row, gap.start()) for row in near for gap in _GAP.finditer(lines[row]))
    for row, at in islice(places, most // size):
        line = lines[row]
        if _read([*own[: row - rows.start], f"{line[:at]} {line[at:]}", *own[row - rows.start + 1 :]]):
            what = f"column {at + 1}: what follows is one column too far to the left, and meets nothing"
            hint = "a blank has got lost here: with one more the drawing can be read"
            return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)
    return None


def _read(lines: Sequence[str]) -> bool:
    """Whether what is drawn in these *lines* has no problems."""
    found = list(characters.drawings(canvas("\n".join(lines), "")))
    return bool(found) and not any(each.problems for each in found)
