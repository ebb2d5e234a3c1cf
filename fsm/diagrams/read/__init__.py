"""Drawings of lifecycles in text files: found and read, without guessing.

Boxes and arrows of characters, Mermaid state diagrams and DOT graphs are read from any
text: a document, a source file, a file of their own.  Whatever is ambiguous is a
problem with its place.
"""

import re
from dataclasses import dataclass
from typing import Final

from fsm.diagrams.read import ascii as characters
from fsm.diagrams.read import dot, mermaid
from fsm.diagrams.read.boxes import strokes
from fsm.diagrams.read.canvas import canvas
from fsm.diagrams.read.drawing import Arrow, ArrowLabel, Drawing, Location, Notation
from fsm.errors import InputError, Problem, contents

__all__ = ["Arrow", "ArrowLabel", "Drawing", "FoundDrawing", "Location", "Notation", "find", "parse"]

LARGEST: Final = 16 << 20
"""Largest file, in bytes."""

_SPREAD: Final = re.compile(r"\S {2,}\S")
"""Blanks between columns."""

_SQUEEZED: Final = 3
"""Number of strokes like the top of a box from which lost columns are diagnosed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDrawing:
    """One place in a text that looks like a drawing: the drawing, unless there are ``problems``."""

    line: int
    last: int
    drawing: Drawing | None
    problems: tuple[Problem, ...]


def find(path: str) -> tuple[FoundDrawing, ...]:
    """All drawings in the file at *path*, or in standard input for ``-``, in the order of their lines.

    Raises :class:`InputError` if the file cannot be read or has none.
    """
    data = contents(path, most=LARGEST, code="FSM401", hint="give a text file, or a model's name", stdin=True)
    if len(data) > LARGEST:
        raise _refused(path, "FSM401", "is too large to look for drawings in", "cut out the drawing")
    try:
        return parse(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise _refused(path, "FSM401", "is not UTF-8 text", "drawings are read from text files") from error


def parse(text: str, path: str) -> tuple[FoundDrawing, ...]:
    """All drawings in *text*; *path* is the name used in problems.

    >>> [found.drawing.states.keys() for found in parse("digraph { A -> B }", "x.dot")]
    [dict_keys(['A', 'B'])]
    """
    sheet = canvas(text, path)
    found: list[FoundDrawing] = []
    for drawing, problems in characters.drawings(sheet):
        found.append(_found(drawing, drawing.line, drawing.last, problems))
    for block in mermaid.blocks(text, path):
        drawing = block.read()
        found.append(_found(drawing, drawing.line, drawing.last, block.problems))
    for graph in dot.graphs(text, path):
        read = graph.read()
        found.append(_found(read, graph.line, graph.line + graph.text.count("\n"), graph.problems))
    if not found:
        raise InputError([_nothing(text, path)])
    return tuple(sorted(found, key=lambda each: each.line))


def _found(drawing: Drawing | None, line: int, last: int, problems: list[Problem]) -> FoundDrawing:
    return FoundDrawing(line=line, last=last, drawing=None if problems else drawing, problems=tuple(problems))


def _refused(path: str, code: str, what: str, hint: str) -> InputError:
    return InputError([Problem(path=path, line=0, code=code, what=what, hint=hint)])


def _nothing(text: str, path: str) -> Problem:
    """The reason why there is no drawing in *text*: its boxes do not close, or there are none."""
    sheet = canvas(text, path)
    pieces = [cell for within in sheet.paragraphs() for cell in strokes(sheet, within)]
    if not pieces:
        hint = "boxes drawn with + - |, arrows with < > ^ v; a Mermaid stateDiagram; or a DOT digraph"
        return Problem(path=path, line=0, code="FSM402", what="has no drawing of states in it", hint=hint)
    line = pieces[0][0] + 1
    rows = {row for row, _ in pieces}
    if len(pieces) >= _SQUEEZED and not any(_SPREAD.search(sheet.rows[row]) for row in rows):
        what = "the drawing has lost its columns: runs of blanks were squeezed into one, so no line meets its box"
        hint = "take it from its source; copies through web pages, wikis or data sets often lose blanks"
        return Problem(path=path, line=line, code="FSM403", what=what, hint=hint)
    what = f"column {sheet.place(pieces[0]).column}: looks like the border of a box, and no box is closed"
    hint = "a box is closed by its four sides, with a name in it; one corner may be missing"
    return Problem(path=path, line=line, code="FSM407", what=what, hint=hint)
