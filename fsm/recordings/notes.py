"""Notes on the lines of a recording: counts, and the locations of the first foreign or damaged lines."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fsm.trace import Line

FOREIGN: Final = "foreign or damaged lines"
"""Note counting lines that are not in the recording's format."""

INCOMPLETE: Final = "incomplete last lines"
"""Note counting incomplete last lines, such as one that is still being written."""

LISTED: Final = 5
"""Maximum number of foreign lines to list."""


class Notes(Counter[str]):
    """A counter for each note. ``foreign`` lists the first lines that were added as foreign."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[int | Line] = []

    def add_foreign(self, line: int | Line) -> None:
        """Count *line* as foreign, and list it if it is one of the first."""
        self[FOREIGN] += 1
        if len(self.foreign) < LISTED:
            self.foreign.append(line)

    def join(self, other: Notes, file: str) -> None:
        """Add the notes from another *file* of the same recording."""
        self.update(other)
        self.foreign = [*self.foreign, *(Line.of(each, file) for each in other.foreign)][:LISTED]
