"""The log of a job queue as a form of recording. Each line reports one event of one job."""

import re

from fsm import Observation
from fsm.recordings.form import RecordingForm, first_line
from fsm.trace import nanoseconds

LINE = re.compile(rb"(?P<time>\S+Z) queue: (?P<event>[a-z]+) (?P<job>\S+)(?: -> (?P<reply>\w+))?")


def observation(line: bytes) -> Observation | None:
    """Return what *line* reports, or ``None`` if it is not a line of the log.

    >>> observation(b"2026-11-26T10:00:00.125Z queue: take mail-1 -> ok")
    Observation(entity='mail-1', of='job', event='take', reply='ok', at='2026-11-26T10:00:00.125Z')
    """
    found = LINE.fullmatch(line.rstrip())
    if found is None:
        return None
    time, event, job, reply = (text.decode(errors="replace") for text in found.groups(default=b""))
    return Observation(entity=job, of="job", event=event, reply=reply, at=time)


def time_of(line: bytes) -> int | None:
    """Return the time of *line* in nanoseconds since 1970; ``--rotated`` sorts files by this time."""
    seen = observation(line)
    return nanoseconds(seen.at) if seen else None


JOB_LOG = RecordingForm(
    name="job-log",
    title="job log",
    sniff=lambda head: observation(first_line(head)) is not None,
    open=lambda opening: opening.by_line(observation),
    time=time_of,
    machines=("job",),
    ids=True,
)
