"""Verdicts on a recording as marks in a sequence chart, and charts of the steps around a violation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from fsm.diagrams.draw.sequence import SequenceChart
from fsm.diagrams.recorded_chart import Mark, recorded_chart
from fsm.diagrams.recorded_entities import RecordedEntity
from fsm.diagrams.recorded_steps import CallPairs, ChartStep, ChosenSteps
from fsm.machine import Machine
from fsm.machine.findings import Illegal, Judgement, Tolerated, Violation
from fsm.monitor.judgement import Judged
from fsm.monitor.judgement.part import Step, Story
from fsm.recordings.form import RecordingForm
from fsm.report import words
from fsm.trace import Line, Observation

# Number of observations in a chart before and after the violation.
BEFORE: Final = 8
AFTER: Final = 2


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


def violation_chart(story: Story, number: int, form: RecordingForm) -> SequenceChart:
    """Return a chart of the steps around step *number* of *story*, with violations marked."""
    shown = story.steps[max(0, number - BEFORE) : number + AFTER + 1]
    entity = RecordedEntity(story.machine.entity, story.entity)
    steps = ChosenSteps(
        files=tuple(dict.fromkeys(each.place.file for each in shown)),
        form=form,
        steps=tuple(_paired(shown, story.machine, entity)),
        entities=(entity,),
        chosen=entity,
    )
    marks = (violation_mark(violation) for step in shown for violation in step.violations)
    return recorded_chart(steps, [replace(mark, seen=_called(mark.seen, story.machine)) for mark in marks])


def _called(seen: Observation, machine: Machine) -> Observation:
    event = machine.events.get(seen.event)
    return structs.replace(seen, event=(event and event.rpc) or seen.event, of=machine.entity)


def _paired(steps: Sequence[Step], machine: Machine, entity: RecordedEntity) -> Iterator[ChartStep]:
    calls = CallPairs()
    for order, step in enumerate(steps):
        seen = _called(step.seen, machine)
        made = ChartStep(lines=(step.place,), seen=seen, entity=entity if seen.entity else None, order=order)
        calls.add(made, (None,))
        yield made
