"""The report as GitHub workflow commands: annotations on the lines of the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.reporting import words

if TYPE_CHECKING:
    from fsm.reporting import Report


def github(report: Report) -> str:
    """One command a cause, ending in a newline; a notice where there is none."""
    lines = []
    for judged, judgement in report.each():
        for finding in report.findings(judgement):
            first = finding.first[0]
            message = (
                f"{words.what(first)} ({words.times(finding, judgement.machine.entity)})\n"
                f"before: {words.before(first)}\nallowed: {words.allowed(first)}\nlegal if: {words.edits(first)}\n"
                f"clause: {first.clause.says} ({first.clause.source})"
            )
            known = "".join(f"\nknown: {words.resembles(each)}" for each in first.resembles)
            title = f"{first.clause.level} {judgement.machine.name}/{first.clause.name}"
            kind = "error" if report.fails(finding) else "warning"
            lines.append(_command(kind, judged.name, first.line, title, message + known))
        for each in judgement.tolerated:
            deviation = each.first.deviation
            title = f"tolerated deviation {deviation.name} of {deviation.profile}"
            lines.append(_command("notice", judged.name, each.first.line, title, f"{deviation.about} ({each.count} times)"))
    if not lines:
        lines = [f"::notice title=fsm::{report.total().name.lower()}"]
    return "\n".join(lines) + "\n"


def _command(kind: str, file: str, line: int, title: str, message: str) -> str:
    return f"::{kind} file={_property(file)},line={line},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    """*text* as the workflow parser wants it.

    >>> _data("100%\\nsure")
    '100%25%0Asure'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
