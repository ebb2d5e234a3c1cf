"""Report validation errors in the words of the language instead of pydantic's."""

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from fsm.errors import Problem, control_character, nearest
from fsm.language.read.toml import Keys, Lines
from fsm.language.schema import Vocabulary

_LARGE: Final = 2**64


def controls(value: object, path: str, lines: Lines, where: Keys = ()) -> Iterator[Problem]:
    """Yield a problem for each name or text in *value* that contains a terminal control character."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from controls(each, path, lines, (*where, key))
        if found := control_character(f"{key}{each if isinstance(each, str) else ''}"):
            what = f"{_dotted((*where, key))} has the control character U+{ord(found):04X}"
            hint = "remove it: names and texts are printed"
            yield Problem(path=path, line=lines.find(*where, key), code="FSM006", what=what, hint=hint)


def misfits(
    errors: Iterable[ErrorDetails], document: Mapping[str, Any], path: str, lines: Lines, vocabulary: Vocabulary
) -> tuple[Problem, ...]:
    """Convert pydantic's errors about *document* to problems, one for each place, sorted by line."""
    places = [(error, *place(error, document)) for error in errors]
    around = {where[:length] for _, where, _ in places for length in range(len(where))}
    found: dict[tuple[Keys, bool], Problem] = {}
    for error, where, named in places:
        # Where text or a list is allowed, pydantic reports the errors of both forms.  If an entry of a list is wrong,
        # skip the error that the list is not text.
        if named or where not in around:
            code, what, hint = _described(error, where, vocabulary, named=named)
            problem = Problem(path=path, line=lines.find(*where), code=code, what=what, hint=hint)
            found.setdefault((where, named), problem)
    return tuple(sorted(found.values(), key=lambda problem: problem.line))


def place(error: ErrorDetails, document: Mapping[str, Any]) -> tuple[Keys, bool]:
    """Return the path of the error in *document*, and whether the error is about the name there.

    pydantic adds words of its own to the path, such as ``<table>`` for one of several forms.  Only parts that lead
    further into the document are keys.
    """
    loc = error["loc"]
    named = error["type"] != "extra_forbidden" and loc[-1] == "[key]" and error["input"] == loc[-2]
    where: Keys = ()
    value: Any = document
    for part in loc[:-1] if named else loc:
        if (isinstance(value, dict) and part in value) or (isinstance(value, list) and part in range(len(value))):
            where, value = (*where, part), value[part]  # type: ignore[index]  # the part fits, as just checked
    return ((*where, loc[-1]) if error["type"] == "missing" else where), named


def _described(error: ErrorDetails, where: Keys, vocabulary: Vocabulary, *, named: bool) -> tuple[str, str, str]:
    """Return the code, the description and the hint of the problem."""
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
            return "FSM012", f"{last!r} in {_table(table)} is not a name", f"use {vocabulary.names(*table)}"
    value, values = error["input"], vocabulary.values(*where)
    hint = f"give {vocabulary.expected(*where)}"
    if values and isinstance(value, str):
        hint = nearest(value, values, of="values")
    return "FSM012", f"{_dotted(where)} is {_shown(value)}", hint


def _table(where: Keys) -> str:
    return f"[{_dotted(where)}]" if where else "the file"


def _dotted(where: Keys) -> str:
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f".{json.dumps(part)}"
    return text.removeprefix(".")


def _shown(value: object) -> str:
    match value:
        case bool():
            text = str(value).lower()
        case int():
            text = str(value) if abs(value) < _LARGE else hex(value)  # str fails beyond 4300 digits
        case list():
            text = "a list"
        case dict():
            text = "a table"
        case dt.date() | dt.time():
            text = value.isoformat()
        case _:
            text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  (a line's worth)
