"""A recording without inferences, such as the effects of a call on entities that it does not name.

Every observation is one that a file contains.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fsm.entry_points import loaded
from fsm.errors import refused
from fsm.recordings import open_recording
from fsm.recordings.form import RecordingForm
from fsm.recordings.restarts import Restarts
from fsm.trace import Line, Observation


class RecordedStep(NamedTuple):
    """An observation and its line."""

    line: Line
    seen: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class AsRecorded:
    """The observations of one or two files in order of time, as a stream that can be read only once.

    ``within`` maps entities to the entities that contain them, as far as the steps have been read.
    """

    files: tuple[str, ...]
    form: RecordingForm
    machines: tuple[str, ...]
    steps: Iterator[RecordedStep]
    within: Mapping[str, str] = field(default_factory=dict)


def as_recorded(name: str, other: str = "") -> AsRecorded:
    """Open the recording in the file *name*, together with the *other* one of the same run if there is one.

    Raise :class:`fsm.errors.InputError` if a file cannot be opened, or if the two cannot be read together.
    """
    recording = open_recording(name, restarts=Restarts(assume="none"), as_called=True)
    if recording.form.steps:
        special: Callable[[str, str], AsRecorded] = loaded(recording.form.steps)
        return special(name, other)
    if other:
        raise refused(name, "FSM206", f"holds {recording.form.title}, which is read alone", f"leave out {other}")
    steps = (
        RecordedStep(Line.of(line, recording.name), seen)
        for part in recording.batches
        for seen, line in zip(part.observations, part.lines, strict=True)
        if seen.entity or not seen.output  # leave out failed relays, which have no entity
    )
    return AsRecorded(files=(name,), form=recording.form, machines=recording.machines, steps=steps)
