"""Cases as GitHub workflow commands: annotations on the lines of recordings, models and property files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.errors import harmless
from fsm.report.cases import Case, Remark

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
