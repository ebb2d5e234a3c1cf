"""Edit recordings of container runtimes so that they are certainly illegal.

The edited recording must have one of these errors, which the original does not have:

- In a strict reading (:mod:`fsm.mutation.strict_reading`), an entity in the edited lines contradicts its contract.
- A container is started in a pod that has been stopped.
- Two statuses of a container show different times or exit codes.
- A plugin receives the event of a call after the reply, or not at all.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fsm.language.library import load
from fsm.mutation.power import ID, EditedLines, Illegality, RecordingEdit
from fsm.mutation.strict_reading import Contradiction, RecordedAct, contradiction
from fsm.recordings.form import RecordingForm
from fsm.recordings.line_reader import LineReader, decoded
from fsm.recordings.time_order import Assume, Restarts
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, MAKES, POD, POD_CALLS
from fsm.runtimes.recordings.cri_calls import LOST, CriCallLine
from fsm.runtimes.recordings.nri_events import DECODER
from fsm.runtimes.recordings.recorded_acts import (
    Entity,
    RecordedActs,
    TimedCall,
    acts_of_calls,
    acts_of_log,
    changed,
    of_events,
    timed,
    told,
)
from fsm.runtimes.recordings.runtime_forms import CALLS, EVENTS, LOG

STATES: Final = (b"CONTAINER_CREATED", b"CONTAINER_RUNNING", b"CONTAINER_EXITED", b"CONTAINER_UNKNOWN")
LATE: Final = 1_000_000  # number of nanoseconds from the end of a call to its delayed event

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


class _Unit(NamedTuple):
    event: str
    identity: bytes
    pod: bool
    indices: tuple[int, ...]


def edits_of_calls(lines: Sequence[bytes]) -> Iterator[RecordingEdit]:
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
    units: list[_Unit] = []
    for index, line in enumerate(lines):
        found, ids = _LOGGED.search(line), ID.findall(line)
        if found is None or not ids:
            continue
        call = found[1].decode()
        units.append(_Unit(call, ids[-1], call in POD_CALLS - {"CreateContainer"}, (index,)))
        if b"returns successfully" in line:
            for code in _CODES.values():
                yield _edit("reply flipped", f"{call} OK → {code}", {index: (_failed_line(line, code),)})
        elif b'\\" failed"' in line and call not in MAKES:
            fine = _ERROR.sub(b"", line).replace(b' failed"', b' returns successfully"')
            yield _edit("reply flipped", f"{call} failed → OK", {index: (fine,)})
    yield from _unit_edits(units, lines, _with_time_of)


def _failed_line(line: bytes, code: str) -> bytes:
    error = f"rpc error: code = {code} desc = planted".encode()
    failed = line.replace(b'PodSandbox \\"', b'PodSandbox for \\"').replace(b" returns successfully", b" failed")
    return b'{"error":"' + error + b'",' + failed[1:] if line.startswith(b"{") else failed + b' error="' + error + b'"'


def edits_of_events(lines: Sequence[bytes], calls: Iterable[TimedCall]) -> Iterator[RecordingEdit]:
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
            # Moving identical lines, or lines without times, would not change the recording.
            if moved[unit.indices[0]] != own and moved[later.indices[0]] != others:
                yield _edit("lines moved", f"{unit.event} and {later.event}", changes)
        alike = (
            each.identity for each in reversed(units[:number]) if each.pod == unit.pod and ID.fullmatch(each.identity)
        )
        other = next((each for each in alike if each != unit.identity), None)
        if other is not None and ID.fullmatch(unit.identity):
            renamed = {index: (lines[index].replace(unit.identity, other),) for index in unit.indices}
            yield _edit("id exchanged", unit.event, renamed)


def _with_times_of_call(lines: EditedLines, other: EditedLines) -> EditedLines:
    """Return the *lines* of a call with the times of the *other* call, or *other* itself if that call has no times.

    All lines after the first are statuses, and get the time at which the other call ended.
    """
    starts, ends = (_number(name).findall(other[0]) for name in (b"start", b"end"))
    if not starts or not ends:
        return other
    start, end = starts[0], ends[0]
    first = _number(b"start").sub(start, _number(b"end").sub(end, lines[0]))
    return (first, *(_number(b"start").sub(end, line) for line in lines[1:]))


def _with_time_of(lines: EditedLines, other: EditedLines) -> EditedLines:
    times = _TIME.findall(other[0])
    return tuple(_TIME.sub(lambda _: times[0], line) for line in lines) if times else other


def _number(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'(?<="' + name + rb'": )\d+')


def _edit(kind: str, what: str, changes: Mapping[int, EditedLines]) -> RecordingEdit:
    return RecordingEdit(kind=kind, what=what, line=min(changes) + 1, changes=changes)


CONTRACTS: Final = {
    CALLS.name: {CONTAINER: "cri-container", POD: "cri-pod"},
    LOG.name: {CONTAINER: "cri-container", POD: "cri-pod"},
    EVENTS.name: {CONTAINER: "plugin-container", POD: "plugin-pod"},
}


def _lines(name: str, *, json: bool = True) -> list[bytes]:
    lines = (line for piece in LineReader(name=name, notes=Counter()) for line in piece.lines) if name else ()
    return [_add_spaces(line) if json else line for line in lines]


def _add_spaces(line: bytes) -> bytes:
    try:
        return msgspec.json.format(line, indent=0)
    except (msgspec.DecodeError, RecursionError):  # the line is damaged
        return line


class StrictReading:
    def __init__(self, name: str, form: RecordingForm, calls: str, profile: str | None, assume: Assume) -> None:
        self.form = form
        self.lines = _lines(name, json=form is not LOG)
        self.calls = tuple(timed(_lines(calls)))
        self.restarts = Restarts(assume=assume)
        self.machines = {of: load(each).partly_under(profile) for of, each in CONTRACTS[form.name].items()}
        self.before = self._read(self.lines)
        self.told = told(self.lines, self.calls)
        self.changed = changed(self.lines, self.before.rooms)
        self.started = {act.entity for act in self.before.starts_after_stop()}
        self.illegal: dict[Entity, bool] = {}

    def _read(self, lines: Sequence[bytes]) -> RecordedActs:
        if self.form is CALLS:
            return acts_of_calls(lines, self.restarts)
        return of_events(lines) if self.form is EVENTS else acts_of_log(lines)

    def edits(self) -> Iterator[RecordingEdit]:
        if self.form is CALLS:
            return edits_of_calls(self.lines)
        if self.form is EVENTS:
            return edits_of_events(self.lines, self.calls)
        return edits_of_log(self.lines)

    def illegality(self, edit: RecordingEdit, lines: Sequence[bytes]) -> Illegality | None:
        return next(self._find_illegalities(edit, lines), None)

    def _find_illegalities(self, edit: RecordingEdit, lines: Sequence[bytes]) -> Iterator[Illegality]:
        read, touched = self._read(lines), edit.touched(self.lines)
        for entity in sorted({*self.before.acts, *read.acts}):
            concerned = entity[1] in touched or read.pods.get(entity[1]) in touched
            if concerned and (found := self._contradiction(read, entity)):
                if entity not in self.illegal:
                    self.illegal[entity] = self._contradiction(self.before, entity) is not None
                if not self.illegal[entity]:
                    act, states = found.act, " or ".join(found.states)
                    why = " ".join(filter(None, (act.event, act.reply, act.shows)))
                    why += f" in line {act.line}, where it is {states}"
                    yield self._illegality(act.of, f"{act.event} in {states}", why, found.before)
        for act in read.starts_after_stop():
            if act.entity not in self.started:
                why = f"{act.entity} is started in line {act.line}, but its pod was stopped before"
                yield self._illegality(POD, "StartContainer in stopped", why)
        for identity, name in sorted(changed(lines, read.rooms) - self.changed):
            why = f"{name} of {identity} has first one value, and then another"
            yield self._illegality(CONTAINER, f"{name} changes", why)
        after = told(lines, self.calls) if self.calls else {}
        for call, before in self.told.items():
            if before and after.get(call) is False:
                of = POD if call[0].endswith("PodSandbox") else CONTAINER
                why = f"{call[0]} succeeds before the plugin receives its event"
                yield self._illegality(of, f"{call[0]} succeeds", why)

    def _illegality(self, of: str, cell: str, why: str, acts: tuple[RecordedAct, ...] = ()) -> Illegality:
        return Illegality(machine=self.machines[of].name, cell=cell, why=why, acts=acts)

    def _contradiction(self, read: RecordedActs, entity: Entity) -> Contradiction | None:
        of, identity = entity
        machine, fresh = self.machines[of], entity in read.fresh
        if self.form is LOG and of == CONTAINER:
            fresh &= (POD, read.pods.get(identity, "")) in read.fresh
        if self.form is not CALLS and not fresh:
            return None  # older entities have unknown initial states, and unknown calls may be in progress on them
        acts, unseen = read.during(entity), ["exit"]
        if self.form is EVENTS:
            acts, unseen = read.acts.get(entity, []), []
        initial = [machine.initial] if fresh else list(machine.states)
        return contradiction(machine, acts, read.rooms, initial=initial, unseen=unseen)
