"""From a TOML file to a model as written, with the line of every word in it.

Reading knows bytes, TOML and the vocabulary of :mod:`fsm.model`; whether the
names in a model fit together is for :mod:`fsm.building` to say.  All mistakes
of a file are reported at once.
"""

from __future__ import annotations

import codecs
import datetime
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import tree_sitter
import tree_sitter_toml
from pydantic import ValidationError

from fsm.errors import InputError, Problem, nearest
from fsm.model import Written
from fsm.schema import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

LARGEST: Final = 4 * 1024 * 1024
"""Bytes; a machine of a thousand states and a hundred events is smaller."""

DEEPEST: Final = 32
"""Nesting of arrays and tables, and parts of a key; the language itself needs six."""

_LARGE: Final = 2**64

Keys: TypeAlias = tuple[str | int, ...]
"""A path into a document: ``("event", "push", "moves", "shut", 0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Line numbers by path of keys."""

    of: Mapping[Keys, int]

    def find(self, *path: str | int) -> int:
        """The line of *path*, or of the nearest table around it; 1 if there is none."""
        for length in range(len(path), 0, -1):
            if (line := self.of.get(path[:length])) is not None:
                return line
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as written, and where each of its words stands."""

    path: str
    written: Written
    lines: Lines


def read(path: str | Path) -> Model:
    """The model in the file at *path*.

    Raises :class:`InputError` with every mistake of form in the file.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        hint = "give the path of a model file, or a name from 'fsm list'"
        raise InputError([_problem(name, 0, "FSM001", f"cannot be opened: {reason}", hint)]) from error
    return parse(data, path=name)


def parse(data: bytes, *, path: str) -> Model:
    """The model in *data*; *path* is only the name that problems carry.

    >>> parse(b"x = ", path="door.toml")
    Traceback (most recent call last):
    fsm.errors.InputError: door.toml:1: is not TOML: invalid value (at end of document) [FSM004]
        see https://toml.io/en/v1.0.0
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    document = _document(data, path)
    lines = locate(data)
    try:
        written = Written.model_validate(document)
    except ValidationError as error:
        raise InputError(_of_form(error.errors(include_url=False), document, path, lines)) from error
    return Model(path=path, written=written, lines=lines)


# -- bytes and TOML ----------------------------------------------------------


def _document(data: bytes, path: str) -> dict[str, Any]:
    """*data* as TOML, or the one problem that keeps it from being read at all."""
    if len(data) > LARGEST:
        what = f"is larger than {LARGEST // 1024 // 1024} MiB"
        raise InputError([_problem(path, 0, "FSM002", what, "models are small text files; is this the right one?")])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise InputError([_problem(path, line, "FSM003", what, "save the file as UTF-8")]) from error
    # tomllib takes cubic time for a key of many parts, so they are counted first.
    if line := next((line for line, _, parts in _nesting(text) if parts > DEEPEST), 0):
        raise _too_deep(path, line)
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep(path, _deepest_line(text)) from error
    except ValueError as error:  # besides TOMLDecodeError: an integer of thousands of digits
        raise InputError([_not_toml(error, text, path)]) from error
    if _depth(document) > DEEPEST:
        raise _too_deep(path, _deepest_line(text))
    return document


def _not_toml(error: ValueError, text: str, path: str) -> Problem:
    message = str(error)
    where = re.search(r"\(at line (\d+)", message)
    at_end = text.rstrip().count("\n") + 1 if "at end of document" in message else 0
    what = f"is not TOML: {message[0].lower()}{message[1:]}"
    return _problem(path, int(where[1]) if where else at_end, "FSM004", what, "see https://toml.io/en/v1.0.0")


def _too_deep(path: str, line: int) -> InputError:
    return InputError([_problem(path, line, "FSM005", f"is nested more than {DEEPEST} deep", "models need six levels")])


_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?'  # strings, which may lack their end
    r"|'''(?:[^']++|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+|[][{}.=,\n]",
    re.DOTALL,
)


def _nesting(text: str) -> Iterator[tuple[int, int, int]]:
    """For each bracket and dot outside strings: its line, open brackets, parts of the key so far."""
    line, brackets, parts = 1, 0, 1
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                brackets, parts = brackets + 1, 1
            case "]" | "}":
                brackets -= 1
            case ".":
                parts += 1
            case "=" | ",":
                parts = 1
                continue
            case "\n":
                line, parts = line + 1, 1
                continue
            case quoted:
                line += quoted.count("\n")
                continue
        yield line, brackets, parts


def _deepest_line(text: str) -> int:
    """Where the brackets of *text* nest too deep; 0 if they do not."""
    return next((line for line, brackets, _ in _nesting(text) if brackets > DEEPEST), 0)


def _depth(document: Mapping[str, Any]) -> int:
    """How deep *document* nests; an iterative walk, since depth is what is in doubt."""
    deepest, stack = 0, [(document, 1)]
    while stack:
        value, depth = stack.pop()
        deepest = max(deepest, depth)
        children: Any = value.values() if isinstance(value, dict) else value
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest


# -- lines -------------------------------------------------------------------


def locate(data: bytes) -> Lines:
    """The line of every key and entry in the TOML document *data*, which must be valid.

    A table that is only implied, as ``event`` is by ``[event.push]``, is where
    it is first mentioned; one that has a header of its own is there.
    """
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data)
    walk = _Walk(implied={}, written={}, entries={})
    walk.document(tree.root_node)
    return Lines(of={**walk.implied, **walk.written})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Where tables are implied, where keys are written, and how many ``[[…]]`` a table has so far."""

    implied: dict[Keys, int]
    written: dict[Keys, int]
    entries: dict[Keys, int]

    def document(self, root: tree_sitter.Node) -> None:
        for node in root.named_children:
            match node.type:
                case "pair":
                    self._pair(node, ())
                case "table" | "table_array_element":
                    self._table(node)
                case "ERROR":
                    self.document(node)

    def _table(self, node: tree_sitter.Node) -> None:
        at = self._key(node.named_children[0], ())
        if node.type == "table_array_element":
            index = self.entries.get(at, 0)
            self.entries[at] = index + 1
            at = (*at, index)
            self.written[at] = node.start_point[0] + 1
        for child in node.named_children:
            if child.type == "pair":
                self._pair(child, at)

    def _pair(self, node: tree_sitter.Node, prefix: Keys) -> None:
        key, value = node.named_children[0], node.named_children[-1]
        self._value(value, self._key(key, prefix))

    def _value(self, node: tree_sitter.Node, at: Keys) -> None:
        match node.type:
            case "array":
                for index, item in enumerate(each for each in node.named_children if each.type != "comment"):
                    self.written[*at, index] = item.start_point[0] + 1
                    self._value(item, (*at, index))
            case "inline_table":
                for child in node.named_children:
                    if child.type == "pair":
                        self._pair(child, at)

    def _key(self, key: tree_sitter.Node, prefix: Keys) -> Keys:
        """The path of *key* under *prefix*, noted with its line."""
        line = key.start_point[0] + 1
        *around, last = _parts(key)
        for part in around:
            prefix = (*prefix, part)
            self.implied.setdefault(prefix, line)
            if prefix in self.entries:  # a header inside [[…]] means its latest entry
                prefix = (*prefix, self.entries[prefix] - 1)
        prefix = (*prefix, last)
        self.written.setdefault(prefix, line)
        return prefix


def _parts(key: tree_sitter.Node) -> tuple[str, ...]:
    if key.type == "dotted_key":
        return tuple(part for child in key.named_children for part in _parts(child))
    text = (key.text or b"").decode("utf-8")
    return (text,) if key.type == "bare_key" else tuple(tomllib.loads(f"{text} = 0"))


# -- the vocabulary ----------------------------------------------------------


def _of_form(errors: Iterable[ErrorDetails], document: Mapping[str, Any], path: str, lines: Lines) -> list[Problem]:
    """What pydantic found, in the words of the language, by line."""
    vocabulary = Vocabulary()
    found: dict[Keys, Problem] = {}
    misfits: dict[Keys, ErrorDetails] = {}
    for error in errors:
        where, named = _where(error, document)
        line = lines.find(*where)
        match error["type"]:
            case "extra_forbidden":
                what = f"unknown word {where[-1]!r} in {_table(where[:-1])}"
                hint = nearest(str(where[-1]), vocabulary.words(*where[:-1]), of="words")
                found[where] = _problem(path, line, "FSM010", what, hint)
            case "missing":
                what = f"{where[-1]!r} is missing from {_table(where[:-1])}"
                hint = f"add: {where[-1]} = …" if where[:-1] else f"add a table: [{where[-1]}]"
                found[where] = _problem(path, line, "FSM011", what, hint)
            case _ if named:
                what = f"{where[-1]!r} is not a name that {_table(where[:-1])} can have"
                hint = f"use {vocabulary.names(*where[:-1])}"
                found[*where, "[key]"] = _problem(path, line, "FSM012", what, hint)
            case _:
                misfits[where] = error
    inner = {where[:length] for where in (*found, *misfits) for length in range(len(where))}
    for where, error in misfits.items():
        # A list where text may stand too: pydantic tries both, and complains of both.
        if where not in inner:
            what = f"{_dotted(where)} is {_short(error['input'])}"
            found[where] = _problem(path, lines.find(*where), "FSM012", what, _instead(vocabulary, where, error["input"]))
    return sorted(found.values(), key=lambda problem: problem.line)


def _where(error: ErrorDetails, document: Mapping[str, Any]) -> tuple[Keys, bool]:
    """Where in *document* the *error* is, and whether it is about a name that stands there.

    pydantic mixes its own words into the path, such as ``<table>`` for one
    form of several; only what leads on in the document is a key.
    """
    *around, last = error["loc"]
    where: Keys = ()
    value: Any = document
    for part in around:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            where, value = (*where, part), value[part]
    named = last == "[key]" and error["input"] == where[-1]
    inside = isinstance(value, dict | list) and (isinstance(value, dict) or isinstance(last, int))
    if error["type"] == "missing" or (inside and not named and (isinstance(value, list) or last in value)):
        where = (*where, last)
    return where, named


def _instead(vocabulary: Vocabulary, where: Keys, value: object) -> str:
    """The way out where *value* does not fit."""
    values = vocabulary.values(*where)
    if values and isinstance(value, str):
        return nearest(value, values, of="values")
    return f"give {vocabulary.expected(*where)}"


def _table(where: Keys) -> str:
    """What to call the table at *where*."""
    return f"[{_dotted(where)}]" if where else "the file"


def _dotted(where: Keys) -> str:
    """*where* as TOML would write it, entries of lists counted from 0."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f".{json.dumps(part)}"
    return text.removeprefix(".")


def _short(value: object) -> str:
    """*value*, which TOML gave, in no more than half a line."""
    match value:
        case bool():
            text = str(value).lower()
        case int():
            text = str(value) if abs(value) < _LARGE else hex(value)  # str fails beyond 4300 digits
        case list():
            text = "a list"
        case dict():
            text = "a table"
        case datetime.date() | datetime.time():
            text = value.isoformat()
        case _:
            text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a line's worth)


def _problem(path: str, line: int, code: str, what: str, hint: str) -> Problem:
    return Problem(path=path, line=line, code=code, what=what, hint=hint)
