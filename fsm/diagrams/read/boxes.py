"""Boxes: rectangles of strokes around a name.

The top and the bottom of a box are unbroken strokes from one corner to the other, and no line continues outward from
its corners.  This distinguishes a box from the rectangle between a loop and the loop's box.  A corner may be missing,
or be a plain stroke.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, product
from operator import attrgetter, not_
from typing import Final, NamedTuple, TypeAlias

from fsm.diagrams.read.canvas import Canvas, runs
from fsm.diagrams.read.strokes import (
    ARMS,
    HEADS,
    HORIZONTAL,
    OPPOSITE,
    STROKE,
    VERTICAL,
    Direction,
    GridCell,
    beyond,
    reaches,
)

NARROWEST: Final = 3  # minimum width in columns: two sides, and a name between them
_REMARK: Final = re.compile(r"\(.*\)")
# Matches runs of strokes that may contain the top or the bottom of a box.
_PIECE: Final = re.compile(f"{STROKE.pattern}{{{NARROWEST - 1},}}")
_RULE: Final = re.compile(f"[{re.escape(''.join(ARMS))}]+")
_Sides: TypeAlias = tuple[int, int]


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
        """Check whether *cell* is inside the box or on its border."""
        return self.top <= cell[0] <= self.bottom and self.left <= cell[1] <= self.right

    def cells(self) -> Iterator[GridCell]:
        return product(range(self.top, self.bottom + 1), range(self.left, self.right + 1))

    def sides(self) -> Iterator[tuple[GridCell, Direction]]:
        """Yield the cells of the border except its corners, and the outward direction from each."""
        for column in range(self.left + 1, self.right):
            yield (self.top, column), "N"
            yield (self.bottom, column), "S"
        for row in range(self.top + 1, self.bottom):
            yield (row, self.left), "W"
            yield (row, self.right), "E"

    def corners(self) -> tuple[GridCell, ...]:
        """Return the corners clockwise from the top left."""
        return (self.top, self.left), (self.top, self.right), (self.bottom, self.right), (self.bottom, self.left)


class _Edge(NamedTuple):
    """An unbroken horizontal stroke that could be the top or the bottom of a box."""

    row: int
    first: int
    last: int

    def sides(self) -> tuple[_Sides, _Sides, _Sides]:
        """Return the possible columns of both sides: the ends of the edge, or one beyond if a corner is missing."""
        return (self.first, self.last), (self.first - 1, self.last), (self.first, self.last + 1)


def boxes(sheet: Canvas, within: range) -> tuple[list[Box], list[Box]]:
    """Return the boxes in the rows *within*, from top to bottom, and separately the boxes that contain others."""
    edges = [edge for row in within for edge in _edges(sheet, row)]
    bottoms: dict[_Sides, list[_Edge]] = defaultdict(list)
    for edge in edges:
        for sides in edge.sides():
            if _has_clean_corners(sheet, edge.row, sides, "S"):
                bottoms[sides].append(edge)
    found: list[Box] = []
    for top in edges:
        closed = [
            _box_below(sheet, top, sides, bottoms[sides])
            for sides in top.sides()
            if sides in bottoms and _has_clean_corners(sheet, top.row, sides, "N")
        ]
        found += sorted(filter(None, closed), key=attrgetter("bottom"))[:1]
    rows: dict[int, list[Box]] = defaultdict(list)
    for box in sorted(found, key=attrgetter("left")):
        rows[box.top].append(box)
    around = [_contains_another(box, rows) for box in found]
    return [*compress(found, map(not_, around))], [*compress(found, around)]


def _contains_another(box: Box, rows: Mapping[int, list[Box]]) -> bool:
    """Check whether another box is within *box*.  *rows* maps rows to the boxes that begin there, left to right."""
    for row in range(box.top, box.bottom + 1):
        those = rows.get(row, ())
        for at in range(
            bisect_left(those, box.left, key=attrgetter("left")), bisect_right(those, box.right, key=attrgetter("left"))
        ):
            if those[at] is not box and box.holds((those[at].bottom, those[at].right)):
                return True
    return False


def strokes(sheet: Canvas, within: range) -> list[GridCell]:
    """Return the beginnings of strokes that could have been the top or the bottom of a box."""
    return [
        (edge.row, edge.first)
        for row in within
        for edge in _edges(sheet, row)
        if edge.last - edge.first >= NARROWEST and sheet.at((row, edge.first)) not in HORIZONTAL
    ]


def _edges(sheet: Canvas, row: int) -> Iterator[_Edge]:
    """Yield the maximal runs of strokes in *row*.  They may include vertical arrowheads."""
    text = sheet.rows[row]
    for piece in _PIECE.finditer(text):
        for first, last in runs(_is_horizontal(text[column], text, column) for column in range(*piece.span())):
            if last - first + 1 >= NARROWEST - 1:
                yield _Edge(row, piece.start() + first, piece.start() + last)


def _is_horizontal(char: str, text: str, column: int) -> bool:
    if HEADS.get(char) in {"N", "S"}:
        around = text[max(column - 1, 0) : column] + text[column + 1 : column + 2]
        return bool(around) and all(each in ARMS or each in HEADS for each in around)
    return (reaches(char, "E") and reaches(char, "W")) or (char in ARMS and char not in VERTICAL)


def _box_below(sheet: Canvas, top: _Edge, sides: _Sides, bottoms: list[_Edge]) -> Box | None:
    """Return the box below *top* with these *sides*, closed by the first of *bottoms* that fits."""
    left, right = sides
    row = top.row + 1
    # No line continues downward from the corners of a bottom edge, so the sides reach past at most one of *bottoms*.
    for at in range(bisect_right(bottoms, row, key=attrgetter("row")), len(bottoms)):
        bottom = bottoms[at]
        while row < bottom.row and _is_vertical(sheet.at((row, left))) and _is_vertical(sheet.at((row, right))):
            row += 1
        if row < bottom.row:
            break
        name, cell = _name(sheet, range(top.row + 1, bottom.row), left + 1, right - 1)
        box = Box(name=name, cell=cell, top=top.row, bottom=bottom.row, left=left, right=right)
        if sides in {top[1:], bottom[1:]} and name and not _is_table(sheet, box):
            return box
    return None


def _is_table(sheet: Canvas, box: Box) -> bool:
    """Check whether lines cross *box* from side to side or from top to bottom, as in a table."""
    rows, columns = range(box.top, box.bottom + 1), range(box.left, box.right + 1)
    rules = any(_RULE.fullmatch(sheet.rows[row], box.left, box.right + 1) for row in rows[1:-1])
    return rules or any(all(_is_vertical(sheet.at((row, column))) for row in rows) for column in columns[1:-1])


def _is_vertical(char: str) -> bool:
    return HEADS.get(char) in {"E", "W"} or (reaches(char, "N") and reaches(char, "S"))


def _has_clean_corners(sheet: Canvas, row: int, sides: _Sides, up: Direction) -> bool:
    """Check that no corner of an edge of a box is an arrowhead or continues outward."""
    left, right = sides
    return (
        right - left >= NARROWEST - 1 and _turns(sheet, (row, left), up, "W") and _turns(sheet, (row, right), up, "E")
    )


def _turns(sheet: Canvas, corner: GridCell, up: Direction, out: Direction) -> bool:
    char = sheet.at(corner)
    if char in HEADS or not (char in ARMS or char == " "):
        return False
    above = reaches(char, up) and reaches(sheet.stroke(beyond(corner, up)), OPPOSITE[up])
    return not above and not (reaches(char, out) and sheet.stroke(beyond(corner, out)) in HORIZONTAL)


def _name(sheet: Canvas, rows: range, first: int, last: int) -> tuple[str, GridCell]:
    """Return the lines in a box, joined by spaces and without remarks in parentheses, and the cell where they begin."""
    lines = {row: sheet.text(row, first, last) for row in rows}
    named = {row: line for row, line in lines.items() if line.strip() and not _REMARK.fullmatch(line.strip())}
    row = next(iter(named), rows[0])
    return " ".join(" ".join(named.values()).split()), (row, first + len(lines[row]) - len(lines[row].lstrip()))
