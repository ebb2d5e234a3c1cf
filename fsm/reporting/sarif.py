"""The report as SARIF 2.1.0: clauses are rules, causes are results, deviations are suppressed ones."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fsm.reporting import words
from fsm.reporting.data import Json, dumped

if TYPE_CHECKING:
    from fsm.machine import Clause
    from fsm.reporting import Report
    from fsm.verdict import Deviated, Finding, Judgement

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> str:
    """The report as a SARIF log, ending in a newline."""
    rules: dict[str, Json] = {}
    results: list[Json] = []
    for _, judgement in report.each():
        for finding in report.findings(judgement):
            results.append(_finding(report, finding, judgement, rules))
        for each in judgement.tolerated:
            results.append(_tolerated(each, judgement, rules))
    return dumped(
        {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "fsm",
                            "version": version("container-fsm"),
                            "rules": list(rules.values()),
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "results": results,
                }
            ],
        }
    )


def _finding(report: Report, finding: Finding, judgement: Judgement, rules: dict[str, Json]) -> Json:
    first = finding.first[0]
    text = (
        f"{words.what(first)} ({words.times(finding, judgement.machine.entity)}). "
        f"Possible before: {words.before(first)}. Allowed: {words.allowed(first)}. Legal if: {words.edits(first)}."
    )
    known = " ".join(f"Looks like {words.resembles(each)}" for each in first.resembles)
    return {
        "ruleId": _rule(first.clause, judgement, rules),
        "level": "error" if report.fails(finding) else "warning",
        "message": {"text": f"{text} {known}".strip()},
        "locations": [_location(each.file, each.line) for each in finding.first[:1]],
        "relatedLocations": [_location(each.file, each.line) for each in finding.first[1:]],
        "occurrenceCount": finding.count,
        "properties": {"entity": first.observation.entity, "clauseLevel": first.clause.level},
    }


def _tolerated(each: Deviated, judgement: Judgement, rules: dict[str, Json]) -> Json:
    deviation = each.first.deviation
    return {
        "ruleId": _rule(deviation.clause, judgement, rules),
        "level": "note",
        "message": {"text": f"{deviation.name}: {deviation.about}"},
        "locations": [_location(each.first.file, each.first.line)],
        "occurrenceCount": each.count,
        "suppressions": [{"kind": "external", "justification": f"declared in profile {deviation.profile}"}],
    }


def _rule(clause: Clause, judgement: Judgement, rules: dict[str, Json]) -> str:
    name = f"{judgement.machine.name}/{clause.name}"
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


def _location(file: str, line: int) -> Json:
    name = "stdin" if file == "-" else file
    return {"physicalLocation": {"artifactLocation": {"uri": quote(name)}, "region": {"startLine": max(line, 1)}}}
