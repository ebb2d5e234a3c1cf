"""Collect the errors of one file while building everything that can be built."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Generic, Self

from fsm.errors import InputError, Problem, nearest
from fsm.language.read import F, File
from fsm.language.read.toml import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems(Generic[F]):
    """Collects the errors in ``model`` below the path ``at``, without duplicates."""

    model: File[F]
    at: Keys = ()
    _found: dict[Problem, None] = field(default_factory=dict)

    def below(self, *at: str | int) -> Self:
        """Return the same collection, for the errors below the path *at*."""
        return replace(self, at=(*self.at, *at))

    @property
    def table(self) -> str:
        """The header of the table at this path."""
        return f"[{'.'.join(map(str, self.at))}]"

    def say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        """Add an error at the path *at*."""
        self.say_at(self.model.lines.find(*self.at, *at), code, what, hint)

    def say_at(self, line: int, code: str, what: str, hint: str) -> None:
        """Add an error on *line*."""
        self._found[Problem(path=self.model.path, line=line, code=code, what=what, hint=hint)] = None

    def known(self, code: str, what: str, word: str | None, names: Collection[str], *at: str | int) -> bool:
        """Check that *word* is in *names* or ``None``.  If not, add an error with *what*, such as ``unknown state``."""
        if word is None or word in names:
            return True
        self.say(code, f"{what} '{word}'", nearest(word, names, of=f"{what.rsplit(' ', 1)[-1]}s"), *at)
        return False

    def refuse(self) -> None:
        """Raise :class:`InputError` if there are any errors."""
        if self._found:
            raise InputError(sorted(self._found, key=lambda problem: problem.line))
