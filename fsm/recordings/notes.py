"""Notes on the lines of a recording: counts, and the places of the first lines that are foreign or damaged."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fsm.trace import Line

FOREIGN: Final = "foreign or damaged lines"
"""Note on lines that do not have the form of the recording."""

INCOMPLETE: Final = "incomplete last lines"
"""Note on an incomplete last line, such as one that is still being written."""

LISTED: Final = 5
"""Maximum number of foreign lines that are listed."""


class Notes(Counter[str]):
    """Counts of notes; ``foreign`` lists the first foreign or damaged lines if all lines should have one form.

    >>> notes = Notes()
    >>> notes.add_foreign(7)
    >>> notes, notes.foreign
    (Notes({'foreign or damaged lines': 1}), [7])
    """

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[int | Line] = []

    def add_foreign(self, line: int | Line) -> None:
        """Count *line*, and remember it if it is one of the first."""
        self[FOREIGN] += 1
        if len(self.foreign) < LISTED:
            self.foreign.append(line)

    def join(self, other: Notes, file: str) -> None:
        """Add the notes on another *file* of the same recording."""
        self.update(other)
        self.foreign = [*self.foreign, *(Line.of(each, file) for each in other.foreign)][:LISTED]
