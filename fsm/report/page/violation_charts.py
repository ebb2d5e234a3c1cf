"""Sequence charts of the steps around a violation in a recording, made from the story of one entity."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from fsm.diagrams.draw.sequence import SequenceChart
from fsm.diagrams.recorded_chart import recorded_chart
from fsm.diagrams.recorded_entities import RecordedEntity
from fsm.diagrams.recorded_steps import CallPairs, ChartStep, ChosenSteps
from fsm.machine import Machine
from fsm.monitor.judgement.part import Step, Story
from fsm.recordings.form import RecordingForm
from fsm.report.chart_marks import violation_mark
from fsm.trace import Observation

BEFORE: Final = 8
AFTER: Final = 2
"""Number of observations in a chart before and after the violation."""


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
    marks = (violation_mark(each) for step in shown for each in step.violations)
    return recorded_chart(steps, [replace(each, seen=_called(each.seen, story.machine)) for each in marks])


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
