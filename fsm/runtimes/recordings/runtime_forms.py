"""The forms of recording of container runtimes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Final

import msgspec

from fsm.errors import refused
from fsm.recordings.form import Opening, Recording, RecordingForm, first_line, recorded
from fsm.recordings.line_reader import LineSequence, Piece, decoded
from fsm.runtimes.recordings import checkpoints, nri_events
from fsm.runtimes.recordings.containerd_log import Log
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.recordings.log_entries import entry
from fsm.runtimes.recordings.log_reader import AHEAD, LogReader
from fsm.trace import Nanoseconds, batch, nanoseconds

RESTART: Final = frozenset({"restart"})
"""Signals that happen only where an observation reports them. Exits are not among them: containerd 1.6 does not log
them."""

CONTAINS: Final = {"container": "pod"}
CREATES: Final = {"RunPodSandbox": "", "CreateContainer": "pod"}
STATUS: Final = "ContainerStatus"
REACHES: Final = frozenset({"StopPodSandbox", "RemovePodSandbox"})


class _Keys(msgspec.Struct):
    trace: int | None = None
    op: str | None = None
    ts: int | None = None
    event: str | None = None
    entity: str | None = None
    phase: str | None = None


class _Times(msgspec.Struct):
    ts: Nanoseconds | None = None
    end: Nanoseconds | None = None
    start: Nanoseconds | None = None


_KEYS: Final = msgspec.json.Decoder(_Keys)
_TIMES: Final = msgspec.json.Decoder(_Times)


def _is_log(head: bytes) -> bool:
    return entry(first_line(head)) is not None  # containerd's fields may have any name, even "event" and "op"


def _has(head: bytes, tells: Callable[[_Keys], bool]) -> bool:
    found = decoded(first_line(head), _KEYS)
    if found is None or found.trace is not None or found.entity is not None or found.phase is not None:
        return False
    return tells(found)


def _are_calls(head: bytes) -> bool:
    return _has(head, lambda keys: keys.op is not None)


def _are_events(head: bytes) -> bool:
    return _has(head, lambda keys: keys.op is None and keys.event is not None and keys.ts is not None)


def _time_of_entry(line: bytes) -> int | None:
    found = entry(line)
    return None if found is None else nanoseconds(found.at)


def _time(line: bytes) -> int | None:
    """Return the time in *line* in nanoseconds since the epoch. For a call, this is the time at which it ended."""
    times = decoded(line, _TIMES)
    return None if times is None else times.ts or times.end or times.start


def _at_starts(pieces: Iterable[Piece], mark: bytes) -> Iterator[Piece]:
    """Split *pieces* before each line with *mark*, because another version may have written the lines after it."""
    for piece in pieces:
        if isinstance(piece.lines, LineSequence) and mark not in piece.lines.data:
            yield piece
            continue
        starts = [at for at, line in enumerate(piece.lines) if at and mark in line]
        for start, end in pairwise([0, *starts, len(piece.lines)]):
            lines = piece.lines[start:end]
            yield replace(piece, first=piece.first + start, lines=lines, gap=piece.gap and not start)


def named(version: str) -> str:
    """Return what reports call the program that wrote a recording: ``containerd 1.7.24``, or an empty string."""
    return f"containerd {version}" if version else ""


def _open_log(opening: Opening) -> Recording:
    log = Log(notes=opening.notes, as_called=opening.as_called)
    lines = LogReader(log=log, size=opening.size)
    scanned = lines.scanned(_at_starts(opening.pieces, b"starting containerd"), ahead=AHEAD if opening.whole else 0)
    batches = opening.batches(lines.observations, lines, pieces=scanned, whole=lines.whole)
    found = recorded(LOG, opening.name, batches, opening.notes)
    return replace(found, version=lambda: named(log.version), names=log.names)


def _open_calls(opening: Opening) -> Recording:
    calls = CriCallReader(
        notes=opening.notes, restarts=opening.restarts, as_called=opening.as_called, settle=opening.settle
    )
    batches = opening.batches(calls.observations, calls, rest=calls.rest)
    return replace(recorded(CALLS, opening.name, batches, opening.notes), version=lambda: named(calls.version))


def _open_events(opening: Opening) -> Recording:
    events = nri_events.NriEventReader(notes=opening.notes)
    batches = opening.batches(
        lambda line, number: zip(repeat(number), events.observations(line, number)),
        events,
        pieces=_at_starts(opening.pieces, b'"Configure"'),
    )
    found = recorded(EVENTS, opening.name, batches, opening.notes)
    return replace(found, within=events.pods, version=lambda: named(events.version))


def _open_checkpoints(opening: Opening) -> Recording:
    found = checkpoints.files(opening.name)
    opening.notes["lines"] = len(found)
    return recorded(CHECKPOINTS, opening.name, iter([batch(checkpoints.observations(found))]), opening.notes)


def _open_combined(opening: Opening) -> Recording:
    raise refused(opening.name, "FSM206", "has the events of a run, without its calls", "say --with CALLS")


LOG: Final = RecordingForm(
    name="containerd-log",
    title="containerd log",
    about="logfmt or JSON, of containerd, journald or a collector",
    sniff=_is_log,
    open=_open_log,
    time=_time_of_entry,
    machines=("container-status", "pod-sandbox"),
    shown=RESTART,
    ids=True,
    contains=CONTAINS,
    creates=CREATES,
    reaches=REACHES,
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    recorded=RESTART,
    sighted=True,
)
CALLS: Final = RecordingForm(
    name="cri-calls",
    title="CRI calls",
    about="seen by a client",
    sniff=_are_calls,
    open=_open_calls,
    time=_time,
    machines=("cri-container", "cri-pod"),
    shown=RESTART,
    ids=True,
    contains=CONTAINS,
    creates=CREATES,
    reaches=REACHES,
    judge="fsm.runtimes.recordings.event_findings:EventFindings",
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    recorded=RESTART,
    calls_only=True,
    intervals=True,
    status=STATUS,
)
EVENTS: Final = RecordingForm(
    name="nri-events",
    title="NRI events",
    about="seen by a plugin; --with CRI calls or a containerd log",
    sniff=_are_events,
    open=_open_events,
    time=_time,
    together="fsm.runtimes.recordings.combined:open_combined",
    steps="fsm.runtimes.recordings.plugin_steps:as_recorded",
    machines=("nri-plugin-contract",),
    shown=nri_events.SHOWN,
    outputs=True,
    contains=CONTAINS,
    creates=CREATES,
    reaches=REACHES,
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    receiver="plugin",
)
COMBINED: Final = RecordingForm(
    name="nri-events-and-calls",
    title="NRI events and calls of one run",
    sniff=lambda _: False,
    open=_open_combined,
    machines=("nri-plugin-contract",),
    ids=True,
    contains=CONTAINS,
    creates=CREATES,
    reaches=REACHES,
    recorded=RESTART,
    intervals=True,
    status=STATUS,
    receiver="plugin",
)
CHECKPOINTS: Final = RecordingForm(
    name="checkpoints",
    title="containerd checkpoints",
    about="the directory in which containerd keeps its containers",
    sniff=lambda _: False,
    open=_open_checkpoints,
    claims=lambda name: bool(checkpoints.files(name)),
    machines=("container-status",),
    shown=frozenset(),
    contains=CONTAINS,
    creates=CREATES,
    reaches=REACHES,
)
