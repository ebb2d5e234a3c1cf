"""The report as GitHub workflow commands: annotations on the lines of the recording."""

from fsm.report import ExitCode, Report, why, words
from fsm.report.lanes import message


def github(report: Report) -> str:
    """One command a cause, ending in a newline; a notice where there is none."""
    lines = []
    for judged, judgement in report.each():
        machine = judgement.machine
        for finding in report.findings(judgement):
            first = finding.first[0]
            title = f"{first.clause.level} {machine.name}/{first.clause.name}"
            kind = "error" if report.fails(finding) else "warning"
            lines.append(_command(kind, first.file, first.line, title, message(finding, first, machine.entity)))
        for each in judgement.tolerated:
            deviation = each.first.deviation
            title = f"tolerated deviation {words.tolerated(each.first)} of {deviation.profile}"
            about = f"{words.done(each.first)} ({words.often(each.count)})"
            lines.append(_command("notice", each.first.file, each.first.line, title, about))
        for assumed in judgement.assumed:
            title = f"{machine.name} assumes a {assumed.observation.event}"
            lines.append(_command("notice", assumed.file, assumed.line, title, words.assumed(assumed)))
        if report.answer(judgement) is report.of(judged) is ExitCode.UNKNOWN:
            lines.append(_command("warning", judged.name, 1, f"{machine.name} unknown", why(judgement)))
    lines += [
        _command("error", each.path, max(each.line, 1), each.code, f"{each.what}\n{each.hint}")
        for each in report.problems
    ]
    if not lines:
        lines = [f"::notice title=fsm::{report.total().name.lower()}"]
    return "\n".join(lines) + "\n"


def _command(kind: str, file: str, line: int, title: str, message: str) -> str:
    if file == "-":  # no file of the repository that could be annotated
        return f"::{kind} title={_property(title)}::{_data(f'standard input, line {line}: {message}')}"
    return f"::{kind} file={_property(file)},line={line},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    """*text* as the workflow parser wants it.

    >>> _data("100%\\nsure")
    '100%25%0Asure'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
