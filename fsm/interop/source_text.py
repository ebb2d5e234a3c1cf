"""From a file to its text, within bounds, and the mistakes that are found in it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from fsm.errors import InputError, Problem, nearest
from fsm.language.build import LARGEST_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST: Final = 1024 * 1024
"""Bytes; more is no machine that anybody has written or will read."""

DEEPEST: Final = 32
"""Nesting of lists, mappings and elements; configurations need five levels."""

MOST_NAMES: Final = 20
"""States that are named to somebody who has misspelt one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems:
    """The mistakes of one file, collected so that they can be told at once."""

    path: str
    found: list[Problem] = field(default_factory=list)

    def say(self, code: str, line: int, what: str, hint: str) -> None:
        """Note a mistake."""
        self.found.append(Problem(path=self.path, line=line, code=code, what=what, hint=hint))

    def unknown(self, line: int, what: str, state: str, states: Iterable[str]) -> None:
        """Note that *what* names a state that is not there."""
        names = tuple(states)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        self.say(
            "FSM510", line, f"{what} unknown state '{state}'", nearest(state, names[:MOST_NAMES], of="states") + more
        )

    def end(self, code: str, line: int, what: str, hint: str) -> NoReturn:
        """Raise what was found, and that nothing more can be read."""
        self.say(code, line, what, hint)
        raise InputError(self.found)

    def check_size(self, line: int, states: int, transitions: int) -> None:
        """Raise that a machine is too large."""
        if states * transitions > LARGEST_TABLE:
            what = f"{transitions} transitions in {states} states are more than {LARGEST_TABLE} cells"
            self.end("FSM515", line, what, "split the machine")

    def refuse(self) -> None:
        """Raise what was found, by line, if there is anything."""
        if self.found:
            raise InputError(sorted(dict.fromkeys(self.found), key=lambda problem: problem.line))


def contents(path: Path | str) -> bytes:
    """The bytes of the file at *path*, no more than are needed to see that it is too large.

    Raises :class:`InputError` if it cannot be opened.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        Problems(path=str(path)).end("FSM501", 0, f"cannot be opened: {reason}", "give the path of a file")


def text_of(data: bytes, problems: Problems) -> str:
    """*data* as text."""
    if len(data) > LARGEST:
        what = f"is larger than {LARGEST // 1024 // 1024} MiB"
        problems.end("FSM502", 0, what, "machines are small text files; is this the right one?")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        problems.end("FSM503", line, what, "save the file as UTF-8")
