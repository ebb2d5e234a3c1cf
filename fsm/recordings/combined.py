"""The events that a plugin received and the calls of the same run: one recording of two files.

What a connected plugin has to receive of a call, it receives before the call has succeeded.  So a success is an
observation of its own: one of the signals :data:`fsm.recordings.nri_events.SUCCEEDS`. It counts only if the plugin
was connected during all of the call.  Disconnections are not recorded: the plugin was connected until the last event
before it connects again, and successes after that event mean nothing.  After its very last event it is assumed to
stay connected, unless it missed something then.

Nor is anything relayed but from a call, except ends of containers.  What was received while no call was in progress
that relays it is reported at the end (:data:`fsm.recordings.nri_events.UNASKED`), if a call of the recording names
the entity or its pod, and no call that is missing before the first line or after the last one can have been the
cause.

Files that are not of one run are refused (:mod:`fsm.recordings.one_run`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from msgspec import structs

from fsm.errors import InputError, Problem
from fsm.recordings import Recording, RecordingKind, open_recording
from fsm.recordings.calls_in_progress import NO_ID, RELAYED, Asked, CallsInProgress, Received
from fsm.recordings.line_reader import STDIN, LineReader
from fsm.recordings.notes import Notes
from fsm.recordings.nri_events import CONNECTS, SUCCEEDS, UNASKED, UNRELAYED, NriEvent, NriEventReader
from fsm.recordings.one_run import FULL, OneRun
from fsm.recordings.pod_calls import CONTAINER, MAKES, POD
from fsm.recordings.time_order import HELD
from fsm.trace import Batch, Line, Observation, batch, nanoseconds

_BATCH: Final = 1_024
"""Number of observations in a batch."""

_ENDS: Final = frozenset(call for _, call in SUCCEEDS)
_REMOVED: Final = frozenset({"RemovePodSandbox", "RemoveContainer"})


class RecordedPoint(NamedTuple):
    """A point in time: an event of the plugin, an observation of a call, or the end of the recorded calls."""

    at: int
    line: Line
    what: NriEvent | Observation | None


class _Known(NamedTuple):
    """The last event about an entity that the plugin received, and its connection; no event if it was listed.

    A container may have ``started``, and certainly exists ``since`` so many points.
    """

    connection: int
    output: str
    started: bool
    since: float


def open_combined(name: str, calls: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    """The NRI events of a plugin in the file *name*, with the calls of the same run.

    Raises :class:`InputError` if a file cannot be opened, or is of another kind.
    """
    check_kinds(name, calls)
    notes = Notes()
    recorded = open_recording(calls, advanced, as_called=True)
    events = NriEventReader(notes=notes)
    reader = CombinedReader(events=events, late=recorded.kind is RecordingKind.CALLS)
    points = heapq.merge(received(name, events, advanced), called(recorded), key=lambda point: point.at)
    return Recording(
        name=name,
        kind=RecordingKind.COMBINED,
        machines=("nri-plugin-contract",),
        batches=_batches(name, reader, points, recorded),
        notes=notes,
        pods=events.pods,
        version=lambda: recorded.version() or events.version,
    )


def check_kinds(name: str, calls: str) -> None:
    """Raises :class:`InputError` unless *name* is a file of NRI events, and *calls* one of calls."""
    for file, kinds, what in (
        (name, {RecordingKind.EVENTS}, "NRI events, as a plugin received them"),
        (calls, {RecordingKind.CALLS, RecordingKind.LOG}, "the CRI calls, or the containerd log, of the same run"),
    ):
        kind = None if file == STDIN else open_recording(file, as_called=True).kind
        if kind not in kinds:
            found = "cannot be read twice" if kind is None else f"holds {kind.value}"
            raise InputError([Problem(path=file, line=0, code="FSM206", what=found, hint=f"give a file of {what}")])


def received(
    name: str, events: NriEventReader, advanced: Callable[[int], None] = lambda _: None
) -> Iterator[RecordedPoint]:
    """What the plugin received, each event with its time, never before that of the one before, and its line."""
    latest = 0
    for piece in LineReader(name=name, notes=events.notes, advanced=advanced):
        for number, line in enumerate(piece.lines, piece.first):
            event = events.read(line, place := Line(name, number))
            if event is not None:
                latest = max(latest, event.ts or 0)
                yield RecordedPoint(latest, place, event)


def called(recording: Recording) -> Iterator[RecordedPoint]:
    """The observations of calls in *recording*, each with its time and its line, and the end of them."""
    latest, last = 0, Line(recording.name, 0)
    for part in recording.batches:
        for seen, line in zip(part.observations, part.lines, strict=True):
            if seen.phase == "assumed":
                continue  # a restart that is assumed before the calls of its time
            latest = max(latest, nanoseconds(seen.at) or 0)
            last = Line.of(line, recording.name)
            yield RecordedPoint(latest, last, seen)
    yield RecordedPoint(latest, last, None)


def _batches(
    name: str, reader: CombinedReader, points: Iterator[RecordedPoint], recorded: Recording
) -> Iterator[Batch]:
    found: list[tuple[Line, Observation]] = []
    for point in points:
        found += reader.seen(point)
        if len(found) >= _BATCH:
            yield batch(found)
            found = []
    found += reader.rest()
    if problems := reader.run.problems(name, recorded.name):
        raise InputError(problems)
    reader.events.notes.join(recorded.notes, recorded.name)
    yield batch(found)


@dataclass(slots=True, kw_only=True)
class CombinedReader:
    """Turns points in the order of time into observations as the plugin has them.

    Calls may be recorded ``late``: when they end.
    """

    events: NriEventReader
    late: bool
    run: OneRun = field(default_factory=OneRun)
    _order: int = 0
    _connection: int = 0
    _there: bool = False
    _missed_creation: bool = False
    _calls: bool = False
    _covered: bool = False
    _known: dict[str, _Known] = field(default_factory=dict)
    _received: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    _created: set[str] = field(default_factory=set)
    _running: set[str] = field(default_factory=set)
    _progress: CallsInProgress = field(default_factory=CallsInProgress)
    _held: list[tuple[Line, Observation]] = field(default_factory=list)

    def seen(self, point: RecordedPoint) -> Iterator[tuple[Line, Observation]]:
        self._order += 1
        match point.what:
            case None:
                self._calls = False
                return iter(())
            case Observation() as seen:
                return self._call(point, seen)
            case event:
                self.run.events.at(event.ts)
                return self._connects(point) if event.connects else self._event(point, event)

    def _event(self, point: RecordedPoint, event: NriEvent) -> Iterator[tuple[Line, Observation]]:
        """What the plugin received, and the successes that count now that it is known to have been connected."""
        if event.event == "Synchronize" or not self._connection:
            self._connection = self._connection or 1
            self._there = True
        yield from self._held
        self._held.clear()
        self._missed_creation = False
        self._covered = self._calls
        for seen in self.events.observed(event):
            self.run.events.ids[seen.of].add(seen.entity)
            pod, known = self.events.pods.get(seen.entity, ""), self._known.get(seen.entity)
            if self._calls and not (seen.output == "StopContainer" and (known is None or known.started)):
                among = (seen.entity, pod, "" if seen.entity in self._running else NO_ID)
                self._progress.relayed(Received(point.at, point.line, seen, among))
            if seen.shows:
                pass  # what was relayed before was nothing
            elif seen.output in _REMOVED:
                self._known.pop(seen.entity, None)
                if self._progress.none(seen.entity, pod, NO_ID):
                    self._received.pop(seen.entity, None)
            else:
                self._known[seen.entity] = self._knows(seen)
                self._received[seen.entity].append((seen.output, self._order))
            # The plugin received it at this time, so it is an event here and not an output.
            runs = seen.event == "listed" and seen.entity in self._running and self._calls
            what = "listed-running" if runs else seen.event
            yield point.line, structs.replace(seen, event=seen.output or what, output="")

    def _knows(self, seen: Observation) -> _Known:
        if seen.output == "CreateContainer":
            return _Known(self._connection, seen.output, started=False, since=inf)
        known = self._known.get(seen.entity) or _Known(0, "", started=True, since=inf)
        started = known.started or not seen.output or seen.output == "StartContainer"
        return _Known(self._connection, seen.output, started=started, since=min(known.since, self._order))

    def _call(self, point: RecordedPoint, seen: Observation) -> Iterator[tuple[Line, Observation]]:
        """The observations that follow from one of a call, by the ids that were given."""
        if seen.phase == "gap" or (seen.event == "restart" and not seen.phase):
            self._progress.interrupted(gap=seen.phase == "gap")
        self._calls |= seen.phase != "request"
        if (seen.event not in RELAYED and seen.event not in _ENDS) or not (
            seen.entity or seen.event == "RunPodSandbox"
        ):
            return
        on = seen.detail if (seen.of, seen.event) == (CONTAINER, "CreateContainer") else seen.entity
        meant, certain = ((NO_ID,), True) if seen.event == "RunPodSandbox" else self._meant(on)
        whole = certain and seen.event not in MAKES
        self.run.called(structs.replace(seen, entity=meant[0]) if whole else seen)
        if seen.phase == "request":
            asked = Asked(point.at, self._order, self._connection if self._there else 0)
            self._progress.asks(seen.event, meant, asked)
            self._running -= set(meant) if seen.event in _ENDS else set()
            return
        ended = [self._progress.ended(seen, each, at=point.at) for each in meant]
        first = ended[0] if certain else None
        ok = seen.reply == "ok"
        if seen.event in MAKES:
            meant = (seen.entity,)
            if not ok:
                return
            self._created.add(seen.entity)
            self._missed_creation |= self._there and seen.entity not in self._known
            if seen.event == "RunPodSandbox":
                self._running.add(seen.entity)
        if seen.event == "RemovePodSandbox" and not self._progress.none(*meant):
            return  # the other call may relay the removal when this one has found the pod gone
        if ok and first is not None and first.connection == self._connection > 0:
            yield from self._succeeded(point.line, structs.replace(seen, entity=meant[0]), first)
        elif (ok or seen.phase == "lost") and seen.event in _ENDS:
            yield from self._unclear(point.line, seen, meant)

    def _meant(self, identity: str) -> tuple[tuple[str, ...], bool]:
        """The ids that *identity* may stand for, and whether it certainly stands for the only one."""
        if len(identity) >= FULL or identity in self._created or identity in self._known:
            return (identity,), True
        created = [each for each in self._created if each.startswith(identity)]
        known = [each for each in self._known if each.startswith(identity) and each not in self._created]
        return (*created, *known), len(created) == 1 and not known

    def _succeeded(self, line: Line, seen: Observation, asked: Asked) -> Iterator[tuple[Line, Observation]]:
        """Hold back that a call has succeeded during all of which the plugin was connected."""
        relayed = RELAYED.get(seen.event, ())
        received = self._received.get(seen.entity, [])
        since = [next((it for it in received if it[0] == each and it[1] > asked.order), None) for each in relayed]
        signal = UNRELAYED if None in since else SUCCEEDS.get((seen.of, seen.event), "")
        if seen.event == "UpdateContainerResources":
            self._received[seen.entity] = [each for each in received if each not in since]  # the next has its own
        if signal and not (seen.event == "StopContainer" and _stopped(received, asked.order)):
            lacks = " and ".join(each for each, it in zip(relayed, since, strict=True) if it is None)
            what = f"{seen.event} succeeded{f' before {lacks} was relayed' * bool(lacks)}"
            done = Observation(entity=seen.entity, of=seen.of, event=signal, at=seen.at, detail=what)
            self._held.append((line, done))
        for each in self._within(seen.entity) if seen.event == "RemovePodSandbox" else ():
            if self._known[each].since < asked.order:
                gone = SUCCEEDS[CONTAINER, "RemoveContainer"]
                done = Observation(entity=each, of=CONTAINER, event=gone, at=seen.at, detail=f"{seen.event} succeeded")
                self._held.append((line, done))
        if seen.event in _REMOVED:
            self._created.discard(seen.entity)
        if len(self._held) > HELD:
            yield from self._left()

    def _within(self, pod: str) -> list[str]:
        return [each for each in self._known if self.events.pods.get(each) == pod]

    def _unclear(self, line: Line, seen: Observation, meant: tuple[str, ...]) -> Iterator[tuple[Line, Observation]]:
        """What has ended, or may have, by a call of which the plugin may not have had to receive anything."""
        for each in meant:
            if seen.of == POD:
                for container in self._within(each):
                    yield line, _unclear(container, CONTAINER, seen, removed=seen.event == "RemovePodSandbox")
            if each in self._known:
                yield line, _unclear(each, seen.of, seen, removed=seen.event == "RemoveContainer")

    def rest(self) -> Iterator[tuple[Line, Observation]]:
        """The remaining successes, if the plugin was connected until the end, and what no call has caused."""
        if self._missed_creation or any(map(self._missed, (seen for _, seen in self._held))):
            self.events.notes["calls after the last event of the plugin"] += len(self._held)
            self._held.clear()
        yield from self._held
        named = set[str]().union(*self.run.calls.ids.values())
        for _, line, seen, among in self._progress.alone(self.run.calls.last, late=self.late):
            if not named.isdisjoint(among):
                what = f"{seen.output} was relayed with no call in progress"
                yield line, Observation(entity=seen.entity, of=seen.of, event=UNASKED, at=seen.at, detail=what)

    def _connects(self, point: RecordedPoint) -> Iterator[tuple[Line, Observation]]:
        """A connection begins; the plugin may have been disconnected since the last event."""
        yield from self._left()
        if self._connection:
            # Anything may have happened to any entity without being recorded.
            covered = self._covered and self._calls
            yield point.line, Observation(event=CONNECTS, at=point.at) if covered else Observation(phase="gap")
        self._connection += 1
        self._there = self._missed_creation = False

    def _left(self) -> Iterator[tuple[Line, Observation]]:
        """Drop the successes since the last event: it is unknown whether the plugin was connected."""
        for line, seen in self._held:
            if seen.entity in self._known and seen.event != UNRELAYED:
                yield line, _unclear(seen.entity, seen.of, seen, removed=seen.event == "removal-succeeds")
        self._held.clear()

    def _missed(self, seen: Observation) -> bool:
        """Whether the plugin did not receive on this connection what *seen* is about, so it may have left."""
        known = self._known.get(seen.entity)
        if seen.event == UNRELAYED or known is None or known.connection != self._connection:
            return seen.event == UNRELAYED
        if seen.event == "stop-succeeds":
            return bool(known.output) and known.output not in {"StopPodSandbox", "StopContainer"}
        return seen.of == CONTAINER or bool(known.output)


def _stopped(received: list[tuple[str, int]], asked: int) -> bool:
    """Whether its stop was the last that was *received* of a container before it was *asked* for, or was since."""
    moved = [(name, order) for name, order in received if "Update" not in name]
    before = [name for name, order in moved if order < asked]
    return before[-1:] == ["StopContainer"] or ("StopContainer" in (name for name, order in moved if order > asked))


def _unclear(entity: str, of: str, seen: Observation, *, removed: bool) -> Observation:
    """Nothing is known of a pod, and of a container that may be *removed*; another may have stopped."""
    if of == POD or removed:
        return Observation(entity=entity, of=of, phase="gap", at=seen.at)
    return Observation(entity=entity, of=of, event="StopContainer", phase="maybe", at=seen.at)
