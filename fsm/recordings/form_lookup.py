"""Find a form of recording by its name: of fsm, of another package, or of a file that describes a log as data."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fsm import entry_points
from fsm.errors import InputError, Problem, contents, is_file, nearest, refused
from fsm.language.form_file import WrittenLogForm, WrittenMeaning
from fsm.language.library import is_path
from fsm.language.read import File, parse, table_at
from fsm.language.read.toml import LARGEST, Keys
from fsm.recordings.form import HISTORY, TRACE, RecordingForm
from fsm.recordings.log_form import FIELDS, LINE, PHASES, SAYING, TIME, UNITS, LogForm, Meaning, compiled

FOLDER: Final = "forms"
PROJECT: Final = "pyproject.toml"
_TABLE: Final = ("tool", "fsm", "form")
_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?P?<(\w+)>")
_HOUR: Final = 3_600
_SAMPLE: Final = datetime(2026, 11, 27, 22, 20, 30, tzinfo=UTC)


def form_named(name: str) -> RecordingForm:
    """Return the form *name*: the path of a form file, a known name, or the name of a form of the current folder."""
    if is_path(name):
        return _form(name, Path(name).stem)
    generic = {each.name: each for each in (TRACE, HISTORY)}
    found = generic.get(name) or entry_points.find(entry_points.FORMS, name, RecordingForm)
    file, project = Path(FOLDER, f"{name}.toml"), _forms_of_project()
    places = ["fsm or an installed package"] * bool(found) + [str(file)] * is_file(file) + [PROJECT] * (name in project)
    if len(places) > 1:
        what = f"several forms have this name: those of {' and '.join(places)}"
        raise refused(name, "FSM241", what, "rename one of them, or give the path of the file")
    if found:
        return found
    if places:
        return _form(str(file), name) if is_file(file) else _form(PROJECT, name, at=(*_TABLE, name))
    known = [*generic, *entry_points.own(entry_points.FORMS), *entry_points.foreign_names(entry_points.FORMS)]
    known += [*project, *sorted(each.stem for each in Path(FOLDER).glob("*.toml"))]
    hint = f"{nearest(name, known, of='forms')}; a form of your own is the file {file}"
    raise refused(name, "FSM220", "this is not the name of a form of recording", hint)


def _forms_of_project() -> Mapping[str, Any]:
    return table_at(_content(PROJECT), _TABLE, path=PROJECT) if is_file(PROJECT) else {}


def _content(path: str) -> bytes:
    hint = f"give the name of a form, or the path of a file such as {FOLDER}/pool.toml"
    return contents(path, most=LARGEST, code="FSM240", hint=hint)


def _form(path: str, name: str, at: Keys = ()) -> RecordingForm:
    file = parse(_content(path), WrittenLogForm, path=path, at=at)
    written = file.written
    tables: dict[str, dict[str, Meaning]] = {
        "event": {word: _meaning(each) for word, each in written.events.items()},
        "phase": {word: {"phase": each} for word, each in written.phases.items()} or PHASES,
        "reply": {word: {"reply": each} for word, each in written.replies.items()},
        "shows": {word: {"shows": each} for word, each in written.shows.items()},
        "met": {word: {"met": each} for word, each in written.shows.items()},
    }
    form = LogForm(
        name=name,
        patterns=tuple((pattern, meaning) for _, pattern, meaning in _patterns(written)),
        paths={each: (*(path.split(".") if isinstance(path, str) else path),) for each, path in written.paths.items()},
        skip=_listed(written.skip),
        tables={each: table for each, table in tables.items() if table},
        arguments=written.arguments,
        fixed={each: text for each in ("entity", "of") if (text := getattr(written, each))},
        time=written.time,
        zone=written.zone,
        relative=written.clock == "relative",
        fresh=written.fresh,
        unseen=tuple(written.unseen),
    )
    check = _Check(file=file, form=form)
    if problems := [*check.problems()]:
        raise InputError(sorted(problems, key=lambda problem: problem.line))
    folder = Path(path).parent
    return RecordingForm(
        name=name,
        title=written.title or name,
        sniff=_is_never_recognised,
        open=form.open,
        time=form.time_of if TIME in check.names else None,
        machines=tuple(str(folder / each) if is_path(each) else each for each in _listed(written.machine)),
        strict=True,
    )


def _is_never_recognised(_head: bytes) -> bool:
    return False


def _listed(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _meaning(each: str | WrittenMeaning) -> Meaning:
    return {"event": each} if isinstance(each, str) else each.model_dump(exclude={"match"}, exclude_none=True)


def _patterns(written: WrittenLogForm) -> Iterator[tuple[Keys, str, Meaning]]:
    listed = isinstance(written.line, list)
    for index, each in enumerate(written.line if isinstance(written.line, list) else [written.line]):
        where: Keys = ("line", index) if listed else ("line",)
        yield (where, each, {}) if isinstance(each, str) else (where, each.match, _meaning(each))


class _Check:
    """Finds the errors in a form that concern several of its words. ``names`` are those of all groups and paths."""

    def __init__(self, *, file: File[WrittenLogForm], form: LogForm) -> None:
        self.file, self.form, self.names = file, form, {*form.paths}

    def problems(self) -> Iterator[Problem]:
        form, written = self.form, self.file.written
        for where, pattern, _ in _patterns(written):
            yield from self._pattern(where, pattern)
        for index, pattern in enumerate(form.skip):
            yield from self._pattern(("skip", index), pattern, groups=False)
        for name in form.paths:
            yield from self._name(("paths", name), name, (LINE,))
        yield from self._lines()
        for name in sorted({*FIELDS, TIME, LINE} & form.arguments.keys()):
            what = f"the argument '{name}' has the name of a part of each line"
            yield self._problem("FSM244", ("arguments", name), what, "give the argument another name")
        for key, name in (("events", "event"), ("phases", "phase"), ("replies", "reply"), ("shows", "shows")):
            if getattr(written, key) and not self.names & ({name, "met"} if name == "shows" else {name}):
                yield self._unused((key,), f"the table '{key}'", name)
        for name in form.arguments.keys() - self.names - {*FIELDS, TIME, LINE}:
            yield self._unused(("arguments", name), f"the argument '{name}'", name)
        for key in sorted({"time", "zone", "clock"} & written.model_fields_set if TIME not in self.names else set()):
            yield self._unused((key,), f"'{key}'", TIME)
        if wrong := _wrong_format(form):
            hint = f"use rfc3339, {', '.join(UNITS)}, or a format with the date and the time, like %Y-%m-%d %H:%M:%S,%f"
            yield self._problem("FSM246", ("time",), f"'{form.time}' {wrong}", hint)

    def _lines(self) -> Iterator[Problem]:
        form = self.form
        said = {name for meaning in (form.fixed, *(each for _, each in form.patterns)) for name in meaning}
        said |= {name for meaning in form.tables.get("event", {}).values() for name in meaning} | self.names
        if not form.patterns and not form.paths:
            what, hint = (
                "the form does not say how to read a line",
                "add line = 'REGULAR EXPRESSION', or a table [paths]",
            )
        elif form.paths and bool(form.patterns) != (LINE in form.paths):
            what = f"for JSON lines, 'line' and the path '{LINE}' belong together, but the form has only one of them"
            hint = "the path leads to the text that 'line' matches; add the missing one, or remove the other"
        elif not said & SAYING:
            what, hint = (
                "no line says what happens",
                "add a group or a path 'event', or fix it: { match = …, event = … }",
            )
        elif "entity" not in said:
            what, hint = "no line names its entity", "add a group or a path 'entity', or for only one: entity = 'NAME'"
        else:
            return
        yield self._problem("FSM243", ("line",) if form.patterns else ("paths",), what, hint)

    def _pattern(self, where: Keys, pattern: str, *, groups: bool = True) -> Iterator[Problem]:
        try:
            compiled(pattern, self.form.name)
        except ValueError as error:
            hint = "see https://github.com/google/re2/wiki/Syntax; there is no look-around or back-reference"
            yield self._problem("FSM242", where, f"the regular expression cannot be used: {error}", hint)
            return
        found = _GROUP.findall(pattern) if groups else ()
        for name in dict.fromkeys(found):
            yield from self._name(where, name)
            if found.count(name) > 1 or name in self.form.paths:
                what = f"'{name}' is given twice"
                yield self._problem("FSM244", where, what, "write a list of patterns, each with this group once")
        self.names.update(found)

    def _name(self, where: Keys, name: str, more: tuple[str, ...] = ()) -> Iterator[Problem]:
        known = (*FIELDS, TIME, *more, *self.form.arguments)
        if name not in known:
            hint = f"{nearest(name, known, of='names')}; name an argument in [arguments], or use a group without a name"
            yield self._problem("FSM244", where, f"'{name}' has no meaning in a line", hint)

    def _unused(self, where: Keys, what: str, name: str) -> Problem:
        hint = f"add a group (?P<{name}>…) or a path '{name}', or remove it"
        return self._problem("FSM245", where, f"{what} is not used, because no line has '{name}'", hint)

    def _problem(self, code: str, where: Keys, what: str, hint: str) -> Problem:
        return Problem(path=self.file.path, line=self.file.lines.find(*where), code=code, what=what, hint=hint)


def _wrong_format(form: LogForm) -> str:
    if form.time == "rfc3339" or form.time in UNITS:
        return ""
    at = replace(form, zone="Z").nanoseconds(_SAMPLE.strftime(form.time))
    lost = at is None or not 0 <= int(_SAMPLE.timestamp()) - at // 10**9 < _HOUR
    return "is not a format of times that contains the year, the month, the day and the hour" if lost else ""
