"""A recording without inferences: only requests, replies, and what was received and logged.

For judging, the effects of calls on pods become observations of their containers, and so does what must have happened
before a plugin received an event. Here, every observation is one that a file contains.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs

from fsm.recordings import RecordingKind, open_recording
from fsm.recordings.combined import RecordedPoint, called, check_kinds, received
from fsm.recordings.nri_events import CONNECTS, NriEvent, NriEventReader
from fsm.recordings.restarts import Restarts
from fsm.trace import Line, Observation


class RecordedStep(NamedTuple):
    """An observation and its line."""

    line: Line
    seen: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class AsRecorded:
    """The observations of one or two files in order of time, as a stream that can be read only once.

    ``pods`` maps the containers in a plugin's events to their pods, as far as the events have been read.
    """

    files: tuple[str, ...]
    kind: RecordingKind
    machines: tuple[str, ...]
    steps: Iterator[RecordedStep]
    pods: Mapping[str, str] = field(default_factory=dict)


def as_recorded(name: str, calls: str = "") -> AsRecorded:
    """Open the recording in the file *name*. NRI events may be combined with the *calls* of the same run.

    Raise :class:`fsm.errors.InputError` if a file cannot be opened, or if *calls* are given with files of other kinds.
    """
    if calls:
        check_kinds(name, calls)
    recording = open_recording(name, restarts=Restarts(assume="none"), as_called=True)
    if recording.kind is not RecordingKind.EVENTS:
        steps = (
            RecordedStep(Line.of(line, recording.name), seen)
            for part in recording.batches
            for seen, line in zip(part.observations, part.lines, strict=True)
            if seen.entity or not seen.output  # leave out failed relays, which have no entity
        )
        return AsRecorded(files=(name,), kind=recording.kind, machines=recording.machines, steps=steps)
    events = NriEventReader()
    points = received(name, events)
    if calls:
        points = heapq.merge(points, called(open_recording(calls, as_called=True)), key=lambda point: point.at)
    return AsRecorded(
        files=(name, calls) if calls else (name,),
        kind=RecordingKind.COMBINED if calls else recording.kind,
        machines=recording.machines,
        steps=_points(points, events),
        pods=events.pods,
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
                    elif seen.event:  # listed by Synchronize when the plugin connected
                        yield RecordedStep(
                            point.line, structs.replace(seen, output=f"Synchronize: {seen.event.removeprefix('sync-')}")
                        )
