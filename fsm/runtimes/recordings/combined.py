"""Combine the events that a plugin received with the calls of the same run.

Before a call succeeds, a connected plugin must receive all events that the call relays. To check this, the success of
the call is judged like an event, as a signal in :data:`fsm.runtimes.recordings.nri_events.SUCCEEDS`. The success counts
only if the plugin was connected during the whole call. Recordings do not show this directly, because disconnections are
not recorded and events may arrive late. A success is therefore held back until one of the following happens:

- The plugin receives, on the same connection, an event of a call that began after the success. The plugin was
  therefore connected, and the success counts. If no caller has recently abandoned a call, an event of any call in
  progress is sufficient.
- The plugin connects again, so the success does not count.
- The recording ends. The success counts, unless the plugin has missed an event after the last event that it received.

After a caller has abandoned a call, the relay of its events may fail. containerd logs this, and each such line explains
a missing event of a call in progress.

Except for the exits of containers, only calls relay events. An event without a suitable call is reported at the end
as :data:`fsm.runtimes.recordings.nri_events.UNASKED`, but only if a recorded call names the entity or its pod and no
call outside the recording can have caused the event.

Files from different runs are rejected (see :mod:`fsm.runtimes.recordings.calls_in_progress`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple, TypeAlias

from msgspec import structs

from fsm.errors import InputError
from fsm.recordings import AsRecorded, RecordedStep, form_among, open_recording
from fsm.recordings.form import Recording
from fsm.recordings.line_reader import LineReader, Notes
from fsm.recordings.time_order import HELD
from fsm.runtimes.names import CONTAINER, FULL, MAKES, POD, RELAYED
from fsm.runtimes.recordings.calls_in_progress import NO_ID, Asked, CallsInProgress, OneRun, Received
from fsm.runtimes.recordings.cri_calls import LOST
from fsm.runtimes.recordings.nri_events import CONNECTS, SUCCEEDS, UNASKED, UNRELAYED, NriEvent, NriEventReader
from fsm.runtimes.recordings.runtime_forms import CALLS, COMBINED, EVENTS, LOG, named
from fsm.trace import Batch, Line, Observation, batch, nanoseconds

_BATCH: Final = 1_024  # number of observations per batch

_ENDS: Final = frozenset(call for _, call in SUCCEEDS)
_REMOVED: Final = frozenset({"RemovePodSandbox", "RemoveContainer", "removal-succeeds"})
_MAY_END: Final = {POD: ("StopPodSandbox", "RemovePodSandbox"), CONTAINER: ("StopContainer", "RemoveContainer")}
_QUIET: Final = 2_000_000_000
"""Number of nanoseconds for which a call may continue after its caller abandoned it."""


class _Point(NamedTuple):
    at: int
    line: Line
    what: NriEvent | Observation | None


_Waiting: TypeAlias = tuple[Line, Observation, int]
"""A line, its observation, and the position at which the plugin must have been connected.

The position is 0 if the plugin does not have to be connected.
"""


class _Known(NamedTuple):
    """The last event that the plugin received about an entity.

    ``output`` is empty if the entity was only listed. ``started`` is false only for a container that has certainly
    not been started. ``since`` is a position at which the entity certainly existed.
    """

    connection: int
    output: str
    started: bool
    since: float


def open_combined(name: str, calls: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    """Open the NRI events in *name* together with *calls*, the CRI calls or containerd log of the same run.

    Raise :class:`InputError` if a file cannot be opened, or if *calls* contains no calls.
    """
    recorded = _open_calls(calls, advanced)
    events = NriEventReader(notes=Notes())
    reader = CombinedReader(events=events, late=recorded.form is CALLS)
    return Recording(
        name=name,
        form=COMBINED,
        machines=COMBINED.machines,
        batches=_batches(name, reader, _points(name, events, recorded, advanced), recorded),
        notes=events.notes,
        within=events.pods,
        version=lambda: recorded.version() or named(events.version),
    )


def as_recorded(name: str, calls: str) -> AsRecorded:
    """Open the NRI events in *name*, together with *calls* if given, without adding any inferred observations."""
    recorded, events = _open_calls(calls) if calls else None, NriEventReader()
    return AsRecorded(
        files=(name, calls) if calls else (name,),
        form=COMBINED if calls else EVENTS,
        machines=EVENTS.machines,
        steps=_steps(_points(name, events, recorded), events),
        within=events.pods,
    )


def _steps(points: Iterable[_Point], events: NriEventReader) -> Iterator[RecordedStep]:
    for point in points:
        match point.what:
            case Observation() as seen if seen.entity or not seen.output:
                yield RecordedStep(point.line, seen)
            case NriEvent() as event if event.connects:
                yield RecordedStep(point.line, Observation(event=CONNECTS, at=event.ts))
            case NriEvent() as event:
                for seen in events.observed(event):
                    listed = f"Synchronize: {seen.event.removeprefix('sync-')}" if seen.event else ""
                    if output := seen.output or listed:
                        yield RecordedStep(point.line, structs.replace(seen, output=output))


def _open_calls(name: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    hint = "give a file of the CRI calls, or the containerd log, of the same run"
    form_among(name, {CALLS, LOG}.__contains__, hint)
    return open_recording(name, advanced, as_called=True)


def _points(
    name: str, events: NriEventReader, recorded: Recording | None, advanced: Callable[[int], None] = lambda _: None
) -> Iterable[_Point]:
    received, called = _received(name, events, advanced), _called(recorded) if recorded else ()
    return heapq.merge(received, called, key=lambda point: point.at)


def _received(name: str, events: NriEventReader, advanced: Callable[[int], None]) -> Iterator[_Point]:
    latest = 0
    for piece in LineReader(name=name, notes=events.notes, advanced=advanced):
        for number, line in enumerate(piece.lines, piece.first):
            event = events.read(line, place := Line(name, number))
            if event is not None:
                latest = max(latest, event.ts or 0)
                yield _Point(latest, place, event)


def _called(recording: Recording) -> Iterator[_Point]:
    latest, last = 0, Line(recording.name, 0)
    for part in recording.batches:
        for seen, line in zip(part.observations, part.lines, strict=True):
            if seen.phase != "assumed":
                latest = max(latest, nanoseconds(seen.at) or 0)
                last = Line.of(line, recording.name)
                yield _Point(latest, last, seen)
    yield _Point(latest, last, None)


def _batches(name: str, reader: CombinedReader, points: Iterable[_Point], recorded: Recording) -> Iterator[Batch]:
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
    """Converts points, sorted by time, to observations. If ``late`` is true, calls are recorded only when they end."""

    events: NriEventReader
    late: bool
    run: OneRun = field(default_factory=OneRun)
    _order: int = 0
    _connection: int = 0
    _there: bool = False
    _connected: int = 0  # latest position at which the plugin was certainly connected
    _given_up: int = -_QUIET
    """The last time at which a caller abandoned a call, after which the runtime may close the plugin."""
    _calls: bool = False
    _covered: bool = False
    _known: dict[str, _Known] = field(default_factory=dict)
    _received: defaultdict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    _created: set[str] = field(default_factory=set)
    _running: set[str] = field(default_factory=set)
    _progress: CallsInProgress = field(default_factory=CallsInProgress)
    _waiting: deque[_Waiting] = field(default_factory=deque)

    def seen(self, point: _Point) -> Iterator[tuple[Line, Observation]]:
        self._order += 1
        match point.what:
            case None:
                self._calls = False
            case Observation() as seen if seen.output and not seen.entity:
                self._given_up = point.at
                self._progress.failed[seen.output].append(self._order)
            case Observation() as seen:
                if seen.phase == "gap" or (seen.event == "restart" and not seen.phase):
                    self._progress.interrupted(point.at, gap=seen.phase == "gap")
                self._waiting += [*self._call(point, seen)]
            case event:
                self.run.events.at(event.ts)
                self._waiting += [*(self._begin_connection(point) if event.connects else self._event(point, event))]
        if len(self._waiting) > HELD:
            self._drop_unproved_successes()
        while self._waiting and self._waiting[0][2] <= self._connected:
            yield self._waiting.popleft()[:2]

    def _event(self, point: _Point, event: NriEvent) -> Iterator[_Waiting]:
        if event.event == "Synchronize" or not self._connection:
            self._connection = self._connection or 1
            self._there = True
        self._covered = self._calls
        asked, began = False, None
        for seen in self.events.observed(event):
            self.run.events.ids[seen.of].add(seen.entity)
            pod, known = self.events.pods.get(seen.entity, ""), self._known.get(seen.entity)
            if seen.output and not (seen.output == "StopContainer" and (known is None or known.started)):
                among = (seen.entity, pod, "" if seen.entity in self._running else NO_ID)
                told = Received(point.at, point.line, seen, among)
                asked, began = self._progress.relayed(told, judged=self._calls, returned=seen.entity in self._created)
            if seen.shows:
                pass  # the entity was absent before, so nothing was relayed about it
            elif seen.output in _REMOVED:
                self._known.pop(seen.entity, None)
                if self._progress.none(seen.entity, pod, NO_ID):
                    self._received.pop(seen.entity, None)
            else:
                self._known[seen.entity] = self._last_event_after(seen)
                self._received[seen.entity].append((seen.output, self._order))
            # In the models for this recording, an output is an event, which happens when the plugin receives it.
            runs = seen.event == "listed" and seen.entity in self._running and self._calls
            what = "listed-running" if runs else seen.event
            yield point.line, structs.replace(seen, event=seen.output or what, output=""), 0
        if (began is None and not self._calls) or (asked and point.at - self._given_up > _QUIET):
            began = self._order
        self._connected = max(self._connected, (began or 0) - 1)

    def _last_event_after(self, seen: Observation) -> _Known:
        if seen.output == "CreateContainer":
            return _Known(self._connection, seen.output, started=False, since=inf)
        known = self._known.get(seen.entity) or _Known(0, "", started=True, since=inf)
        started = known.started or not seen.output or seen.output == "StartContainer"
        return _Known(self._connection, seen.output, started=started, since=min(known.since, self._order))

    def _call(self, point: _Point, seen: Observation) -> Iterator[_Waiting]:
        self._calls |= seen.phase != "request"
        if (seen.event not in RELAYED and seen.event not in _ENDS) or not (
            seen.entity or seen.event == "RunPodSandbox"
        ):
            return
        on = seen.detail if (seen.of, seen.event) == (CONTAINER, "CreateContainer") else seen.entity
        meant, certain = ((NO_ID,), True) if seen.event == "RunPodSandbox" else self._possible_ids(on)
        whole = certain and seen.event not in MAKES
        self.run.called(structs.replace(seen, entity=meant[0]) if whole else seen)
        if seen.phase == "request":
            asked = Asked(point.at, self._order, self._connection if self._there else 0, point.line)
            self._progress.asks(seen.event, meant, asked)
            self._running -= set(meant) if seen.event in _ENDS else set()
            return
        ended = [self._progress.ended(seen, identity, at=point.at, line=point.line) for identity in meant]
        first = ended[0] if certain else None
        ok = seen.reply == "ok"
        lost = seen.phase == "lost" or seen.reply in LOST
        self._given_up = point.at if lost else self._given_up
        if seen.event in MAKES:
            meant = (seen.entity,)
            if not ok:
                return
            self._created.add(seen.entity)
            if seen.event == "RunPodSandbox":
                self._running.add(seen.entity)
        if seen.event == "RemovePodSandbox" and not self._progress.none(*meant):
            return  # another call in progress may have removed the pod first
        ended_on = structs.replace(seen, entity=meant[0]) if first else seen
        lacks = self._unrelayed_events(ended_on, first, point.at) if first and not lost else []
        if ok and first is not None:
            yield from self._success_signals(point, ended_on, first, lacks)
        elif (ok or lost) and seen.event in _ENDS:
            yield from self._possible_observations(point.line, seen, meant)

    def _possible_ids(self, identity: str) -> tuple[tuple[str, ...], bool]:
        if len(identity) >= FULL or identity in self._created or identity in self._known:
            return (identity,), True
        created = [each for each in self._created if each.startswith(identity)]
        known = [each for each in self._known if each.startswith(identity) and each not in self._created]
        return (*created, *known), len(created) == 1 and not known

    def _success_signals(self, point: _Point, seen: Observation, asked: Asked, lacks: list[str]) -> Iterator[_Waiting]:
        there = asked.connection == self._connection > 0
        last, pod = RELAYED.get(seen.event, (seen.event,))[-1], self.events.pods.get(seen.entity, "")
        if not there or (lacks == [last] and self._progress.is_excused(last, seen.entity, pod, asked)):
            yield from self._possible_observations(point.line, seen, (seen.entity,)) if seen.event in _ENDS else ()
        elif lacks or (seen.event in _ENDS and seen.event != "StopContainer"):
            signal = SUCCEEDS.get((seen.of, seen.event), UNRELAYED)
            what = f"{seen.event} succeeded" + f" before {' and '.join(lacks)} was relayed" * (signal == UNRELAYED)
            done = Observation(entity=seen.entity, of=seen.of, event=signal, at=seen.at, detail=what)
            yield point.line, done, self._order
        inner = [each for each in self._containers_in(seen.entity) if self._known[each].since < asked.order]
        for each in inner if there and seen.event == "RemovePodSandbox" else ():
            if self._progress.is_excused("RemoveContainer", each, seen.entity, asked):
                yield from _possible_observations(point.line, each, CONTAINER, seen)
            else:
                gone = SUCCEEDS[CONTAINER, "RemoveContainer"]
                done = Observation(entity=each, of=CONTAINER, event=gone, at=seen.at, detail=f"{seen.event} succeeded")
                yield point.line, done, self._order
        if seen.event in _REMOVED:
            self._created.discard(seen.entity)

    def _unrelayed_events(self, seen: Observation, asked: Asked, at: int) -> list[str]:
        received = self._received.get(seen.entity, [])
        lacks = [*RELAYED.get(seen.event, (seen.event,))]
        if seen.event == "StopContainer" and _was_stopped(received, asked.order):
            lacks.clear()
        elif seen.event in _ENDS and seen.reply == "ok":
            stopped = seen.event == "StopPodSandbox" and seen.event in (name for name, _ in received)
            lacks = lacks if seen.entity in self._known and not stopped else []
        elif seen.reply == "ok":
            since = [next((it for it in received if it[0] == each and it[1] > asked.order), None) for each in lacks]
            if seen.event == "UpdateContainerResources":
                # Every update relays its own events, so these events must not count for the next update too.
                self._received[seen.entity] = [event for event in received if event not in since]
            lacks = [each for each, it in zip(lacks, since, strict=True) if it is None]
        if at - self._given_up <= _QUIET:
            self._progress.over[seen.event, seen.entity] += [(asked.order, each) for each in lacks]
        return lacks

    def _containers_in(self, pod: str) -> list[str]:
        return [identity for identity in self._known if self.events.pods.get(identity) == pod]

    def _possible_observations(self, line: Line, seen: Observation, meant: tuple[str, ...]) -> Iterator[_Waiting]:
        for identity in meant:
            for container in self._containers_in(identity) if seen.of == POD else ():
                yield from _possible_observations(line, container, CONTAINER, seen)
            if identity in self._known:
                yield from _possible_observations(line, identity, seen.of, seen)

    def rest(self) -> Iterator[tuple[Line, Observation]]:
        """Yield the successes of calls that were held back, followed by the events that no call has caused.

        If the plugin may have been disconnected, the successes are dropped.
        """
        held = [seen for _, seen, order in self._waiting if order]
        if any(map(self._has_missed_event, held)):
            self.events.notes["calls after the last event of the plugin"] += len(held)
            self._waiting = deque(waiting for waiting in self._waiting if not waiting[2])
        yield from ((line, seen) for line, seen, _ in self._waiting)
        named = set[str]().union(*self.run.calls.ids.values())
        for _, line, seen, among in self._progress.alone(self.run.calls.last, late=self.late):
            if not named.isdisjoint(among):
                what = f"{seen.output} was relayed with no call in progress"
                yield line, Observation(entity=seen.entity, of=seen.of, event=UNASKED, at=seen.at, detail=what)

    def _begin_connection(self, point: _Point) -> Iterator[_Waiting]:
        self._drop_unproved_successes()
        if self._connection:
            # While the plugin was not connected, any event may have happened unrecorded.
            covered = self._covered and self._calls
            yield point.line, Observation(event=CONNECTS, at=point.at) if covered else Observation(phase="gap"), 0
        self._connection += 1
        self._there = False

    def _drop_unproved_successes(self) -> None:
        waiting = tuple(self._waiting)
        self._waiting.clear()
        for line, seen, order in waiting:
            if not order:
                self._waiting.append((line, seen, 0))
            elif seen.entity in self._known and seen.event != UNRELAYED:
                self._waiting += _possible_observations(line, seen.entity, seen.of, seen)

    def _has_missed_event(self, seen: Observation) -> bool:
        known = self._known.get(seen.entity)
        if seen.event == UNRELAYED or known is None or known.connection != self._connection:
            return seen.event == UNRELAYED
        if seen.event == "stop-succeeds":
            return bool(known.output) and known.output not in {"StopPodSandbox", "StopContainer"}
        return seen.of == CONTAINER or bool(known.output)


def _was_stopped(received: list[tuple[str, int]], asked: int) -> bool:
    moved = [(name, order) for name, order in received if "Update" not in name]
    before = [name for name, order in moved if order < asked]
    return before[-1:] == ["StopContainer"] or ("StopContainer" in (name for name, order in moved if order > asked))


def _possible_observations(line: Line, entity: str, of: str, seen: Observation) -> Iterator[_Waiting]:
    for event in _MAY_END[of][: 1 + (seen.event in _REMOVED)]:
        yield line, Observation(entity=entity, of=of, event=event, phase="maybe", at=seen.at), 0
