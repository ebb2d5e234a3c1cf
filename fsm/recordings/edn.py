"""EDN, the data notation of Clojure, read as the data that JSON has.

Keywords and symbols become their names, lists and sets become lists, and tags
are dropped: nothing that stands in a file is executed or looked up.  How deep
it may nest is bounded.  The notation is described at
https://github.com/edn-format/edn; what the data means is for others to say.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

DEEPEST: Final = 32
"""Levels of nesting that are read."""

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"


class EdnForm(NamedTuple):
    """A value, and the line on which it begins."""

    line: int
    value: Data


class NotationError(ValueError):
    """Text that breaks the rules of its notation, and the line on which it does."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


_END: Final = r"\s,;\"()\[\]{}\\"
_TOKEN: Final = re.compile(
    rf"""
      (?P<blank>     (?: [\s,]++ | ;[^\n]*+ )++ )
    | (?P<string>    "(?: [^"\\]++ | \\. )*+" )
    | (?P<character> \\(?: u[0-9A-Fa-f]{{4}} | [A-Za-z]+ | [^\s] ) )
    | (?P<open>      \#?\{{ | [\[(] )
    | (?P<close>     [\])}}] )
    | (?P<prefix>    \#_ | \#:?[A-Za-z][^{_END}]*+ )
    | (?P<number>    [+-]?[0-9][^{_END}]*+ )
    | (?P<name>      (?: \#\# | : )?[^{_END}\#:][^{_END}]*+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS: Final[dict[str, Data]] = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": float("inf"),
    "##-Inf": float("-inf"),
    "##NaN": float("nan"),
}
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "/": "/"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_UNICODE: Final = re.compile("u[0-9A-Fa-f]{4}")
_CHARACTERS: Final = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_WHOLE: Final = re.compile(r"[+-]?[0-9]+N?")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?")


class _Open(NamedTuple):
    """A bracket that waits for its end; or a tag, or ``#_``, that waits for the form it stands before."""

    bracket: str
    line: int
    inside: list[Data]


def forms(text: str) -> Iterator[EdnForm]:
    r"""Each form at the top of *text*, or in the one vector or list that the whole text is.

    Raises :class:`NotationError` where the text is not EDN, a map has a key
    twice, or forms nest deeper than :data:`DEEPEST`; what comes before that
    place is given first.

    >>> list(forms('{:f :start, :value [1 nil]}\n#inst "2026"'))
    [EdnForm(line=1, value={'f': 'start', 'value': [1, None]}), EdnForm(line=2, value='2026')]
    >>> [form.value for form in forms("[{:a 1} {:a 2}]")]
    [{'a': 1}, {'a': 2}]
    """
    reader = _Reader()
    for kind, word, line in _tokens(text):
        found = reader.take(kind, word, line)
        if found is not None:
            yield found
    reader.finish()


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """The kind, the text and the line of each token but blanks."""
    line, counted, position = 1, 0, 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            line += text.count("\n", counted, position)
            if text[position] == '"':
                raise NotationError(line, "a string does not end")
            raise NotationError(
                line, f"found {text[position : position + 10].split(maxsplit=1)[0]!r}, which EDN does not have"
            )
        if found.lastgroup and found.lastgroup != "blank":
            line += text.count("\n", counted, position)
            counted = position
            yield found.lastgroup, found[0], line
        position = found.end()


class _Reader:
    """Forms made of tokens, without recursion."""

    def __init__(self) -> None:
        self._stack: list[_Open] = []
        self._outer: _Open | None = None
        self._begun = False
        self._over = False

    def take(self, kind: str, word: str, line: int) -> EdnForm | None:
        """Take one token; the form at the top that ends with it, if one does."""
        if self._over:
            raise NotationError(line, f"found {word[:10]!r} after the end of the vector")
        if kind == "open":
            if word in "[(" and not self._begun and not self._stack:
                self._outer = _Open(word, line, [])
                self._begun = True
            else:
                self._push(word, line)
            return None
        if kind == "prefix":
            self._push(word, line)
            return None
        if kind != "close":
            return self._put(_atom(kind, word, line), line)
        if not self._stack and self._outer is not None and word == _CLOSES[self._outer.bracket]:
            self._over = True
            return None
        if not self._stack or word != _CLOSES.get(self._stack[-1].bracket):
            raise NotationError(line, f"found {word!r}, which ends nothing that begins before")
        done = self._stack.pop()
        return self._put(_map(done) if done.bracket == "{" else done.inside, done.line)

    def finish(self) -> None:
        """The text ends here."""
        last = self._stack[-1] if self._stack else None if self._over else self._outer
        if last is not None:
            raise NotationError(last.line, f"what {last.bracket!r} begins does not end")

    def _push(self, word: str, line: int) -> None:
        if len(self._stack) >= DEEPEST:
            raise NotationError(line, f"nests deeper than {DEEPEST} levels")
        self._stack.append(_Open(word, line, []))

    def _put(self, value: Data, line: int) -> EdnForm | None:
        while self._stack and self._stack[-1].bracket not in _CLOSES:
            prefix = self._stack.pop()
            if prefix.bracket == "#_":
                return None
            line = prefix.line
        if not self._stack:
            self._begun = True
            return EdnForm(line, value)
        self._stack[-1].inside.append(value)
        return None


def _map(done: _Open) -> Data:
    """The map of keys and values in turn."""
    keys = [_key(key) for key in done.inside[::2]]
    if len(done.inside) % 2:
        raise NotationError(done.line, f"the key {keys[-1]!r} has no value")
    found: dict[str, Data] = dict(zip(keys, done.inside[1::2], strict=True))
    if len(found) < len(keys):
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise NotationError(done.line, f"a map has the key {twice!r} twice")
    return found


def _key(key: Data) -> str:
    return key if isinstance(key, str) else repr(key)


def _atom(kind: str, word: str, line: int) -> Data:
    match kind:
        case "string":
            return _ESCAPE.sub(lambda found: _escaped(found, line), word[1:-1]) if "\\" in word else word[1:-1]
        case "character":
            name = word[1:]
            if _UNICODE.fullmatch(name):
                return chr(int(name[1:], 16))
            return name if len(name) == 1 else _CHARACTERS.get(name) or _unknown(word, line)
        case "number":
            return _number(word, line)
        case _:
            if word in _WORDS:
                return _WORDS[word]
            return _unknown(word, line) if word.startswith("##") else word.removeprefix(":")


def _escaped(found: re.Match[str], line: int) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return _ESCAPES.get(found[2]) or _unknown(found[0], line)


def _number(word: str, line: int) -> Data:
    try:
        if _WHOLE.fullmatch(word):
            return int(word.removesuffix("N"))
        if _DECIMAL.fullmatch(word):
            return float(word.removesuffix("M"))
    except ValueError as error:  # of more digits than Python converts
        raise NotationError(line, f"a number of {len(word):,} digits") from error
    return _unknown(word, line)


def _unknown(word: str, line: int) -> str:
    raise NotationError(line, f"found {word[:20]!r}, which EDN does not have")
