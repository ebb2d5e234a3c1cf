"""The mistakes of one file, collected while everything that can be made is made."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic

from fsm.errors import InputError, Problem, nearest
from fsm.language.read import F, File


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems(Generic[F]):
    """What is wrong with the *model*, or another file; the same mistake is said once."""

    model: File[F]
    _found: dict[Problem, None] = field(default_factory=dict)

    def say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        """Note a mistake in what stands at the path *at*."""
        self.say_at(self.model.lines.find(*at), code, what, hint)

    def say_at(self, line: int, code: str, what: str, hint: str) -> None:
        """Note a mistake in *line*."""
        self._found[Problem(path=self.model.path, line=line, code=code, what=what, hint=hint)] = None

    def unknown(self, code: str, what: str, word: str, known: Iterable[str], *at: str | int) -> None:
        """Note that *word*, which *what* introduces, is not among *known*.

        *what* ends in the kind of thing that is meant, such as ``unknown state``.
        """
        of = f"{what.rsplit(' ', 1)[-1]}s"
        self.say(code, f"{what} '{word}'", nearest(word, known, of=of), *at)

    def refuse(self) -> None:
        """Raise :class:`InputError` if there is any mistake."""
        if self._found:
            raise InputError(sorted(self._found, key=lambda problem: problem.line))
