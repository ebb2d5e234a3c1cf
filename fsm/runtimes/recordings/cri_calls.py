"""Read recordings of CRI calls, in which a client or a proxy has written a JSON line for each call.

The keys of a line are:

- ``op``: the name of the RPC
- ``id``: the id of the container or pod; in a creation, the id of the new entity
- ``pod``: the id of the pod in which a container is created
- ``start`` and ``end``: the times of the request and the reply, in nanoseconds since the epoch
- ``code`` and ``detail``: the gRPC code and the text of the reply

A line whose ``op`` is ``status`` contains the state that the preceding ContainerStatus call returned, and the keys
``created_at``, ``started_at``, ``finished_at``, ``exit_code``, ``reason`` and ``message``. A line whose ``op`` is
``event`` is a message of GetContainerEvents. It has the keys ``type``, ``created_at`` (the runtime's timestamp),
``start`` (the time of arrival) and ``stream``, which is the same for all messages of a call. A message without ``id``
marks the end of its stream.

Lines are in the order in which the calls ended. Each call becomes two observations, its request and its reply, and
all observations are sorted by time. A client does not see restarts of the runtime. Wherever no answered call was in
progress, an observation therefore says that the runtime may have restarted (see :mod:`fsm.recordings.time_order`).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import structs

from fsm.recordings.form import Numbered
from fsm.recordings.line_reader import Notes, decoded
from fsm.recordings.time_order import Ordering, Restarts, Stretches
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, MAKES, POD, POD_CALLS
from fsm.runtimes.recordings.container_events import EVENT, SENDERS, EventCall, EventJudge, ToldEvent
from fsm.runtimes.recordings.containerd_texts import capitals, meant, met, unanswered, unresolved
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.trace import Line, Nanoseconds, Observation

LOST: Final = frozenset({"CANCELED", "DEADLINE_EXCEEDED", "UNAVAILABLE"})
"""Codes of calls that may still be running, because the client gave them up or lost the connection."""

_READS: Final = 1_024  # maximum number of status calls to keep until the lines with their results are read


_CALLS: Final = POD_CALLS | CONTAINER_CALLS | {EVENT}
_STATUS: Final = ("created", "started", "finished", "exit_code", "reason", "message")


class CriCallLine(
    msgspec.Struct, gc=False, rename={"created": "created_at", "started": "started_at", "finished": "finished_at"}
):
    op: str
    id: str = ""
    pod: str = ""
    start: Nanoseconds | None = None
    end: Nanoseconds | None = None
    code: str = ""
    detail: str = ""
    version: str = ""
    state: str = ""
    created: Nanoseconds | str | None = None
    started: Nanoseconds | str | None = None
    finished: Nanoseconds | str | None = None
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    type: str = ""
    stream: int = 0

    def fields(self) -> dict[str, int | str]:
        found = structs.asdict(self)
        return {name.replace("_", "-"): found[name] for name in _STATUS if found[name] is not None}

    def __post_init__(self) -> None:
        if self.code != "OK":
            self.code = capitals(self.code)


class _Point(msgspec.Struct, gc=False):
    """An event, or the request or reply of a call. It is a request if ``asks`` is true.

    A call with an empty ``op`` is not about a container or pod, but still shows whether the runtime answered.
    """

    at: int
    call: CriCallLine
    line: int | Line
    asks: bool


DECODER: Final = msgspec.json.Decoder(CriCallLine)


@dataclass(slots=True, kw_only=True)
class CriCallReader:
    """Converts the lines of a recording to observations in order of time.

    If ``as_called`` is true, only the entities that a call names are observed. In a growing file, the line of a call
    must arrive within ``settle`` nanoseconds of the beginning of the call. If it arrives later, the call's entities
    have already been judged without the call, so their state becomes unknown.
    """

    notes: Notes = field(default_factory=Notes)
    restarts: Restarts = field(default_factory=Restarts)
    as_called: bool = False
    settle: int | None = None
    version: str = ""
    _joiner: Joiner = field(default_factory=Joiner)
    _stretches: Stretches[_Point] = field(init=False)
    _points: Ordering[_Point] = field(default_factory=Ordering)
    _reads: deque[CriCallLine] = field(default_factory=lambda: deque(maxlen=_READS))
    _latest: int = 0
    _events: EventJudge = field(default_factory=EventJudge)
    _told: int = 0

    def __post_init__(self) -> None:
        self._stretches = Stretches(restarts=self.restarts)

    def observations(self, line: bytes, number: int | Line) -> Numbered:
        """Read *line*, and yield all observations that no later line can precede, with their line numbers."""
        if not line.strip():
            return
        call = decoded(line, DECODER)
        if call is None:
            self.notes.add(number)
            return
        self.version = call.version or self.version
        if unresolved(call.detail):
            self.notes["calls that reached no container or pod"] += 1
            call.op = ""
        if call.op == "status":
            self._convert_status_to_reply(call)
        elif call.op not in _CALLS:
            if call.op:
                self.notes["calls without a lifecycle"] += 1
            call.op = ""
        elif call.op == "ContainerStatus" and call.code == "OK":
            self._reads.append(call)
        if call.op == EVENT:
            self._add_event(call, number)
        else:
            yield from self._add_call(call, number)
        if self.settle is None:
            yield from self._observe_points(self._points.settled())

    def _add_call(self, call: CriCallLine, number: int | Line) -> Numbered:
        start = call.start if call.start is not None else self._latest
        end = max(start, call.end) if call.end is not None else max(start, self._latest)
        self._latest = max(self._latest, end)
        if self.settle is not None and start < self._points.final:
            self.notes["calls told too late"] += 1  # calls that overlap this call have already been judged
            for each, kind in self._joiner.concerned(*_named_entity(call)) if call.op else ():
                yield number, Observation(entity=each, of=kind, phase="gap")
        self._points.add(start, _Point(start, call, number, asks=True))
        self._points.add(end, _Point(end, call, number, asks=False))

    def _add_event(self, call: CriCallLine, number: int | Line) -> None:
        """Add the event *call* at its timestamp.

        Its ``end`` becomes its position among all events.
        """
        self._told += 1
        self.notes["container events"] += bool(call.id)
        came = call.start if call.start is not None else self._latest
        at = call.created if call.id and isinstance(call.created, int) else came
        call.start, call.end = at, self._told
        if self.settle is not None and at < self._points.final:
            self.notes["container events told too late"] += 1
        else:
            self._points.add(at, _Point(at, call, number, asks=False))

    def paused(self, quiet: int) -> Numbered:
        if self.settle is not None:
            yield from self._observe_points(self._points.due(self.settle, quiet))

    def gap(self) -> Numbered:
        yield from self.rest()
        self._joiner, self._stretches = Joiner(), Stretches(restarts=self.restarts)
        self._events = EventJudge()
        self._reads.clear()
        yield 0, Observation(phase="gap")

    def _convert_status_to_reply(self, shown: CriCallLine) -> None:
        shown.op, shown.code = "ContainerStatus", "OK"
        for read in reversed(self._reads):
            if read.id and shown.id.startswith(read.id):
                self._reads.remove(read)
                shown.start, shown.end = read.start, read.end
                return

    def rest(self) -> Numbered:
        yield from self._observe_points(self._points.rest())
        yield from self._observe_calls(self._stretches.rest())
        yield from self._events.rest()

    def _observe_points(self, points: Iterable[_Point]) -> Numbered:
        for point in points:
            call = point.call
            code = meant(call.code, call.detail)
            down = call.op != EVENT and unanswered(code, call.detail)
            change = 0 if down or code in LOST or call.op == EVENT else 1 if point.asks else -1
            if call.op == EVENT and not self.as_called:
                event = ToldEvent(point.at, call.id, call.pod, call.type, call.stream, call.end or 0, point.line)
                yield from self._events.told(event)
                continue
            if self._told and call.op in SENDERS and not self.as_called:
                start = point.at if call.start is None else call.start
                answer = None if code in LOST or (code == "OK" and not call.id) else code == "OK"
                sent = EventCall(call.op, call.id, call.pod, start, point.at, answer, point.line)
                yield from self._events.asked(sent) if point.asks else self._events.replied(sent)
            # Keep events and calls in order: both wait until it is known whether a restart precedes them.
            timed = self._stretches.take(point.at, point, change=change, down=down and not point.asks)
            yield from self._observe_calls(timed)

    def _observe_calls(self, points: Iterable[tuple[_Point, Observation | None]]) -> Numbered:
        for point, restart in points:
            if restart is not None:
                self._joiner.not_ready.clear()
                yield point.line, restart
            call = point.call
            if call.op == EVENT and call.id:
                of = POD if call.id == call.pod else CONTAINER
                yield point.line, Observation(entity=call.id, of=of, output=call.type, at=point.at)
            elif call.op not in {"", EVENT}:
                seen = _request(call) if point.asks else _reply(call)
                for each in (seen,) if self.as_called else self._joiner.joined(seen):
                    yield point.line, each


def _request(call: CriCallLine) -> Observation:
    entity, of = _named_entity(call)
    return Observation(entity=entity, of=of, event=call.op, phase="request", at=call.start)


def _reply(call: CriCallLine) -> Observation:
    code = meant(call.code, call.detail)
    lost, made = code in LOST, call.op in MAKES and code == "OK"
    reply = "" if lost or (made and not call.id) else "ok" if code == "OK" else code
    seen = Observation(event=call.op, phase="lost" if lost else "reply", reply=reply, at=call.end)
    if made and call.id:
        of = POD if call.op == "RunPodSandbox" else CONTAINER
        return structs.replace(seen, entity=call.id, of=of, detail=call.pod, start=call.start)
    entity, of = _named_entity(call)
    state = call.state or met(call.detail, pod=of == POD)
    fields = call.fields() if call.state and reply else None
    return structs.replace(seen, entity=entity, of=of, met=state, detail=call.detail, fields=fields)


def _named_entity(call: CriCallLine) -> tuple[str, str]:
    if call.op in MAKES:
        return call.pod if call.op == "CreateContainer" else "", POD
    return call.id, POD if call.op in POD_CALLS else CONTAINER
