"""Report validation errors and semantic errors of a file together, by building its valid parts anyway."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fsm.errors import InputError, Problem
from fsm.language.read import F, File
from fsm.language.read.forms import place
from fsm.language.read.toml import Keys, document, locate

ROUNDS: Final = 8  # maximum number of rounds; what depends on a dropped part is found, and dropped, in the next round
STAND_IN: Final = "stand-in"
_FORM: Final = {"FSM010", "FSM011", "FSM012"}
_ALONE: Final = re.compile(r"FSM(10[12458]|11[0478]|12[468]|13[0124]|30[45]|70[12])")
"""Codes of errors that depend only on what is written there, not on the rest of the table."""
_AMONG: Final = re.compile(r"FSM(11[1569]|12[29])")  # codes of errors that may be due only to a dropped part elsewhere


def with_meaning(
    error: InputError, data: bytes, form: type[F], *, path: str, make: Callable[[File[F]], object]
) -> InputError:
    """Return *error* extended with the semantic errors that *make* finds in the valid parts of *data*.

    Invalid parts are dropped first.  Errors that dropping them may have caused are not reported: those that mention a
    word from a dropped part, and those about the same table or the whole file.
    """
    if not {each.code for each in error.problems} <= _FORM:
        return error
    rest = _Rest(data, path)
    for _ in range(ROUNDS):
        try:
            make(File(path=path, written=form.model_validate(rest.document), lines=rest.lines))
        except ValidationError as misfits:
            left = [rest.repair(each) for each in misfits.errors(include_url=False)]
            if not all(left):
                return error
        except InputError as meant:
            certain = (each for each in meant.problems if each.path == path and rest.is_certain(each))
            return InputError(sorted((*error.problems, *certain), key=lambda problem: problem.line))
        else:
            return error
    return error


class _Rest:
    """The rest of a file, the words in the parts that were dropped, and the tables that had these parts."""

    def __init__(self, data: bytes, path: str) -> None:
        self.document: Any = document(data, path)
        self.lines = locate(data)
        self._lost = {STAND_IN}
        self._replaced: set[Keys] = set()
        self._touched: set[str | int] = set()

    def repair(self, error: ErrorDetails) -> bool:
        """Drop what does not fit, or insert a stand-in for what is missing.  Return whether anything is left."""
        at, _ = place(error, self.document)
        if not at:  # everything around it was dropped
            return False
        self._touched |= {*at[1:2]} or {*at}
        self._lost |= {*_words(at[1:2])} if at[0] == "part" else set()
        missing = error["type"] == "missing"
        if missing and at not in self._replaced:
            self._replaced.add(at)
            self._holder(at)[at[-1]] = STAND_IN
            return True
        at = at[:-1] if missing else at
        while at and isinstance(at[-1], int):  # a list is dropped as a whole
            at = at[:-1]
        if at:
            self._lost |= {*_words(at[-1]), *_words(self._holder(at).pop(at[-1], None))}
        return (len(at) > 1 and at[0] != "define") or error["type"] == "extra_forbidden"

    def _holder(self, at: Keys) -> dict[str | int, Any]:
        found = self.document
        for key in at[:-1]:
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                return {}
        return found if isinstance(found, dict) else {}

    def is_certain(self, problem: Problem) -> bool:
        """Check whether *problem* remains, whatever replaces the dropped parts."""
        like = {name for name, each in self.document.get("event", {}).items() if each.get("like") in self._touched}
        near = {line for key, line in self.lines.of.items() if not (self._touched | like).isdisjoint(key)}
        quoted = {word for text in re.findall("'([^']*)'", problem.what) for word in _words(text)}
        kinds = {f"{kind}{s}" for kind in re.findall(r"unknown [a-z ]*?(\w+) '", problem.what) for s in ("", "s")}
        if _AMONG.match(problem.code) or not self._lost.isdisjoint(quoted | kinds):
            return False
        apart = problem.line not in near and self._touched.isdisjoint(quoted)
        return apart or bool(_ALONE.match(problem.code))


def _words(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from re.findall(r"[A-Za-z0-9_.-]+", value)
        case dict() | list() | tuple():
            for each in (*value, *value.values()) if isinstance(value, dict) else value:
                yield from _words(each)
        case _:
            pass
