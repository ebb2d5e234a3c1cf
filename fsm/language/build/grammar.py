"""Common grammar of conditions on machines and systems: ``not``, ``and``, ``or``, ``then`` and parentheses."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from fsm.language.build.definitions import Definitions
from fsm.machine import Kind
from fsm.machine.conditions import All, Condition, Not, Sequence, Some, WrittenCondition

T = TypeVar("T")

DEEPEST: Final = 50  # maximum nesting depth of parentheses and ``not``
_TOKEN: Final = re.compile(r"([A-Za-z0-9_.-]+|[(),])|(\S)")


class ConditionError(Exception):
    """An error in the text of a condition: what was found, and how to fix it."""

    def __init__(self, what: str, hint: str, at: tuple[str, ...] = ()) -> None:
        self.what = what
        self.hint = hint
        self.at = at  # where in the file, if known
        super().__init__(f"{what}: {hint}")


@dataclass(slots=True, kw_only=True)
class Grammar(ABC):
    """Parses ``text`` with the names in ``define``.  Subclasses parse other words, or raise :class:`ConditionError`."""

    text: str
    define: Definitions = field(default_factory=dict)
    words: list[tuple[str, int]] = field(default_factory=list)
    next: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.words = _tokens(self.text)

    def sequence(self) -> Sequence:
        """Read the whole text as conditions separated by ``then``."""
        found = self._separated("then", self.written)
        if self.peek():
            raise ConditionError(f"{self.text!r} continues with '{self.peek()}'", "put and, or or then in between")
        return tuple(found)

    def condition(self) -> WrittenCondition:
        """Read the whole text as one condition."""
        found = self.sequence()
        if len(found) > 1:
            raise ConditionError(f"{self.text!r} speaks of several instants", "leave 'then' out here")
        return found[0]

    def peek(self) -> str:
        """Return the next word, or an empty string at the end."""
        return self.words[self.next][0] if self.next < len(self.words) else ""

    def take(self, word: str) -> bool:
        """Skip *word* if it is next.  Return whether it was."""
        if self.peek() != word:
            return False
        self.next += 1
        return True

    def written(self) -> WrittenCondition:
        """Read a condition, and keep its text."""
        start = self.words[self.next - 1][1] if self.next else 0
        means = self._some()
        return WrittenCondition(text=self.text[start : self.words[self.next - 1][1]].strip(), means=means)

    def _separated(self, separator: str, read: Callable[[], T]) -> list[T]:
        found = [read()]
        while self.take(separator):
            found.append(read())
        return found

    def _some(self) -> Condition:
        parts = self._separated("or", self._all)
        return parts[0] if len(parts) == 1 else Some(of=tuple(parts))

    def _all(self) -> Condition:
        parts = self._separated("and", self._not)
        return parts[0] if len(parts) == 1 else All(of=tuple(parts))

    def _not(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ConditionError(f"{self.text!r} nests too deep", "say it in several properties")
        try:
            if self.take("not"):
                return Not(of=self._not())
            if self.take("("):
                inner = self._some()
                if not self.take(")"):
                    raise ConditionError(f"{self.text!r} lacks a ')'", "close what was opened")
                return inner
            word = self.word("a condition")
            return self._defined(word) if isinstance(self.define.get(word), str) else self.atom(word)
        finally:
            self.depth -= 1

    def _defined(self, word: str) -> Condition:
        try:
            return replace(self, text=str(self.define[word]), words=[], next=0).condition().means
        except ConditionError as error:
            raise ConditionError(error.what, error.hint, error.at or ("define", word)) from error

    @abstractmethod
    def atom(self, word: str) -> Condition:
        """Read a condition that begins with *word* and is neither defined nor composed of others."""

    def word(self, expected: str) -> str:
        """Read the next word.  *expected* describes it in an error."""
        word = self.peek()
        if not word:
            raise ConditionError(f"{self.text!r} ends where {expected} should be", "say what is meant, or leave it out")
        self.next += 1
        return word

    def emitted(self) -> list[str]:
        """Read the outputs after ``emits only``."""
        return self._separated(",", lambda: self.word("an output"))

    def reply(self, event: str, kind: Kind) -> str:
        """Read the reply after ``replies`` in a condition on *event*."""
        if kind != "call":
            raise ConditionError(f"'{event}' is no call and has no reply", "leave 'replies' out")
        word = self.word("a reply")
        if word not in {"ok", "error"} and not re.fullmatch(r"[A-Z][A-Z0-9_]*", word):
            raise ConditionError(f"'{word}' is no reply", "replies: ok, error, or a code such as NOT_FOUND")
        return word


def _tokens(text: str) -> list[tuple[str, int]]:
    found = []
    for match in _TOKEN.finditer(text):
        if odd := match[2]:
            raise ConditionError(f"{text!r} has {odd!r} in it", "use names, parentheses, and, or, not, then")
        found.append((match[1], match.end()))
    return found
