"""From a TOML file to a model as written, with the line of every word in it.

Reading knows bytes, TOML and the vocabulary of :mod:`fsm.model`; whether the
names in a model fit together is for :mod:`fsm.building` to say.  All mistakes
of a file are reported at once.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tree_sitter
import tree_sitter_toml
from pydantic import ValidationError

from fsm.errors import InputError, Problem, Rule, nearest
from fsm.model import Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

LARGEST = 4 * 1024 * 1024
"""Bytes; a machine of a thousand states and a hundred events is smaller."""

DEEPEST = 32
"""Nesting of arrays and tables; the language itself needs six."""

RULES: Mapping[str, Rule] = {
    "FSM001": Rule(
        finds="a model file that cannot be opened",
        why="nothing can be said of it",
        example="fsm show no/such/file.toml",
    ),
    "FSM002": Rule(
        finds="a model file of more than 4 MiB",
        why="no lifecycle that people can argue about is that large; it is some other file",
        example="fsm show /var/log/syslog",
    ),
    "FSM003": Rule(
        finds="bytes that are not UTF-8",
        why="TOML is UTF-8 by definition",
        example="a file saved as Latin-1",
    ),
    "FSM004": Rule(
        finds="text that is not TOML",
        why="the rest of the file cannot be trusted",
        example="initial = shut   (the quotes are missing)",
    ),
    "FSM005": Rule(
        finds="arrays or tables nested more than 32 deep",
        why="the language needs six levels; deeper nesting is damage or an attack",
        example="moves = [[[[[[…]]]]]]",
    ),
    "FSM010": Rule(
        finds="a word that the language does not have",
        why="a misspelt word that is ignored is a rule that is not checked",
        example='[event.push] ignore = ["open"]',
    ),
    "FSM011": Rule(
        finds="a word that the language requires and the file lacks",
        why="without it the model has no meaning, or no source",
        example="[event.push] without kind",
    ),
    "FSM012": Rule(
        finds="a value of the wrong form",
        why="it cannot mean anything there",
        example='ignores = "open"   (a list is needed)',
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Line numbers by path of keys: ``("event", "push", "moves", "shut")``."""

    of: Mapping[tuple[str | int, ...], int]

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
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
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
    document = _document(data, path)
    lines = locate(data)
    try:
        written = Written.model_validate(document)
    except ValidationError as error:
        found = [_of_form(each, path, lines) for each in error.errors(include_url=False)]
        raise InputError(sorted(found, key=lambda problem: problem.line)) from error
    return Model(path=path, written=written, lines=lines)


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
    deep = f"is nested more than {DEEPEST} deep"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        line = int(where[1]) if where else text.count("\n") + 1
        message = str(error)
        what = f"is not TOML: {message[0].lower()}{message[1:]}"
        raise InputError([_problem(path, line, "FSM004", what, "see https://toml.io/en/v1.0.0")]) from error
    except RecursionError as error:
        raise InputError([_problem(path, 0, "FSM005", deep, "models need six levels")]) from error
    if _depth(document) > DEEPEST:
        raise InputError([_problem(path, 0, "FSM005", deep, "models need six levels")])
    return document


def _depth(document: Mapping[str, Any]) -> int:
    """How deep *document* nests; an iterative walk, since depth is what is in doubt."""
    deepest, stack = 0, [(document, 1)]
    while stack:
        value, depth = stack.pop()
        deepest = max(deepest, depth)
        children: Any = value.values() if isinstance(value, dict) else value
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest


def locate(data: bytes) -> Lines:
    """The line of every key in the TOML document *data*, which must be valid."""
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data)
    found: dict[tuple[str | int, ...], int] = {}
    for path, line in _keys(tree.root_node, ()):
        found.setdefault(path, line)
    return Lines(of=found)


def _keys(node: tree_sitter.Node, prefix: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    for child in node.named_children:
        if child.type in {"table", "pair", "table_array_element"}:
            key = child.named_children[0]
            path = prefix
            for part in _parts(key):
                path = (*path, part)
                yield path, key.start_point[0] + 1
            yield from _keys(child, path)
        elif child.type == "array":
            for index, item in enumerate(each for each in child.named_children if each.type != "comment"):
                yield (*prefix, index), item.start_point[0] + 1
                yield from _keys(item, (*prefix, index))
        elif child.type in {"inline_table", "ERROR"}:
            yield from _keys(child, prefix)


def _parts(key: tree_sitter.Node) -> tuple[str, ...]:
    if key.type == "dotted_key":
        return tuple(part for child in key.named_children for part in _parts(child))
    text = (key.text or b"").decode("utf-8")
    return (next(iter(tomllib.loads(f"{text} = 0"))),)


def _of_form(error: ErrorDetails, path: str, lines: Lines) -> Problem:
    """What pydantic found, in the words of the language."""
    where = tuple(part for part in error["loc"] if not str(part).startswith("<"))
    dotted = ".".join(str(part) for part in where)
    line = lines.find(*where)
    match error["type"]:
        case "extra_forbidden":
            known = _words(where[:-1])
            what = f"unknown word '{where[-1]}' in [{'.'.join(map(str, where[:-1]))}]"
            return _problem(path, line, "FSM010", what, nearest(str(where[-1]), known, of="words"))
        case "missing":
            what = f"'{where[-1]}' is missing from [{'.'.join(map(str, where[:-1]))}]"
            return _problem(path, line, "FSM011", what, f"add: {where[-1]} = …")
        case _:
            message = error["msg"]
            what = f"{dotted} is {_short(error['input'])}"
            return _problem(path, line, "FSM012", what, f"{message[0].lower()}{message[1:]}")


def _words(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The words that the language has at *path*, read off the JSON Schema."""
    schema = Written.model_json_schema()
    definitions = schema["$defs"]
    here: list[dict[str, Any]] = [schema]
    for part in path:
        below = []
        for node in here:
            for form in _forms(node, definitions):
                if isinstance(part, int):
                    below.append(form.get("items", {}))
                elif part in form.get("properties", {}):
                    below.append(form["properties"][part])
                elif isinstance(form.get("additionalProperties"), dict):
                    below.append(form["additionalProperties"])
                below.extend(form.get("patternProperties", {}).values())
        here = below
    return tuple(dict.fromkeys(word for node in here for form in _forms(node, definitions) for word in form.get("properties", {})))


def _forms(node: dict[str, Any], definitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    """*node* and every alternative it stands for, references followed."""
    if "$ref" in node:
        return _forms(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    alternatives = [*node.get("oneOf", ()), *node.get("anyOf", ())]
    return [form for each in alternatives for form in _forms(each, definitions)] if alternatives else [node]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a line's worth)


def _problem(path: str, line: int, code: str, what: str, hint: str) -> Problem:
    return Problem(path=path, line=line, code=code, what=what, hint=hint)
