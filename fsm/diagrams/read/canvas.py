"""Arrange a text as a grid of characters, with each character in the column where it is displayed.

Drawings occur in comments of all kinds of files. Comment marks at the beginning of a line become blanks, so that every
character keeps its column. Tabs are expanded. Wide characters take two columns, as on a terminal.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, groupby, product
from operator import attrgetter, itemgetter, not_
from typing import Final, Literal, NamedTuple, TypeAlias

from fsm.diagrams.drawing import Location

Direction: TypeAlias = Literal["N", "E", "S", "W"]
GridCell: TypeAlias = tuple[int, int]  # row and column, counted from 0

OPPOSITE: Final[Mapping[Direction, Direction]] = {"N": "S", "E": "W", "S": "N", "W": "E"}
_OFFSET: Final[Mapping[Direction, GridCell]] = {"N": (-1, 0), "S": (1, 0), "E": (0, 1), "W": (0, -1)}

HORIZONTAL: Final = "-─━┄┅┈┉╌╍═"
VERTICAL: Final = "|│┃┆┇┊┋╎╏║"
STRAIGHT: Final = HORIZONTAL + VERTICAL
_ARMS: Final[Mapping[str, str]] = {
    HORIZONTAL: "EW",
    VERTICAL: "NS",
    "+┼╋╬": "NESW",
    "┌┏╭╔╒╓": "ES",
    "┐┓╮╗╕╖": "SW",
    "└┗╰╚╘╙": "NE",
    "┘┛╯╝╛╜": "NW",
    "├┣╠╞╟": "NES",
    "┤┫╣╡╢": "NSW",
    "┬┳╦╤╥": "ESW",
    "┴┻╩╧╨": "NEW",
    ".": "ESW",
    "'`": "NEW",
}
# Maps each character to the directions in which a line continues from the character.
ARMS: Final[Mapping[str, str]] = {char: arms for chars, arms in _ARMS.items() for char in chars}

ROUND: Final = ".'`"  # characters that are corners only if a line turns at them
_HEADS: Final[Mapping[Direction, str]] = {"N": "^▲△↑", "E": ">►▶▷→", "S": "vV▼▽↓", "W": "<◄◀◁←"}
# Maps each arrowhead to the direction in which it points.
HEADS: Final[Mapping[str, Direction]] = {char: to for to, chars in _HEADS.items() for char in chars}

_REACHED: Final = {**ARMS, **{char: OPPOSITE[to] for char, to in HEADS.items()}}
STROKE: Final = re.compile(f"[{re.escape(''.join(_REACHED))}]")  # matches any character of a line

# Marks that an arrow without a source may have at its beginning.
STARTS: Final = frozenset({"*", "o", "O", "●", "⬤", "(*)", "[*]"})


def beyond(cell: GridCell, to: Direction, far: int = 1) -> GridCell:
    """Return the cell that is *far* cells away from *cell* in direction *to*."""
    down, right = _OFFSET[to]
    return cell[0] + far * down, cell[1] + far * right


def reaches(char: str, to: Direction) -> bool:
    """Check whether a line can continue from *char* in direction *to*. From an arrowhead, it continues only backwards.

    >>> reaches("+", "N"), reaches("|", "E"), reaches("v", "N"), reaches("v", "S")
    (True, False, True, False)
    """
    return to in _REACHED.get(char, "")


_TAB: Final = 8
_FILL: Final = "\0"  # fills the second column of a wide character

_MARK: Final = re.compile(
    r"^(?:[ \t]*(?://+!?|/\*+!?|\*+(?=[ \t/]|$)|\#+:?|;+|%+|--(?=[ \t]|$)|\"\"\"|''')| {0,3}>(?=[ \t]|$))"
)
# Matches parts of words that look like strokes, such as the v of "Remove" and most hyphens.
_WORD: Final = re.compile(r"(?<=[\w.])(?:-+(?=[\w.])|[vV])|[vV](?=[\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    path: str
    rows: tuple[str, ...]
    columns: tuple[Sequence[int], ...]  # for each row and column, the index of the character in its line
    drawn: tuple[str, ...]  # the rows, with blanks instead of parts of words that look like strokes
    paragraphs: tuple[range, ...]  # blocks of consecutive non-empty rows

    def at(self, cell: GridCell) -> str:
        return _char_at(self.rows, cell)

    def stroke(self, cell: GridCell) -> str:
        return _char_at(self.drawn, cell)

    def place(self, cell: GridCell) -> Location:
        row, column = cell
        columns = self.columns[row] if 0 <= row < len(self.columns) else ()
        return Location(line=row + 1, column=(columns[column] if 0 <= column < len(columns) else column) + 1)

    def text(self, row: int, first: int, last: int) -> str:
        return self.rows[row][first : last + 1].replace(_FILL, "")


def runs(marks: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each run of true items in *marks*.

    >>> list(runs([True, True, False, True]))
    [(0, 1), (3, 3)]
    """
    for marked, run in groupby(enumerate(marks), key=itemgetter(1)):
        if marked:
            places = [place for place, _ in run]
            yield places[0], places[-1]


def _char_at(rows: Sequence[str], cell: GridCell) -> str:
    row, column = cell
    return rows[row][column] if 0 <= row < len(rows) and 0 <= column < len(rows[row]) else " "


def canvas(text: str, path: str) -> Canvas:
    r"""Return *text* as a grid.

    >>> canvas("\t// +-> A", "x.go").rows
    ('           +-> A',)
    """
    rows, columns = zip(
        *(_expand_line(_strip_comment_marks(line.removesuffix("\r"))) for line in text.split("\n")), strict=True
    )
    return Canvas(
        path=path,
        rows=rows,
        columns=columns,
        drawn=tuple(_WORD.sub(lambda word: " " * len(word[0]), row) for row in rows),
        paragraphs=tuple(range(first, last + 1) for first, last in runs(map(bool, map(str.strip, rows)))),
    )


def _strip_comment_marks(line: str) -> str:
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


def _expand_line(line: str) -> tuple[str, Sequence[int]]:
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


NARROWEST: Final = 3  # minimum width of a box in columns: two sides, and a name between them
_REMARK: Final = re.compile(r"\(.*\)")
# Matches runs of strokes that may contain the top or the bottom of a box.
_PIECE: Final = re.compile(f"{STROKE.pattern}{{{NARROWEST - 1},}}")
_RULE: Final = re.compile(f"[{re.escape(''.join(ARMS))}]+")
_Sides: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The box of a state, with the rows and columns of its border."""

    name: str
    cell: GridCell  # the beginning of the name
    top: int
    bottom: int
    left: int
    right: int

    def holds(self, cell: GridCell) -> bool:
        return self.top <= cell[0] <= self.bottom and self.left <= cell[1] <= self.right

    def cells(self) -> Iterator[GridCell]:
        return product(range(self.top, self.bottom + 1), range(self.left, self.right + 1))

    def sides(self) -> Iterator[tuple[GridCell, Direction]]:
        for column in range(self.left + 1, self.right):
            yield (self.top, column), "N"
            yield (self.bottom, column), "S"
        for row in range(self.top + 1, self.bottom):
            yield (row, self.left), "W"
            yield (row, self.right), "E"

    def corners(self) -> tuple[GridCell, ...]:
        return (self.top, self.left), (self.top, self.right), (self.bottom, self.right), (self.bottom, self.left)


class _Edge(NamedTuple):
    row: int
    first: int
    last: int

    def sides(self) -> tuple[_Sides, _Sides, _Sides]:
        """Return possible columns of the box's sides: the edge's ends, or one column further if a corner is missing."""
        return (self.first, self.last), (self.first - 1, self.last), (self.first, self.last + 1)


def boxes(sheet: Canvas, within: range) -> tuple[list[Box], list[Box]]:
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
    for row in range(box.top, box.bottom + 1):
        those = rows.get(row, ())
        first = bisect_left(those, box.left, key=attrgetter("left"))
        for other in those[first : bisect_right(those, box.right, key=attrgetter("left"))]:
            if other is not box and box.holds((other.bottom, other.right)):
                return True
    return False


def strokes(sheet: Canvas, within: range) -> list[GridCell]:
    return [
        (edge.row, edge.first)
        for row in within
        for edge in _edges(sheet, row)
        if edge.last - edge.first >= NARROWEST and sheet.at((row, edge.first)) not in HORIZONTAL
    ]


def _edges(sheet: Canvas, row: int) -> Iterator[_Edge]:
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
    left, right = sides
    row = top.row + 1
    # No side continues below the corners of a bottom edge, so the loop ends once the sides have passed an edge.
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
    rows, columns = range(box.top, box.bottom + 1), range(box.left, box.right + 1)
    rules = any(_RULE.fullmatch(sheet.rows[row], box.left, box.right + 1) for row in rows[1:-1])
    return rules or any(all(_is_vertical(sheet.at((row, column))) for row in rows) for column in columns[1:-1])


def _is_vertical(char: str) -> bool:
    return HEADS.get(char) in {"E", "W"} or (reaches(char, "N") and reaches(char, "S"))


def _has_clean_corners(sheet: Canvas, row: int, sides: _Sides, up: Direction) -> bool:
    left, right = sides
    return (
        right - left >= NARROWEST - 1
        and _can_turn(sheet, (row, left), up, "W")
        and _can_turn(sheet, (row, right), up, "E")
    )


def _can_turn(sheet: Canvas, corner: GridCell, up: Direction, out: Direction) -> bool:
    char = sheet.at(corner)
    if char in HEADS or not (char in ARMS or char == " "):
        return False
    above = reaches(char, up) and reaches(sheet.stroke(beyond(corner, up)), OPPOSITE[up])
    return not above and not (reaches(char, out) and sheet.stroke(beyond(corner, out)) in HORIZONTAL)


def _name(sheet: Canvas, rows: range, first: int, last: int) -> tuple[str, GridCell]:
    lines = {row: sheet.text(row, first, last) for row in rows}
    named = {row: line for row, line in lines.items() if line.strip() and not _REMARK.fullmatch(line.strip())}
    row = next(iter(named), rows[0])
    return " ".join(" ".join(named.values()).split()), (row, first + len(lines[row]) - len(lines[row].lstrip()))
