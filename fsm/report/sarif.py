"""Reports as SARIF 2.1.0: clauses and properties are rules, violations are results, and deviations are suppressed."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fsm.errors import DOCUMENTATION
from fsm.machine import Clause
from fsm.machine.findings import Deviated, Finding, Judgement, Violation
from fsm.report import Report, why, words
from fsm.report.json_report import Json, dumped
from fsm.report.lanes import message

if TYPE_CHECKING:
    from fsm.report.cases import Cases

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> str:
    """Return the report as a SARIF log, ending in a newline."""
    rules: dict[str, Json] = {}
    results: list[Json] = []
    notifications: list[Json] = []
    for judged, judgement in report.each():
        if reason := why(judgement):
            notifications.append(_notification("warning", judged.name, f"{judgement.machine.name} unknown, {reason}"))
        notifications += [
            _notification("note", each.file, f"{judgement.machine.name} assumes {words.assumed(each)}", each.line)
            for each in judgement.assumed
        ]
        for finding in report.findings(judgement):
            results += [_violation(report, finding, each, judgement, rules) for each in finding.first]
        results += [_tolerated(each, judgement, rules) for each in judgement.tolerated]
    for each in report.problems:
        wrong = _notification("error", each.path, f"{each.what} [{each.code}]")
        notifications.append(wrong | {"descriptor": {"id": each.code}})
    codes = {each.code: each.link for each in report.problems}
    invocation: Json = {
        "executionSuccessful": not report.problems,
        "exitCode": report.code(),
        "toolExecutionNotifications": notifications,
    }
    described: list[Json] = [{"id": code, "helpUri": link} for code, link in codes.items()]
    return _log(rules, results, invocation, described)


def sarif_cases(cases: Cases) -> str:
    """Return *cases* as a SARIF log.  Known failures are suppressed results, and skipped cases are notifications."""
    rules: dict[str, Json] = {}
    results: list[Json] = []
    levels = {"failed": "error", "surprise": "warning", "known": "note"}
    for each in cases.found:
        if each.status in levels:
            result: dict[str, Json] = {
                "ruleId": _described(f"{each.name}/{each.clause.name}", each.clause, rules),
                "level": levels[each.status],
                "message": {"text": "\n".join(filter(None, (each.what, each.detail)))},
                "locations": [_location(each.file, each.line)],
                "properties": {"suite": each.suite, "clauseLevel": each.clause.level},
            }
            if each.status == "known":
                result["suppressions"] = [
                    {"kind": "external", "justification": "known, and stated where it is claimed"}
                ]
            results.append(result)
    notifications: list[Json] = [
        _notification("warning", each.file, f"{each.title}: {each.what}", each.line)
        for each in cases.found
        if each.status == "skipped"
    ]
    invocation: Json = {
        "executionSuccessful": True,
        "exitCode": cases.answer.value,
        "toolExecutionNotifications": notifications,
    }
    return _log(rules, results, invocation, [])


def _log(rules: dict[str, Json], results: list[Json], invocation: Json, described: list[Json]) -> str:
    driver: Json = {
        "name": "fsm",
        "version": version("container-fsm"),
        "informationUri": DOCUMENTATION,
        "rules": [*rules.values()],
        "notifications": described,
    }
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return dumped({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _violation(
    report: Report, finding: Finding, first: Violation, judgement: Judgement, rules: dict[str, Json]
) -> Json:
    places = {(first.file, first.line): None}
    places |= dict.fromkeys((each.file, each.number) for each in first.lines)
    places |= dict.fromkeys((first.file, each.line) for each in (first.stretch.operations if first.stretch else ()))
    (file, line), *others = places
    return {
        "ruleId": _rule(first.clause, judgement, rules),
        "level": "error" if report.fails(finding) else "warning",
        "message": {"text": message(finding, first, judgement.machine.entity)},
        "locations": [_location(file, line)],
        "relatedLocations": [_location(*each) for each in others],
        # The last reported violation of a cause also counts the violations that are not reported.
        "occurrenceCount": finding.count - len(finding.first) + 1 if first is finding.first[-1] else 1,
        "properties": {"entity": first.observation.entity, "clauseLevel": first.clause.level},
    }


def _tolerated(each: Deviated, judgement: Judgement, rules: dict[str, Json]) -> Json:
    deviation = each.first.deviation
    return {
        "ruleId": _rule(deviation.clause, judgement, rules),
        "level": "note",
        "message": {"text": f"{words.tolerated(each.first)}: {words.done(each.first)}"},
        "locations": [_location(each.first.file, each.first.line)],
        "occurrenceCount": each.count,
        "suppressions": [{"kind": "external", "justification": f"declared in profile {deviation.profile}"}],
    }


def _rule(clause: Clause, judgement: Judgement, rules: dict[str, Json]) -> str:
    kind = "properties/" if clause in [each.clause for each in judgement.properties] else ""
    return _described(f"{judgement.machine.name}/{kind}{clause.name}", clause, rules)


def _described(name: str, clause: Clause, rules: dict[str, Json]) -> str:
    rule: dict[str, Json] = {
        "id": name,
        "shortDescription": {"text": clause.says},
        "fullDescription": {"text": f"{clause.says} ({clause.level}; {clause.source})"},
        "properties": {"level": clause.level, "source": clause.source},
    }
    if clause.link:
        rule["helpUri"] = clause.link
    rules.setdefault(name, rule)
    return name


def _notification(level: str, file: str, text: str, line: int = 0) -> dict[str, Json]:
    place: Json = {"artifactLocation": {"uri": _uri(file)}}
    return {
        "level": level,
        "message": {"text": text},
        "locations": [_location(file, line) if line else {"physicalLocation": place}],
    }


def _location(file: str, line: int) -> Json:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": max(line, 1)}}}


def _uri(file: str) -> str:
    """Return *file* as a URI reference, byte for byte.

    >>> _uri("logs/node 1:a.log"), _uri("/var/log/c.log"), _uri("-")
    ('logs/node%201%3Aa.log', 'file:///var/log/c.log', 'stdin')
    """
    if file == "-":
        return "stdin"
    return Path(file).as_uri() if file.startswith("/") else quote(os.fsencode(file))
