"""What a plugin was told, and the calls of the same time: one recording of two files.

A call of which a plugin that is connected is to be told succeeds after it was
told; so a success is an observation of its own, of the signals
:data:`fsm.recordings.nri_events.SUCCEEDED`.  It counts only where the plugin was there
for all of the call.  When a plugin leaves is not recorded: it was there until
the last event before it connects again, and what succeeded after that event
says nothing.  After its very last event it is taken to be there unless
something shows that it was not: a creation that it was not told of, or the end
of something that it was told of on the same connection.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from fsm.errors import InputError, Problem
from fsm.recordings import Batch, Recording, RecordingKind, open_recording
from fsm.recordings.json_lines import nanoseconds
from fsm.recordings.line_reader import STDIN, LineReader
from fsm.recordings.nri_events import CONNECTS, Events
from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.trace import Line, Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.recordings.nri_events import Told

HELD: Final = 65_536
"""Successes that wait for the plugin's next event; if there are more, it has left."""

_WHOLE: Final = 64
"""Characters of an id that is not shortened."""

_TOGETHER: Final = 1_024
"""Observations passed on at once."""

_SUCCEEDS: Final = {
    (POD, "StopPodSandbox"): "stop-succeeds",
    (POD, "RemovePodSandbox"): "removal-succeeds",
    (CONTAINER, "RemoveContainer"): "removal-succeeds",
}
_MAKES: Final = frozenset({"RunPodSandbox", "CreateContainer"})
_REMOVED: Final = frozenset({"RemovePodSandbox", "RemoveContainer"})


class _Point(NamedTuple):
    """Something at a time: what the plugin was told, what was seen of a call, or that no more calls are recorded."""

    at: int
    line: Line
    what: Told | Observation | None


class _Known(NamedTuple):
    """What the plugin was last told of somebody, on which connection; listed, if nothing."""

    connection: int
    output: str


def open_together(name: str, calls: str, advanced: Callable[[int], None] = lambda _: None) -> Recording:
    """The NRI events of one plugin in the file *name*, with what was called in the same run.

    Raises :class:`InputError` if a file cannot be opened, or is of another kind.
    """
    for file, kinds, what in (
        (name, {RecordingKind.EVENTS}, "NRI events, as a plugin was told them"),
        (calls, {RecordingKind.CALLS, RecordingKind.LOG}, "the CRI calls, or the containerd log, of the same run"),
    ):
        if file == STDIN or open_recording(file).kind not in kinds:
            found = "cannot be read twice" if file == STDIN else f"holds {open_recording(file).kind.value}"
            raise InputError([Problem(path=file, line=0, code="FSM206", what=found, hint=f"give a file of {what}")])
    notes: Counter[str] = Counter()
    recorded = open_recording(calls, advanced)
    events = Events(notes=notes)
    points = heapq.merge(_told(name, events, advanced), _called(recorded), key=lambda point: point.at)
    return Recording(
        name=name,
        kind=RecordingKind.TOGETHER,
        machines=("nri-plugin-contract",),
        shown=None,
        hidden=(),
        fresh=False,
        outputs=False,
        batches=_batches(Together(events=events), points, recorded),
        notes=notes,
        version=recorded.version,
    )


def _told(name: str, events: Events, advanced: Callable[[int], None]) -> Iterator[_Point]:
    latest = 0
    for piece in LineReader(name=name, notes=events.notes, advanced=advanced):
        for number, line in enumerate(piece.lines, piece.first):
            told = events.read(line) if line.strip() else None
            if told is not None:
                latest = max(latest, told.ts or 0)
                yield _Point(latest, Line(name, number), told)


def _called(recording: Recording) -> Iterator[_Point]:
    latest, last = 0, Line(recording.name, 0)
    for batch in recording.batches:
        for seen, line in zip(batch.observations, batch.lines, strict=True):
            latest = max(latest, nanoseconds(seen.at) or 0)
            last = line if isinstance(line, Line) else Line(recording.name, line)
            yield _Point(latest, last, seen)
    yield _Point(latest, last, None)


def _batches(together: Together, points: Iterator[_Point], recorded: Recording) -> Iterator[Batch]:
    found: list[tuple[Line, Observation]] = []
    for point in points:
        found += together.seen(point)
        if len(found) >= _TOGETHER:
            yield Batch([seen for _, seen in found], [line for line, _ in found])
            found = []
    found += together.rest()
    together.events.notes.update(recorded.notes)
    yield Batch([seen for _, seen in found], [line for line, _ in found])


@dataclass(slots=True, kw_only=True)
class Together:
    """Turns points in the order of time into observations of one plugin's view."""

    events: Events
    _connection: int = 0
    _there: bool = False
    _unheard: bool = False
    _calls: bool = False
    _covered: bool = False
    _known: dict[str, _Known] = field(default_factory=dict)
    _asked: defaultdict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    _held: list[tuple[Line, Observation]] = field(default_factory=list)

    def seen(self, point: _Point) -> Iterator[tuple[Line, Observation]]:
        """What *point* says of the plugin's view."""
        if point.what is None:
            self._calls = False
            return iter(())
        if isinstance(point.what, Observation):
            # Calls are recorded when they end: what ended before the first of them may be missing.
            self._calls |= point.what.phase != "request"
            return self._called(point.line, self._meant(point.what))
        return self._connects(point) if point.what.connects else self._told(point.line, point.what)

    def _told(self, line: Line, told: Told) -> Iterator[tuple[Line, Observation]]:
        """What the plugin was told, and the successes that count now that it is known to have been there."""
        if told.synchronizes or not self._connection:
            self._connection = self._connection or 1
            self._there = True
        yield from self._held
        self._held.clear()
        self._unheard = False
        self._covered = self._calls
        for seen in self.events.said(told):
            if seen.output in _REMOVED:
                self._known.pop(seen.entity, None)
            else:
                self._known[seen.entity] = _Known(self._connection, seen.output)
            # The plugin was told at this very time, so the event itself is seen, and not an output on its way.
            yield line, structs.replace(seen, event=seen.output or seen.event, output="")

    def _called(self, line: Line, seen: Observation) -> Iterator[tuple[Line, Observation]]:
        """What was seen of a call; what it says of the plugin, if anything, is said later."""
        if seen.event in _MAKES and seen.reply == "ok" and seen.phase == "":
            self._unheard |= self._there and seen.entity not in self._known
        succeeds = _SUCCEEDS.get((seen.of, seen.event))
        if succeeds is None:
            return
        which = seen.entity, seen.event
        if seen.phase == "request":
            self._asked[which].append(self._connection if self._there else 0)
            return
        if seen.phase not in {"reply", "lost", "answered", ""}:
            return
        asked = self._asked[which].pop(0) if self._asked.get(which) else 0
        if not self._asked[which]:
            del self._asked[which]
        if seen.phase == "reply" and seen.reply == "ok" and asked and asked == self._connection:
            self._held.append((line, Observation(entity=seen.entity, of=seen.of, event=succeeds, at=seen.at)))
            if len(self._held) > HELD:
                yield from self._left()
        elif (seen.reply == "ok" or seen.phase == "lost") and seen.entity in self._known:
            yield line, Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)

    def _meant(self, seen: Observation) -> Observation:
        """*seen*, of the one whom a shortened id stands for, if the plugin was told of it and the calls were not."""
        short = seen.entity.partition(" ")[0]  # which a number may follow
        if not 0 < len(short) < _WHOLE:
            return seen
        meant = [each for each in self._known if each.startswith(short)]
        return structs.replace(seen, entity=meant[0]) if len(meant) == 1 else seen

    def rest(self) -> Iterator[tuple[Line, Observation]]:
        """What is left at the end, if the plugin was there until then."""
        if self._unheard or any(map(self._missed, (seen for _, seen in self._held))):
            self.events.notes["calls after the plugin was last heard of"] += len(self._held)
            self._held.clear()
        yield from self._held

    def _connects(self, point: _Point) -> Iterator[tuple[Line, Observation]]:
        """A connection begins; what succeeded since the last event may have found nobody to tell."""
        yield from self._left()
        if self._connection:
            # What nobody recorded may have happened to everybody.
            covered = self._covered and self._calls
            yield point.line, Observation(event=CONNECTS, at=point.at) if covered else Observation(phase="gap")
        self._connection += 1
        self._there = self._unheard = False

    def _left(self) -> Iterator[tuple[Line, Observation]]:
        """Of what succeeded since the last event nothing is known."""
        for line, seen in self._held:
            if seen.entity in self._known:
                yield line, Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)
        self._held.clear()

    def _missed(self, seen: Observation) -> bool:
        """Whether the plugin was told of somebody on this connection, and then not what *seen* says."""
        known = self._known.get(seen.entity)
        if known is None or known.connection != self._connection:
            return False
        if seen.of == POD:
            return bool(known.output) and (seen.event == "removal-succeeds" or known.output != "StopPodSandbox")
        return True
