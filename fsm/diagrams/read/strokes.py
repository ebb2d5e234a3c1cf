"""Characters of a drawing: arrowheads, joints, and the directions in which each character connects."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

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
# Maps each character to the directions in which a line continues from it.
ARMS: Final[Mapping[str, str]] = {char: arms for chars, arms in _ARMS.items() for char in chars}

ROUND: Final = ".'`"  # characters that are corners only if a line turns there
_HEADS: Final[Mapping[Direction, str]] = {"N": "^▲△↑", "E": ">►▶▷→", "S": "vV▼▽↓", "W": "<◄◀◁←"}
# Maps each arrowhead to the direction in which it points.
HEADS: Final[Mapping[str, Direction]] = {char: to for to, chars in _HEADS.items() for char in chars}

_REACHED: Final = {**ARMS, **{char: OPPOSITE[to] for char, to in HEADS.items()}}
STROKE: Final = re.compile(f"[{re.escape(''.join(_REACHED))}]")  # matches any character of a line

# Marks that may be at the beginning of an arrow without a source.
STARTS: Final = frozenset({"*", "o", "O", "●", "⬤", "(*)", "[*]"})


def beyond(cell: GridCell, to: Direction, far: int = 1) -> GridCell:
    """Return the cell *far* steps from *cell* in direction *to*.

    >>> beyond((3, 3), "E", 2)
    (3, 5)
    """
    down, right = _OFFSET[to]
    return cell[0] + far * down, cell[1] + far * right


def reaches(char: str, to: Direction) -> bool:
    """Check whether a line continues from *char* in direction *to*.

    A line continues from an arrowhead in the direction opposite to where it points.

    >>> reaches("+", "N"), reaches("|", "E"), reaches("v", "N"), reaches("v", "S")
    (True, False, True, False)
    """
    return to in _REACHED.get(char, "")
