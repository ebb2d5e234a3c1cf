"""Words of a drawing outside of boxes: phrases, on one line or stacked on several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fsm.diagrams.read.strokes import GridCell
from fsm.diagrams.read.wires import Wires


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words of one line with single blanks between them; both columns are included."""

    text: str
    row: int
    first: int
    last: int

    @property
    def start(self) -> GridCell:
        return self.row, self.first

    def covers(self, cell: GridCell) -> bool:
        return self.row == cell[0] and self.first <= cell[1] <= self.last

    def above(self, other: Phrase) -> bool:
        """Whether *other* is on the next line, and below a part of it."""
        return self.row == other.row - 1 and self.first <= other.last and other.first <= self.last

    def cells(self) -> Iterator[GridCell]:
        return ((self.row, column) for column in range(self.first, self.last + 1))


def phrases(lines: Wires) -> list[Phrase]:
    """The phrases of a paragraph, line by line: what is part of no line and no box."""
    sheet, drawn = lines.sheet, {*lines.owners, *(node.cell for node in lines.links)}
    found: list[Phrase] = []
    for row in lines.within:
        first: int | None = None
        for column in range(len(sheet.rows[row]) + 1):
            cell, after = (row, column), (row, column + 1)
            blank = sheet.at(cell) == " "
            apart = cell in drawn or (blank and (sheet.at(after) == " " or after in drawn))
            if first is None and not apart and not blank:
                first = column
            elif first is not None and apart:
                found.append(Phrase(text=sheet.text(row, first, column - 1), row=row, first=first, last=column - 1))
                first = None
    return found


def stacked(those: Iterable[Phrase]) -> list[tuple[Phrase, ...]]:
    """*those* in stacks: phrases on consecutive lines, one above the other."""
    stacks: list[list[Phrase]] = []
    for phrase in sorted(those, key=lambda each: each.start):
        above = [stack for stack in stacks if any(each.above(phrase) for each in stack)]
        stacks = [stack for stack in stacks if stack not in above]
        stacks.append([*(each for stack in above for each in stack), phrase])
    return [tuple(sorted(stack, key=lambda each: each.start)) for stack in stacks]


def names(stack: Iterable[Phrase]) -> tuple[str, ...]:
    """The names in a stack: one for each line, but text in parentheses belongs to the line before.

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
