"""Read the log of any program as a form of recording that a file describes (:mod:`fsm.language.form_file`).

:mod:`fsm.recordings.form_lookup` finds and checks the file. RE2 matches the lines: its time is linear in the length of
a line for every regular expression.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from typing import Any, Final, TypeAlias, get_args

import msgspec

from fsm.errors import of_extra, printable
from fsm.recordings.form import Numbered, Opening, Recording
from fsm.recordings.json_lines import EARLIEST
from fsm.recordings.line_reader import LISTED, Notes, decoded
from fsm.trace import LATEST, Line, Observation, Phase, nanoseconds

Meaning: TypeAlias = Mapping[str, str]  # the value of each field of an observation that has one

TIME: Final = "time"
LINE: Final = "line"
"""The path to the text that the patterns match, if the lines are JSON."""

FIELDS: Final = ("entity", "of", "event", "phase", "reply", "shows", "met", "output", "detail")
"""The fields of an observation that a line may have, besides its time and its arguments."""

SAYING: Final = {"event", "shows", "met", "output", "phase"}
"""A line that has none of these fields says nothing."""

PHASES: Final[Mapping[str, Meaning]] = {phase: {"phase": phase} for phase in get_args(Phase) if phase}
UNITS: Final = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
SKIPPED: Final = "lines that the form skips"
UNKNOWN: Final = "lines with the unknown"
OTHERS: Final = "lines with other unknown words"
UNTIMED: Final = "times that the form cannot read"

_NUMBER: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9})\d*)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_LONGEST_WORD: Final = 40
_ANYTHING: Final = msgspec.json.Decoder(object)


@cache
def compiled(pattern: str, form: str) -> Any:  # noqa: ANN401  (the library has no types)
    """Compile *pattern* with RE2. Raise ``ValueError`` with the reason if it is not a regular expression of RE2."""
    re2 = of_extra("re2", f"the patterns of the form '{form}'", extra="logs")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """The description of a log.

    ``patterns`` are tried in order. If there are ``paths``, the lines are JSON objects. ``tables`` maps each word of a
    field to its meaning. ``arguments`` maps each argument to its type, or to the value of each word. ``fixed`` is the
    meaning of all lines.
    """

    name: str
    patterns: tuple[tuple[str, Meaning], ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    tables: Mapping[str, Mapping[str, Meaning]] = field(default_factory=dict)
    arguments: Mapping[str, str | Mapping[str, int | bool | str]] = field(default_factory=dict)
    fixed: Meaning = field(default_factory=dict)
    time: str = "rfc3339"
    zone: str = "Z"
    relative: bool = False
    fresh: bool = False
    unseen: tuple[str, ...] = ()

    def open(self, opening: Opening) -> Recording:
        found = opening.recorded(opening.batches(partial(self.read, opening.notes)))
        return replace(found, hidden=self.unseen, fresh=self.fresh, relative=self.relative)

    def read(self, notes: Notes, line: bytes, number: int | Line) -> Numbered:
        """Yield the observation on *line*, and count the line in *notes* if it says nothing that is known.

        If a word of the line is unknown, the state of its entity is unknown from there on.
        """
        if not line.strip():
            return
        line = line if line.isascii() else line.decode(errors="replace").encode()
        if any(compiled(pattern, self.name).search(line) for pattern in self.skip):
            notes[SKIPPED] += 1
            return
        words, found = self.matched(line)
        unknown = [(name, word) for name, word in words.items() if not self._explain(name, word, found)]
        if found.get("event") == "":
            notes[SKIPPED] += 1
            return
        for name, word in unknown:
            notes.add(number, _note(notes, name, word))
        if {name for name, _ in unknown} - self.arguments.keys() - {TIME}:
            found = {name: found[name] for name in ("entity", "of") if name in found} | {"phase": "gap"}
        elif not found.keys() & SAYING:
            notes.add_foreign(number)
            return
        # HOOK: an observation has no field for arguments yet. As soon as it has the field "args", it gets them.
        if "args" not in Observation.__struct_fields__ or found.get("phase") == "gap":
            found.pop("args", None)
        yield number, Observation(**found)

    def matched(self, line: bytes) -> tuple[Mapping[str, str], dict[str, Any]]:
        """Return the text of each group or path on *line*, and the fixed meaning of such lines."""
        texts: dict[str, str] = {}
        if self.paths:
            document = decoded(line, _ANYTHING)
            texts = {name: text for name, path in self.paths.items() if (text := _text_at(document, path))}
            line = texts.pop(LINE, "").encode()
        for pattern, meaning in self.patterns:
            if groups := compiled(pattern, self.name).fullmatch(line):
                texts |= {name: text.decode() for name, text in groups.groupdict().items() if text}
                return _ordered(texts), {**self.fixed, **meaning}
        return ({}, {}) if self.patterns else (_ordered(texts), dict(self.fixed))

    def _explain(self, name: str, word: str, found: dict[str, Any]) -> bool:
        """Add the meaning of *word* to *found*. Return false if the word is unknown."""
        if name == TIME:
            found["at"] = self.nanoseconds(word)
            return found["at"] is not None
        if kind := self.arguments.get(name):
            if (value := _value(kind, word)) is not None:
                found.setdefault("args", {})[name] = value
            return value is not None
        meaning = self.tables.get(name, {word: {name: word}}).get(word)
        found |= meaning or {}
        return meaning is not None

    def time_of(self, line: bytes) -> int | None:
        """Return the time of *line* in nanoseconds since the epoch, or ``None``."""
        text = self.matched(line)[0].get(TIME)
        return self.nanoseconds(text) if text else None

    def nanoseconds(self, text: str) -> int | None:
        """Return the time *text* in nanoseconds, or ``None`` if it is not a time of this form."""
        at: int | None = None
        if factor := UNITS.get(self.time):
            if number := _NUMBER.fullmatch(text):
                at = int(number[1]) * factor + int((number[2] or "").ljust(9, "0")) * factor // 10**9
        elif "%" in self.time:
            zone = "" if "%z" in self.time else self.zone
            with suppress(ValueError, OverflowError):
                moment = datetime.strptime(text + zone, self.time + "%z" * bool(zone))  # noqa: DTZ007  (it has %z)
                at = nanoseconds(moment.isoformat())
        else:
            at = nanoseconds(text + self.zone)
            at = nanoseconds(text) if at is None else at
        return at if at is not None and (0 if self.relative else EARLIEST) <= at <= LATEST else None


def _ordered(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return *texts* with the event first, because the meaning of an event is weaker than other words of the line."""
    return {"event": texts["event"], **texts} if "event" in texts else texts


def _text_at(value: object, path: Sequence[str]) -> str:
    for key in path:
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    match value:
        case bool():
            return str(value).lower()
        case str():
            return value
        case int() | float():
            return msgspec.json.encode(value).decode()
        case _:
            return ""


def _value(kind: str | Mapping[str, int | bool | str], word: str) -> int | bool | str | None:
    match kind:
        case "int":
            return int(word) if _INTEGER.fullmatch(word) else None
        case "bool":
            return {"true": True, "false": False}.get(word.lower())
        case str():
            return word
        case _:
            return kind.get(word)


def _note(notes: Notes, name: str, word: str) -> str:
    if name == TIME:
        return UNTIMED
    note = f"{UNKNOWN} {name} '{printable(word[:_LONGEST_WORD])}'"
    known = note in notes or sum(each.startswith(UNKNOWN) for each in notes) < LISTED
    return note if known else OTHERS
