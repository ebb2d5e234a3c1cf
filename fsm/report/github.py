"""Reports as GitHub workflow commands: annotations on the lines of recordings, models and property files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.errors import harmless
from fsm.report import ExitCode, Report, why, words
from fsm.report.lanes import message

if TYPE_CHECKING:
    from fsm.report.cases import Cases


def github(report: Report) -> str:
    """Return one command per cause, or per violation with ``report.every``, or a notice if there are none."""
    lines = []
    for judged, judgement in report.each():
        machine = judgement.machine
        for finding in report.findings(judgement):
            kind = "error" if report.fails(finding) else "warning"
            for each in finding.first if report.every else finding.first[:1]:
                title = f"{each.clause.level} {machine.name}/{each.clause.name}"
                lines.append(_command(kind, each.file, each.line, title, message(finding, each, machine.entity)))
        for met in judgement.tolerated:
            title = f"tolerated deviation {words.tolerated(met.first)} of {met.first.deviation.profile}"
            about = f"{words.done(met.first)} ({words.often(met.count)})"
            lines.append(_command("notice", met.first.file, met.first.line, title, about))
        for assumed in judgement.assumed:
            title = f"{machine.name} assumes a {assumed.observation.event}"
            lines.append(_command("notice", assumed.file, assumed.line, title, words.assumed(assumed)))
        if report.answer(judgement) is report.of(judged) is ExitCode.UNKNOWN:
            lines.append(_command("warning", judged.name, 1, f"{machine.name} unknown", why(judgement)))
    lines += [
        _command("error", wrong.path, max(wrong.line, 1), wrong.code, f"{wrong.what}\n{wrong.hint}")
        for wrong in report.problems
    ]
    return _commands(lines, report.total())


def github_cases(cases: Cases) -> str:
    """Return one command for each case that did not pass, or a notice if all passed.  The text ends in a newline."""
    kinds = {"failed": "error", "surprise": "warning", "known": "notice", "skipped": "notice"}
    lines = [
        _command(kinds[each.status], each.file, each.line, f"{each.name} {each.title}", each.detail or each.what)
        for each in cases.found
        if each.status in kinds
    ]
    return _commands(lines, cases.answer)


def _commands(lines: list[str], answer: ExitCode) -> str:
    return "\n".join(lines or [f"::notice title=fsm::{answer.name.lower()}"]) + "\n"


def _command(kind: str, file: str, line: int, title: str, message: str) -> str:
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
