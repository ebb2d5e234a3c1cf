"""Collect the errors of one file while building everything that can be built."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic

from fsm.errors import InputError, Problem, nearest
from fsm.language.read import F, File


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems(Generic[F]):
    """Collects the errors in ``model``, without duplicates."""

    model: File[F]
    _found: dict[Problem, None] = field(default_factory=dict)

    def say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        """Add an error at the path *at*."""
        self.say_at(self.model.lines.find(*at), code, what, hint)

    def say_at(self, line: int, code: str, what: str, hint: str) -> None:
        """Add an error on *line*."""
        self._found[Problem(path=self.model.path, line=line, code=code, what=what, hint=hint)] = None

    def known(self, code: str, what: str, word: str | None, names: Collection[str], *at: str | int) -> bool:
        """Check whether *word* is in *names* or absent (``None``).  If it is neither, add an error.

        *what* introduces the word in the message.  It ends in the kind of thing meant, such as ``unknown state``.
        """
        if word is None or word in names:
            return True
        self.say(code, f"{what} '{word}'", nearest(word, names, of=f"{what.rsplit(' ', 1)[-1]}s"), *at)
        return False

    def refuse(self) -> None:
        """Raise :class:`InputError` if there are any errors."""
        if self._found:
            raise InputError(sorted(self._found, key=lambda problem: problem.line))
