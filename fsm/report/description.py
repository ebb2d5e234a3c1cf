"""Describe the results of library functions in the same words as the commands."""

from typing import TypeAlias, assert_never

from fsm.conformance.tested import Tested
from fsm.linearizability import Linearizability, Linearizable, NotLinearizable
from fsm.machine.evidence import Examined
from fsm.machine.findings import Judgement, Violation
from fsm.monitor.judgement import Judged
from fsm.recordings.form import TRACE
from fsm.report import Report, check_report, conformance_report, words
from fsm.report.lanes import explained
from fsm.report.layout import Layout
from fsm.report.text import text
from fsm.verdict import Unknown

Describable: TypeAlias = "Judged | Judgement | Violation | Examined | Tested | Linearizability"


def describe(found: Describable, *, width: int = 100) -> str:
    """Describe *found* in lines of at most *width* columns.

    *found* is a result of :func:`fsm.judge`, :func:`fsm.check`, :func:`fsm.conform`, :func:`fsm.linearize` or a
    method of :class:`fsm.Monitor`.

    >>> from fsm.language.library import load
    >>> from fsm.monitor import Monitor
    >>> from fsm.trace import Observation
    >>> pulled = Observation(entity="d1", event="pull", reply="NOT_FOUND")
    >>> (violation,) = Monitor(load("examples/models/door.toml"), fresh=True).observe(pulled)
    >>> describe(violation).splitlines()[0]
    'pull replied NOT_FOUND'
    """
    layout = Layout(width=width)
    match found:
        case Judged():
            lines = text(Report(judged=(found,)), layout)
        case Judgement(machine=machine, observations=number):
            judged = Judged(name=machine.name, form=TRACE, judgements=(found,), notes={"lines": number}, version="")
            lines = text(Report(judged=(judged,)), layout)
        case Violation():
            lines = "\n".join([*layout.wrapped(words.what(found), ""), *layout.reasons(found, edits=False)])
        case Examined():
            lines = check_report.text([found], layout, runs=True)
        case Tested():
            lines = conformance_report.text(found, layout)
        case Linearizable() | NotLinearizable() | Unknown():
            lines = "\n".join(explained(found))
        case _:
            assert_never(found)
    return lines.rstrip("\n")
