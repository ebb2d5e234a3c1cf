"""Limits on imported files, and the problems found in them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from fsm.errors import InputError, Problem, control_character, nearest
from fsm.language.build import LARGEST_TABLE

LARGEST: Final = 1024 * 1024  # maximum file size in bytes; no state machine in use is larger
DEEPEST: Final = 32  # maximum nesting depth of lists, mappings and elements; configurations need five levels
MOST_NAMES: Final = 20  # maximum number of states listed in the hint for a misspelt one


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProblems:
    """The problems of one file, collected to be reported together."""

    path: str
    found: list[Problem] = field(default_factory=list)

    def add(self, code: str, line: int, what: str, hint: str) -> None:
        self.found.append(Problem(path=self.path, line=line, code=code, what=what, hint=hint))

    def unknown(self, line: int, what: str, state: str, states: Iterable[str]) -> None:
        names = tuple(states)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        hint = nearest(state, names[:MOST_NAMES], of="states") + more
        self.add("FSM510", line, f"{what} unknown state '{state}'", hint)

    def check_text(self, line: int, text: str) -> None:
        """Add a problem if *text* contains a control character, which no name needs."""
        if found := control_character(text):
            self.add("FSM516", line, f"{text!r} has the control character U+{ord(found):04X}", "remove it")

    def abort(self, code: str, line: int, what: str, hint: str) -> NoReturn:
        """Add a problem that makes the rest of the file unreadable, and raise all problems."""
        self.add(code, line, what, hint)
        raise InputError(self.found)

    def check_size(self, line: int, states: int, transitions: int) -> None:
        """Add a problem and raise all problems if the machine would be too large."""
        if states * transitions > LARGEST_TABLE:
            what = f"{transitions} transitions in {states} states have more than {LARGEST_TABLE} outcomes"
            self.abort("FSM515", line, what, "split the machine")

    def raise_found(self) -> None:
        """Raise the problems found, sorted by line, if there are any."""
        if self.found:
            raise InputError(sorted(dict.fromkeys(self.found), key=lambda problem: problem.line))
