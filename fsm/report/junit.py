"""Reports as JUnit XML, with a suite per recording and machine, or per subject, and a case per clause or property."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Final

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from fsm.errors import harmless
from fsm.machine import Clause
from fsm.machine.findings import Finding, Judgement
from fsm.report import ExitCode, Report, why, words
from fsm.report.lanes import message

if TYPE_CHECKING:
    from fsm.report.cases import Cases

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a log can contain but XML 1.0 cannot."""


def junit(report: Report) -> str:
    """Return the report as JUnit XML, ending in a newline.

    Every clause of the machine is a case.  Violations fail it.  Surprises and tolerated deviations are reported
    in its ``system-out``.  It is skipped if none of its cells was exercised, or if the machine's verdict is unknown.
    Each assumed event is a property of the suite.  A recording that could not be judged at all is an error.
    """
    document = JUnitXml("fsm judge")
    for judged, judgement in report.each():
        suite = TestSuite(clean(f"{words.file(judged.name)} {judgement.machine.name}"))
        findings = report.findings(judgement)
        met = judgement.covered.cells
        clauses: dict[Clause, bool] = {}
        for event in judgement.machine.events.values():
            for state, cell in event.cells.items():
                clauses[cell.clause] = clauses.get(cell.clause, False) or met.get((event.name, state), 0) > 0
        for name, count in judgement.covered.fields.items():
            clauses[judgement.machine.requires[name].clause] = count > 0
        clauses |= dict.fromkeys((finding.first[0].clause for finding in findings), True)
        clauses |= dict.fromkeys((each.clause for each in judgement.properties), True)
        for each in judgement.assumed:
            suite.add_property("assumes", clean(words.assumed(each)))
        for clause, exercised in clauses.items():
            mine = [each for each in findings if each.first[0].clause == clause]
            suite.add_testcase(_case(report, clause, mine, judgement, exercised=exercised))
        document.add_testsuite(suite)
    for problem in report.problems:
        case = TestCase(clean(words.file(problem.path)), classname="fsm")
        case.result = [Error(clean(f"{problem.what}: {problem.hint}"), problem.code)]
        suite = TestSuite(clean(words.file(problem.path)))
        suite.add_testcase(case)
        document.add_testsuite(suite)
    return _document(document)


def junit_cases(cases: Cases) -> str:
    """Return *cases* as JUnit XML, with a suite for each subject.  Known failures are reported in ``system-out``."""
    document = JUnitXml(f"fsm {cases.command}")
    for name, found in groupby(cases.found, lambda each: each.suite):
        suite = TestSuite(clean(name))
        for each in found:
            case = TestCase(clean(each.title), classname=f"fsm.{clean(each.name)}")
            if each.status == "failed":
                failure = Failure(clean(each.what), each.clause.level)
                failure.text = clean(f"{each.file}:{each.line}\n{each.detail}")
                case.result = [failure]
            elif each.status == "skipped":
                case.result = [Skipped(clean(each.what))]
            elif each.detail:
                case.system_out = clean(f"{each.status}: {each.what}\n{each.detail}")
            suite.add_testcase(case)
        document.add_testsuite(suite)
    return _document(document)


def _document(document: JUnitXml) -> str:
    document.update_statistics()  # type: ignore[no-untyped-call]  # the method has no annotations
    out = BytesIO()
    document.write(out, pretty=True)
    return out.getvalue().decode("utf-8").rstrip("\n") + "\n"


def _case(
    report: Report, clause: Clause, findings: list[Finding], judgement: Judgement, *, exercised: bool
) -> TestCase:
    watched = next((each for each in judgement.properties if each.clause == clause), None)
    kind = f"{judgement.machine.name}.properties" if watched else judgement.machine.name
    case = TestCase(f"{clause.name} ({clause.level})", classname=f"fsm.{kind}")
    violations = [each for each in findings if report.fails(each)]
    if violations:
        case.result = [_failure(violations, judgement)]
    elif watched and watched.why:
        case.result = [Skipped(clean(f"{watched.status}: {watched.why}"))]
    elif not watched and (reason := why(judgement)) not in {"", *(each.why for each in judgement.properties)}:
        case.result = [Skipped(clean(f"{ExitCode.UNKNOWN.name.lower()}: {reason}"))]
    elif not exercised:
        case.result = [Skipped("not exercised: the recording met none of its cells")]
    notes = [f"surprise: {_finding(each, judgement)}" for each in findings if not report.fails(each)]
    notes += [
        f"tolerated deviation {words.tolerated(each.first)} of {each.first.deviation.profile}: "
        f"{words.often(each.count)}"
        for each in judgement.tolerated
        if each.first.deviation.clause == clause
    ]
    if notes:
        case.system_out = clean("\n\n".join(notes))
    return case


def _failure(findings: list[Finding], judgement: Judgement) -> Failure:
    # Report one failure for all causes, because consumers count and show only one failure per case.
    first = findings[0].first[0]
    more = f", and {words.plural(len(findings) - 1, 'other cause')}" if len(findings) > 1 else ""
    what = f"{words.what(first)} ({words.times(findings[0], judgement.machine.entity)}){more}"
    failure = Failure(clean(what), first.clause.level)
    failure.text = clean("\n\n".join(_finding(each, judgement) for each in findings))
    return failure


def _finding(finding: Finding, judgement: Judgement) -> str:
    first = finding.first[0]
    place = f"{words.file(first.file)}:{first.line}"
    return "\n".join(
        [
            f"{place}: {message(finding, first, judgement.machine.entity)}",
            *([f"at: {at}"] if (at := words.moment(first.observation.at)) else []),
            f"{judgement.machine.entity}: {first.observation.entity}",
            *(f"also at: {words.file(each.file)}:{each.line}" for each in finding.first[1:]),
        ]
    )


def clean(text: str) -> str:
    r"""Replace the characters of *text* that XML cannot contain, and escape terminal control characters.

    >>> print(clean("a\x00\ufffeb"))
    a\x00\ufffdb
    """
    return _FORBIDDEN.sub("\ufffd", harmless(text))
