"""Read the log of any program as a form of recording that a file describes (:mod:`fsm.language.form_file`).

RE2 matches the lines, because its time is linear in the length of a line for every regular expression.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from os.path import normpath
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

import msgspec

from fsm.errors import InputError, Problem, contents, nearest, of_extra, printable
from fsm.language.form_file import WrittenLogForm, WrittenMeaning
from fsm.language.library import is_path
from fsm.language.read import File, parse
from fsm.language.read.toml import LARGEST, Keys
from fsm.recordings.form import Numbered, Opening, Recording, RecordingForm
from fsm.recordings.json_lines import EARLIEST
from fsm.recordings.line_reader import LISTED, Notes, decoded
from fsm.trace import LATEST, Line, Observation, Phase, nanoseconds

FieldTexts: TypeAlias = Mapping[str, str]  # values of fields of an observation

FIELDS: Final = ("event", "entity", "of", "phase", "reply", "shows", "met", "output", "detail")
TIME: Final = "time"
SKIPPED: Final = "lines that the form skips"
UNKNOWN: Final = "lines with the unknown"
OTHERS: Final = "lines with other unknown words"
UNTIMED: Final = "times that the form cannot read"
_SAYING: Final = {"event", "shows", "met", "output", "fields"}  # a line without any of them says nothing
_UNITS: Final = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}
_NUMBER: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9})\d*)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?P?<(\w+)>")
_LONGEST_WORD: Final = 40
_ANYTHING: Final = msgspec.json.Decoder(object)
_USES: Final = {"events": "event", "phases": "phase", "replies": "reply", "shows": "shows"} | dict.fromkeys(
    ["time", "zone", "clock"], TIME
)
_HOUR: Final = 3_600
_SAMPLE: Final = datetime(2026, 11, 27, 22, 20, 30, tzinfo=UTC)


@cache
def compiled(pattern: str, form: str) -> Any:  # noqa: ANN401  (the library has no types)
    """Compile *pattern* with RE2. Raise ``ValueError`` if it is not a regular expression of RE2."""
    re2 = of_extra("re2", f"the patterns of the form '{form}'", extra="logs")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode(errors="replace")) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LogForm:
    """A form that a file describes.

    ``tables`` contains the meaning of each word of a field that has a table. ``values`` maps the name of each argument
    and each shown value to the key of an observation that has it, ``args`` or ``fields``, and to its type.
    """

    name: str
    written: WrittenLogForm
    patterns: tuple[tuple[str, FieldTexts], ...]
    paths: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Mapping[str, FieldTexts]]
    values: Mapping[str, tuple[str, str]]

    def open(self, opening: Opening) -> Recording:
        found, written = opening.recorded(opening.batches(partial(self.read, opening.notes))), self.written
        relative = written.clock == "relative"
        return replace(found, hidden=tuple(written.unseen), fresh=written.fresh, relative=relative)

    def read(self, notes: Notes, line: bytes, number: int | Line) -> Numbered:
        """Yield the observation on *line*, or count it in *notes*. An unknown word makes its entity's state unknown."""
        if not line.strip():
            return
        line = line if line.isascii() else line.decode(errors="replace").encode()
        skipped = any(compiled(pattern, self.name).search(line) for pattern in self.written.skip)
        words, found = ({}, {"event": ""}) if skipped else self.matched(line)
        unknown = [(name, word) for name, word in words.items() if not self._explain(name, word, found)]
        if found.get("event") == "":
            notes[SKIPPED] += 1
            return
        for name, word in unknown:
            notes.add(number, _note(notes, name, word))
        if {name for name, _ in unknown} & {*FIELDS}:
            found = {name: found[name] for name in ("entity", "of") if name in found} | {"phase": "gap"}
        elif not found.keys() & _SAYING and found.get("phase") != "gap":
            notes.add(number)
            return
        if found.get("phase") == "gap":
            found = {name: value for name, value in found.items() if name not in {"args", "fields"}}
        yield number, Observation(**found)

    def matched(self, line: bytes) -> tuple[Mapping[str, str], dict[str, Any]]:
        """Return the words on *line*, and what such lines mean. Both are empty if the form does not match the line."""
        document = decoded(line, _ANYTHING) if self.paths else None
        fixed: FieldTexts = {}
        texts = {name: _text_at(document, path) for name, path in self.paths.items()}
        if self.patterns:
            matches = ((compiled(pattern, self.name).fullmatch(line), fixed) for pattern, fixed in self.patterns)
            groups, fixed = next((each for each in matches if each[0]), (None, {}))
            if groups is None:
                return {}, {}
            texts = {name: (text or b"").decode() for name, text in groups.groupdict().items()}
        # The event is first, because its meaning is weaker than the other words of the line.
        words = {name: texts[name] for name in (*FIELDS, TIME, *self.values) if texts.get(name)}
        return words, {name: text for name in ("entity", "of") if (text := getattr(self.written, name))} | {**fixed}

    def _explain(self, name: str, word: str, found: dict[str, Any]) -> bool:
        """Add the meaning of *word* to *found*. Return false if the word is unknown."""
        if name == TIME:
            found["at"] = self.nanoseconds(word)
            return found["at"] is not None
        if name in self.values:
            of, kind = self.values[name]
            if (value := _value(kind, word)) is not None:
                found.setdefault(of, {})[name] = value
            return value is not None
        meaning = self.tables.get(name, {word: {name: word}}).get(word)
        found |= meaning or {}
        return meaning is not None

    def time_of(self, line: bytes) -> int | None:
        text = self.matched(line)[0].get(TIME)
        return self.nanoseconds(text) if text else None

    def nanoseconds(self, text: str) -> int | None:
        """Return the time *text* in nanoseconds, or ``None`` if it is not a time of this form."""
        at, form, zone = None, self.written.time, self.written.zone
        if factor := _UNITS.get(form):
            if number := _NUMBER.fullmatch(text):
                at = int(number[1]) * factor + int((number[2] or "").ljust(9, "0")) * factor // 10**9
        elif form != "rfc3339":
            text, form = (text, form) if "%z" in form else (f"{text} {zone}", f"{form} %z")
            with suppress(ValueError, OverflowError, re.error):
                at = nanoseconds(datetime.strptime(text, form).isoformat())  # noqa: DTZ007  (it has %z)
        elif (at := nanoseconds(text + zone)) is None:
            at = nanoseconds(text)
        earliest = EARLIEST if self.written.clock == "epoch" else 0
        return at if at is not None and earliest <= at <= LATEST else None


def _text_at(value: object, path: tuple[str, ...]) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, int | float) else ""


def _value(kind: str, word: str) -> int | bool | str | None:
    if kind == "int":
        return int(word) if _INTEGER.fullmatch(word) else None
    return {"true": True, "false": False}.get(word.lower()) if kind == "bool" else word


def _note(notes: Notes, name: str, word: str) -> str:
    note = UNTIMED if name == TIME else f"{UNKNOWN} {name} '{printable(word[:_LONGEST_WORD])}'"
    return note if note in {UNTIMED, *notes} or sum(each.startswith(UNKNOWN) for each in notes) < LISTED else OTHERS


def form_in_file(path: str, name: str, at: Keys = ()) -> RecordingForm:
    """Return the form *name* in the table *at* of a file. Raise :class:`InputError` if it is not well formed."""
    data = contents(path, most=LARGEST, code="FSM220", hint="give the name of a form, or the path of its file")
    file = parse(data, WrittenLogForm, path=path, at=at)
    written, folder = file.written, Path(path).parent
    lines = written.line if isinstance(written.line, list) else [written.line]
    phases = written.phases or {each: each for each in get_args(Phase) if each}
    simple = {"phase": phases, "reply": written.replies, "shows": written.shows, "met": written.shows}
    tables: dict[str, dict[str, FieldTexts]]
    tables = {name: {word: {name: each} for word, each in table.items()} for name, table in simple.items()}
    tables["event"] = {word: _meaning(each, "event") for word, each in written.events.items()}
    values = {"args": written.arguments, "fields": written.fields}
    form = LogForm(
        name=name,
        written=written,
        patterns=tuple((each, {}) if isinstance(each, str) else (each.match, _meaning(each)) for each in lines),
        paths={each: tuple(path.split(".") if isinstance(path, str) else path) for each, path in written.paths.items()},
        tables={name: table for name, table in tables.items() if table},
        values={name: (of, kind) for of, table in values.items() for name, kind in table.items()},
    )
    if problems := sorted(_problems(form, file), key=lambda problem: problem.line):
        raise InputError(problems)
    machines = [written.machine] if isinstance(written.machine, str) else written.machine
    return RecordingForm(
        name=name,
        title=written.title or name,
        open=form.open,
        time=form.time_of,
        machines=tuple(normpath(folder / each) if is_path(each) else each for each in machines),
        strict=True,
    )


def _meaning(each: str | WrittenMeaning, name: str = "") -> FieldTexts:
    return {name: each} if isinstance(each, str) else each.model_dump(exclude={"match"}, exclude_none=True)


def _problems(form: LogForm, file: File[WrittenLogForm]) -> Iterator[Problem]:
    written = form.written
    names: list[tuple[Keys, str]] = [(("paths", name), name) for name in form.paths]

    def problem(code: str, where: Keys, what: str, hint: str) -> Problem:
        return Problem(path=file.path, line=file.lines.find(*where), code=code, what=what, hint=hint)

    for key, patterns in (("line", [pattern for pattern, _ in form.patterns]), ("skip", written.skip)):
        for index, pattern in enumerate(patterns):
            names += [((key, index), name) for name in _GROUP.findall(pattern) if key == "line"]
            try:
                compiled(pattern, form.name)
            except ValueError as error:
                hint = "see https://github.com/google/re2/wiki/Syntax; there is no look-around or back-reference"
                yield problem("FSM240", (key, index), f"the regular expression cannot be used: {error}", hint)
    at = replace(form, written=written.model_copy(update={"zone": "Z"})).nanoseconds(_SAMPLE.strftime(written.time))
    if written.time not in {"rfc3339", *_UNITS} and (at is None or not 0 <= _SAMPLE.timestamp() - at / 10**9 < _HOUR):
        hint = f"use rfc3339, {', '.join(_UNITS)}, or a format such as %Y-%m-%d %H:%M:%S,%f"
        yield problem("FSM240", ("time",), f"'{written.time}' is not a format with the date and the hour", hint)
    yield from _misnamed(form, names, problem)
    means = [written.model_dump(include={"entity", "of"}, exclude_defaults=True), *(each for _, each in form.patterns)]
    said = {"fields" if name in written.fields else name for _, name in names}
    said = said.union(*means, *form.tables.get("event", {}).values())
    what = hint = ""
    if bool(form.patterns) == bool(form.paths):
        what, hint = "say how to read a line", "give either line = 'REGULAR EXPRESSION', or a table [paths]"
    elif not said & _SAYING:
        what, hint = "say what happens", "add a group or a path 'event', or fix it: { match = …, event = … }"
    elif "entity" not in said:
        what, hint = "name an entity", "add a group or a path 'entity', or for only one: entity = 'NAME'"
    if what:
        yield problem("FSM241", ("line",) if form.patterns else ("paths",), f"the form does not {what}", hint)


def _misnamed(form: LogForm, names: list[tuple[Keys, str]], problem: Callable[..., Problem]) -> Iterator[Problem]:
    written = form.written
    known = (*FIELDS, TIME, *written.arguments, *written.fields)
    for index, (where, name) in enumerate(names):
        if name not in known:
            hint = f"{nearest(name, known, of='names')}; add it to [arguments] or [fields], or use an unnamed group"
            yield problem("FSM242", where, f"'{name}' has no meaning in a line", hint)
        elif (where, name) in names[:index] or known.count(name) > 1:
            hint = "write a list of patterns, each with this group once, and give other names to arguments"
            yield problem("FSM242", where, f"'{name}' is given twice", hint)
    tables = {"arguments": written.arguments, "fields": written.fields}
    uses: list[tuple[Keys, str]] = [((table, name), name) for table, types in tables.items() for name in types]
    uses += [((key,), _USES[key]) for key in _USES if key in written.model_fields_set]
    given = {name for _, name in names}
    for where, name in uses:
        if name not in given and not (name == "shows" and "met" in given):
            hint = f"add a group (?P<{name}>…) or a path '{name}', or remove it"
            yield problem("FSM242", where, f"'{where[-1]}' is not used, because no line has '{name}'", hint)
