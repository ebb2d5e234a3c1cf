"""Why nothing in a drawing meets: tabs, or a line that has lost a blank.

One such mistake tears apart all lines and boxes that meet there, and each would be a problem of its own.  It is found by
mending: where a drawing can be read with narrower tabs, or with one blank more, that is the problem.  What is read then is
used for nothing else.
"""

import re
from dataclasses import replace
from typing import Final

from fsm.diagrams.read import ascii as characters
from fsm.diagrams.read.canvas import Canvas, canvas
from fsm.diagrams.read.drawing import Drawing
from fsm.errors import Problem

_WIDTHS: Final = (4, 2, 3)
"""Columns of a tab that are tried; tabs are read as eight."""

_TRIES: Final = 500
"""Places in which a blank is tried."""

_GAP: Final = re.compile(r"(?<=\S)(?=[ ])|^")
"""Where a line may have lost a blank: at its beginning, and before those that are left."""


def explained(found: Drawing, sheet: Canvas, text: str) -> Drawing:
    """*found* in *sheet*, which is *text*, with the one problem that all of its problems come from, if that is known."""
    if not found.problems:
        return found
    (rows,) = (rows for rows in sheet.paragraphs if found.line - 1 in rows)
    near = sorted({row for each in found.problems for row in range(each.line - 2, each.line + 1) if row in rows})
    cause = tabs(sheet, text, rows) or _lost_blank(sheet, text.split("\n"), rows, near)
    return replace(found, problems=(cause,)) if cause else found


def tabs(sheet: Canvas, text: str, rows: range) -> Problem | None:
    """The problem with the tabs in a drawing in these *rows*, which cannot be read; ``None`` if it has none."""
    lines = text.split("\n")
    indents = {line[: len(line) - len(line.lstrip("\t"))] for line in lines[rows.start : rows.stop]}
    row = next((at for at in rows if "\t" in lines[at].lstrip("\t") or ("\t" in lines[at] and len(indents) > 1)), None)
    if row is None:
        return None
    wide = next((wide for wide in _WIDTHS if _read([line.expandtabs(wide) for line in lines], rows)), None)
    what = "has tabs, which are read as up to 8 columns, and then nothing meets"
    hint = "replace the tabs of the drawing with blanks"
    if wide is not None:
        what, hint = f"{what}; it can be read with tabs of {wide}", f"{hint}, as 'expand -t {wide}' does"
    return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)


def _lost_blank(sheet: Canvas, lines: list[str], rows: range, near: list[int]) -> Problem | None:
    """The lost blank in one of the rows *near* the problems with a drawing in these *rows*."""
    places = [(row, gap.start()) for row in near for gap in _GAP.finditer(lines[row])]
    for row, at in places[:_TRIES]:
        line = lines[row]
        if _read([*lines[:row], f"{line[:at]} {line[at:]}", *lines[row + 1 :]], rows):
            what = f"column {at + 1}: what follows is one column too far to the left, and meets nothing"
            hint = "a blank has got lost here: with one more the drawing can be read"
            return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)
    return None


def _read(lines: list[str], rows: range) -> bool:
    """Whether what is drawn in these *rows* of the *lines* has no problems."""
    found = list(characters.drawings(canvas("\n".join(lines[rows.start : rows.stop]), "")))
    return bool(found) and not any(each.problems for each in found)
