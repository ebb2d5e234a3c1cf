"""From bytes to a TOML document, within bounds: no input takes long, or much memory."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fsm.errors import InputError, decoded_text, refused

LARGEST: Final = 4 * 1024 * 1024
"""Bytes; a machine of a thousand states and a hundred events is smaller."""

DEEPEST: Final = 32
"""Nesting of arrays and tables, and parts of a key; the language itself needs six."""


def document(data: bytes, path: str) -> dict[str, Any]:
    """*data* as TOML; *path* is only the name that a problem carries.

    Raises :class:`InputError` with the one problem that keeps it from being read at all.
    """
    if len(data) > LARGEST:
        what = f"is larger than {LARGEST // 1024 // 1024} MiB"
        raise refused(path, "FSM002", what, "models are small text files; is this the right one?")
    text = decoded_text(data, path, code="FSM003")
    # tomllib takes cubic time for a key of many parts, so they are counted first, if so many dots are on one line.
    counted = _nesting(text) if re.search(rf"(?:\.[^.\n]*+){{{DEEPEST}}}", text) else ()
    if line := next((line for line, _, parts in counted if parts > DEEPEST), 0):
        raise _too_deep(path, line)
    try:
        read = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep(path, _deepest_line(text)) from error
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(error, text, path) from error
    except ValueError as error:  # Python reads no integer of more than 4300 digits
        line = next((number for number, each in enumerate(text.split("\n"), 1) if re.search(r"[0-9_]{4300}", each)), 0)
        what = "is not TOML: an integer has thousands of digits"
        raise refused(path, "FSM004", what, "integers have 64 bits", line=line) from error
    if _depth(read) > DEEPEST:
        raise _too_deep(path, _deepest_line(text))
    return read


def _not_toml(error: tomllib.TOMLDecodeError, text: str, path: str) -> InputError:
    message = str(error)
    where = re.search(r"\(at line (\d+)", message)
    at_end = text.rstrip().count("\n") + 1 if "at end of document" in message else 0
    what = f"is not TOML: {message[0].lower()}{message[1:]}"
    return refused(path, "FSM004", what, "see https://toml.io/en/v1.0.0", line=int(where[1]) if where else at_end)


def _too_deep(path: str, line: int) -> InputError:
    return refused(path, "FSM005", f"is nested more than {DEEPEST} deep", "models need six levels", line=line)


_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?'  # strings, which may lack their end
    r"|'''(?:[^']++|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+|[][{}.=,\n]",
    re.DOTALL,
)


def _nesting(text: str) -> Iterator[tuple[int, int, int]]:
    """After each token: the line, open brackets, parts of the key so far."""
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
    """Where the brackets of *text* nest too deep; 0 if they do not."""
    return next((line for line, brackets, _ in _nesting(text) if brackets > DEEPEST), 0)


def _depth(document: Mapping[str, Any]) -> int:
    """How deep *document* nests; an iterative walk, since depth is what is in doubt."""
    deepest = 0
    stack: list[tuple[Any, int]] = [(document, 1)]
    while stack:
        value, depth = stack.pop()
        deepest = max(deepest, depth)
        children = value.values() if isinstance(value, dict) else value
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest
