"""Find the lines of a drawing: their cells, and the directions in which they continue from each cell.

Strokes join at a joint (``+``), and where one of them ends at the side of another (``|---``). If a stroke continues on
both sides (``--|--``), the lines cross without joining.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from fsm.diagrams.read.canvas import (
    HEADS,
    OPPOSITE,
    ROUND,
    STRAIGHT,
    STROKE,
    Box,
    Canvas,
    Direction,
    GridCell,
    beyond,
    reaches,
)
from fsm.errors import Problem
from fsm.machine.traversal import closure

# Maps the axis of a stroke to its directions.  An empty axis allows all directions.
_AXES: Final[Mapping[str, tuple[Direction, ...]]] = {"": tuple(OPPOSITE), "h": ("E", "W"), "v": ("N", "S")}


class Stroke(NamedTuple):
    cell: GridCell
    axis: str = ""


class Touch(NamedTuple):
    box: Box
    border: GridCell
    head: bool


class Wires:
    def __init__(self, sheet: Canvas, within: range, boxes: Iterable[Box]) -> None:
        self.sheet = sheet
        self.within = within
        self.owners = {cell: box for box in boxes for cell in box.cells()}
        self.links: dict[Stroke, dict[Direction, Stroke]] = {}
        self.touches: dict[Stroke, list[Touch]] = {}
        self.problems: list[tuple[GridCell, Problem]] = []
        found = ((row, each) for row in within for each in STROKE.finditer(sheet.drawn[row]))
        chars = {(row, each.start()): each.group() for row, each in found}
        self.chars = {
            cell: char for cell, char in chars.items() if cell not in self.owners and self._is_turn(cell, char)
        }
        self.crossed = cache(self._is_crossing)
        self._trace_lines()

    def add_problem(self, cell: GridCell, code: str, what: str, hint: str) -> None:
        place = self.sheet.place(cell)
        what = f"column {place.column}: {what}"
        self.problems.append((cell, Problem(path=self.sheet.path, line=place.line, code=code, what=what, hint=hint)))

    def components(self, among: Callable[[Stroke], bool] = lambda _: True) -> Iterator[tuple[Stroke, ...]]:
        return components(filter(among, sorted(self.links)), lambda node: filter(among, self.links[node].values()))

    def strokes_at(self, cell: GridCell, axes: str = "hv") -> Iterator[Stroke]:
        return (node for node in (Stroke(cell), *(Stroke(cell, axis) for axis in axes)) if node in self.links)

    def char(self, cell: GridCell) -> str:
        return self.chars.get(cell, " ")

    def _is_turn(self, cell: GridCell, char: str) -> bool:
        if char not in ROUND:
            return True
        near = {to: self.sheet.at(beyond(cell, to)) for to in OPPOSITE if reaches(char, to)}
        ways = {to for to, other in near.items() if other not in ROUND and reaches(other, OPPOSITE[to])}
        return bool(ways & {"E", "W"} and ways & {"N", "S"})

    def _is_crossing(self, cell: GridCell) -> bool:
        char = self.char(cell)
        sides: tuple[Direction, Direction] = ("W", "E") if reaches(char, "N") else ("N", "S")
        return char in STRAIGHT and all(self._ends_at(beyond(cell, to), OPPOSITE[to]) for to in sides)

    def _ends_at(self, cell: GridCell, to: Direction) -> bool:
        char = self.char(cell)
        return reaches(char, to) and (char in STRAIGHT or char in HEADS)

    def _next(self, cell: GridCell, to: Direction) -> Stroke | None:
        there = beyond(cell, to)
        char, back = self.char(there), OPPOSITE[to]
        if not reaches(self.char(cell), to):
            # A line continues to the side of a stroke only if another stroke ends there.
            side = self.char(cell) in STRAIGHT and self._ends_at(there, back) and not self.crossed(cell)
            return self.node(there, to) if side else None
        onward = reaches(char, back) or (char in STRAIGHT and self._ends_at(cell, to))
        return self.node(there, to) if onward else None

    def node(self, cell: GridCell, to: Direction) -> Stroke:
        return Stroke(cell, "h" if to in "EW" else "v") if self.crossed(cell) else Stroke(cell)

    def _link(self, cell: GridCell) -> None:
        crossed = self.crossed(cell)
        for axis in ("h", "v") if crossed else ("",):
            links = self.links[Stroke(cell, axis)] = {}
            for to in _AXES[axis]:
                through = crossed and not reaches(self.char(cell), to)
                there = self.node(beyond(cell, to), to) if through else self._next(cell, to)
                if there is not None:
                    links[to] = there

    def _record_border(self, box: Box, border: GridCell, out: Direction) -> None:
        mark, outside = self.sheet.at(border), beyond(border, out)
        char, back = self.char(outside), OPPOSITE[out]
        leads = reaches(char, back)
        if (HEADS.get(mark) == back and leads) or HEADS.get(char) == back:
            self._add_touch(outside, out, Touch(box, border, head=True))
        elif mark not in HEADS and leads and (char in STRAIGHT or char in HEADS or reaches(mark, out)):
            self._add_touch(outside, out, Touch(box, border, head=False))
        elif mark in HEADS or reaches(mark, out):
            what = f"the {'arrowhead' if mark in HEADS else 'joint'} '{mark}' on the border of a box has no line"
            self.add_problem(border, "FSM404", what, "draw the line to which it belongs")

    def _add_touch(self, cell: GridCell, out: Direction, touch: Touch) -> None:
        self.touches.setdefault(self.node(cell, OPPOSITE[out]), []).append(touch)

    def _trace_lines(self) -> None:
        for box in dict.fromkeys(self.owners.values()):
            for border, out in box.sides():
                self._record_border(box, border, out)
            for corner in box.corners():
                for out in OPPOSITE:
                    outside = beyond(corner, out)
                    if outside not in self.owners and HEADS.get(self.char(outside)) == OPPOSITE[out]:
                        self._add_touch(outside, out, Touch(box, corner, head=True))
        for cell in self.chars:
            self._link(cell)
        # A stroke that touches no other stroke and no box is only text.
        for node in [node for node, links in self.links.items() if not links and node not in self.touches]:
            del self.links[node]


N = TypeVar("N")


def components(roots: Iterable[N], following: Callable[[N], Iterable[N]]) -> Iterator[tuple[N, ...]]:
    seen: set[N] = set()
    for root in roots:
        if root not in seen:
            found = closure([root], following)
            seen.update(found)
            yield found


_WORDS: Final = re.compile(r"[^ \n]+(?: [^ \n]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words on one line, separated by single blanks, in the columns from ``first`` to ``last``."""

    text: str
    row: int
    first: int
    last: int

    @property
    def start(self) -> GridCell:
        return self.row, self.first

    def cells(self) -> Iterator[GridCell]:
        return ((self.row, column) for column in range(self.first, self.last + 1))


def phrases(lines: Wires) -> Iterator[Phrase]:
    sheet, drawn = lines.sheet, {*lines.owners, *(node.cell for node in lines.links)}
    for row in lines.within:
        rest = "".join("\n" if (row, column) in drawn else char for column, char in enumerate(sheet.rows[row]))
        for words in _WORDS.finditer(rest):
            first, last = words.start(), words.end() - 1
            yield Phrase(text=sheet.text(row, first, last), row=row, first=first, last=last)


def neighbours(stack: Iterable[Phrase]) -> Iterator[GridCell]:
    return (beyond(cell, to) for phrase in stack for cell in phrase.cells() for to in ("N", "S"))


def stacked(those: Iterable[Phrase]) -> Iterator[tuple[Phrase, ...]]:
    at = {cell: phrase for phrase in those for cell in phrase.cells()}
    for stack in components(at.values(), lambda phrase: (at[cell] for cell in neighbours([phrase]) if cell in at)):
        yield tuple(sorted(stack, key=attrgetter("start")))


def names(stack: Iterable[Phrase]) -> tuple[str, ...]:
    """Join stacked phrases into names. Each line is a name, or text in parentheses that belongs to the previous name.

    >>> lines = ["Start", "(failed", "and left)", "Stop"]
    >>> names(Phrase(text=text, row=row, first=0, last=9) for row, text in enumerate(lines))
    ('Start (failed and left)', 'Stop')
    """
    found: list[str] = []
    for phrase in stack:
        text = " ".join(phrase.text.split())
        if found and (text.startswith("(") or found[-1].count("(") > found[-1].count(")")):
            found[-1] += f" {text}"
        else:
            found.append(text)
    return tuple(found)
