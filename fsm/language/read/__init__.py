"""Read a TOML file as a written model, and record the line of every word in it.

:mod:`fsm.language.read.toml` handles bytes and lines, and the vocabulary is in :mod:`fsm.language.machine_file`.
:mod:`fsm.language.build` checks whether every name is defined. All errors of a file are reported together.
"""

import codecs
import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fsm.errors import InputError, Problem, contents, control_character, nearest
from fsm.language.machine_file import Form, Written
from fsm.language.read.toml import LARGEST, Keys, Lines, document, locate
from fsm.language.vocabularies import Stated, Vocabulary, WrittenSystem, schema

_LARGE: Final = 2**64


def find_control_characters(value: object, path: str, lines: Lines, where: Keys = ()) -> Iterator[Problem]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from find_control_characters(each, path, lines, (*where, key))
        if found := control_character(f"{key}{each if isinstance(each, str) else ''}"):
            what = f"{_dotted_key((*where, key))} has the control character U+{ord(found):04X}"
            hint = "remove the character, because names and texts are printed"
            yield Problem(path=path, line=lines.find(*where, key), code="FSM006", what=what, hint=hint)


def misfits(
    errors: Iterable[ErrorDetails], document: Mapping[str, Any], path: str, lines: Lines, vocabulary: Vocabulary
) -> tuple[Problem, ...]:
    """Convert pydantic's errors about *document* to problems, one for each place, sorted by line."""
    places = [(error, *place(error, document)) for error in errors]
    around = {where[:length] for _, where, _ in places for length in range(len(where))}
    found: dict[tuple[Keys, bool], Problem] = {}
    for error, where, named in places:
        # If both text and a list are allowed, pydantic reports the errors of both forms. Do not report that a list
        # is not text if one of its entries is wrong.
        if named or where not in around:
            code, what, hint = _describe_error(error, where, vocabulary, named=named)
            problem = Problem(path=path, line=lines.find(*where), code=code, what=what, hint=hint)
            found.setdefault((where, named), problem)
    return tuple(sorted(found.values(), key=lambda problem: problem.line))


def place(error: ErrorDetails, document: Mapping[str, Any]) -> tuple[Keys, bool]:
    """Return the path of an error in *document*, and whether the error is about the name at that path.

    pydantic inserts words of its own into the path, such as ``<table>`` for one of several forms. Therefore, a word
    is taken as a key only if it leads further into the document.
    """
    loc = error["loc"]
    named = error["type"] != "extra_forbidden" and loc[-1] == "[key]" and error["input"] == loc[-2]
    where: Keys = ()
    value: Any = document
    for part in loc[:-1] if named else loc:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and part in range(len(value))):
            where, value = (*where, part), value[part]  # type: ignore[index]  # the part fits, as just checked
    return ((*where, loc[-1]) if error["type"] == "missing" else where), named


def _describe_error(error: ErrorDetails, where: Keys, vocabulary: Vocabulary, *, named: bool) -> tuple[str, str, str]:
    table, last = where[:-1], where[-1] if where else ""
    match error["type"]:
        case "extra_forbidden":
            hint = nearest(str(last), vocabulary.words(*table), of="words")
            return "FSM010", f"unknown word {last!r} in {_table(table)}", hint
        case "missing":
            above = "" if table else " above all tables"
            hint = f"add{above}: {last} = …"
            if not table and vocabulary.expected(last) == "a table":
                hint = f"add a table: [{last}]"
            return "FSM011", f"{last!r} is missing from {_table(table)}", hint
        case _ if named:
            hint = f"use {vocabulary.names(*table)}"
            if (last, table[-1:]) == ("*", ("ends",)):
                hint = "name the states in which the call may be in progress, or a set of states from [define]"
            return "FSM012", f"{last!r} in {_table(table)} cannot be used as a name", hint
    value, values = error["input"], vocabulary.values(*where)
    hint = f"give {vocabulary.expected(*where)}"
    if values and isinstance(value, str):
        hint = nearest(value, values, of="values")
    return "FSM012", f"{_dotted_key(where)} is {_value_text(value)}", hint


def _table(where: Keys) -> str:
    return f"[{_dotted_key(where)}]" if where else "the file"


def _dotted_key(where: Keys) -> str:
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f".{json.dumps(part)}"
    return text.removeprefix(".")


def _value_text(value: object) -> str:
    match value:
        case bool():
            text = str(value).lower()
        case int():
            text = str(value) if abs(value) < _LARGE else hex(value)  # str fails for more than 4300 digits
        case list():
            text = "a list"
        case dict():
            text = "a table"
        case dt.date() | dt.time():
            text = value.isoformat()
        case _:
            text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a line's worth)


F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Generic[F]):
    path: str
    written: F
    lines: Lines


Model: TypeAlias = File[Written]

_document = lru_cache(maxsize=1)(document)
"""The last document is cached, because a file is parsed twice, first to determine its form and then to read it."""


def form_of(data: bytes, *, path: str) -> type[Form]:
    found = _document(data.removeprefix(codecs.BOM_UTF8), path)
    if "property" in found or isinstance(found.get("machine"), str):
        return Stated
    return WrittenSystem if "system" in found else Written


def content(path: str | Path) -> bytes:
    """Return the content of a file, cut off one byte after the allowed size, or raise :class:`InputError`."""
    return contents(path, most=LARGEST, code="FSM001", hint="give the path of a model file, or a name from 'fsm list'")


def table_at(data: bytes, at: Keys, *, path: str) -> dict[str, Any]:
    """Return the table *at* of a file, which is empty if there is no such table."""
    found: Any = _document(data.removeprefix(codecs.BOM_UTF8), path)
    for key in at:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def parse(data: bytes, form: type[F], *, path: str, at: Keys = ()) -> File[F]:
    """Parse the table *at* of a file, or the whole file, as *form*. *path* is used only in error messages.

    >>> parse(b"x = ", Written, path="door.toml")
    Traceback (most recent call last):
    fsm.errors.InputError: door.toml:1: the file is not TOML: invalid value (at end of document) [FSM004]
        see https://toml.io/en/v1.0.0
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    content = table_at(data, at, path=path)
    lines = Lines(of={key[len(at) :]: line for key, line in locate(data).of.items() if key[: len(at)] == at})
    if obeyed := tuple(find_control_characters(content, path, lines)):
        raise InputError(obeyed)
    try:
        written = form.model_validate(content)
    except ValidationError as error:
        vocabulary = Vocabulary(root=schema(form))
        raise InputError(misfits(error.errors(include_url=False), content, path, lines, vocabulary)) from error
    return File(path=path, written=written, lines=lines)


ROUNDS: Final = 8  # maximum number of rounds, each of which drops the parts that depend on dropped parts
STAND_IN: Final = "stand-in"
_FORM: Final = {"FSM010", "FSM011", "FSM012"}
_ALONE: Final = re.compile(r"FSM(10[12458]|11[0478]|12[468]|13[0124]|30[45]|70[12])")
"""Codes of errors that depend only on the text at one place, and not on the rest of the table."""
_AMONG: Final = re.compile(r"FSM(11[1569]|12[29])")  # codes of errors that may be due only to a dropped part elsewhere


def with_meaning(
    error: InputError, data: bytes, form: type[F], *, path: str, make: Callable[[File[F]], object]
) -> InputError:
    """Return *error* extended with the semantic errors that *make* finds in the valid parts of *data*.

    Errors that may be due only to dropped parts are not reported. These are errors that mention a word from a dropped
    part, errors about the same table, and errors about the whole file.
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
    """A document without its invalid parts. The words and tables of the dropped parts are remembered."""

    def __init__(self, data: bytes, path: str) -> None:
        self.document: Any = document(data, path)
        self.lines = locate(data)
        self._lost = {STAND_IN}
        self._replaced: set[Keys] = set()
        self._touched: set[str | int] = set()

    def repair(self, error: ErrorDetails) -> bool:
        """Drop the invalid part, or insert a stand-in for a missing part. Return whether the rest can be checked."""
        at, _ = place(error, self.document)
        if not at:  # the part with the error was dropped earlier
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
