"""Recording formats for container runtimes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fsm.errors import InputError, Problem, refused
from fsm.recordings.form import Opening, Recording, RecordingForm, deciding_key, first_line
from fsm.recordings.line_reader import LONGEST, Piece, decoded
from fsm.runtimes.names import status_fields
from fsm.runtimes.recordings import nri_events
from fsm.runtimes.recordings.containerd_log import Log
from fsm.runtimes.recordings.containerd_texts import entry
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.recordings.log_reader import AHEAD, LogReader
from fsm.trace import Line, Nanoseconds, Observation, batch, nanoseconds

if TYPE_CHECKING:
    from fsm.runtimes.reference.container.record import Status

_PATTERNS: Final = (
    "status",
    "*.status.json",
    "*/status",
    "containers/*/status",
    "io.containerd.grpc.v1.cri/containers/*/status",
)

_SUFFIX: Final = ".status.json"


def files(name: str) -> list[Path]:
    path = Path(name)
    try:
        if path.is_file():
            return [path] if path.name == "status" or path.name.endswith(_SUFFIX) else []
        found = {each for pattern in _PATTERNS for each in path.glob(pattern) if each.is_file()}
    except OSError:  # the error will be reported when the file is opened
        return []
    return sorted(found) if name != "-" else []


def observations(found: Sequence[Path]) -> Iterator[tuple[Line, Observation]]:
    """Yield an observation of the state that each checkpoint in *found* contains.

    The path of a checkpoint contains the container's name. Raise :class:`InputError` at the end, listing the files
    that containerd could not read.
    """
    problems = []
    for path in found:
        name = path.name.removesuffix(_SUFFIX) if path.name != "status" else path.resolve().parent.name
        try:
            status = _read(path)
        except (OSError, ValueError) as error:
            hint = "containerd shows such a container as CONTAINER_UNKNOWN; move the file away to judge the others"
            problems.append(
                Problem(path=str(path), line=0, code="FSM213", what=f"the file is not a checkpoint: {error}", hint=hint)
            )
            continue
        shows, fields = status.state().value, status_fields(status)
        yield Line(str(path), 1), Observation(entity=name, of="container", shows=shows, fields=fields)
    if problems:
        raise InputError(problems)


def _read(path: Path) -> "Status":
    from fsm.runtimes.reference.container.record import decode  # noqa: PLC0415  (its package loads a machine)

    with path.open("rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ValueError(f"the file has more than {LONGEST:,} bytes")
    return decode(data)


RESTART: Final = frozenset({"restart"})

STATUS: Final = "ContainerStatus"

_runtime_form: Final = partial(
    RecordingForm,
    contains={"container": "pod"},
    creates={"RunPodSandbox": "", "CreateContainer": "pod"},
    reaches=frozenset({"StopPodSandbox", "RemovePodSandbox"}),
)


class _Times(msgspec.Struct):
    ts: Nanoseconds | None = None
    end: Nanoseconds | None = None
    start: Nanoseconds | None = None


_TIMES: Final = msgspec.json.Decoder(_Times)


def _is_log(head: bytes) -> bool:
    return entry(first_line(head)) is not None  # a log may also have fields named "event" or "op"


def _time_of_entry(line: bytes) -> int | None:
    found = entry(line)
    return None if found is None else nanoseconds(found.at)


def _time(line: bytes) -> int | None:
    times = decoded(line, _TIMES)
    return None if times is None else times.ts or times.end or times.start


def _split_at_starts(pieces: Iterable[Piece], mark: bytes) -> Iterator[Piece]:
    """Split *pieces* before each line that contains *mark*, because another version may have written what follows."""
    for piece in pieces:
        if mark not in piece.data:
            yield piece
            continue
        starts = [at for at, line in enumerate(piece.lines) if mark in line and any(piece.lines[:at])]
        for start, end in pairwise([0, *starts, len(piece.lines)]):
            data = b"\n".join(piece.lines[start:end])
            yield replace(piece, first=piece.first + start, data=data, gap=piece.gap and not start)


def named(version: str) -> str:
    return f"containerd {version}" if version else ""


def _open_log(opening: Opening) -> Recording:
    log = Log(notes=opening.notes, as_called=opening.as_called)
    lines = LogReader(log=log, size=opening.size)
    scanned = lines.scanned(
        _split_at_starts(opening.pieces, b"starting containerd"), ahead=AHEAD if opening.whole else 0
    )
    batches = opening.batches(
        lambda line, number: zip(repeat(number), log.observations(line)), log, pieces=scanned, whole=lines.whole
    )
    found = opening.recorded(batches)
    return replace(found, version=lambda: named(log.version), names=log.names)


def _open_calls(opening: Opening) -> Recording:
    calls = CriCallReader(
        notes=opening.notes, restarts=opening.restarts, as_called=opening.as_called, settle=opening.settle
    )
    batches = opening.batches(calls.observations, calls, rest=calls.rest)
    return replace(opening.recorded(batches), version=lambda: named(calls.version))


def _open_events(opening: Opening) -> Recording:
    events = nri_events.NriEventReader(notes=opening.notes)
    batches = opening.batches(
        lambda line, number: zip(repeat(number), events.observations(line, number)),
        events,
        pieces=_split_at_starts(opening.pieces, b'"Configure"'),
    )
    found = opening.recorded(batches)
    return replace(found, within=events.pods, version=lambda: named(events.version))


def _open_checkpoints(opening: Opening) -> Recording:
    found = files(opening.name)
    opening.notes["lines"] = len(found)
    return opening.recorded(iter([batch(observations(found))]))


def _open_combined(opening: Opening) -> Recording:
    raise refused(opening.name, "FSM206", "the file has the events of a run, but not its calls", "add --with CALLS")


# Not lambdas, which cannot be pickled: forms are pickled together with results.
def _begins_with(key: str, head: bytes) -> bool:
    return deciding_key(head) == key


def _has_checkpoints(name: str) -> bool:
    return bool(files(name))


LOG: Final = _runtime_form(
    name="containerd-log",
    title="containerd log",
    about="logfmt or JSON from containerd, journald or a collector",
    sniff=_is_log,
    open=_open_log,
    time=_time_of_entry,
    machines=("container-status", "pod-sandbox"),
    shown=RESTART,
    ids=True,
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    recorded=RESTART,
    sighted=True,
)
CALLS: Final = _runtime_form(
    name="cri-calls",
    title="CRI calls",
    about="calls that a client made",
    sniff=partial(_begins_with, "op"),
    open=_open_calls,
    time=_time,
    machines=("cri-container", "cri-pod"),
    shown=RESTART,
    ids=True,
    judge="fsm.runtimes.recordings.event_findings:EventFindings",
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    recorded=RESTART,
    calls_only=True,
    intervals=True,
    status=STATUS,
)
EVENTS: Final = _runtime_form(
    name="nri-events",
    title="NRI events",
    about="events a plugin received; --with adds CRI calls or a log",
    sniff=partial(_begins_with, "event"),
    open=_open_events,
    time=_time,
    together="fsm.runtimes.recordings.combined:open_combined",
    steps="fsm.runtimes.recordings.combined:as_recorded",
    machines=("nri-plugin-contract",),
    shown=nri_events.SHOWN,
    outputs=True,
    power="fsm.runtimes.recordings.illegal_edits:StrictReading",
    receiver="plugin",
)
COMBINED: Final = _runtime_form(
    name="nri-events-and-calls",
    title="NRI events and calls of one run",
    open=_open_combined,
    machines=("nri-plugin-contract",),
    ids=True,
    recorded=RESTART,
    intervals=True,
    status=STATUS,
    receiver="plugin",
)
CHECKPOINTS: Final = _runtime_form(
    name="checkpoints",
    title="containerd checkpoints",
    about="the directory in which containerd keeps its containers",
    open=_open_checkpoints,
    claims=_has_checkpoints,
    machines=("container-status",),
    shown=frozenset(),
)
