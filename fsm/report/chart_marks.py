"""Verdicts on a recording as marks in a sequence chart."""

from collections.abc import Iterable, Iterator

from fsm.diagrams.recorded_chart import Mark
from fsm.machine.findings import Illegal, Judgement, Tolerated, Violation
from fsm.monitor.judgement import Judged
from fsm.report import words
from fsm.trace import Line


def marks(judged: Iterable[Judged]) -> tuple[Mark, ...]:
    """Return the marks of single observations, without duplicates and in the order of the machines.

    If the recording was judged with ``every``, they include every violation and every tolerated deviation.  Otherwise,
    they include the first few violations of each cause and the first tolerated deviation of each name.
    """
    found = (mark for each in judged for judgement in each.judgements for mark in _marks(judgement))
    return tuple({(mark.line, mark.seen.entity, mark.text): mark for mark in found}.values())


def _marks(judgement: Judgement) -> Iterator[Mark]:
    if isinstance(judgement.verdict, Illegal):
        for finding in judgement.verdict.findings:
            yield from map(violation_mark, finding.first)
    for tolerated in judgement.tolerated:
        yield from map(_tolerated, tolerated.whole or (tolerated.first,))
    for assumed in judgement.assumed:
        text = f"assumed: {words.assumed(assumed)}"
        line = Line(assumed.file, assumed.line)
        whole = f"{text}, which no line shows, and without which the rest is not legal"
        yield Mark(kind="assumed", line=line, seen=assumed.observation, text=text, whole=whole)


def violation_mark(violation: Violation) -> Mark:
    """Return the mark of the observation of *violation*."""
    clause = violation.clause
    what = words.what(violation)
    about = f"clause {clause.name} ({clause.level}): {clause.says} ({clause.source})"
    return Mark(
        kind="violation",
        line=Line(violation.file, violation.line),
        seen=violation.observation,
        text=f"{clause.name} ({clause.level}): {what}",
        whole="; ".join(
            [what, *words.reasons(violation), about, *(f"known: {each}" for each in words.known(violation))]
        ),
    )


def _tolerated(met: Tolerated) -> Mark:
    name = f"tolerated: {words.tolerated(met)} of {met.deviation.profile}"
    return Mark(
        kind="tolerated",
        line=Line(met.file, met.line),
        seen=met.observation,
        text=name,
        whole=f"{name}: {words.done(met)}",
    )
