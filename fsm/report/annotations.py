"""Cases as annotations of code hosts: GitHub workflow commands, and SARIF for code scanning."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fsm.errors import DOCUMENTATION, WRONG_INPUT, harmless
from fsm.report.cases import Case, Remark
from fsm.report.json_report import Json, dumped
from fsm.trace import Line

if TYPE_CHECKING:
    from fsm.report.cases import Cases

_KINDS: Final = {
    "failed": "error",
    "surprise": "warning",
    "known": "notice",
    "skipped": "notice",
    "assumed": "notice",
    "unknown": "warning",
}


def github(cases: Cases) -> str:
    """Return one command per cause, or per case with ``cases.every``, or a notice if there are none."""
    lines = []
    for each in cases.found:
        kind = _KINDS.get(each.status)
        if kind and isinstance(each, Remark):
            lines.append(_command(kind, *each.at, each.title, each.what))
        elif kind and isinstance(each, Case) and (cases.every or not each.again):
            lines.append(_command(kind, *each.at, f"{each.clause.level} {each.rule}", each.detail or each.what))
    for problem in cases.problems:
        what = f"{problem.what}\n{problem.hint}"
        lines.append(_command("error", problem.path, problem.line, problem.code, what))
    return "\n".join(lines or [f"::notice title=fsm::{cases.answer.word}"]) + "\n"


def _command(kind: str, file: str, line: int, title: str, message: str) -> str:
    line = max(line, 1)
    if file == "-":  # standard input cannot be annotated
        return f"::{kind} title={_property(title)}::{_data(f'standard input, line {line}: {message}')}"
    return f"::{kind} file={_property(file)},line={line},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    """Escape *text* for the workflow command parser.

    >>> _data("100%\\nsure")
    '100%25%0Asure'
    """
    return harmless(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


if TYPE_CHECKING:
    from fsm.report.cases import Cases

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS: Final = {"failed": "error", "surprise": "warning", "known": "note"}
_NOTIFICATIONS: Final = {"skipped": "warning", "assumed": "note", "unknown": "warning", "idle": "warning"}


def sarif(cases: Cases) -> str:
    """Return *cases* as a SARIF log, ending in a newline.  Remarks and skipped cases are notifications."""
    rules: dict[str, Json] = {}
    results: list[Json] = []
    notifications: list[Json] = []
    for each in cases.found:
        if level := _NOTIFICATIONS.get(each.status):
            notifications.append(_notification(level, each.at, each.text))
        elif isinstance(each, Case) and each.status in _LEVELS:
            rules.setdefault(each.rule, _rule(each))
            results.append(_result(each))
    for problem in cases.problems:
        wrong = _notification("error", Line(problem.path, problem.line), f"{problem.what} [{problem.code}]")
        notifications.append(wrong | {"descriptor": {"id": problem.code}})
    codes = {each.code: each.link for each in cases.problems}
    driver: dict[str, Json] = {"name": "fsm", "version": version("container-fsm"), "informationUri": DOCUMENTATION}
    driver["rules"] = [*rules.values()]
    driver["notifications"] = [{"id": code, "helpUri": link} for code, link in codes.items()]
    invocation: Json = {
        "executionSuccessful": not cases.problems,
        "exitCode": WRONG_INPUT if cases.problems else cases.answer.value,
        "toolExecutionNotifications": notifications,
    }
    run: dict[str, Json] = {"tool": {"driver": driver}, "invocations": [invocation]}
    run |= {"columnKind": "unicodeCodePoints", "results": results}
    return dumped({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(case: Case) -> Json:
    clause = case.clause
    rule: dict[str, Json] = {
        "id": case.rule,
        "shortDescription": {"text": clause.says},
        "fullDescription": {"text": f"{clause.says} ({clause.level}; {clause.source})"},
        "properties": {"level": clause.level, "source": clause.source},
    }
    return rule | ({"helpUri": clause.link} if clause.link else {})


def _result(case: Case) -> Json:
    whose: dict[str, Json] = {"entity": case.entity} if case.entity else {"suite": case.suite}
    result: dict[str, Json] = {
        "ruleId": case.rule,
        "level": _LEVELS[case.status],
        "message": {"text": case.detail or case.what},
        "locations": [_location(case.at)],
        "properties": {**whose, "clauseLevel": case.clause.level},
    }
    if case.count:
        result |= {"relatedLocations": [_location(each) for each in case.others], "occurrenceCount": case.count}
    if case.status == "known":
        result["suppressions"] = [{"kind": "external", "justification": case.excuse}]
    return result


def _notification(level: str, at: Line, text: str) -> dict[str, Json]:
    place: Json = {"physicalLocation": {"artifactLocation": {"uri": _uri(at.file)}}}
    return {"level": level, "message": {"text": text}, "locations": [_location(at) if at.number else place]}


def _location(at: Line) -> Json:
    region: Json = {"startLine": max(at.number, 1)}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(at.file)}, "region": region}}


def _uri(file: str) -> str:
    """Return *file* as a URI reference, byte for byte.

    >>> _uri("logs/node 1:a.log"), _uri("/var/log/c.log"), _uri("-")
    ('logs/node%201%3Aa.log', 'file:///var/log/c.log', 'stdin')
    """
    if file == "-":
        return "stdin"
    return Path(file).as_uri() if file.startswith("/") else quote(os.fsencode(file))
