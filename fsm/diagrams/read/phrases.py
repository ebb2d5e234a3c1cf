"""Words of a drawing outside of boxes: phrases, on one line or stacked on several."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fsm.diagrams.read.canvas import Canvas, Paragraph
from fsm.diagrams.read.strokes import GridCell


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words of one line with single blanks between them; both columns are included."""

    text: str
    row: int
    first: int
    last: int

    @property
    def start(self) -> GridCell:
        """The cell where it begins."""
        return self.row, self.first

    def over(self, column: int) -> bool:
        """Whether it covers *column*."""
        return self.first <= column <= self.last

    def cells(self) -> Iterator[GridCell]:
        """The cells of its characters."""
        return ((self.row, column) for column in range(self.first, self.last + 1))


def phrases(sheet: Canvas, within: Paragraph, drawn: Callable[[GridCell], bool]) -> list[Phrase]:
    """The phrases of a paragraph, line by line, other than what is *drawn*."""
    found: list[Phrase] = []
    for row in range(within.first, within.last + 1):
        first: int | None = None
        width = len(sheet.rows[row])
        for column in range(width + 1):
            blank = column >= width or sheet.at((row, column)) == " "
            apart = drawn((row, column)) or (blank and (sheet.at((row, column + 1)) == " " or drawn((row, column + 1))))
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
        above = [
            stack
            for stack in stacks
            if any(
                each.row == phrase.row - 1 and each.first <= phrase.last and phrase.first <= each.last for each in stack
            )
        ]
        merged = [each for stack in above for each in stack]
        stacks = [stack for stack in stacks if stack not in above]
        stacks.append([*merged, phrase])
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
