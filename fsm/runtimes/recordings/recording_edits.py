"""Make single edits of a recording, legal or not: flip a reply, change a state, or drop, double or move lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from fsm.mutation.power import ID, EditedLines, RecordingEdit
from fsm.recordings.line_reader import decoded
from fsm.runtimes.names import CONTAINER_CALLS, MAKES, POD_CALLS
from fsm.runtimes.recordings.cri_calls import LOST, CriCallLine
from fsm.runtimes.recordings.nri_events import DECODER
from fsm.runtimes.recordings.recorded_acts import TimedCall, timed

STATES: Final = (b"CONTAINER_CREATED", b"CONTAINER_RUNNING", b"CONTAINER_EXITED", b"CONTAINER_UNKNOWN")
LATE: Final = 1_000_000  # number of nanoseconds by which a late event follows the end of its call

_CODES: Final = {"UNKNOWN": "Unknown", "NOT_FOUND": "NotFound"}
_FIXED: Final = (b"created_at", b"started_at", b"finished_at", b"exit_code")
_STATE: Final = re.compile(rb'(?<="state": ")\w+')
_CODE: Final = re.compile(rb'"code": "\w*"')
_DETAIL: Final = re.compile(rb'"detail": "(?:[^"\\]|\\.)*"')
_LOGGED: Final = re.compile(
    rb'((?:Create|Start|Stop|Remove)Container|(?:Stop|Remove)PodSandbox) (?:within sandbox |for )?\\"'
)
_ERROR: Final = re.compile(rb'"error":"(?:[^"\\]|\\.)*",|(?<=failed") error="(?:[^"\\]|\\.)*"')
_TIME: Final = re.compile(rb'(?:time(?:=|":)"|"ts": )[^",}]*')

_Timed: TypeAlias = Callable[[EditedLines, EditedLines], EditedLines]
"""A function that returns its first argument with the times of its second argument."""


class _Unit(NamedTuple):
    """Lines that are edited together: an event, or a call and the status it read. ``identity`` is the entity's id."""

    event: str
    identity: bytes
    pod: bool
    indices: tuple[int, ...]


def edits_of_calls(lines: Sequence[bytes]) -> Iterator[RecordingEdit]:
    """Yield edits of recorded CRI calls."""
    units: list[_Unit] = []
    reads: dict[str, int] = {}
    for number, call, _, _ in timed(lines):
        index, line = number - 1, lines[number - 1]
        if call.op == "status":
            yield from _data_edits(index, line)
            for state in STATES:
                if state.decode() != call.state:
                    yield _edit(
                        "state changed", f"{call.state} → {state.decode()}", {index: (_STATE.sub(state, line),)}
                    )
            if call.id in reads:
                unit = units[reads[call.id]]
                units[reads.pop(call.id)] = unit._replace(indices=(*unit.indices, index))
        elif call.op in CONTAINER_CALLS | POD_CALLS:
            if call.op == "ContainerStatus" and call.code == "OK":
                reads[call.id] = len(units)
            units.append(_Unit(call.op, call.id.encode(), call.op in POD_CALLS - {"CreateContainer"}, (index,)))
            yield from _reply_edits(index, line, call)
    yield from _unit_edits(units, lines, _with_times_of_call)


def _reply_edits(index: int, line: bytes, call: CriCallLine) -> Iterator[RecordingEdit]:
    if call.op in MAKES or call.code in LOST:
        return
    for code in _CODES if call.code == "OK" else ("OK",):
        flipped = _CODE.sub(f'"code": "{code}"'.encode(), _DETAIL.sub(b'"detail": ""', line))
        yield _edit("reply flipped", f"{call.op} {call.code} → {code}", {index: (flipped,)})


def _data_edits(index: int, line: bytes) -> Iterator[RecordingEdit]:
    for name in _FIXED:
        for value in _number(name).findall(line)[:1]:
            edited = _number(name).sub(str(int(value) + 1).encode(), line)
            yield _edit("data changed", f"{name.decode()} {value.decode()} + 1", {index: (edited,)})


def edits_of_log(lines: Sequence[bytes]) -> Iterator[RecordingEdit]:
    """Yield edits of those lines of a containerd log that are about calls."""
    units: list[_Unit] = []
    for index, line in enumerate(lines):
        found, ids = _LOGGED.search(line), ID.findall(line)
        if found is None or not ids:
            continue
        call = found[1].decode()
        units.append(_Unit(call, ids[-1], call in POD_CALLS - {"CreateContainer"}, (index,)))
        if b"returns successfully" in line:
            for code in _CODES.values():
                yield _edit("reply flipped", f"{call} OK → {code}", {index: (_as_failure(line, code),)})
        elif b'\\" failed"' in line and call not in MAKES:
            fine = _ERROR.sub(b"", line).replace(b' failed"', b' returns successfully"')
            yield _edit("reply flipped", f"{call} failed → OK", {index: (fine,)})
    yield from _unit_edits(units, lines, _with_time_of)


def _as_failure(line: bytes, code: str) -> bytes:
    error = f"rpc error: code = {code} desc = planted".encode()
    failed = line.replace(b'PodSandbox \\"', b'PodSandbox for \\"').replace(b" returns successfully", b" failed")
    return b'{"error":"' + error + b'",' + failed[1:] if line.startswith(b"{") else failed + b' error="' + error + b'"'


def edits_of_events(lines: Sequence[bytes], calls: Iterable[TimedCall]) -> Iterator[RecordingEdit]:
    """Yield edits of a plugin's events, including edits that delay an event until after the end of one of *calls*."""
    units: list[_Unit] = []
    made = [(call.id, start, end) for _, call, start, end in calls if call.code == "OK"]
    events = {index: event for index, line in enumerate(lines) if (event := decoded(line, DECODER))}
    times = {index: event.ts for index, event in events.items() if event.ts}
    for index, at in times.items():
        event = events[index]
        if not event.pod:
            continue
        identity = event.container or event.pod
        units.append(_Unit(event.event, identity.encode(), not event.container, (index,)))
        ends = [end for about, start, end in made if about == identity and start <= at <= end]
        if ends:
            late = max(ends) + LATE
            moved = _number(b"ts").sub(str(late).encode(), lines[index])
            after = max(each for each, ts in times.items() if ts < late)
            yield _edit(
                "told late", event.event, {index: ()} | {after: (lines[after], moved) if after != index else (moved,)}
            )
    yield from _unit_edits(units, lines, _with_time_of)


def _unit_edits(units: Sequence[_Unit], lines: Sequence[bytes], timed_as: _Timed) -> Iterator[RecordingEdit]:
    for number, unit in enumerate(units):
        own = tuple(lines[index] for index in unit.indices)
        yield _edit("line dropped", unit.event, dict.fromkeys(unit.indices, ()))
        yield _edit("line doubled", unit.event, {unit.indices[-1]: (own[-1], *own)})
        later = next((each for each in units[number + 1 :] if each.identity == unit.identity), None)
        if later is not None and later.indices[0] > unit.indices[-1]:
            others = tuple(lines[index] for index in later.indices)
            moved = {unit.indices[0]: timed_as(others, own), later.indices[0]: timed_as(own, others)}
            changes = dict.fromkeys((*unit.indices, *later.indices), ()) | moved
            # Two requests of the same call may be identical, and if either has no time, neither can be moved.
            if moved[unit.indices[0]] != own and moved[later.indices[0]] != others:
                yield _edit("lines moved", f"{unit.event} and {later.event}", changes)
        alike = (
            each.identity for each in reversed(units[:number]) if each.pod == unit.pod and ID.fullmatch(each.identity)
        )
        other = next((each for each in alike if each != unit.identity), None)
        if other is not None and ID.fullmatch(unit.identity):
            renamed = {index: (lines[index].replace(unit.identity, other),) for index in unit.indices}
            yield _edit("id exchanged", unit.event, renamed)


def _with_times_of_call(lines: EditedLines, of: EditedLines) -> EditedLines:
    """Return *lines* with the times of the call *of*, or *of* itself if it has no times.

    EditedLines after the first are statuses, which are read when the call ends.
    """
    starts, ends = (_number(name).findall(of[0]) for name in (b"start", b"end"))
    if not starts or not ends:
        return of
    start, end = starts[0], ends[0]
    first = _number(b"start").sub(start, _number(b"end").sub(end, lines[0]))
    return (first, *(_number(b"start").sub(end, line) for line in lines[1:]))


def _with_time_of(lines: EditedLines, of: EditedLines) -> EditedLines:
    times = _TIME.findall(of[0])
    return tuple(_TIME.sub(lambda _: times[0], line) for line in lines) if times else of


def _number(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'(?<="' + name + rb'": )\d+')


def _edit(kind: str, what: str, changes: Mapping[int, EditedLines]) -> RecordingEdit:
    return RecordingEdit(kind=kind, what=what, line=min(changes) + 1, changes=changes)
