"""Drawings of lifecycles in text files: found and read, without guessing.

Boxes and arrows of characters, Mermaid state diagrams and DOT graphs are read from any text: a document, a source file,
a file of their own.  Whatever is ambiguous is a problem with its place.
"""

import re
from typing import Final

from fsm.diagrams.read import ascii as characters
from fsm.diagrams.read import dot, mermaid
from fsm.diagrams.read.boxes import strokes
from fsm.diagrams.read.canvas import Canvas, canvas
from fsm.diagrams.read.columns import explained, tabs
from fsm.diagrams.read.drawing import Arrow, ArrowLabel, Drawing, Location
from fsm.errors import InputError, Problem, contents, decoded_text, refused

__all__ = ["Arrow", "ArrowLabel", "Drawing", "Location", "find", "parse"]

LARGEST: Final = 1 << 20
"""Largest file, in bytes."""

_MOST_DRAWINGS: Final = 200
"""Largest number of drawings in a file."""

_SPREAD: Final = re.compile(r"\S {2,}\S")
"""Blanks between columns."""

_SQUEEZED: Final = 3
"""Number of strokes like the top of a box from which lost columns are diagnosed."""


def find(path: str) -> tuple[Drawing, ...]:
    """All drawings in the file at *path*, or in standard input for ``-``, in the order of their lines.

    Raises :class:`InputError` if the file cannot be read or has none.
    """
    data = contents(path, most=LARGEST, code="FSM401", hint="give a text file, or a model's name", dash=True)
    if len(data) > LARGEST:
        raise refused(path, "FSM411", "is too large to look for drawings in", "cut out the drawing")
    return parse(decoded_text(data, path, code="FSM401", hint="drawings are read from text files"), path)


def parse(text: str, path: str) -> tuple[Drawing, ...]:
    """All drawings in *text*; *path* is the name used in problems.

    >>> [found.states.keys() for found in parse("digraph { A -> B }", "x.dot")]
    [dict_keys(['A', 'B'])]
    """
    sheet, lines = canvas(text, path), text.split("\n")
    found = [
        *explained([*characters.drawings(sheet)], sheet, lines),
        *mermaid.drawings(text, path),
        *dot.drawings(text, path),
    ]
    if not found:
        raise InputError([_nothing(sheet, lines)])
    if len(found) > _MOST_DRAWINGS:
        raise refused(path, "FSM411", f"has more than {_MOST_DRAWINGS} drawings", "cut out the one that is meant")
    return tuple(sorted(found, key=lambda each: each.line))


def _nothing(sheet: Canvas, lines: list[str]) -> Problem:
    """The reason why there is no drawing: its boxes do not close, or there are none."""
    drawn = {within: strokes(sheet, within) for within in sheet.paragraphs}
    pieces = [cell for cells in drawn.values() for cell in cells]
    for within, cells in drawn.items():
        if cells and (cause := tabs(sheet, lines, within)):
            return cause
    if not pieces:
        code, line, what = "FSM402", 0, "has no drawing of states in it"
        hint = "boxes drawn with + - |, arrows with < > ^ v; a Mermaid stateDiagram; or a DOT digraph"
    elif len(pieces) >= _SQUEEZED and not any(_SPREAD.search(sheet.rows[row]) for row, _ in pieces):
        code, line = "FSM403", pieces[0][0] + 1
        what = "the drawing has lost its columns: runs of blanks were squeezed into one, so no line meets its box"
        hint = "take it from its source; copies through web pages, wikis or data sets often lose blanks"
    else:
        code, line = "FSM407", pieces[0][0] + 1
        what = f"column {sheet.place(pieces[0]).column}: looks like the border of a box, and no box is closed"
        hint = "a box is closed by its four sides, with a name in it; one corner may be missing"
    return Problem(path=sheet.path, line=line, code=code, what=what, hint=hint)
