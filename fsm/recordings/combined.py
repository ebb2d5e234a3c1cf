"""The events that a plugin received and the calls of the same run: one recording of two files.

A call that a connected plugin has to receive succeeds after the plugin
received it, so a success is an observation of its own: one of the signals
:data:`fsm.recordings.nri_events.SUCCEEDED`.  It counts only if the plugin was
connected during all of the call.  Disconnections are not recorded: the plugin
was connected until the last event before it connects again, and successes
after that event mean nothing.  After its very last event it is assumed to stay
connected, unless it missed a creation, or the end of something that it knew of
on the same connection.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from fsm.errors import InputError, Problem
from fsm.recordings import Batch, Recording, RecordingKind, batch, open_recording
from fsm.recordings.json_lines import nanoseconds
from fsm.recordings.line_reader import STDIN, LineReader
from fsm.recordings.nri_events import CONNECTS, NriEvent, NriEventReader
from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.trace import Line, Observation

HELD: Final = 65_536
"""The most successes that wait for the next event of the plugin; with more, it is taken to have left."""

_WHOLE: Final = 64
"""Number of characters of a full id."""

_BATCH: Final = 1_024
"""Number of observations in a batch."""

_SUCCEEDS: Final = {
    (POD, "StopPodSandbox"): "stop-succeeds",
    (POD, "RemovePodSandbox"): "removal-succeeds",
    (CONTAINER, "RemoveContainer"): "removal-succeeds",
}
_RELAYED: Final = {
    (POD, "RunPodSandbox"): ("RunPodSandbox",),
    (POD, "CreateContainer"): (),  # of which container is not known yet
    (CONTAINER, "CreateContainer"): ("CreateContainer", "PostCreateContainer"),
    (CONTAINER, "StartContainer"): ("StartContainer", "PostStartContainer"),
    (CONTAINER, "UpdateContainerResources"): ("UpdateContainer", "PostUpdateContainer"),
}
"""What is relayed to the plugin between a call that succeeds and its reply."""

_UNRELAYED: Final = "success-unrelayed"
_MAKES: Final = frozenset({"RunPodSandbox", "CreateContainer"})
_REMOVED: Final = frozenset({"RemovePodSandbox", "RemoveContainer"})


class _Point(NamedTuple):
    """A point in time: an event of the plugin, an observation of a call, or the end of the recorded calls."""

    at: int
    line: Line
    what: NriEvent | Observation | None


class _Asked(NamedTuple):
    """The connection on which something was called, none if the plugin was not there, and how many points came before."""

    connection: int = 0
    points: int = 0


class _Known(NamedTuple):
    """The last event about an entity that the plugin received, and its connection; no event if it was listed."""

    connection: int
    output: str


def open_combined(name: str, calls: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    """The NRI events of a plugin in the file *name*, with the calls of the same run.

    Raises :class:`InputError` if a file cannot be opened, or is of another kind.
    """
    for file, kinds, what in (
        (name, {RecordingKind.EVENTS}, "NRI events, as a plugin received them"),
        (calls, {RecordingKind.CALLS, RecordingKind.LOG}, "the CRI calls, or the containerd log, of the same run"),
    ):
        if file == STDIN or open_recording(file).kind not in kinds:
            found = "cannot be read twice" if file == STDIN else f"holds {open_recording(file).kind.value}"
            raise InputError([Problem(path=file, line=0, code="FSM206", what=found, hint=f"give a file of {what}")])
    notes: Counter[str] = Counter()
    recorded = open_recording(calls, advanced)
    events = NriEventReader(notes=notes)
    points = heapq.merge(_received(name, events, advanced), _called(recorded), key=lambda point: point.at)
    return Recording(
        name=name,
        kind=RecordingKind.COMBINED,
        machines=("nri-plugin-contract",),
        batches=_batches(CombinedReader(events=events), points, recorded),
        notes=notes,
        version=recorded.version,
    )


def _received(name: str, events: NriEventReader, advanced: Callable[[int], None]) -> Iterator[_Point]:
    latest = 0
    for piece in LineReader(name=name, notes=events.notes, advanced=advanced):
        for number, line in enumerate(piece.lines, piece.first):
            event = events.read(line)
            if event is not None:
                latest = max(latest, event.ts or 0)
                yield _Point(latest, Line(name, number), event)


def _called(recording: Recording) -> Iterator[_Point]:
    latest, last = 0, Line(recording.name, 0)
    for part in recording.batches:
        for seen, line in zip(part.observations, part.lines, strict=True):
            latest = max(latest, nanoseconds(seen.at) or 0)
            last = line if isinstance(line, Line) else Line(recording.name, line)
            yield _Point(latest, last, seen)
    yield _Point(latest, last, None)


def _batches(reader: CombinedReader, points: Iterator[_Point], recorded: Recording) -> Iterator[Batch]:
    found: list[tuple[Line, Observation]] = []
    for point in points:
        found += reader.seen(point)
        if len(found) >= _BATCH:
            yield batch(found)
            found = []
    found += reader.rest()
    reader.events.notes.update(recorded.notes)
    yield batch(found)


@dataclass(slots=True, kw_only=True)
class CombinedReader:
    """Turns points in the order of time into observations as the plugin has them."""

    events: NriEventReader
    _connection: int = 0
    _there: bool = False
    _missed_creation: bool = False
    _calls: bool = False
    _covered: bool = False
    _known: dict[str, _Known] = field(default_factory=dict)
    _asked: defaultdict[tuple[str, str], list[_Asked]] = field(default_factory=lambda: defaultdict(list))
    _creation: _Asked = field(default_factory=_Asked)
    _connected_at: int = 0
    _points: int = 0
    _received: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _held: list[tuple[Line, Observation]] = field(default_factory=list)

    def seen(self, point: _Point) -> Iterator[tuple[Line, Observation]]:
        """The observations that follow from *point*."""
        self._points += 1
        if point.what is None:
            self._calls = False
            return iter(())
        if isinstance(point.what, Observation):
            # Calls are recorded when they end, so those that ended before the first may be missing.
            self._calls |= point.what.phase != "request"
            return self._called(point.line, self._meant(point.what))
        return self._connects(point) if point.what.connects else self._event(point.line, point.what)

    def _event(self, line: Line, event: NriEvent) -> Iterator[tuple[Line, Observation]]:
        """What the plugin received, and the successes that count now that it is known to have been connected."""
        if event.synchronizes or not self._connection:
            self._connection = self._connection or 1
            self._there = True
        yield from self._held
        self._held.clear()
        self._missed_creation = False
        self._covered = self._calls
        for seen in self.events.observed(event):
            if seen.output in _REMOVED:
                self._known.pop(seen.entity, None)
                self._received.pop(seen.entity, None)
            else:
                self._received[seen.entity][seen.output] = self._points
                self._known[seen.entity] = _Known(self._connection, seen.output)
            # The plugin received it at this time, so it is an event here and not an output.
            yield line, structs.replace(seen, event=seen.output or seen.event, output="")

    def _called(self, line: Line, seen: Observation) -> Iterator[tuple[Line, Observation]]:
        """The observations that follow from an observation of a call; successes are held back."""
        if seen.event in _MAKES and seen.reply == "ok" and seen.phase == "":
            self._missed_creation |= self._there and seen.entity not in self._known
            began = _Asked(self._connection) if self._connected_at < (seen.start or 0) else _Asked()
            self._relayed(line, seen, self._creation if seen.of == CONTAINER else began)
            return
        kind = (seen.of, seen.event)
        which = seen.entity, seen.event
        succeeds = _SUCCEEDS.get(kind)
        if succeeds is None and kind not in _RELAYED:
            return
        if seen.phase == "request":
            self._asked[which].append(_Asked(self._connection, self._points) if self._there else _Asked())
            return
        if seen.phase not in {"reply", "lost", "answered", ""}:
            return
        asked = self._asked[which].pop(0) if self._asked.get(which) else _Asked()
        if not self._asked[which]:
            del self._asked[which]
        ok = seen.phase == "reply" and seen.reply == "ok"
        if succeeds is None:
            self._creation = asked if ok else _Asked()
            self._relayed(line, seen, self._creation)
        elif ok and asked.connection and asked.connection == self._connection:
            self._held.append((line, Observation(entity=seen.entity, of=seen.of, event=succeeds, at=seen.at)))
            if len(self._held) > HELD:
                yield from self._left()
        elif (seen.reply == "ok" or seen.phase == "lost") and seen.entity in self._known:
            yield line, Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)

    def _relayed(self, line: Line, seen: Observation, asked: _Asked) -> None:
        """Hold back that the plugin, connected since the call was *asked*, has not received all of it."""
        received = self._received.get(seen.entity, {})
        late = any(received.get(each, -1) < asked.points for each in _RELAYED[seen.of, seen.event])
        if late and asked.connection and asked.connection == self._connection:
            self._held.append((line, Observation(entity=seen.entity, of=seen.of, event=_UNRELAYED, at=seen.at)))

    def _meant(self, seen: Observation) -> Observation:
        """*seen*, of the entity that its shortened id stands for, if only the plugin has received the full id."""
        short = seen.entity.partition(" ")[0]  # a number may follow
        if not 0 < len(short) < _WHOLE:
            return seen
        meant = [each for each in self._known if each.startswith(short)]
        return structs.replace(seen, entity=meant[0]) if len(meant) == 1 else seen

    def rest(self) -> Iterator[tuple[Line, Observation]]:
        """The remaining successes, if the plugin was connected until the end."""
        if self._missed_creation or any(seen.event == _UNRELAYED or self._missed(seen) for _, seen in self._held):
            self.events.notes["calls after the last event of the plugin"] += len(self._held)
            self._held.clear()
        yield from self._held

    def _connects(self, point: _Point) -> Iterator[tuple[Line, Observation]]:
        """A connection begins; the plugin may have been disconnected since the last event."""
        yield from self._left()
        if self._connection:
            # Anything may have happened to any entity without being recorded.
            covered = self._covered and self._calls
            yield point.line, Observation(event=CONNECTS, at=point.at) if covered else Observation(phase="gap")
        self._connection += 1
        self._connected_at = point.at
        self._there = self._missed_creation = False

    def _left(self) -> Iterator[tuple[Line, Observation]]:
        """Drop the successes since the last event: it is unknown whether the plugin was connected."""
        for line, seen in self._held:
            if seen.entity in self._known:
                yield line, Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)
        self._held.clear()

    def _missed(self, seen: Observation) -> bool:
        """Whether the plugin knew of the entity on this connection, and did not receive what *seen* is about."""
        known = self._known.get(seen.entity)
        if known is None or known.connection != self._connection:
            return False
        if seen.of == POD:
            return bool(known.output) and (seen.event == "removal-succeeds" or known.output != "StopPodSandbox")
        return True
