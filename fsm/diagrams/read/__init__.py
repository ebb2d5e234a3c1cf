"""Find and read drawings of lifecycles in text files, without guessing.

ASCII diagrams, Mermaid and PlantUML state diagrams, and DOT graphs are found in any text. Anything ambiguous is
reported as a problem with its location.

A missing space or a tab of the wrong width breaks all the lines and boxes that it touches. If the drawing can be read
with narrower tabs or with one more space, only this cause is reported. The repaired drawing is used for nothing else.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Final

from fsm.diagrams.drawing import Arrow, ArrowLabel, Drawing, Location
from fsm.diagrams.read import ascii as characters
from fsm.diagrams.read import dot
from fsm.diagrams.read.canvas import Canvas, canvas, strokes
from fsm.diagrams.read.state_diagrams import mermaid_drawings, plantuml_drawings
from fsm.errors import InputError, Problem, contents, decoded_text, refused

__all__ = ["Arrow", "ArrowLabel", "Drawing", "Location", "at", "find", "parse"]

LARGEST: Final = 1 << 20  # maximum size of a file in bytes
_MOST_DRAWINGS: Final = 200  # maximum number of drawings in a file
_FLOWCHART: Final = re.compile(r"\s*(?:flowchart|graph)\s+(?:TB|TD|BT|RL|LR)\b")

_SPREAD: Final = re.compile(r"\S {2,}\S")  # matches spaces between columns
_SQUEEZED: Final = 3  # a drawing with at least this number of border-like strokes may have lost its columns
_WIDTHS: Final = (4, 2, 3)  # tab widths to try if a width of eight columns causes problems
_MOST: Final = 100_000  # maximum number of non-blank characters to read again when looking for missing spaces
# Matches the positions where a line may have lost a space: its beginning, and the places before runs of spaces.
_GAP: Final = re.compile(r"(?<=\S)(?=[ ])|^")


def find(path: str) -> tuple[Drawing, ...]:
    """Return all drawings in the file at *path*, from top to bottom. If *path* is ``-``, read standard input.

    Raise :class:`InputError` if the file cannot be read or has no drawing.
    """
    data = contents(path, most=LARGEST, code="FSM401", hint="give a text file, or the name of a model", dash=True)
    if len(data) > LARGEST:
        what = "the file is too large to search it for drawings"
        raise refused(path, "FSM411", what, "copy the drawing to a file of its own")
    return _parsed(decoded_text(data, path, code="FSM401", hint="drawings are read from text files"), path)


def at(found: tuple[Drawing, ...], path: str, line: int) -> tuple[Drawing, ...]:
    here = tuple(each for each in found if each.line <= line <= each.last) if line else found
    if not here:
        hint = f"the file has drawings on lines {', '.join(f'{each.line} to {each.last}' for each in found)}"
        raise refused(path, "FSM402", "no drawing includes this line", hint, line=line)
    return here


def parse(text: str, path: str) -> tuple[Drawing, ...]:
    """Return all drawings in *text*. Problems name *path* as the file.

    >>> [found.states.keys() for found in parse("digraph { A -> B }", "x.dot")]
    [dict_keys(['A', 'B'])]
    """
    sheet, lines = canvas(text, path), text.split("\n")
    found = [
        *_with_common_causes([*characters.drawings(sheet)], sheet, lines),
        *mermaid_drawings(text, path),
        *plantuml_drawings(text, path),
        *dot.drawings(text, path),
    ]
    found = [each for each in found if each.states or each.problems]  # an empty drawing would equal anything
    if not found:
        raise InputError([_no_drawing_problem(sheet, lines)])
    if len(found) > _MOST_DRAWINGS:
        hint = "copy the intended drawing to a file of its own"
        raise refused(path, "FSM411", f"the file has more than {_MOST_DRAWINGS} drawings", hint)
    return tuple(sorted(found, key=lambda each: each.line))


# The result is cached, because the same text is compared under several profiles in turn.
_parsed = lru_cache(maxsize=4)(parse)


def _no_drawing_problem(sheet: Canvas, lines: list[str]) -> Problem:
    drawn = {within: strokes(sheet, within) for within in sheet.paragraphs}
    pieces = [cell for cells in drawn.values() for cell in cells]
    for line, text in enumerate(lines, 1):
        if _FLOWCHART.match(text):
            what = "the file is a Mermaid flowchart, which cannot be read because its boxes need not be states"
            hint = "write it as the Mermaid diagram stateDiagram-v2, with lines such as a --> b : event"
            return Problem(path=sheet.path, line=line, code="FSM402", what=what, hint=hint)
    for within, cells in drawn.items():
        if cells and (cause := _tab_problem(sheet, lines, within)):
            return cause
    if not pieces:
        code, line, what = "FSM402", 0, "the text contains no drawing of states"
        hint = "draw boxes with + - | and arrows with < > ^ v, or use Mermaid, PlantUML or a DOT digraph"
    elif len(pieces) >= _SQUEEZED and not any(_SPREAD.search(sheet.rows[row]) for row, _ in pieces):
        code, line = "FSM403", pieces[0][0] + 1
        what = "the drawing has lost its columns: each run of blanks was reduced to one blank, so no line meets its box"
        hint = "copy the drawing from its source, because web pages, wikis and data sets often lose blanks"
    else:
        code, line = "FSM407", pieces[0][0] + 1
        what = f"column {sheet.place(pieces[0]).column}: this looks like the border of a box, but no box is closed"
        hint = "draw all four sides of each box, with a name inside; one corner may be missing"
    return Problem(path=sheet.path, line=line, code=code, what=what, hint=hint)


def _with_common_causes(found: Sequence[Drawing], sheet: Canvas, lines: Sequence[str]) -> Iterator[Drawing]:
    broken = sum(bool(each.problems) for each in found)
    for each in found:
        if each.problems:
            rows = sheet.paragraphs[bisect(sheet.paragraphs, each.line - 1, key=attrgetter("start")) - 1]
            cause = _tab_problem(sheet, lines, rows) or _lost_blank_problem(sheet, lines, rows, each, _MOST // broken)
            yield replace(each, problems=(cause,)) if cause else each
        else:
            yield each


def _tab_problem(sheet: Canvas, lines: Sequence[str], rows: range) -> Problem | None:
    own = lines[rows.start : rows.stop]
    indents = {line[: len(line) - len(line.lstrip("\t"))] for line in own}
    row = next((at for at in rows if "\t" in lines[at].lstrip("\t") or ("\t" in lines[at] and len(indents) > 1)), None)
    if row is None:
        return None
    wide = next((wide for wide in _WIDTHS if _is_readable([line.expandtabs(wide) for line in own])), None)
    what = "the drawing has tabs, and with tabs of 8 columns no line meets its box"
    hint = "replace the tabs in the drawing with blanks"
    if wide is not None:
        what += f"; the drawing can be read with tabs of {wide} columns"
        hint += f", as 'expand -t {wide}' does"
    return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)


def _lost_blank_problem(sheet: Canvas, lines: Sequence[str], rows: range, found: Drawing, most: int) -> Problem | None:
    own = lines[rows.start : rows.stop]
    size = sum(len(line) - line.count(" ") for line in own)
    near = sorted({row for each in found.problems for row in range(each.line - 2, each.line + 1) if row in rows})
    places = ((row, gap.start()) for row in near for gap in _GAP.finditer(lines[row]))
    for row, at in islice(places, most // size):
        line = lines[row]
        if _is_readable([*own[: row - rows.start], f"{line[:at]} {line[at:]}", *own[row - rows.start + 1 :]]):
            what = f"column {at + 1}: the rest of the line is one column too far to the left, so it meets nothing"
            hint = "insert the lost blank here; then the drawing can be read"
            return Problem(path=sheet.path, line=row + 1, code="FSM403", what=what, hint=hint)
    return None


def _is_readable(lines: Sequence[str]) -> bool:
    found = list(characters.drawings(canvas("\n".join(lines), "")))
    return bool(found) and not any(each.problems for each in found)
