"""Interpret one form (entry) of a history as an operation, one end of an operation, or an output.

The notations of fsm, Jepsen and porcupine are supported (see ``docs/how-to/linearizability.md``). Names are not checked
against the machine here.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from fsm.errors import documented
from fsm.trace import LATEST, Observation

DEEPEST: Final = 32

Data: TypeAlias = "dict[str, Data] | list[Data] | str | int | float | bool | None"


class EdnForm(NamedTuple):
    line: int
    value: Data


@dataclass(eq=False)
class NotationError(ValueError):
    """Raised for a syntax error on ``line``."""

    line: int
    what: str


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
    r"""Yield the top-level forms of *text*. If *text* is a vector or a list, yield its items.

    Raise :class:`NotationError` if *text* is not EDN, if a map has a duplicate key, or if forms are nested deeper than
    :data:`DEEPEST`. The forms before the error are yielded first.

    >>> list(forms('{:f :start, :value [1 nil]}\n#inst "2026"'))
    [EdnForm(line=1, value={'f': 'start', 'value': [1, None]}), EdnForm(line=2, value='2026')]
    >>> [form.value for form in forms("[{:a 1} {:a 2}]")]
    [{'a': 1}, {'a': 2}]
    """
    tokens = _tokens(text)
    for token in tokens:
        if token.word == "#_":
            next(_read_forms(tokens, token, 1))
        elif token.word in {"[", "("}:
            yield from _read_forms(tokens, token, 0)
            for _, word, line in tokens:
                raise NotationError(line, f"found {word[:10]!r} after the end of the vector")
        else:
            yield from _read_forms(chain([token], tokens), None, 0)


def _tokens(text: str) -> Iterator[_Token]:
    line, counted = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        if found.lastgroup == "odd":
            raise (
                NotationError(line, "a string does not end") if found[0][0] == '"' else _notation_error(found[0], line)
            )
        if found.lastgroup and found.lastgroup != "blank":
            yield _Token(found.lastgroup, found[0], line)


def _read_forms(tokens: Iterator[_Token], opening: _Token | None, depth: int) -> Iterator[EdnForm]:
    """Yield the forms that belong to *opening*, which is a bracket, a tag or ``#_``.

    If *opening* is ``None``, yield all forms.
    """
    for token in tokens:
        kind, word, line = token
        if kind == "close":
            if opening is None or word != _CLOSES.get(opening.word):
                raise NotationError(line, f"found {word!r}, which closes nothing")
            return
        if kind not in {"open", "prefix"}:
            yield EdnForm(line, _atom(kind, word, line))
            continue
        if depth >= DEEPEST:
            raise NotationError(line, f"the form is nested more than {DEEPEST} levels deep")
        inside = _read_forms(tokens, token, depth + 1)
        if kind == "prefix":
            value = next(inside).value
            if word != "#_":
                yield EdnForm(line, value)
        else:
            values = [form.value for form in inside]
            yield EdnForm(line, _build_map(values, line) if word == "{" else values)
    if opening is not None:
        raise NotationError(opening.line, f"the form that begins with {opening.word!r} does not end")


def _build_map(inside: list[Data], line: int) -> Data:
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
                text: str = json.loads(word, strict=False)  # JSON has the same escapes.
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
    except ValueError as error:  # The number has more digits than Python converts.
        raise NotationError(line, f"a number has {len(word):,} digits, which are too many") from error
    raise _notation_error(word, line)


def _notation_error(word: str, line: int) -> NotationError:
    return NotationError(line, f"found {word[:20]!r}, which is not EDN")


FormRole: TypeAlias = Literal["call", "return", "lost", "undone", "next", "whole", "output"]
"""The role of a form in an operation.

``call`` and ``return`` are the two ends of an operation. ``lost`` is an end with an unknown outcome, and ``undone`` is
the end of an operation that had no effect. ``next`` is the call of an operation that has not been called yet, and the
return of any other operation. ``whole`` is a complete operation. An ``output`` belongs to no operation.
"""

NEVER: Final = LATEST
"""The return time that tools with 64-bit times use for an operation that never returned."""


class UnderstoodForm(NamedTuple):
    """A form of a history, read as one end of an operation or as a whole operation.

    ``pairs`` is a key that both ends of an operation share. ``value`` is the value in the form. If ``aside`` is true,
    the form belongs to no client, and is an operation only if the machine has its event.
    """

    end: FormRole
    pairs: str
    seen: Observation
    value: Data = None
    aside: bool = False


@dataclass(eq=False)
class MeaningError(ValueError):
    """Raised for a form that is not an operation, with a hint on how to fix it."""

    what: str
    hint: str


def reader(value: Data) -> Callable[[Mapping[str, Data]], UnderstoodForm] | None:
    """Return the function that interprets *value*, or ``None`` if *value* is not a form of any kind of history.

    >>> reader({"type": "invoke", "f": "start", "process": 0}) is jepsen
    True
    """
    if not isinstance(value, dict):
        return None
    keys = {_normalise_key(key) for key in value}
    if "type" in value and "process" in value:
        return jepsen
    if {"input", "call"} <= keys:
        return porcupine
    if {"kind", "value", "id"} <= keys:
        return porcupine_event
    return ours if "process" in value or {"entity", "output"} <= value.keys() else None


def _normalise_key(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def ours(value: Mapping[str, Data]) -> UnderstoodForm:
    """Interpret a line that is in the trace format and names a process.

    >>> ours({"process": 1, "event": "start", "phase": "request"}).end
    'call'
    """
    try:
        seen = msgspec.convert(value, Observation)
    except msgspec.ValidationError as error:
        what, hint = str(error), f"{documented('how-to/linearizability')} lists the keys"
        raise MeaningError(what[:1].lower() + what[1:], hint) from error
    if seen.output:
        return UnderstoodForm("output", "", seen)
    if seen.phase not in _PHASES:
        hint = "phase must be request, reply or lost, or be left out for a whole operation"
        raise MeaningError(f"no operation can have the phase {seen.phase!r}", hint)
    return UnderstoodForm(_PHASES[seen.phase], repr(seen.process), replace(seen, phase=""))


_PHASES: Final[Mapping[str, FormRole]] = {"": "whole", "request": "call", "reply": "return", "lost": "lost"}

TYPES: Final[Mapping[str, FormRole]] = {"invoke": "call", "ok": "return", "fail": "return", "info": "lost"}


def jepsen(value: Mapping[str, Data]) -> UnderstoodForm:
    """Interpret a Jepsen operation.

    ``:f`` is the event, and ``:value`` or ``:error`` is the reply or the state.

    >>> part = jepsen({"type": "fail", "f": "start", "process": 0, "value": ["c1", None], "error": "NOT_FOUND"})
    >>> part.seen.entity, part.seen.event, part.seen.reply
    ('c1', 'start', 'NOT_FOUND')
    """
    kind, process, event = value["type"], value["process"], value.get("f")
    end = TYPES.get(kind) if isinstance(kind, str) else None
    if end is None:
        raise MeaningError(f"no operation can have the type {kind!r}", f"types: {', '.join(TYPES)}")
    if not isinstance(event, str) or not event:
        raise MeaningError(
            f"the value {event!r} of f is not an event", "f must be the name of an event, as in :f :start"
        )
    at = value.get("time")
    seen = Observation(
        entity="" if "key" not in value else _scalar(value["key"], "key"),
        event=event,
        process=process if isinstance(process, int | str) else str(process),
        at=_checked_time(at) if isinstance(at, int) else None,
    )
    if not isinstance(process, int):  # The nemesis uses :info for both ends and has its own values.
        return UnderstoodForm("next", repr(process), seen, aside=True)
    entity, rest = _split_key(value.get("value"))
    reply, shows, detail = "", "", ""
    if kind == "ok":
        reply, shows = _answer(rest)
        reply = reply or "ok"
    elif kind == "fail":
        reply, detail = _error(value.get("error"))
        end, rest = "return" if reply else "undone", None
    seen = replace(seen, entity=seen.entity or entity, reply=reply, shows=shows, detail=detail)
    return UnderstoodForm(end, repr(process), seen, rest)


def _split_key(value: Data) -> tuple[str, Data]:
    """Split *value* into the entity and the rest. Jepsen's independent tests write this pair as ``[key value]``."""
    match value:
        case [key, rest]:
            return _scalar(key, "key"), rest
        case list():
            hint = (
                "a value is nil, a reply, an observed state, a map of these, or a pair of a key and one of them: [k v]"
            )
            raise MeaningError(f"a value has {len(value)} items", hint)
        case dict() if (found := _first_value(value, "entity", "key", "id")) is not None:
            return _scalar(found, "key"), value
    return "", value


def _error(error: Data) -> tuple[str, str]:
    match error:
        case None:
            return "", ""
        case [first, *rest]:
            return _scalar(first, "error"), " ".join(str(each) for each in rest)
        case dict():
            return _scalar(_first_value(error, "reply", "code", "type", "error"), "error"), ""
        case _:
            return _scalar(error, "error"), ""


def porcupine(value: Mapping[str, Data]) -> UnderstoodForm:
    """Interpret a complete porcupine operation, which has a process, a call, an input, a return and an output.

    >>> porcupine({"ClientId": 0, "Input": "start", "Call": 3, "Output": "ok", "Return": 9}).seen.reply
    'ok'
    """
    seen = _read_request(_first_value(value, "input"), _first_value(value, "clientid", "client", "process"))
    reply, shows = _answer(_first_value(value, "output"))
    call, back = _first_value(value, "call"), _first_value(value, "return")
    if not isinstance(call, int) or isinstance(call, bool) or not (back is None or isinstance(back, int)):
        raise MeaningError(
            f"the operation has the call {call!r} and the return {back!r}", "call and return must be whole numbers"
        )
    back = None if back is None or back >= NEVER else _checked_time(back)
    seen = replace(seen, reply=reply, shows=shows, start=_checked_time(call), end=back)
    return UnderstoodForm("whole", "", seen)


def porcupine_event(value: Mapping[str, Data]) -> UnderstoodForm:
    """Interpret one end of a porcupine operation. A call has an input, and a return has an output.

    The two ends of an operation have the same id.

    >>> porcupine_event({"ClientId": 0, "Kind": True, "Value": "NOT_FOUND", "Id": 7}).end
    'return'
    """
    what, pairs = _first_value(value, "value"), repr(_first_value(value, "id"))
    process = _first_value(value, "clientid", "client", "process")
    match _first_value(value, "kind"):
        case 0 | "call":
            return UnderstoodForm("call", pairs, _read_request(what, process))
        case 1 | "return":
            reply, shows = _answer(what)
            return UnderstoodForm("return", pairs, Observation(reply=reply, shows=shows, process=_process(process)))
        case kind:
            hint = "the kind of a call is false, 0 or call; the kind of a return is true, 1 or return"
            raise MeaningError(f"no event can have the kind {kind!r}", hint)


def _read_request(what: Data, process: Data) -> Observation:
    entity, event = "", what
    if isinstance(what, dict):
        event = _first_value(what, "event", "op", "f", "type")
        entity, _ = _split_key(what)
    if not isinstance(event, str) or not event:
        hint = 'an input must be the name of an event, or {"event": …, "entity": …}'
        raise MeaningError(f"the input {what!r} has no event", hint)
    return Observation(entity=entity, event=event, process=_process(process))


def _process(process: Data) -> int | str | None:
    return process if process is None or isinstance(process, int | str) else str(process)


def _answer(value: Data) -> tuple[str, str]:
    """Return the reply and the shown state in *value*. Plain text is a reply, even if it names a state."""
    if isinstance(value, dict):
        error = _first_value(value, "error", "err")
        reply = _first_value(value, "reply", "code") if error in (None, "") else error
        shows = _first_value(value, "shows", "state")
        text = "ok" if reply is None else _scalar(reply, "reply")
        return text, "" if shows is None else _scalar(shows, "state")
    return "" if value is None else _scalar(value, "value"), ""


def _checked_time(value: int) -> int:
    if not -LATEST <= value <= LATEST:
        raise MeaningError(f"a time has {value.bit_length()} bits", "times must be whole numbers of at most 64 bits")
    return value


def _first_value(value: Mapping[str, Data], *names: str) -> Data:
    found = {_normalise_key(key): each for key, each in value.items()}
    return next((found[name] for name in names if name in found), None)


def _scalar(value: Data, what: str) -> str:
    if value is None or isinstance(value, bool | list | dict):
        raise MeaningError(f"the {what} {value!r} is not a name", "a name must be text, a keyword or a number")
    return str(value)
