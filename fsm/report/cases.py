"""Test cases with locations in files, and their formats: GitHub workflow commands, SARIF and JUnit XML.

This module makes the cases of ``fsm judge``. The reports of ``fsm check`` and ``fsm test`` make their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote

from fsm.errors import DOCUMENTATION, WRONG_INPUT, Problem, harmless
from fsm.machine import Clause
from fsm.machine.findings import Judgement, Violation
from fsm.report import ExitCode, Report, words
from fsm.report.json_report import Json, dumped
from fsm.report.lanes import message
from fsm.trace import Line

if TYPE_CHECKING:
    from junitparser import TestCase

    from fsm.monitor.judgement import Judged

# *known* is a tolerated deviation or a documented failure. *skipped* cases were not decided. *untried* cases were not
# exercised, and are listed only in JUnit.
CaseStatus: TypeAlias = Literal["passed", "failed", "surprise", "known", "skipped", "untried"]

RemarkStatus: TypeAlias = Literal["assumed", "unknown", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    suite: str  # the recording, or the subject of the test
    name: str  # the machine, followed by /properties for the properties of a recording
    clause: Clause
    at: Line
    status: CaseStatus
    what: str = ""  # why the case did not pass, in one line
    detail: str = ""  # the evidence, below a line that states the finding
    excuse: str = "known failure, which is documented with the property"  # why this is not a failure
    facts: tuple[str, ...] = ()  # further labelled lines
    entity: str = ""
    others: tuple[Line, ...] = ()  # other places that are part of the evidence
    count: int = 0  # 0 if the number is unknown
    again: bool = False  # whether the previous case has the same cause

    @property
    def title(self) -> str:
        return f"{self.clause.name} ({self.clause.level})"

    @property
    def text(self) -> str:
        return f"{self.title}: {self.what}"

    @property
    def rule(self) -> str:
        return f"{self.name}/{self.clause.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """An assumed event, or the reason for an unknown verdict. ``name`` is the name of the machine."""

    suite: str
    name: str
    at: Line
    status: RemarkStatus  # idle: the recording has nothing to do with the machine
    what: str

    @property
    def title(self) -> str:
        return f"{self.name} {'assumes an event' if self.status == 'assumed' else 'unknown'}"

    @property
    def text(self) -> str:
        return f"{self.name} {'assumes' if self.status == 'assumed' else 'unknown,'} {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    command: str
    found: tuple[Case | Remark, ...]
    answer: ExitCode
    problems: tuple[Problem, ...] = ()  # why some recordings could not be judged at all
    every: bool = False  # show all cases instead of one per cause


def cases(report: Report) -> Cases:
    found = tuple(case for each in report.judgements() for case in _cases(report, *each))
    return Cases(command="judge", found=found, answer=report.total(), problems=report.problems, every=report.every)


def _cases(report: Report, judged: Judged, judgement: Judgement) -> Iterator[Case | Remark]:
    machine, reason = judgement.machine, judgement.why
    suite = f"{words.file(judged.name)} {machine.name}"
    remark = partial(Remark, suite=suite, name=machine.name)
    if reason:
        unknown = report.answer(judgement) is report.of(judged) is ExitCode.UNKNOWN
        yield remark(at=Line(judged.name, 0), status="unknown" if unknown else "idle", what=reason)
    for event in judgement.assumed:
        yield remark(at=Line(event.file, event.line), status="assumed", what=words.assumed(event))
    watched = {prop.clause: prop for prop in judgement.properties}

    def case(clause: Clause) -> Callable[..., Case]:
        name = f"{machine.name}/properties" if clause in watched else machine.name
        return partial(Case, suite=suite, clause=clause, name=name)

    undecided = reason if reason not in {each.why for each in judgement.properties} else ""
    for clause, exercised in _clauses(judgement).items():
        seen = watched.get(clause)
        skipped = (f"{seen.status}: {seen.why}" if seen.why else "") if seen else undecided and f"unknown: {undecided}"
        unmet = "" if exercised or seen else "not exercised: the recording reached no cell of the clause"
        what = skipped or unmet
        yield case(clause)(at=Line(judged.name, 0), status="untried" if what else "passed", what=what)
    for finding in report.findings(judgement):
        for number, each in enumerate(finding.first, 1):
            at, entity = words.moment(each.observation.at), each.observation.entity
            yield case(each.clause)(
                at=Line(each.file, each.line),
                status="failed" if report.fails(finding) else "surprise",
                what=f"{words.what(each)} ({words.times(finding, machine.entity)})",
                detail=message(finding, each, machine.entity),
                facts=(*([f"at: {at}"] if at else []), f"{machine.entity}: {entity}"),
                entity=entity,
                others=_other_lines(each),
                # The count of the last reported violation includes the violations that were not reported.
                count=finding.count - number + 1 if number == len(finding.first) else 1,
                again=number > 1,
            )
    for met in judgement.tolerated:
        first, deviation = met.first, met.first.deviation
        what = f"tolerated deviation {words.tolerated(first)} of {deviation.profile}"
        yield case(deviation.clause)(
            at=Line(first.file, first.line),
            status="known",
            what=what,
            detail=f"{what}: {words.done(first)} ({words.often(met.count)})",
            excuse=f"declared in profile {deviation.profile}",
            entity=first.observation.entity,
            count=met.count,
        )


def _clauses(judgement: Judgement) -> dict[Clause, bool]:
    covered = judgement.covered
    found: dict[Clause, bool] = {}
    for event in judgement.machine.events.values():
        for state, cell in event.cells.items():
            found[cell.clause] = found.get(cell.clause, False) or covered.cells.get((event.name, state), 0) > 0
    found |= {judgement.machine.requires[name].clause: count > 0 for name, count in covered.fields.items()}
    broken = (each.first[0].clause for each in judgement.findings)
    return found | dict.fromkeys((*broken, *(each.clause for each in judgement.properties)), True)


def _other_lines(violation: Violation) -> tuple[Line, ...]:
    first, stretch = Line(violation.file, violation.line), violation.stretch
    lines = [*violation.lines, *(Line(violation.file, each.line) for each in (stretch.operations if stretch else ()))]
    return tuple(each for each in dict.fromkeys(lines) if each != first)


def near(path: str, line: int) -> Line:
    """Return the place, with *path* relative to the current directory if it is inside that directory.

    Some tools expect paths that are relative to a repository.
    """
    below = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117  (the path is text)
    return Line(path if below.startswith(os.pardir) else below, max(line, 1))


_KINDS: Final = {
    "failed": "error",
    "surprise": "warning",
    "known": "notice",
    "skipped": "notice",
    "assumed": "notice",
    "unknown": "warning",
}


def github(cases: Cases) -> str:
    """Return a workflow command for each cause, or for each case if ``cases.every`` is true.

    If there is nothing to report, return a notice with the verdict.
    """
    lines = []
    for each in cases.found:
        kind = _KINDS.get(each.status)
        if kind and isinstance(each, Remark):
            lines.append(_command(kind, *each.at, each.title, each.what))
        elif kind and isinstance(each, Case) and (cases.every or not each.again):
            lines.append(_command(kind, *each.at, f"{each.clause.level} {each.rule}", each.detail or each.what))
    lines += (
        _command("error", each.path, each.line, each.code, f"{each.what}\n{each.hint}") for each in cases.problems
    )
    return "\n".join(lines or [f"::notice title=fsm::{cases.answer.word}"]) + "\n"


def _command(kind: str, file: str, line: int, title: str, message: str) -> str:
    line = max(line, 1)
    place = f"file={_property(file)},line={line},"
    if file == "-":  # Standard input cannot be annotated.
        place, message = "", f"standard input, line {line}: {message}"
    return f"::{kind} {place}title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    """Escape *text* for a workflow command.

    >>> _data("100%\\nsure")
    '100%25%0Asure'
    """
    return harmless(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS: Final = {"failed": "error", "surprise": "warning", "known": "note"}
_NOTIFICATIONS: Final = {"skipped": "warning", "assumed": "note", "unknown": "warning", "idle": "warning"}


def sarif(cases: Cases) -> str:
    """Return a SARIF log. Remarks and skipped cases become notifications."""
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
    driver: Json = {
        "name": "fsm",
        "version": version("container-fsm"),
        "informationUri": DOCUMENTATION,
        "rules": [*rules.values()],
        "notifications": [{"id": code, "helpUri": link} for code, link in codes.items()],
    }
    invocation: Json = {
        "executionSuccessful": not cases.problems,
        "exitCode": WRONG_INPUT if cases.problems else cases.answer.value,
        "toolExecutionNotifications": notifications,
    }
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
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
    """Return *file* as a URI reference. Bytes that are not UTF-8 are preserved.

    >>> _uri("logs/node 1:a.log"), _uri("/var/log/c.log"), _uri("-")
    ('logs/node%201%3Aa.log', 'file:///var/log/c.log', 'stdin')
    """
    if file == "-":
        return "stdin"
    return Path(file).as_uri() if file.startswith("/") else quote(os.fsencode(file))


# Characters that XML 1.0 does not allow.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(cases: Cases) -> str:
    """Return the cases as JUnit XML.

    Violations are failures, and so are properties and sizes that differ from what their file states. A recording that
    could not be judged is an error, and a case that was not decided is skipped. Surprises, tolerated deviations and
    known failures are in the ``system-out`` of the case. Assumed events are properties of the suite.
    """
    from junitparser import Error, JUnitXml, TestCase, TestSuite  # noqa: PLC0415  (an XML library loads slowly)

    document = JUnitXml(f"fsm {cases.command}")
    for name, found in groupby(cases.found, attrgetter("suite")):
        suite = TestSuite(clean(name))
        listed = [*found]
        for entry in listed:
            if entry.status == "assumed":
                suite.add_property("assumes", clean(entry.what))
        tried = words.grouped(((each.name, each.clause), each) for each in listed if isinstance(each, Case))
        for those in tried.values():
            suite.add_testcase(_case(those))
        document.add_testsuite(suite)
    for problem in cases.problems:
        name = clean(words.file(problem.path))
        case, suite = TestCase(name, classname="fsm"), TestSuite(name)
        case.result = [Error(clean(f"{problem.what}: {problem.hint}"), problem.code)]
        suite.add_testcase(case)
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]  # the method has no annotations
    out = BytesIO()
    document.write(out, pretty=True)
    return out.getvalue().decode("utf-8").rstrip("\n") + "\n"


def _case(found: list[Case]) -> TestCase:
    from junitparser import Failure, Skipped, TestCase  # noqa: PLC0415  (see above)

    case = TestCase(clean(found[0].title), classname=clean(f"fsm.{found[0].name.replace('/', '.')}"))
    statuses = words.grouped((each.status, each) for each in found)
    if failed := statuses.get("failed", []):
        # Report only one failure per case, because many tools show only one.
        others = sum(not each.again for each in failed) - 1
        more = f", and {words.plural(others, 'other cause')}" if others else ""
        case.result = [Failure(clean(failed[0].what + more), failed[0].clause.level)]
        case.result[0].text = clean("\n\n".join(_texts(failed)))
    elif skipped := next((each for each in found if each.status in {"skipped", "untried"}), None):
        case.result = [Skipped(clean(skipped.what))]
    notes = [f"{kind}: {text}" for kind in ("surprise", "known") for text in _texts(statuses.get(kind, []))]
    if notes:
        case.system_out = clean("\n\n".join(notes))
    return case


def _texts(found: Iterable[Case]) -> list[str]:
    texts: list[str] = []
    for each in found:
        place = f"{words.file(each.at.file)}:{each.at.number}"
        if each.again:
            texts[-1] += f"\nalso at: {place}"
        else:
            texts.append("\n".join([f"{place}: {each.detail or each.what}", *each.facts]))
    return texts


def clean(text: str) -> str:
    r"""Replace characters that XML does not allow, and escape terminal control characters.

    >>> print(clean("a\x00\ufffeb"))
    a\x00\ufffdb
    """
    return _FORBIDDEN.sub("\ufffd", harmless(text))
