"""Parse EDN, the data notation of Clojure, as JSON-like data.

Keywords and symbols become their names, and lists and sets become lists. Tags are dropped, so nothing in a file is
executed or looked up. The nesting depth is limited. EDN is specified at https://github.com/edn-format/edn. Callers
interpret the data.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

DEEPEST: Final = 32
"""Maximum nesting depth."""

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"


class EdnForm(NamedTuple):
    """A value and the line on which it starts."""

    line: int
    value: Data


class NotationError(ValueError):
    """Raised for a syntax error, with its line number."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


_END: Final = r"\s,;\"()\[\]{}\\"
_TOKEN: Final = re.compile(
    rf"""
      (?P<blank>     (?: [\s,]++ | ;[^\n]*+ )++ )
    | (?P<string>    "(?: [^"\\]++ | \\. )*+" )
    | (?P<unicode>   \\u[0-9A-Fa-f]{{4}} )
    | (?P<character> \\(?: [A-Za-z]+ | [^\s] ) )
    | (?P<open>      \#?\{{ | [\[(] )
    | (?P<close>     [\])}}] )
    | (?P<prefix>    \#_ | \#:?[A-Za-z][^{_END}]*+ )
    | (?P<number>    [+-]?[0-9][^{_END}]*+ )
    | (?P<name>      (?: \#\# | : )?[^{_END}\#:][^{_END}]*+ )
    | (?P<odd>       \S{{1,10}} )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_CHARACTERS: Final = zip(("newline", "return", "space", "tab", "formfeed", "backspace"), "\n\r \t\f\b", strict=True)
_WORDS: Final[dict[str, Data]] = {"nil": None, "true": True, "false": False}
_WORDS.update({f"##{name}": float(name) for name in ("Inf", "-Inf", "NaN")})
_WORDS.update({f"\\{name}": character for name, character in _CHARACTERS})
_NUMBER: Final = re.compile(r"([+-]?[0-9]+)N?|([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)M?")


class _Token(NamedTuple):
    kind: str
    word: str
    line: int


def forms(text: str) -> Iterator[EdnForm]:
    r"""Yield each top-level form of *text*, or each item if *text* is a vector or a list.

    Raise :class:`NotationError` if *text* is not EDN, a map has a duplicate key, or forms nest deeper than
    :data:`DEEPEST`. The forms before the error are yielded first.

    >>> list(forms('{:f :start, :value [1 nil]}\n#inst "2026"'))
    [EdnForm(line=1, value={'f': 'start', 'value': [1, None]}), EdnForm(line=2, value='2026')]
    >>> [form.value for form in forms("[{:a 1} {:a 2}]")]
    [{'a': 1}, {'a': 2}]
    """
    tokens = _tokens(text)
    for token in tokens:
        if token.word == "#_":
            next(_inside(tokens, token, 1))
        elif token.word in {"[", "("}:
            yield from _inside(tokens, token, 0)
            for _, word, line in tokens:
                raise NotationError(line, f"found {word[:10]!r} after the end of the vector")
        else:
            yield from _inside(chain([token], tokens), None, 0)


def _tokens(text: str) -> Iterator[_Token]:
    line, counted = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        if found.lastgroup == "odd":
            raise NotationError(line, "a string does not end") if found[0][0] == '"' else _unknown(found[0], line)
        if found.lastgroup and found.lastgroup != "blank":
            yield _Token(found.lastgroup, found[0], line)


def _inside(tokens: Iterator[_Token], opening: _Token | None, depth: int) -> Iterator[EdnForm]:
    """Yield the forms that belong to *opening* (a bracket, a tag or ``#_``), or all forms if it is ``None``."""
    for token in tokens:
        kind, word, line = token
        if kind == "close":
            if opening is None or word != _CLOSES.get(opening.word):
                raise NotationError(line, f"found {word!r}, which ends nothing that begins before")
            return
        if kind not in {"open", "prefix"}:
            yield EdnForm(line, _atom(kind, word, line))
            continue
        if depth >= DEEPEST:
            raise NotationError(line, f"nests deeper than {DEEPEST} levels")
        inside = _inside(tokens, token, depth + 1)
        if kind == "prefix":
            value = next(inside).value
            if word != "#_":
                yield EdnForm(line, value)
        else:
            values = [form.value for form in inside]
            yield EdnForm(line, _map(values, line) if word == "{" else values)
    if opening is not None:
        raise NotationError(opening.line, f"what {opening.word!r} begins does not end")


def _map(inside: list[Data], line: int) -> Data:
    keys = [key if isinstance(key, str) else repr(key) for key in inside[::2]]
    if len(inside) % 2:
        raise NotationError(line, f"the key {keys[-1]!r} has no value")
    found: dict[str, Data] = dict(zip(keys, inside[1::2], strict=True))
    if len(found) < len(keys):
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise NotationError(line, f"a map has the key {twice!r} twice")
    return found


def _atom(kind: str, word: str, line: int) -> Data:
    if word in _WORDS:
        return _WORDS[word]
    try:
        match kind:
            case "string":
                text: str = json.loads(word, strict=False)  # JSON has the same escapes
                return text
            case "unicode":
                return chr(int(word.removeprefix("\\u"), base=16))
            case "character" if len(word) == len("\\a"):
                return word[1]
            case "number" if found := _NUMBER.fullmatch(word):
                return int(found[1]) if found[1] else float(found[2])
            case "name" if not word.startswith("##"):
                return word.removeprefix(":")
    except json.JSONDecodeError as error:
        word = word[error.pos : error.pos + 2]
    except ValueError as error:  # more digits than Python converts
        raise NotationError(line, f"a number of {len(word):,} digits") from error
    raise _unknown(word, line)


def _unknown(word: str, line: int) -> NotationError:
    return NotationError(line, f"found {word[:20]!r}, which EDN does not have")
