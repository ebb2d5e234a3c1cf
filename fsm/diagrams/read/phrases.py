"""Phrases: words of a drawing outside its boxes, on one line or stacked on several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from fsm.diagrams.read.strokes import GridCell, beyond
from fsm.diagrams.read.wires import Wires
from fsm.machine.traversal import closure

_WORDS: Final = re.compile(r"[^ \n]+(?: [^ \n]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words on one line, separated by single blanks.  Columns ``first`` and ``last`` are included."""

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
    """Yield the phrases of a paragraph line by line.  A phrase is text that is not part of any line or box."""
    sheet, drawn = lines.sheet, {*lines.owners, *(node.cell for node in lines.links)}
    for row in lines.within:
        rest = "".join("\n" if (row, column) in drawn else char for column, char in enumerate(sheet.rows[row]))
        for words in _WORDS.finditer(rest):
            first, last = words.start(), words.end() - 1
            yield Phrase(text=sheet.text(row, first, last), row=row, first=first, last=last)


def stacked(those: Iterable[Phrase]) -> Iterator[tuple[Phrase, ...]]:
    """Group *those* into stacks of phrases on consecutive lines, one above the other."""
    at = {cell: phrase for phrase in those for cell in phrase.cells()}

    def touched(phrase: Phrase) -> Iterator[Phrase]:
        around = (beyond(cell, to) for cell in phrase.cells() for to in ("N", "S"))
        return (at[cell] for cell in around if cell in at)

    seen: set[Phrase] = set()
    for phrase in at.values():
        if phrase not in seen:
            stack = closure([phrase], touched)
            seen.update(stack)
            yield tuple(sorted(stack, key=attrgetter("start")))


def names(stack: Iterable[Phrase]) -> tuple[str, ...]:
    """Return the names in a stack, one for each line.  Text in parentheses belongs to the line before.

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
