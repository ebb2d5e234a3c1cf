"""Parse TOML documents and find the lines of their keys, in bounded time and memory."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import tree_sitter
import tree_sitter_toml

from fsm.errors import InputError, decoded_text, refused

LARGEST: Final = 4 * 1024 * 1024
"""Maximum size of a file in bytes. A machine with a thousand states and a hundred events is smaller than this."""

DEEPEST: Final = 32
"""Maximum nesting depth of arrays and tables, and maximum number of parts of a key. The language needs only six."""


Keys: TypeAlias = tuple[str | int, ...]  # a path into a document, such as ``("event", "push", "moves", "shut", 0)``


def document(data: bytes, path: str) -> dict[str, Any]:
    """Parse *data* as TOML, or raise :class:`InputError` with the problem that prevents it from being read."""
    if len(data) > LARGEST:
        what = f"the file is larger than {LARGEST // 1024 // 1024} MiB"
        raise refused(path, "FSM002", what, "models are small text files; check the path")
    text = decoded_text(data, path, code="FSM003")
    # tomllib takes cubic time for a key with many parts, so count the parts first if a line has many dots.
    counted = _nesting(text) if re.search(rf"(?:\.[^.\n]*+){{{DEEPEST}}}", text) else ()
    if line := next((line for line, _, parts in counted if parts > DEEPEST), 0):
        raise _nesting_error(path, line)
    try:
        read = tomllib.loads(text)
    except RecursionError as error:
        raise _nesting_error(path, _deepest_line(text)) from error
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text, path) from error
    except ValueError as error:  # Python refuses to parse integers of more than 4300 digits
        line = next((number for number, each in enumerate(text.split("\n"), 1) if re.search(r"[0-9_]{4300}", each)), 0)
        what = "the file is not TOML: an integer has thousands of digits"
        raise refused(path, "FSM004", what, "an integer in TOML has at most 64 bits", line=line) from error
    if _depth(read) > DEEPEST:
        raise _nesting_error(path, _deepest_line(text))
    return read


def _syntax_error(error: tomllib.TOMLDecodeError, text: str, path: str) -> InputError:
    message = str(error)
    where = re.search(r"\(at line (\d+)", message)
    at_end = text.rstrip().count("\n") + 1 if "at end of document" in message else 0
    what = f"the file is not TOML: {message[0].lower()}{message[1:]}"
    return refused(path, "FSM004", what, "see https://toml.io/en/v1.0.0", line=int(where[1]) if where else at_end)


def _nesting_error(path: str, line: int) -> InputError:
    what = f"the file is nested more than {DEEPEST} deep"
    return refused(path, "FSM005", what, "a model needs six levels", line=line)


_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?'  # strings, which may lack the closing quotes
    r"|'''(?:[^']++|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+|[][{}.=,\n]",
    re.DOTALL,
)


def _nesting(text: str) -> Iterator[tuple[int, int, int]]:
    line, brackets, parts = 1, 0, 1
    for token in _TOKEN.finditer(text):
        line += token[0].count("\n")
        match token[0]:
            case "[" | "{":
                brackets, parts = brackets + 1, 1
            case "]" | "}":
                brackets -= 1
            case ".":
                parts += 1
            case "=" | "," | "\n":
                parts = 1
        yield line, brackets, parts


def _deepest_line(text: str) -> int:
    return next((line for line, brackets, _ in _nesting(text) if brackets > DEEPEST), 0)


def _depth(document: Mapping[str, Any]) -> int:
    """Return the nesting depth of *document* without recursion, because it may be nested too deeply for that."""
    deepest = 0
    stack: list[tuple[Any, int]] = [(document, 1)]
    while stack:
        value, depth = stack.pop()
        deepest = max(deepest, depth)
        children = value.values() if isinstance(value, dict) else value
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    of: Mapping[Keys, int]

    def find(self, *path: str | int) -> int:
        """Return the line of *path*, or if it is unknown, the line of the nearest enclosing table, or else 1."""
        return next((self.of[path[:length]] for length in range(len(path), 0, -1) if path[:length] in self.of), 1)


def locate(data: bytes) -> Lines:
    """Map every key and entry of the valid TOML document *data* to its line.

    A table without a header, like ``event`` in ``[event.push]``, has the line of its first mention.
    """
    tree = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data)
    walk = _Walk(implied={}, written={}, entries={})
    walk.keys(tree.root_node, ())
    return Lines(of={**walk.implied, **walk.written})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    implied: dict[Keys, int]
    written: dict[Keys, int]
    entries: dict[Keys, int]

    def keys(self, node: tree_sitter.Node, at: Keys) -> None:
        for child in node.named_children:
            match child.type:
                case "pair":
                    key, value, *_ = child.named_children  # a comment may come after the value
                    self._value(value, self._key(key, at))
                case "table" | "table_array_element":
                    self._table(child)
                case "ERROR":
                    self.keys(child, at)

    def _table(self, node: tree_sitter.Node) -> None:
        at = self._key(node.named_children[0], ())
        if node.type == "table_array_element":
            index = self.entries.get(at, 0)
            self.entries[at] = index + 1
            at = (*at, index)
            self.written[at] = node.start_point[0] + 1
        self.keys(node, at)

    def _value(self, node: tree_sitter.Node, at: Keys) -> None:
        match node.type:
            case "array":
                for index, item in enumerate(each for each in node.named_children if each.type != "comment"):
                    self.written[*at, index] = item.start_point[0] + 1
                    self._value(item, (*at, index))
            case "inline_table":
                self.keys(node, at)

    def _key(self, key: tree_sitter.Node, prefix: Keys) -> Keys:
        line = key.start_point[0] + 1
        *around, last = _parts(key)
        for part in around:
            prefix = (*prefix, part)
            self.implied.setdefault(prefix, line)
            if prefix in self.entries:  # a header below a table with [[…]] entries refers to the latest entry
                prefix = (*prefix, self.entries[prefix] - 1)
        prefix = (*prefix, last)
        self.written.setdefault(prefix, line)
        return prefix


def _parts(key: tree_sitter.Node) -> tuple[str, ...]:
    if key.type == "dotted_key":
        return tuple(part for child in key.named_children for part in _parts(child))
    text = (key.text or b"").decode("utf-8")
    return (text,) if key.type == "bare_key" else tuple(tomllib.loads(f"{text} = 0"))
