"""A text as a grid of characters: without comment marks, each character in the column where it is seen.

Drawings stand in comments of all kinds of files.  Comment marks at the beginning of a line become blanks, so that every
character keeps its column; tabs are expanded and wide characters take two columns, as on a terminal.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from fsm.diagrams.read.drawing import Location
from fsm.diagrams.read.strokes import GridCell, beyond

_TAB: Final = 8
_FILL: Final = "\0"
"""The second column of a wide character."""

_MARK: Final = re.compile(
    r"^(?:[ \t]*(?://+!?|/\*+!?|\*+(?=[ \t/]|$)|\#+:?|;+|%+|--(?=[ \t]|$)|\"\"\"|''')| {0,3}>(?=[ \t]|$))"
)
_CLOSING: Final = re.compile(r"[ \t]*(?:\*+/|\"\"\"|''')[ \t]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The grid; ``columns`` has for each column the index of its character in the line."""

    path: str
    rows: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    def at(self, cell: GridCell) -> str:
        """The character at *cell*; a blank beyond the edges."""
        row, column = cell
        if 0 <= row < len(self.rows) and 0 <= column < len(self.rows[row]):
            return self.rows[row][column]
        return " "

    def stroke(self, cell: GridCell) -> str:
        """The character at *cell*; a blank if it is part of a word, as the v of "Remove" and most hyphens are."""
        char = self.at(cell)
        if char in "vV":
            return " " if _letter(self.at(beyond(cell, "W"))) or _letter(self.at(beyond(cell, "E"))) else char
        if char == "-":
            row, column = cell
            text = self.rows[row]
            before, after = text[:column].rstrip("-")[-1:], text[column:].lstrip("-")[:1]
            return " " if _letter(before) and _letter(after) else char
        return char

    def place(self, cell: GridCell) -> Location:
        row, column = cell
        columns = self.columns[row] if 0 <= row < len(self.columns) else ()
        return Location(line=row + 1, column=(columns[column] if 0 <= column < len(columns) else column) + 1)

    def text(self, row: int, first: int, last: int) -> str:
        """The text in *row* from one column to another, both included."""
        return self.rows[row][first : last + 1].replace(_FILL, "")

    def paragraphs(self) -> list[range]:
        """The rows of each run of lines that are not empty."""
        return [range(first, last + 1) for first, last in runs(map(bool, map(str.strip, self.rows)))]


def runs(marks: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """The first and the last index of each run of true *marks*.

    >>> list(runs([True, True, False, True]))
    [(0, 1), (3, 3)]
    """
    for marked, run in groupby(enumerate(marks), key=itemgetter(1)):
        if marked:
            places = [place for place, _ in run]
            yield places[0], places[-1]


def _letter(char: str) -> bool:
    return char.isalnum() or (char != "" and char in "_.")


def canvas(text: str, path: str) -> Canvas:
    r"""*text* as a grid.

    >>> canvas("\t// +-> A", "x.go").rows
    ('           +-> A',)
    """
    rows, columns = zip(*(_spread(_bare(line.removesuffix("\r"))) for line in text.split("\n")), strict=True)
    return Canvas(path=path, rows=rows, columns=columns)


def _bare(line: str) -> str:
    """*line* with blanks instead of comment marks."""
    mark = _MARK.match(line)
    if mark is not None:
        line = re.sub(r"[^\t]", " ", mark.group()) + line[mark.end() :]
    closing = _CLOSING.search(line)
    if closing is not None:
        line = line[: closing.start()]
    elif mark is not None and mark.group().strip() == "*" and line.endswith(" *"):
        line = line[:-1]
    return line


def _spread(line: str) -> tuple[str, tuple[int, ...]]:
    """*line* as its columns are seen, and for each column the index of its character."""
    row: list[str] = []
    places: list[int] = []
    for number, char in enumerate(line):
        if char == "\t":
            wide = _TAB - len(row) % _TAB
            row += " " * wide
        elif unicodedata.combining(char):
            continue
        else:
            # East Asian letters take two columns.  The strokes and heads of drawings
            # have "ambiguous" width, and take one column outside East Asia.
            wide = 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
            row += [char if char.isprintable() else " ", *[_FILL] * (wide - 1)]
        places += [number] * wide
    return "".join(row), tuple(places)
