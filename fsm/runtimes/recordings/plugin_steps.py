"""Read the events that a plugin received and the calls of the same run, without drawing conclusions from them."""

import heapq
from collections.abc import Iterator

from msgspec import structs

from fsm.recordings import AsRecorded, RecordedStep, open_recording
from fsm.runtimes.recordings.combined import RecordedPoint, called, check_calls, received
from fsm.runtimes.recordings.nri_events import CONNECTS, NriEvent, NriEventReader
from fsm.runtimes.recordings.runtime_forms import COMBINED, EVENTS
from fsm.trace import Observation


def as_recorded(name: str, calls: str) -> AsRecorded:
    if calls:
        check_calls(calls)
    events = NriEventReader()
    points = received(name, events)
    if calls:
        points = heapq.merge(points, called(open_recording(calls, as_called=True)), key=lambda point: point.at)
    return AsRecorded(
        files=(name, calls) if calls else (name,),
        form=COMBINED if calls else EVENTS,
        machines=EVENTS.machines,
        steps=_points(points, events),
        within=events.pods,
    )


def _points(points: Iterator[RecordedPoint], events: NriEventReader) -> Iterator[RecordedStep]:
    for point in points:
        match point.what:
            case Observation() as seen if seen.entity or not seen.output:
                yield RecordedStep(point.line, seen)
            case Observation() | None:
                pass
            case NriEvent() as event if event.connects:
                yield RecordedStep(point.line, Observation(event=CONNECTS, at=event.ts))
            case event:
                for seen in events.observed(event):
                    if seen.output:
                        yield RecordedStep(point.line, seen)
                    elif seen.event:  # Synchronize listed the entity when the plugin connected
                        yield RecordedStep(
                            point.line, structs.replace(seen, output=f"Synchronize: {seen.event.removeprefix('sync-')}")
                        )
