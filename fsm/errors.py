"""Input errors: what is wrong, where it is, and how to fix it.

A *problem* is a single error with a location and a stable code. All problems of an input are raised together as an
:class:`InputError`. Findings about behaviour are not errors but verdicts (:mod:`fsm.verdict`).
"""

import codecs
import difflib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, Final

DOCUMENTATION: Final = "https://container-fsm.readthedocs.io/en/latest/"
"""The URL of the documentation, which must be the same in ``pyproject.toml``."""

MOST: Final = 100
_WHOLE: Final = 50_000  # length of an error message beyond which further problems are left out
_LONGEST: Final = 2_000
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Matches control characters except tab and newline, Unicode line separators, and bidirectional formatting."""

WRONG_INPUT: Final = 2
UNDECIDED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for inputs, with an explanation and an example before and after the fix.

    The example is a file, a part of a file, or a command. ``\\xNN`` in it represents a byte that is not UTF-8.
    """

    finds: str
    why: str
    wrong: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error in an input. ``hint`` says how to fix it. ``line`` is 0 if the error is in the file as a whole."""

    path: str
    line: int
    code: str
    what: str
    hint: str = ""

    @property
    def link(self) -> str:
        return code_url(self.code)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        first = f"{visible(place)}: {printable(self.what)} [{self.code}]"
        return f"{first}\n    {printable(self.hint)}" if self.hint else first


class InputError(Exception):
    """Raised for invalid input. ``problems`` contains all errors. The message shows only the first ones."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MOST]]
        before = accumulate(map(len, lines), initial=0)
        lines = [line for line, size in zip(lines, before, strict=False) if size <= _WHOLE]
        rest = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {rest:,} more"] if rest > 0 else [])]))


def documented(page: str) -> str:
    """Return the URL of a *page* of the documentation, which may include a ``#fragment``.

    >>> documented("reference/trace-format#tables")
    'https://container-fsm.readthedocs.io/en/latest/reference/trace-format.html#tables'
    """
    name, hash_, part = page.partition("#")
    return f"{DOCUMENTATION}{name}.html{hash_}{part}"


_PAGE: Final = re.compile(r"docs/((?:how-to|reference)/[a-z-]+)\.md")


def linked(text: str) -> str:
    """Replace paths of documentation pages in *text* with URLs.

    >>> linked("see docs/how-to/starting.md") == f"see {documented('how-to/starting')}"
    True
    """
    return _PAGE.sub(lambda page: documented(page[1]), text)


def code_url(code: str) -> str:
    return documented(f"reference/codes#{code.lower()}")


def visible(text: str) -> str:
    r"""Escape all non-printable characters.

    >>> print(visible("evil\x1b[2J"))
    evil\x1b[2J
    """
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def control_character(text: str) -> str:
    r"""Return the first character that can control a terminal or reorder text, or an empty string.

    >>> control_character("a\tline\n"), control_character("evil\x1b[2J"), control_character("a\u202eb")
    ('', '\x1b', '\u202e')
    """
    found = _CONTROL.search(text)
    return found[0] if found else ""


def harmless(text: str, escape: Callable[[str], str] = _escape) -> str:
    r"""Apply *escape* to all characters that can control a terminal or reorder text.

    >>> print(harmless("a line\nand \x1b[2J"))
    a line
    and \x1b[2J
    """
    return _CONTROL.sub(lambda found: escape(found[0]), text)


def reason(error: Exception) -> str:
    """Return the error message in lower case and without the error number, for use in a sentence."""
    return ((error.strerror if isinstance(error, OSError) else "") or str(error)).lower()


def encodable(name: str) -> str:
    """Return a file name with ``?`` in place of every byte that cannot be decoded."""
    return name.encode(errors="replace").decode()


def printable(text: str) -> str:
    """Return text from an input as a single line, escaped, and shortened if it is too long."""
    return visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}")


def refused(path: str, code: str, what: str, hint: str, *, line: int = 0) -> InputError:
    """Return an :class:`InputError` with a single problem."""
    return InputError([Problem(path=path, line=line, code=code, what=what, hint=hint)])


def system_error(name: str) -> InputError:
    hint = "name the machine of a part; 'fsm check' decides properties of systems"
    hint += f", and in Python, fsm.load_system({name!r}) loads the system"
    return refused(name, "FSM001", "this model is a system, but a machine is needed", hint)


def decoded_text(data: bytes, path: str, *, code: str, hint: str = "save the file as UTF-8") -> str:
    """Decode UTF-8, and remove the byte order mark, if any.

    Raise :class:`InputError` with *code* and *hint* if *data* is not valid UTF-8.
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"the text is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise refused(path, code, what, hint, line=line) from error


def nearest(word: str, known: Iterable[str], *, of: str) -> str:
    """Return a hint for an unknown word, with the closest match and the list of known words.

    >>> nearest("opend", ["shut", "open"], of="states")
    "did you mean 'open'? states: shut, open"
    >>> nearest("zzz", ["shut", "open"], of="states")
    'states: shut, open'
    """
    names = tuple(known)
    listed = f"{of}: {', '.join(names)}" if names else f"there are no {of}"
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'? {listed}" if close else listed


def plural(count: int, word: str) -> str:
    """Return a count and a noun, in the plural if necessary.

    >>> plural(1, "door"), plural(2, "door"), plural(2, "entity"), plural(2, "key"), plural(2, "box")
    ('1 door', '2 doors', '2 entities', '2 keys', '2 boxes')
    """
    if count == 1:
        return f"1 {word}"
    word = re.sub("(?<=[^aeiou])y$", "ie", re.sub("(s|x|z|ch|sh)$", r"\1e", word))
    return f"{count:,} {word}s"


def of_extra(module: str, of: str, *, extra: str = "live") -> ModuleType:
    """Import a module that may have optional dependencies.

    If a dependency is missing, raise :class:`InputError` about the input *of*, with a hint to install *extra*.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fsm":
            raise
        hint = f"install the extra '{extra}': pip install 'container-fsm[{extra}]'"
        raise refused(of, "FSM601", f"the Python module {error.name} is needed, but is not installed", hint) from error


def stdin() -> BinaryIO:
    """Return standard input as a binary stream. Raise ``OSError`` if it is closed."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer


def is_file(path: Path | str) -> bool:
    """Check whether *path* is a file. Unlike in ``pathlib``, a name that is too long is not an error."""
    return os.path.isfile(path)  # noqa: PTH113


def contents(path: Path | str, *, most: int, code: str, hint: str, dash: bool = False) -> bytes:
    """Read a file, but not more than *most* + 1 bytes.

    If *dash* is true, the path ``-`` means standard input. Raise :class:`InputError` with *code* and *hint* if the
    file cannot be read.
    """
    try:
        with nullcontext(stdin()) if dash and path == "-" else Path(path).open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError if the path contains a NUL character
        raise refused(str(path), code, f"the file cannot be opened: {reason(error)}", hint) from error
