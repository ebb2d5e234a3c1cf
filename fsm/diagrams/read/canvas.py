"""A text as a grid of characters, without comment marks and with each character in the column where it is displayed.

Drawings occur in comments of all kinds of files.  Comment marks at the beginning of a line become blanks, so that every
character keeps its column.  Tabs are expanded, and wide characters take two columns, as on a terminal.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from fsm.diagrams.read.drawing import Location
from fsm.diagrams.read.strokes import GridCell

_TAB: Final = 8
_FILL: Final = "\0"  # fills the second column of a wide character

# Matches parts of words that look like strokes, such as the v of "Remove" and most hyphens.
_MARK: Final = re.compile(
    r"^(?:[ \t]*(?://+!?|/\*+!?|\*+(?=[ \t/]|$)|\#+:?|;+|%+|--(?=[ \t]|$)|\"\"\"|''')| {0,3}>(?=[ \t]|$))"
)
_WORD: Final = re.compile(r"(?<=[\w.])(?:-+(?=[\w.])|[vV])|[vV](?=[\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The grid."""

    path: str
    rows: tuple[str, ...]
    columns: tuple[Sequence[int], ...]  # index in the line of the character in each column of each row
    drawn: tuple[str, ...]  # the rows, with blanks in place of parts of words that look like strokes
    paragraphs: tuple[range, ...]  # runs of rows that are not empty

    def at(self, cell: GridCell) -> str:
        """Return the character at *cell*, or a blank beyond the edges."""
        return _at(self.rows, cell)

    def stroke(self, cell: GridCell) -> str:
        """Return the character at *cell*, or a blank if it is part of a word."""
        return _at(self.drawn, cell)

    def place(self, cell: GridCell) -> Location:
        row, column = cell
        columns = self.columns[row] if 0 <= row < len(self.columns) else ()
        return Location(line=row + 1, column=(columns[column] if 0 <= column < len(columns) else column) + 1)

    def text(self, row: int, first: int, last: int) -> str:
        """Return the text in *row* from column *first* to *last* inclusive."""
        return self.rows[row][first : last + 1].replace(_FILL, "")


def runs(marks: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each run of true *marks*.

    >>> list(runs([True, True, False, True]))
    [(0, 1), (3, 3)]
    """
    for marked, run in groupby(enumerate(marks), key=itemgetter(1)):
        if marked:
            places = [place for place, _ in run]
            yield places[0], places[-1]


def _at(rows: Sequence[str], cell: GridCell) -> str:
    row, column = cell
    return rows[row][column] if 0 <= row < len(rows) and 0 <= column < len(rows[row]) else " "


def canvas(text: str, path: str) -> Canvas:
    r"""Return *text* as a grid.

    >>> canvas("\t// +-> A", "x.go").rows
    ('           +-> A',)
    """
    rows, columns = zip(*(_spread(_bare(line.removesuffix("\r"))) for line in text.split("\n")), strict=True)
    return Canvas(
        path=path,
        rows=rows,
        columns=columns,
        drawn=tuple(_WORD.sub(lambda word: " " * len(word[0]), row) for row in rows),
        paragraphs=tuple(range(first, last + 1) for first, last in runs(map(bool, map(str.strip, rows)))),
    )


def _bare(line: str) -> str:
    mark = _MARK.match(line)
    if mark is not None:
        line = re.sub(r"[^\t]", " ", mark.group()) + line[mark.end() :]
    closed = line.rstrip(" \t")
    if closed.endswith(('"""', "'''")):
        line = closed[:-3].rstrip(" \t")
    elif closed.endswith("*/"):
        line = closed[:-1].rstrip("*").rstrip(" \t")
    elif mark is not None and mark.group().strip() == "*" and line.endswith(" *"):
        line = line[:-1]
    return line


def _spread(line: str) -> tuple[str, Sequence[int]]:
    if line.isascii() and line.isprintable():
        return line, range(len(line))
    row: list[str] = []
    places: list[int] = []
    for number, char in enumerate(line):
        if char == "\t":
            wide = _TAB - len(row) % _TAB
            row += " " * wide
        elif unicodedata.combining(char):
            continue
        else:
            # Wide East Asian letters take two columns. The strokes and arrowheads of drawings have "ambiguous" width
            # and take one column outside East Asia.
            wide = 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
            row += [char if char.isprintable() else " ", *[_FILL] * (wide - 1)]
        places += [number] * wide
    return "".join(row), tuple(places)
