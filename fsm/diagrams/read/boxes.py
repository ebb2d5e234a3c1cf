"""Boxes: rectangles of strokes around a name.

The top and the bottom of a box are unbroken strokes from one corner to the other, and no line continues outward from
its corners: this distinguishes a box from the rectangle between a loop and the box it belongs to.  A corner may be
missing, or be a plain stroke.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final, NamedTuple

from fsm.diagrams.read.canvas import Canvas, runs
from fsm.diagrams.read.strokes import ARMS, HEADS, HORIZONTAL, OPPOSITE, VERTICAL, Direction, GridCell, beyond, reaches

NARROWEST: Final = 3
"""Smallest width in columns: two sides, and a name between them."""

_REMARK: Final = re.compile(r"\(.*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A drawn state: its name, which begins at ``cell``, and the rows and columns of its border."""

    name: str
    cell: GridCell
    top: int
    bottom: int
    left: int
    right: int

    def holds(self, cell: GridCell) -> bool:
        """Whether *cell* is on the border or inside."""
        return self.top <= cell[0] <= self.bottom and self.left <= cell[1] <= self.right

    def cells(self) -> Iterator[GridCell]:
        return product(range(self.top, self.bottom + 1), range(self.left, self.right + 1))

    def sides(self) -> Iterator[tuple[GridCell, Direction]]:
        """The cells of the border without its corners, and the direction outward from each."""
        for column in range(self.left + 1, self.right):
            yield (self.top, column), "N"
            yield (self.bottom, column), "S"
        for row in range(self.top + 1, self.bottom):
            yield (row, self.left), "W"
            yield (row, self.right), "E"

    def corners(self) -> tuple[GridCell, ...]:
        """Clockwise, from the top left."""
        return (self.top, self.left), (self.top, self.right), (self.bottom, self.right), (self.bottom, self.left)


class _Edge(NamedTuple):
    """An unbroken stroke from left to right that could be the top or the bottom of a box."""

    row: int
    first: int
    last: int


def boxes(sheet: Canvas, within: range) -> tuple[list[Box], list[Box]]:
    """The boxes in the rows *within* from top to bottom, and apart from them those that contain others."""
    edges = [edge for row in within for edge in _edges(sheet, row)]
    found: list[Box] = []
    for number, top in enumerate(edges):
        closed = (_closed(sheet, top, bottom) for bottom in edges[number + 1 :] if _aligned(top, bottom))
        found += islice(filter(None, closed), 1)
    around = [box for box in found if any(box is not each and all(map(box.holds, each.corners())) for each in found)]
    return [box for box in found if box not in around], around


def strokes(sheet: Canvas, within: range) -> list[GridCell]:
    """The beginnings of strokes that could have been the top or the bottom of a box."""
    return [
        (edge.row, edge.first)
        for row in within
        for edge in _edges(sheet, row)
        if edge.last - edge.first >= NARROWEST and sheet.at((row, edge.first)) not in HORIZONTAL
    ]


def _edges(sheet: Canvas, row: int) -> Iterator[_Edge]:
    """The longest runs of strokes in *row*; vertical arrowheads may be among them."""
    text = sheet.rows[row]
    for first, last in runs(_flat(char, text, column) for column, char in enumerate(text)):
        if last - first + 1 >= NARROWEST - 1:
            yield _Edge(row, first, last)


def _flat(char: str, text: str, column: int) -> bool:
    if HEADS.get(char) in {"N", "S"}:
        around = text[max(column - 1, 0) : column] + text[column + 1 : column + 2]
        return bool(around) and all(each in ARMS or each in HEADS for each in around)
    return (reaches(char, "E") and reaches(char, "W")) or (char in ARMS and char not in VERTICAL)


def _aligned(top: _Edge, bottom: _Edge) -> bool:
    """Whether they end in the same columns, except for one corner that may be missing."""
    return abs(top.first - bottom.first) + abs(top.last - bottom.last) <= 1


def _closed(sheet: Canvas, top: _Edge, bottom: _Edge) -> Box | None:
    left, right = min(top.first, bottom.first), max(top.last, bottom.last)
    if right - left < NARROWEST - 1 or bottom.row - top.row <= 1:
        return None
    name, cell = _name(sheet, range(top.row + 1, bottom.row), left + 1, right - 1)
    box = Box(name=name, cell=cell, top=top.row, bottom=bottom.row, left=left, right=right)
    upright = all(_upright(sheet.at(side)) for side, out in box.sides() if out in "EW")
    clean = upright and not _ruled(sheet, box) and all(_clean(sheet, box, corner) for corner in box.corners())
    return box if name and clean else None


def _ruled(sheet: Canvas, box: Box) -> bool:
    """Whether lines cross it from side to side or from top to bottom, as in a table."""
    rows, columns = range(box.top, box.bottom + 1), range(box.left, box.right + 1)
    rules = any(all(sheet.at((row, column)) in ARMS for column in columns) for row in rows[1:-1])
    return rules or any(all(_upright(sheet.at((row, column))) for row in rows) for column in columns[1:-1])


def _upright(char: str) -> bool:
    return HEADS.get(char) in {"E", "W"} or (reaches(char, "N") and reaches(char, "S"))


def _clean(sheet: Canvas, box: Box, corner: GridCell) -> bool:
    """Whether no line continues outward from *corner*, and no arrowhead is on it."""
    up: Direction = "N" if corner[0] == box.top else "S"
    out: Direction = "W" if corner[1] == box.left else "E"
    char = sheet.at(corner)
    if char in HEADS or not (char in ARMS or char == " "):
        return False
    above = reaches(char, up) and reaches(sheet.stroke(beyond(corner, up)), OPPOSITE[up])
    return not above and not (reaches(char, out) and sheet.stroke(beyond(corner, out)) in HORIZONTAL)


def _name(sheet: Canvas, rows: range, first: int, last: int) -> tuple[str, GridCell]:
    """The lines in a box, joined by blanks, without remarks in parentheses; and where they begin."""
    lines = {row: sheet.text(row, first, last) for row in rows}
    named = {row: line for row, line in lines.items() if line.strip() and not _REMARK.fullmatch(line.strip())}
    row = next(iter(named), rows[0])
    return " ".join(" ".join(named.values()).split()), (row, first + len(lines[row]) - len(lines[row].lstrip()))
