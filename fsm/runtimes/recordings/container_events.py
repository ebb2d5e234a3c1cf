"""Check the container and pod events from GetContainerEvents against the calls of the same recording.

The rules are:

- The timestamp of an event lies between the beginning and the end of the call that sends the event.
- Each successful call sends one event, and a failed call sends no event.
- Events that were sent before a call began arrive before the events of the call.
- No call sends the exit event of a container. It is sent between the start of the container and the end of its
  removal.

The rules do not apply to an entity whose creation is not recorded, whose id is ambiguous, or on which a call was
given up. Because containerd 1.7 sends each event to only one stream, missing events are not reported while several
streams are open or shortly afterwards. No event is missing after the last event of a stream. Near the end of the
recording, an event without a call is not reported, because its call may still be in progress.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from fsm.recordings.form import Numbered
from fsm.runtimes.names import CONTAINER, FULL, POD
from fsm.trace import Line, Observation

EVENT: Final = "event"  # the ``op`` of a line with an event. If the line has no id, it marks the end of its stream.

CREATED: Final = "CONTAINER_CREATED_EVENT"
STARTED: Final = "CONTAINER_STARTED_EVENT"
STOPPED: Final = "CONTAINER_STOPPED_EVENT"
DELETED: Final = "CONTAINER_DELETED_EVENT"

UNCAUSED: Final = "event-without-cause"
MISSING: Final = "event-is-missing"
DISORDERED: Final = "event-out-of-order"

KINDS: Final = {f"event of a {each}": each for each in (CONTAINER, POD)}
"""Maps the kinds in findings about events, which no machine has, to kinds of entities."""

_SENDS: Final = {"StartContainer": STARTED, "RemoveContainer": DELETED, "RemovePodSandbox": DELETED}
SENDERS: Final = frozenset({*_SENDS, "CreateContainer", "RunPodSandbox"})  # calls that send events

_MADE: Final = {CONTAINER: (CREATED,), POD: (CREATED, STARTED)}

_SURE: Final = 2
"""Number of consecutive events on a stream that prove that no other stream is open.

Any other stream would have received one of these events.
"""

_EARLY: Final = 16  # maximum number of events to keep for an entity whose creation has not ended
_EXIT: Final = 10 * 1_000_000_000  # maximum time in nanoseconds for handling an exit

_MOST: Final = 8_192
"""Maximum number of pods and containers to keep. At most one eighth of them have been removed."""

_LEAST: Final = 1_000_000_000  # assumed maximum duration of a call in nanoseconds, if all recorded calls are shorter


class ToldEvent(NamedTuple):
    at: int
    entity: str
    pod: str
    type: str
    stream: int
    order: int
    line: int | Line


class EventCall(NamedTuple):
    """The beginning or end of a call.

    ``answer`` is true if the call succeeds, false if it fails, and ``None`` if this is unknown.
    """

    op: str
    id: str
    pod: str
    start: int
    end: int
    answer: bool | None
    line: int | Line


_Finding: TypeAlias = tuple[int, Observation, int | Line]


@dataclass(slots=True)
class _Calls:
    open: int = 0
    ok: int = 0
    lost: bool = False
    some: bool = False
    told: list[ToldEvent] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Entity:
    of: str
    pod: str = ""
    known: bool = False
    gone: bool = False
    started: int | None = None
    stopped: bool = False
    restarts: int = 0
    calls: dict[str, _Calls] = field(default_factory=lambda: {STARTED: _Calls(), DELETED: _Calls()})
    early: list[ToldEvent] = field(default_factory=list)
    told: set[tuple[int, str, int]] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class EventJudge:
    """Checks events against calls, which must be passed to it in order of time.

    Pass each event to :meth:`told`, the beginning of each call to :meth:`asked`, and its end to :meth:`replied`. It is
    not necessary to pass calls that precede the first event.
    """

    _entities: OrderedDict[str, _Entity] = field(default_factory=OrderedDict)
    _within: dict[str, list[str]] = field(default_factory=dict)
    _creating: Counter[str] = field(default_factory=Counter)
    _leaking: set[str] = field(default_factory=set)
    _unknown_in_pod: dict[str, list[ToldEvent]] = field(default_factory=dict)
    _reached: dict[tuple[str, int, int | Line], list[str]] = field(default_factory=dict)
    _removed: dict[str, int] = field(default_factory=dict)
    _gone: deque[str] = field(default_factory=deque)
    _open: dict[int, int] = field(default_factory=dict)
    _since: int | None = None
    _ends: int = 0
    _settled: dict[int, int] = field(default_factory=dict)
    _lacking: list[_Finding] = field(default_factory=list)
    _doubted: list[_Finding] = field(default_factory=list)
    _longest: int = _LEAST

    def told(self, event: ToldEvent) -> Numbered:
        yield from self._due_findings(event.at)
        if event.entity and self._open.keys() <= {event.stream}:
            yield from _take_findings_before(event.at, self._lacking)
            self._open[event.stream] = self._open.get(event.stream, 0) + 1
            if self._open[event.stream] == _SURE:
                self._since = event.at
        else:
            self._since = None
            self._lacking.clear()
            self._open = dict.fromkeys([*self._open, event.stream], 0)
        if not event.entity:
            del self._open[event.stream]
            self._settled.pop(event.stream, None)
            self._ends += 1
            return
        if event.order < self._settled.get(event.stream, 0):
            what = f"{event.type} came before the event of a call that had ended"
            yield event.line, self._finding(event, DISORDERED, what)
        entity = self._entities.get(event.entity)
        if entity is not None and entity.known:
            self._check_event(entity, event)
        else:
            self._keep_early_event(event)

    def _check_event(self, entity: _Entity, event: ToldEvent) -> None:
        key = (event.stream, event.type, event.at)
        if key in entity.told:
            self._report_uncaused(event, f"{event.type} came twice")
            return
        entity.told.add(key)
        calls = entity.calls.get(event.type)
        if event.type == STARTED and entity.started is None:
            entity.started = event.at
        if event.type == STOPPED:
            entity.stopped = True
            # A removal does not wait for the exit event. If the exit event comes after the removal, it may already
            # have been counted as missing.
            come = (event.entity, STOPPED)
            self._lacking = [finding for finding in self._lacking if (finding[1].entity, finding[1].output) != come]
            began = entity.started is not None or entity.calls[STARTED].open or entity.calls[STARTED].lost
            if entity.of == CONTAINER and not began and entity.restarts == self._ends:
                self._report_uncaused(event, f"{STOPPED} came from a container or pod that was not started")
        elif event.type in _MADE[entity.of]:
            self._report_uncaused(event, f"{event.type} came after the end of the call that sends it")
        elif calls is None or calls.lost:
            pass
        elif calls.open:
            calls.told.append(event)
        else:
            self._report_uncaused(event, f"{event.type} came while no call was in progress that sends it")

    def _keep_early_event(self, event: ToldEvent) -> None:
        entity = self._get_entity(event.entity, POD if event.entity == event.pod else CONTAINER)
        entity.early.append(event)
        del entity.early[:-_EARLY]
        pod = self._entities.get(event.pod)
        if event.pod in {"", event.entity} or pod is None or not pod.known or event.pod in self._leaking:
            return
        if self._creating[event.pod]:
            self._unknown_in_pod.setdefault(event.pod, []).append(event)
        else:
            self._report_unknown_container(event)

    def _report_unknown_container(self, event: ToldEvent) -> None:
        self._report_uncaused(event, f"{event.type} came from a container that no call has created")

    def asked(self, call: EventCall) -> Numbered:
        yield from self._due_findings(call.start)
        if call.op == "CreateContainer":
            for pod in self._possible_ids(call.pod):
                self._creating[pod] += 1
        elif sends := _SENDS.get(call.op):
            those = self._possible_ids(call.id)
            if call.op == "RemovePodSandbox":
                those = [*those, *(each for pod in those for each in self._within.get(pod, ()))]
            self._reached[call.op, call.start, call.line] = those
            for each in those:
                of = POD if call.op == "RemovePodSandbox" and each in self._within else CONTAINER
                calls = self._get_entity(each, of).calls[sends]
                if not calls.open:
                    calls.ok, calls.some = 0, False
                    calls.told.clear()
                calls.open += 1

    def replied(self, call: EventCall) -> Numbered:
        yield from self._due_findings(call.end)
        sends = _SENDS.get(call.op)
        self._longest = max(self._longest, call.end - call.start)
        if call.op == "RunPodSandbox" and call.answer:
            self._register(call, POD)
        elif call.op == "CreateContainer":
            self._end_creation(call)
        elif sends:
            for each in self._reached.pop((call.op, call.start, call.line), ()):
                if entity := self._entities.get(each):
                    self._end_call(each, entity, call, sends)
            if call.op == "RemovePodSandbox":
                for pod in self._possible_ids(call.id):
                    self._removed[pod] = call.end

    def _end_call(self, name: str, entity: _Entity, call: EventCall, sends: str) -> None:
        calls = entity.calls[sends]
        calls.open -= 1
        calls.ok += call.answer is True
        calls.lost |= call.answer is None
        calls.some |= call.op == "RemovePodSandbox" and entity.of == CONTAINER and not call.answer
        if sends == STARTED and call.answer and entity.started is None:
            entity.started = call.start
        if calls.open or not entity.known:
            return
        if not calls.lost:
            most = calls.ok + calls.some
            for stream in {event.stream for event in calls.told}:
                those = [each for each in calls.told if each.stream == stream]
                for each in those[most:]:
                    self._report_uncaused(each, f"{each.type} came more often than the call that sends it succeeded")
            if calls.ok and not entity.gone and not calls.told:
                self._report_missing(name, entity.of, sends, call)
            self._settle(calls.told)
        calls.told.clear()
        if sends == DELETED and calls.ok:
            if entity.of == CONTAINER and entity.started is not None and not entity.stopped and not entity.gone:
                self._report_missing(name, CONTAINER, STOPPED, call, since=entity.started, after=_EXIT)
            self._mark_removed(name, entity)

    def _mark_removed(self, name: str, entity: _Entity) -> None:
        if name in self._within.get(entity.pod, ()):
            self._within[entity.pod].remove(name)
        entity.gone = True
        self._gone.append(name)
        if len(self._gone) > _MOST // 8:
            self._forget(self._gone.popleft())

    def _forget(self, name: str) -> None:
        self._entities.pop(name, None)
        self._within.pop(name, None)
        self._removed.pop(name, None)
        self._creating.pop(name, None)
        self._leaking.discard(name)

    def _settle(self, told: list[ToldEvent]) -> None:
        for event in told:
            self._settled[event.stream] = max(self._settled.get(event.stream, 0), event.order)

    def _end_creation(self, call: EventCall) -> None:
        for pod in self._possible_ids(call.pod):
            self._creating[pod] = max(0, self._creating[pod] - 1)  # the call may have begun before the first event
            if not self._creating[pod]:
                del self._creating[pod]
            if call.answer is None:
                self._leaking.add(pod)
        if call.answer:
            self._register(call, CONTAINER)
        for pod in self._possible_ids(call.pod):
            if not self._creating[pod]:
                for event in self._unknown_in_pod.pop(pod, ()):
                    entity = self._entities.get(event.entity)
                    if pod not in self._leaking and (entity is None or not entity.known):
                        self._report_unknown_container(event)

    def _register(self, call: EventCall, of: str) -> None:
        entity = self._get_entity(call.id, of)
        entity.of, entity.known, entity.restarts = of, True, self._ends
        if of == POD:
            self._within[call.id] = []
        else:
            (entity.pod, *others) = self._possible_ids(call.pod) or [""]
            if entity.pod and not others:
                self._within.setdefault(entity.pod, []).append(call.id)
            reached = any(op == "RemovePodSandbox" and entity.pod in those for (op, *_), those in self._reached.items())
            pod = self._entities.get(entity.pod)
            if reached or pod is None or not pod.known or self._removed.get(entity.pod, -1) >= call.start:
                entity.calls[DELETED].lost = True
        self._check_creation_events(entity, call)
        early, entity.early = entity.early, []
        for event in early:
            if event.type in _MADE[of]:
                self._check_event(entity, event)

    def _check_creation_events(self, entity: _Entity, call: EventCall) -> None:
        first: dict[int, int] = {}
        for each in _MADE[entity.of]:
            told = [event for event in entity.early if event.type == each and call.start <= event.at <= call.end]
            for event in told[1:]:
                if any(event.stream == other.stream for other in told[: told.index(event)]):
                    self._report_uncaused(event, f"{each} came twice")
            if not told:
                self._report_missing(call.id, entity.of, each, call)
            for event in told:
                if first.setdefault(event.stream, event.order) > event.order:
                    what = f"{event.type} came before another event that the same call sends first"
                    self._report_uncaused(event, what, DISORDERED)
            self._settle(told)
            entity.told |= {(event.stream, event.type, event.at) for event in told}
            entity.early = [event for event in entity.early if event not in told]

    def _report_missing(
        self, name: str, of: str, type_: str, call: EventCall, *, since: int = 0, after: int = 0
    ) -> None:
        if self._since is not None and self._since <= (since or call.start):
            what = f"{call.op} succeeded, but {type_} did not come"
            seen = Observation(entity=name, of=_kind(of), event=MISSING, output=type_, at=call.end, detail=what)
            self._lacking.append((call.end + after, seen, call.line))

    def _report_uncaused(self, event: ToldEvent, what: str, signal: str = UNCAUSED) -> None:
        self._doubted.append((event.at, self._finding(event, signal, what), event.line))

    def _finding(self, event: ToldEvent, signal: str, what: str) -> Observation:
        entity = self._entities.get(event.entity)
        of = entity.of if entity else CONTAINER
        return Observation(entity=event.entity, of=_kind(of), event=signal, output=event.type, at=event.at, detail=what)

    def _due_findings(self, now: int) -> Numbered:
        since = now - 2 * self._longest
        return _take_findings_before(since, self._doubted) if self._doubted and self._doubted[0][0] < since else ()

    def rest(self) -> Numbered:
        if not self._open:
            yield from ((line, seen) for _, seen, line in self._doubted)
        self._doubted.clear()
        self._lacking.clear()

    def _get_entity(self, name: str, of: str) -> _Entity:
        found = self._entities.setdefault(name, _Entity(of=of, restarts=self._ends))
        if len(self._entities) > _MOST:
            self._forget(next(iter(self._entities)))
        return found

    def _possible_ids(self, name: str) -> list[str]:
        if name in self._entities or len(name) in {0, FULL}:
            return [name] if name else []
        found = [each for each, entity in self._entities.items() if entity.known and each.startswith(name)]
        if len(found) > 1:
            for each in found:
                for calls in self._entities[each].calls.values():
                    calls.lost = True
        return found or [name]


def _take_findings_before(at: int, findings: list[_Finding]) -> Numbered:
    due = [(line, seen) for since, seen, line in findings if since < at]
    findings[:] = [finding for finding in findings if finding[0] >= at]
    return due


def _kind(of: str) -> str:
    return f"event of a {of}"
