"""Write reports as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from msgspec import to_builtins

from fsm.errors import harmless
from fsm.machine.findings import Assumed, Deviated, Finding, Judgement, Violation
from fsm.monitor.provenance import provenance
from fsm.recordings.line_reader import FOREIGN
from fsm.report import Report, single, words
from fsm.trace import Line, Observation

if TYPE_CHECKING:
    from fsm.monitor.judgement.part import Story

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def json(report: Report, *, indent: int | None = 2) -> str:
    document: Json = {
        "verdict": "error" if report.problems else report.total().word,
        "fail_on": report.fail_on,
        "recordings": [
            {
                **picked(judged, file="name", kind="form.title", version="version?", detected="detected?"),
                "verdict": report.of(judged).word,
                "notes": dict(judged.notes),
                "foreign": _lines(judged.places.get(FOREIGN, ())),
                "places": {note: _lines(lines) for note, lines in judged.places.items()},
                "machines": [_judgement(report, judgement) for judgement in judged.judgements],
                "stories": [_story(story) for story in judged.stories],
            }
            for judged in report.judged
        ],
        "problems": [
            {"file": problem.path, **record(problem, "path"), "line": problem.line or None, "link": problem.link}
            for problem in report.problems
        ],
    }
    return dumped(document, indent=indent)


def violation_line(report: Report, violation: Violation) -> str:
    return dumped(_finding(report, single(violation)), indent=None)


def json_escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def dumped(document: Json, *, indent: int | None = 2) -> str:
    r"""Return *document* as JSON with a final newline, on a single line if *indent* is ``None``.

    Invalid UTF-8 is replaced, and terminal control characters are escaped:

    >>> print(dumped("\udcff.log\u202e"), end="")
    "?.log\u202e"
    """
    written = dumps(document, ensure_ascii=False, indent=indent).encode("utf-8", "replace").decode()
    return harmless(written, json_escape) + "\n"


def record(found: object, *without: str) -> dict[str, Json]:
    """Convert a record to a dictionary without the fields in *without*. Empty strings become ``None``.

    >>> from fsm.machine.findings import Edit, Repair
    >>> record(Edit(repair=Repair.MISSING, instead="")), record(Edit(repair=Repair.MISSING), "instead")
    ({'repair': 'missing', 'instead': None}, {'repair': 'missing'})
    """
    fields: dict[str, Json] = to_builtins(found)
    return {name: _nulls(value) for name, value in fields.items() if name not in without}


def picked(found: object, /, *names: str, **others: str) -> dict[str, Json]:
    """Convert selected attributes to a dictionary. *others* maps additional keys to dotted paths.

    If a path ends in ``?``, an empty value becomes ``None``.

    >>> from fsm.trace import Line
    >>> picked(Line("a.log", 0), "file", line="number", at="number?")
    {'file': 'a.log', 'line': 0, 'at': None}
    """
    values: dict[str, Json] = {}
    for key, path in (*((name, name) for name in names), *others.items()):
        value = to_builtins(attrgetter(path.rstrip("?"))(found))
        values[key.rstrip("?")] = value or None if path.endswith("?") else value
    return values


def _lines(lines: Iterable[Line]) -> list[Json]:
    return [picked(line, "file", line="number") for line in lines]


def _nulls(value: Json) -> Json:
    match value:
        case "":
            return None
        case dict():
            return {name: _nulls(each) for name, each in value.items()}
        case list():
            return [each if isinstance(each, str) else _nulls(each) for each in value]
        case _:
            return value


def _story(story: Story) -> Json:
    return {
        **picked(story, machine="machine.name", entity="entity", names="names"),
        "steps": [
            {
                **picked(step.place, "file", line="number"),
                "at": words.moment(step.seen.at) or None,
                **_observation_data(step.seen, "event", "phase", "reply", "shows", "met", "output", "detail"),
                **picked(step, "before", "after"),
                "violations": [violation_data(violation) for violation in step.violations],
                **picked(step, "tolerated"),
                "why": [record(provenance(followed_step)) for followed_step in step.followed if story.until],
            }
            for step in story.steps
        ],
    }


def _judgement(report: Report, judgement: Judgement) -> Json:
    return {
        "machine": judgement.machine.name,
        "verdict": report.answer(judgement).word,
        "why": judgement.why or None,
        **picked(judgement, "entities", "observations"),
        "notes": dict(judgement.notes),
        "findings": [_finding(report, finding) for finding in report.findings(judgement)],
        "tolerated": [_tolerated_data(deviated) for deviated in judgement.tolerated],
        "assumed": [_assumption_data(each) for each in judgement.assumed],
        "cells": {event: {**row} for event, row in words.nested(judgement.covered.cells).items()},
        "fields": dict(judgement.covered.fields),
        "properties": [{**record(prop.clause), **picked(prop, "status", "why?")} for prop in judgement.properties],
    }


def _finding(report: Report, finding: Finding) -> Json:
    first = finding.first[0]
    return {
        "kind": report.word(finding),
        "what": words.what(first),
        **picked(finding, "count", "others", "entities"),
        "clause": record(first.clause),
        "first": [violation_data(each) for each in finding.first],
    }


def violation_data(violation: Violation) -> Json:
    seen, stretch = violation.observation, violation.stretch
    return {
        **picked(violation, "file", "line"),
        "at": words.moment(seen.at) or None,
        **picked(violation, entity="observation.entity", cause="cause", illegal="illegal?", found="found?"),
        **_observation_data(seen, "event", "reply", "shows", "met", "output", "detail"),
        "before": list(violation.before),
        "allowed": {permission.state: list(permission.what) for permission in violation.permitted},
        "edits": [record(edit) for edit in violation.edits],
        "resembles": [record(deviation, "event", "clause") for deviation in violation.resembles],
        "stretch": None
        if stretch is None
        else {
            **record(stretch),
            "operations": [_operation(operation) for operation in stretch.operations],
            "beside": [_operation(each) for each in stretch.beside],
        },
        "lines": _lines(violation.lines),
    }


def _operation(seen: Observation) -> Json:
    return {"line": seen.line, **_observation_data(seen, "process", "event", "reply", "shows", "start", "end")}


def _observation_data(seen: Observation, *words: str) -> dict[str, Json]:
    found = record(seen)  # This leaves out fields that are not set.
    return {word: found.get(word) for word in words}


def _assumption_data(event: Assumed) -> Json:
    seen = event.observation
    return {
        "event": seen.event,
        "after": words.moment(seen.start) or None,
        "before": words.moment(seen.end if seen.end is not None else seen.at) or None,
        **picked(event, "file", "line"),
    }


def _tolerated_data(deviated: Deviated) -> Json:
    first = deviated.first
    return {
        **picked(deviated, "count", file="first.file", line="first.line"),
        "at": words.moment(first.observation.at) or None,
        "entity": first.observation.entity,
        "deviation": record(first.deviation, "event", "clause"),
        "or": [record(other, "event", "clause") for other in first.others],
        "clause": record(first.deviation.clause),
    }
