"""Open files as recordings: detect the kind of a recording and read its observations.

Four kinds are recognised by the first line that matches one of them: containerd logs in any of their formats, CRI calls
recorded at a client, NRI events recorded at a plugin, and the project's own trace format. Lines that match none are
counted. A history of concurrent operations is recognised by its first form and read as a whole. containerd's checkpoint
files are recognised by their names. Any kind except a history may also be stored as a table of observations
(:mod:`fsm.recordings.tables`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from fsm.errors import documented, of_extra, refused
from fsm.recordings import checkpoints, containerd_log, cri_calls, histories, json_lines, nri_events
from fsm.recordings.histories import RecordedHistory
from fsm.recordings.json_lines import TraceHeader
from fsm.recordings.line_reader import PIECE, LineReader, LineSequence, Piece, decoded, size_of
from fsm.recordings.log_entries import entry
from fsm.recordings.log_reader import AHEAD, LogReader
from fsm.recordings.notes import Notes
from fsm.recordings.restarts import Restarts
from fsm.trace import Batch, Line, Observation, batch


class RecordingKind(Enum):
    """The kind of a recording."""

    LOG = "containerd log"
    CALLS = "CRI calls"
    EVENTS = "NRI events"
    COMBINED = "NRI events and calls of one run"
    TRACE = "trace"
    CHECKPOINTS = "containerd checkpoints"
    HISTORY = "history of concurrent operations"
    NOTHING = "nothing known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An open recording: its kind, the signals that it shows, and its observations, which are read lazily.

    ``machines`` are the default machines to judge it against. ``shown`` has the signals that it shows, or is ``None``
    if it shows all. ``hidden`` has those that it does not show. ``version()`` returns the version of containerd that
    wrote the log, once everything has been read. ``history`` has the operations of a history. ``pods`` maps each
    container named in a plugin's events so far to its pod. ``names`` maps the entities of a log to the names that
    people use for them. If ``relative`` is true, times do not count from the epoch.
    """

    name: str
    kind: RecordingKind
    machines: tuple[str, ...]
    batches: Iterator[Batch]
    notes: Notes
    shown: frozenset[str] | None = None
    hidden: tuple[str, ...] = ()
    fresh: bool = False
    relative: bool = False
    outputs: bool = False
    version: Callable[[], str] = str
    history: RecordedHistory | None = None
    pods: Mapping[str, str] | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _Kind(NamedTuple):
    machines: tuple[str, ...] = ()
    shown: frozenset[str] | None = None
    outputs: bool = False


_LOG: Final = _Kind(machines=("container-status", "pod-sandbox"), shown=containerd_log.SHOWN)
KINDS: Final[Mapping[RecordingKind, _Kind]] = {
    RecordingKind.LOG: _LOG,
    RecordingKind.CALLS: _Kind(machines=("cri-container", "cri-pod"), shown=cri_calls.SHOWN),
    RecordingKind.EVENTS: _Kind(machines=("nri-plugin-contract",), shown=nri_events.SHOWN, outputs=True),
    RecordingKind.CHECKPOINTS: _Kind(machines=("container-status",), shown=frozenset()),
    RecordingKind.NOTHING: _LOG,
}
"""Maps each kind of recording to the fields that follow from it."""


def about(text: str, name: str) -> RecordingKind | TraceHeader:
    """Return the recording kind or trace header in *text*, from the table *name*. An empty *text* means a trace.

    >>> about("CRI calls", "calls.parquet")
    <RecordingKind.CALLS: 'CRI calls'>
    """
    if text in {"", RecordingKind.TRACE.value}:
        return TraceHeader(trace=1)
    kinds = {each.value: each for each in KINDS if each is not RecordingKind.NOTHING}
    found = kinds.get(text) or json_lines.header(text.encode())
    if found is not None:
        return found
    what = f"has rows of '{text}', which is neither a kind of recording nor the header of a trace"
    raise refused(name, "FSM212", what, f"kinds: {', '.join(kinds)}")


def recorded(known: RecordingKind | TraceHeader, name: str, batches: Iterator[Batch], notes: Notes) -> Recording:
    """Return the recording *name* of the *known* kind, or with the *known* trace header."""
    if isinstance(known, TraceHeader):
        return Recording(
            name=name,
            kind=RecordingKind.TRACE,
            machines=(known.machine,) if known.machine else (),
            hidden=known.unseen,
            fresh=known.fresh,
            relative=known.relative,
            batches=batches,
            notes=notes,
        )
    return Recording(name=name, kind=known, batches=batches, notes=notes, **KINDS[known]._asdict())


class Source(Protocol):
    """A source of lines other than a single whole file."""

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None]) -> Iterator[Piece]: ...


class _Reader(Protocol):
    """Turns consecutive lines into observations. It may hold some of them back until a pause or a gap."""

    def paused(self, quiet: int) -> Iterable[tuple[int | Line, Observation]]: ...

    def gap(self) -> Iterable[tuple[int | Line, Observation]]: ...


class _Sniffed(msgspec.Struct):
    trace: int | None = None
    op: str | None = None
    ts: int | None = None
    event: str | None = None
    entity: str | None = None
    phase: str | None = None


_DEFAULT: Final = Restarts()
SUFFIXES: Final = (".parquet", ".arrow")
"""File name suffixes of tables."""

PARQUET: Final = b"PAR1"
ARROW: Final = b"ARROW1"
"""Magic bytes of Parquet and Arrow files."""
_SNIFFER: Final = msgspec.json.Decoder(_Sniffed)


def kind_of(line: bytes) -> RecordingKind:
    """Return the kind of recording that *line* belongs to.

    >>> kind_of(b'{"op": "StopContainer", "id": "c1", "code": "OK"}')
    <RecordingKind.CALLS: 'CRI calls'>
    """
    if entry(line) is not None:  # first, because containerd's fields may have any name, even "event" and "op"
        return RecordingKind.LOG
    found = decoded(line, _SNIFFER)
    if found is None:
        return RecordingKind.NOTHING
    if found.trace is not None or found.entity is not None or found.phase is not None:
        return RecordingKind.TRACE
    if found.op is not None:
        return RecordingKind.CALLS
    if found.event is not None:
        return RecordingKind.TRACE if found.ts is None else RecordingKind.EVENTS
    return RecordingKind.NOTHING


def open_recording(
    name: str,
    advanced: Callable[[int], None] = lambda _: None,
    *,
    restarts: Restarts = _DEFAULT,
    as_called: bool = False,
    source: Source | None = None,
    settle: int | None = None,
    lenient: bool = False,
) -> Recording:
    """Open the recording in the file *name*, or the checkpoints in the directory *name*.

    Raise :class:`InputError` if the file cannot be opened. If lines of a trace cannot be read, raise it at the end.

    Args:
        name: ``-`` is standard input.
        advanced: Called with the size in bytes of each piece that is read.
        restarts: Where to assume that the runtime restarted.
        as_called: If true, leave out what calls imply for entities that they do not name, and give both ends of a call
            their times.
        source: If given, read the lines from it.
        settle: Nanoseconds for which an earlier line may still arrive. Observations that must be sorted by time are
            returned after this time, or at the end if *settle* is not given.
        lenient: If true, count the lines of a trace that cannot be read. This is implied by *settle*.
    """
    notes = Notes()
    if source is None and is_table(name):
        tables = of_extra("fsm.recordings.tables", name, extra="fast")
        recording: Recording = tables.recording(name, notes, advanced, restarts=restarts, as_called=as_called)
        return recording
    if found := () if source else checkpoints.files(name):
        notes["lines"] = len(found)
        return recorded(RecordingKind.CHECKPOINTS, name, iter([batch(checkpoints.observations(found))]), notes)
    if source is None:
        reader = LineReader(name=name, notes=notes, advanced=advanced)
        data = reader.data()
        start = next(data, b"")
        _check_lines(name, start)
        if histories.recognised(start):
            return _history(name, chain([start], data), notes)
        pieces = reader.pieces(chain([start], data))
        begun = [next(pieces, Piece(first=1, lines=[]))]
    else:
        pieces = source.pieces(notes, advanced)
        begun = _begun(pieces)
        _check_lines(name, b"\n".join(begun[0].lines) if begun else b"")
        if begun and histories.recognised(b"\n".join(begun[0].lines)):
            hint = "a history is judged as a whole, once it is complete: give its one file"
            raise refused(name, "FSM201", "cannot be followed or put together", hint)
    rest = chain(begun, pieces)
    head = next((each for each in begun if each.lines), Piece(first=1, lines=[]))
    kinds = (kind_of(line) for piece in begun for line in piece.lines)
    kind = next((each for each in kinds if each is not RecordingKind.NOTHING), RecordingKind.NOTHING)
    _check_known(name, kind, head)
    size = 0 if source else size_of(name)
    match kind:
        case RecordingKind.CALLS:
            calls = cri_calls.CriCallReader(notes=notes, restarts=restarts, as_called=as_called, settle=settle)
            return replace(
                recorded(kind, name, _batches(calls.observations, rest, calls, calls.rest), notes),
                version=lambda: calls.version,
            )
        case RecordingKind.EVENTS:
            events = nri_events.NriEventReader(notes=notes)
            found_events = _batches(
                lambda line, number: zip(repeat(number), events.observations(line, number)),
                _at_starts(rest, b'"Configure"'),
                events,
            )
            return replace(recorded(kind, name, found_events, notes), pods=events.pods, version=lambda: events.version)
        case RecordingKind.TRACE:
            title = json_lines.header(head.lines[0]) or TraceHeader(trace=1)
            lenient = lenient or settle is not None
            trace = json_lines.Trace(
                name=name, title=title, lenient=lenient, notes=notes, clocked=as_called, settle=settle, size=size
            )
            return recorded(title, name, _trace(trace, rest), notes)
        case _:
            log = containerd_log.Log(notes=notes, as_called=as_called)
            lines = LogReader(log=log, size=size)
            scanned = lines.scanned(_at_starts(rest, b"starting containerd"), ahead=0 if source else AHEAD)
            found_lines = _batches(lines.observations, scanned, lines, whole=lines.whole)
            return replace(recorded(kind, name, found_lines, notes), version=lambda: log.version, names=log.names)


def matching(name: str) -> list[str]:
    """Return the sorted files in a store that match the pattern *name*, or just *name* if it is not a pattern.

    >>> matching("containerd.log"), matching("s3://logs/node-7.parquet")
    (['containerd.log'], ['s3://logs/node-7.parquet'])
    """
    if "://" not in name or "*" not in name:
        return [name]
    found: list[str] = of_extra("fsm.recordings.tables", name, extra="fast").matching(name)
    return found


def _history(name: str, data: Iterable[bytes], notes: Notes) -> Recording:
    whole = bytearray()
    for piece in data:
        whole += piece
        if len(whole) > histories.LARGEST:
            break
    history = histories.read(name, bytes(whole))
    notes["lines"] = whole.count(b"\n") + (not whole.endswith(b"\n"))
    if history.left_out:
        notes["operations that did nothing"] = history.left_out
    return Recording(
        name=name,
        kind=RecordingKind.HISTORY,
        machines=(history.title.machine,) if history.title.machine else (),
        hidden=history.title.unseen,
        fresh=history.title.fresh,
        batches=iter([batch(history.observations())]),
        notes=notes,
        history=history,
    )


def is_table(name: str) -> bool:
    """Check whether *name* is a URL, a folder of tables, or a file with the suffix or magic bytes of a table."""
    path = Path(name)
    try:
        if path.is_dir():
            return any(each.suffix in SUFFIXES for each in path.iterdir())
        if not path.is_file():
            return "://" in name
        with path.open("rb") as file:
            return path.suffix in SUFFIXES or file.read(6).startswith((PARQUET, ARROW))
    except OSError:  # opening it will report the error
        return False


def _check_lines(name: str, start: bytes) -> None:
    if start.startswith((PARQUET, ARROW)):
        hint = "give the file itself, not compressed, and without --rotated, --follow and --with"
        raise refused(name, "FSM201", "is a table, and has no lines", hint)


def _check_known(name: str, kind: RecordingKind, head: Piece) -> None:
    if kind in {RecordingKind.TRACE, RecordingKind.NOTHING} and (wrong := json_lines.mistake(b"".join(head.lines[:1]))):
        hint = f'it is {{"trace": 1, "machine": "NAME"}}, see {documented("reference/trace-format")}'
        raise refused(name, "FSM212", f"header of a trace: {wrong}", hint, line=head.first)
    if kind is RecordingKind.NOTHING and any(b"\x00" in line.strip(b"\x00") for line in head.lines):
        hint = "give a log or a recording, plain or compressed by gzip or zstd; unpack an archive first"
        raise refused(name, "FSM201", "holds binary data of a kind that fsm does not know", hint)


def _begun(pieces: Iterator[Piece]) -> list[Piece]:
    begun, size = [], 0
    for piece in pieces:
        begun.append(piece)
        size += sum(map(len, piece.lines))
        if size > PIECE or any(kind_of(line) is not RecordingKind.NOTHING for line in piece.lines):
            break
    return [each for each in begun if each.lines or each.gap]


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


def _batches(
    read: Callable[[bytes, int | Line], Iterable[tuple[int | Line, Observation]]],
    pieces: Iterable[Piece],
    reader: _Reader,
    rest: Callable[[], Iterable[tuple[int | Line, Observation]]] = tuple,
    whole: Callable[[Piece], Batch | None] = lambda _: None,
) -> Iterator[Batch]:
    """Yield the batch from *whole* for each piece, or what *read* finds line by line. Finally, yield the *rest*."""
    file = ""
    for piece in pieces:
        if piece.gap:
            yield _of(file, batch(reader.gap()))
        file = piece.file
        if (read_whole := whole(piece)) is not None:
            yield read_whole
            continue
        places = range(piece.first, piece.first + len(piece.lines))
        # Put the file in the line numbers, because observations may be held back until another file is read.
        numbers: Iterable[int | Line] = (Line(file, number) for number in places) if file else places
        found = (each for number, line in zip(numbers, piece.lines, strict=False) for each in read(line, number))
        yield _of(file, batch(found))
        yield _of(file, batch(reader.paused(piece.quiet)))
    yield _of(file, batch(rest()))


def _trace(trace: json_lines.Trace, pieces: Iterable[Piece]) -> Iterator[Batch]:
    for piece in pieces:
        if piece.gap:
            yield trace.gap()
        yield trace.observations(piece.lines, piece.first, partial=piece.partial)
        yield trace.paused(piece.quiet)
    yield trace.rest()


def _of(file: str, found: Batch) -> Batch:
    if not file or not found.observations:
        return found
    return Batch(found.observations, [Line.of(each, file) for each in found.lines])
