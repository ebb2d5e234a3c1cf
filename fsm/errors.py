"""Errors in an input: what was found, where, and how to fix it.

A *problem* is one error with a place and a stable code.  All problems of an input are collected and raised together as
:class:`InputError`, so that its author sees them in one run.  Findings about a behaviour are not errors; they are
verdicts (:mod:`fsm.verdict`).
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
"""Address of the guide; ``pyproject.toml`` has it too."""

MOST: Final = 100
"""Number of problems of one input that a message lists."""

_WHOLE: Final = 50_000
"""Characters of a message after which no further problem is listed."""

_LONGEST: Final = 2_000

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters except tabs and newlines, other line ends, and characters that change the direction of writing."""

WRONG_INPUT: Final = 2
"""The exit code of a command whose input cannot be used."""

UNDECIDED: Final = 3
"""The exit code if the answer is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule for inputs: what it finds, why that is wrong, an example, and the same example fixed.

    ``wrong`` and ``right`` are a part of a file, a file, or a command; ``\\xNN`` in them is a byte that is not UTF-8.
    """

    finds: str
    why: str
    wrong: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in an input; ``line`` 0 means the whole file; ``hint``, the remedy, has no capital and no full stop."""

    path: str
    line: int
    code: str
    what: str
    hint: str = ""

    @property
    def link(self) -> str:
        """Address of the guide's entry about the code."""
        return about_code(self.code)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        first = f"{visible(place)}: {printable(self.what)} [{self.code}]"
        return f"{first}\n    {printable(self.hint)}" if self.hint else first


class InputError(Exception):
    """An input that cannot be used; ``problems`` has everything found in it, the message the first ones."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(each) for each in self.problems[:MOST]]
        before = accumulate(map(len, lines), initial=0)
        lines = [line for line, size in zip(lines, before, strict=False) if size <= _WHOLE]
        rest = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {rest:,} more"] if rest > 0 else [])]))


def documented(page: str) -> str:
    """Return the address of a *page* of the guide, or of a part of it.

    >>> documented("reference/trace-format#tables")
    'https://container-fsm.readthedocs.io/en/latest/reference/trace-format.html#tables'
    """
    name, hash_, part = page.partition("#")
    return f"{DOCUMENTATION}{name}.html{hash_}{part}"


def about_code(code: str) -> str:
    """Return the address of the guide's entry about the *code* of a rule."""
    return documented(f"reference/codes#{code.lower()}")


def visible(text: str) -> str:
    r"""Return *text* with everything that a terminal would obey, or could not show, written as escapes.

    >>> print(visible("evil\x1b[2J"))
    evil\x1b[2J
    """
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def obeyed(text: str) -> str:
    r"""Return the first character of *text* that a terminal would obey, or that reorders text; empty if none.

    >>> obeyed("a\tline\n"), obeyed("evil\x1b[2J"), obeyed("a\u202eb")
    ('', '\x1b', '\u202e')
    """
    found = _OBEYED.search(text)
    return found[0] if found else ""


def harmless(text: str, escape: Callable[[str], str] = _escape) -> str:
    r"""Return *text* with each character that :func:`obeyed` finds replaced by its *escape*.

    >>> print(harmless("a line\nand \x1b[2J"))
    a line
    and \x1b[2J
    """
    return _OBEYED.sub(lambda found: escape(found[0]), text)


def reason(error: Exception) -> str:
    """Return the reason for the *error* of a system call, as the end of a sentence."""
    return ((error.strerror if isinstance(error, OSError) else "") or str(error)).lower()


def encodable(name: str) -> str:
    """Return the file *name* with bytes that are not UTF-8 replaced."""
    return name.encode(errors="replace").decode()


def printable(text: str) -> str:
    """Return *text*, which may contain parts of an input, as one line, escaped and not too long to read."""
    return visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}")


def refused(path: str, code: str, what: str, hint: str, *, line: int = 0) -> InputError:
    """Return the error of an input with one problem."""
    return InputError([Problem(path=path, line=line, code=code, what=what, hint=hint)])


def a_system(name: str) -> InputError:
    """Return the error that the model *name* is a system although a machine is required."""
    hint = "systems are for 'fsm check', 'explore', 'findings', 'mutate', 'test' and 'show', and in Python for fsm.load_system"
    return refused(name, "FSM001", "is a system, not a machine", hint)


def require_machine(given: object) -> None:
    """Raise :class:`InputError` if *given* is a system."""
    if hasattr(given, "parts") and hasattr(given, "name"):
        raise a_system(given.name)


def decoded_text(data: bytes, path: str, *, code: str, hint: str = "save the file as UTF-8") -> str:
    """Return *data* as text, without a byte order mark.

    Raises :class:`InputError` with *code* and *hint* if it is not UTF-8.
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise refused(path, code, what, hint, line=line) from error


def nearest(word: str, known: Iterable[str], *, of: str) -> str:
    """Return the hint for an unknown *word*: the closest known one, and all of them.

    >>> nearest("opend", ["shut", "open"], of="states")
    "did you mean 'open'? states: shut, open"
    >>> nearest("zzz", ["shut", "open"], of="states")
    'states: shut, open'
    """
    names = tuple(known)
    listed = f"{of}: {', '.join(names)}" if names else f"there are no {of}"
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'? {listed}" if close else listed


def of_extra(module: str, of: str, *, extra: str = "live") -> ModuleType:
    """Import *module*, whose libraries come with an *extra*; without them, raise :class:`InputError` about *of*."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fsm":
            raise
        hint = f"install it with the extra '{extra}': pip install 'container-fsm[{extra}]'"
        raise refused(of, "FSM601", f"needs {error.name}", hint) from error


def stdin() -> BinaryIO:
    """Return the bytes of standard input; raises ``OSError`` if it is closed, as by the shell's ``<&-``."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer


def is_file(path: Path | str) -> bool:
    """Check whether *path* is a file; false for a name that is too long, for which ``pathlib`` raises."""
    return os.path.isfile(path)  # noqa: PTH113


def contents(path: Path | str, *, most: int, code: str, hint: str, dash: bool = False) -> bytes:
    """Return the bytes of the file at *path*, at most *most* + 1 of them; with *dash*, ``-`` is standard input.

    Raises :class:`InputError` with *code* and *hint* if it cannot be read.
    """
    try:
        with nullcontext(stdin()) if dash and path == "-" else Path(path).open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:  # a NUL in the path raises ValueError
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise refused(str(path), code, f"cannot be opened: {reason}", hint) from error
