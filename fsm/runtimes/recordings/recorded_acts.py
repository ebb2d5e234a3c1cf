"""Extract the acts on each entity from a recording, for :mod:`fsm.mutation.strict_reading`.

This code is independent of the code that reads observations. An act is uncertain if its id is abbreviated, if the pod
of the container is unknown, or if the client gave up on the call.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from fsm.mutation.strict_reading import FOREVER, RecordedAct, Room
from fsm.recordings.line_reader import decoded
from fsm.recordings.time_order import Restarts
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, EVENT_NAMES, FULL_ID, INNER, POD, POD_CALLS, RELAYED
from fsm.runtimes.recordings import nri_events
from fsm.runtimes.recordings.containerd_texts import entry, meant, split, unanswered, unresolved
from fsm.runtimes.recordings.cri_calls import DECODER, LOST, CriCallLine

Entity: TypeAlias = tuple[str, str]  # the kind and the id of an entity

_ON: Final = re.compile(r'^(\w+?) (?:within sandbox |for )?"([0-9a-f]+)"(.*)', re.DOTALL)
_MADE: Final = re.compile(r'returns (?:container|sandbox) id "([0-9a-f]+)"$')
_RUN: Final = re.compile(r"^RunPod[Ss]andbox for ")
_LOGGED: Final = frozenset(
    {"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"}
)
_TOLD: Final = RELAYED | {
    name: (name,) for name in ("StopPodSandbox", "StopContainer", "RemoveContainer", "RemovePodSandbox")
}


@dataclass(slots=True, kw_only=True)
class RecordedActs:
    """The acts on each entity, and the intervals in which the runtime may have restarted (``rooms``).

    ``fresh`` contains the entities that were created after the beginning of the recording. ``pods`` maps containers
    to their pods.
    """

    acts: dict[Entity, list[RecordedAct]] = field(default_factory=lambda: defaultdict(list))
    rooms: list[Room] = field(default_factory=list)
    fresh: set[Entity] = field(default_factory=set)
    pods: dict[str, str] = field(default_factory=dict)

    def made(self, act: RecordedAct, identity: str, pod: str = "") -> None:
        of = CONTAINER if act.event == "CreateContainer" else POD
        self.acts[of, identity].append(replace(act, entity=identity, of=of))
        self.fresh.add((of, identity))
        if pod:
            self.pods.setdefault(identity, pod)

    def starts_after_stop(self) -> Iterator[RecordedAct]:
        """Yield the successful starts of containers whose pod had already been stopped.

        Skip a start if another start, which began before the stop of the pod, may still have been in progress, because
        the success may belong to that other start.
        """
        for (of, identity), acts in self.acts.items():
            pod = self.acts.get((POD, self.pods.get(identity, "")), [])
            stopped = [act.end for act in pod if act.event == "StopPodSandbox" and act.reply == "ok" and act.certain]
            starts = [act for act in acts if act.event == "StartContainer"] if of == CONTAINER and stopped else []
            for start in starts:
                before = [each for each in starts if each.start <= min(stopped)]
                if start.reply == "ok" and start.certain and all(each.end < start.start for each in before):
                    yield start

    def during(self, entity: Entity) -> list[RecordedAct]:
        """Return the acts on *entity* and the calls on its pod, or on all pods if its pod is unknown."""
        kind, identity = entity
        own = self.acts.get(entity, [])
        if kind == POD:
            return own
        pod = self.pods.get(identity, "")
        made = next((act for act in own if act.event == "CreateContainer"), None)
        known = made is not None and (POD, pod) in self.fresh
        pods = [pod] if known else [each for of, each in tuple(self.acts) if of == POD]
        calls = [act for each in pods for act in self.acts[POD, each] if made is None or act.end >= made.start]
        # A container that is created while its pod is being removed may outlive the pod.
        orphan = made is None or any(act.event == "RemovePodSandbox" and act.start <= made.end for act in calls)
        found = list(own)
        for act in calls:
            certain = known and not orphan and made is not None and act.start > made.end and act.reply == "ok"
            for inner in INNER.get(act.event, ()):
                reached = replace(act, entity=identity, of=CONTAINER, event=inner)
                found.append(reached if certain else replace(reached, reply="", certain=False))
        return found


class TimedCall(NamedTuple):
    line: int
    call: CriCallLine
    start: int
    end: int


def timed(lines: Sequence[bytes]) -> Iterator[TimedCall]:
    for number, line in enumerate(lines, 1):
        call = decoded(line, DECODER)
        if call is not None and call.start is not None:
            yield TimedCall(number, call, call.start, max(call.start, call.end or 0))


def acts_of_calls(lines: Sequence[bytes], restarts: Restarts) -> RecordedActs:
    """Return the acts in a recording of CRI calls.

    If a long time passes between two answered calls, or if a call between them finds no runtime, *restarts* says
    whether to assume that the runtime may have restarted in between.
    """
    found = RecordedActs()
    busy: list[tuple[int, int]] = []
    down: list[int] = []
    vague: list[RecordedAct] = []
    for number, call, start, end in timed(lines):
        if call.op == "status":
            _add_state(found.acts[CONTAINER, call.id], call.state)
            continue
        code = meant(call.code, call.detail)
        if unanswered(code, call.detail):
            down.append(end)
        elif code not in LOST:
            busy.append((start, end))
        if unresolved(call.detail) or call.op not in POD_CALLS | CONTAINER_CALLS:
            continue
        act = _act(call.op, call.pod if call.op == "CreateContainer" else call.id, start, end, code, number)
        if call.op in {"CreateContainer", "RunPodSandbox"} and code == "OK":
            found.made(act, call.id, call.pod)
        if call.op != "RunPodSandbox":
            (found.acts[act.of, act.entity] if FULL_ID.fullmatch(act.entity) else vague).append(act)
    for act in vague:
        meant_ = [each for of, each in found.acts if of == act.of and act.entity and each.startswith(act.entity)]
        for identity in meant_:
            found.acts[act.of, identity].append(replace(act, entity=identity, reply="", certain=False))
    found.rooms = list(_restart_windows(sorted(busy), down, restarts))
    return found


def changed(lines: Sequence[bytes], rooms: Sequence[Room]) -> set[tuple[str, str]]:
    """Return the container id and the field name of each value that changed between statuses without a restart."""
    found: set[tuple[str, str]] = set()
    last: dict[tuple[str, str], tuple[int, int | str]] = {}
    for _, call, start, _ in timed(lines):
        kept = {"created", "started", "finished", *(["exit-code"] if call.state == "CONTAINER_EXITED" else [])}
        for name, value in call.fields().items() if call.op == "status" else ():
            if name not in kept or (name != "exit-code" and not value):
                continue
            since, before = last.get((call.id, name), (start, value))
            if before != value and not any(room.start < start and room.end > since for room in rooms):
                found.add((call.id, name))
            last[call.id, name] = (start, value)
    return found


def _act(event: str, entity: str, start: int, end: int, code: str, line: int) -> RecordedAct:
    reply = "" if code in LOST else "ok" if code == "OK" else code
    of = POD if event in POD_CALLS else CONTAINER
    return RecordedAct(
        entity=entity, of=of, event=event, start=start, end=end if reply else FOREVER, reply=reply, line=line
    )


def _add_state(acts: list[RecordedAct], state: str) -> None:
    reads = (index for index, act in enumerate(acts) if act.event == "ContainerStatus" and act.reply == "ok")
    last = max(reads, default=None)
    if last is not None and not acts[last].shows:
        acts[last] = replace(acts[last], shows=state)


def _restart_windows(busy: Sequence[tuple[int, int]], down: Sequence[int], restarts: Restarts) -> Iterator[Room]:
    latest = busy[0][0] if busy else 0
    for start, end in busy:
        gone = restarts.assume != "none" and any(latest < at <= start for at in down)
        long = restarts.assume == "maybe" and start - latest >= restarts.shortest
        if gone or long:
            yield Room(start=latest, end=start)
        latest = max(latest, end)


def acts_of_log(lines: Sequence[bytes]) -> RecordedActs:
    """Return the acts of the calls in a log, with line numbers as times.

    If equal calls on an entity overlap, the log does not show which reply belongs to which request. Each of these
    calls may have acted at any time between the first request and the last reply.
    """
    found = RecordedActs()
    asked: dict[tuple[str, str], list[RecordedAct]] = {}
    for number, line in enumerate(lines, 1):
        read = entry(line)
        if read is None:
            continue
        if read.message in {"starting containerd", "Start recovering state"}:
            found.rooms.append(Room(start=number, end=number, certain=True))
            _end_calls(found, asked, number)
        made = _MADE.search(read.message)
        if _RUN.match(read.message) and made:
            found.made(_act("RunPodSandbox", "", number, number, "OK", number), made[1])
        on = _ON.match(read.message)
        if on is None or on[1] not in _LOGGED:
            continue
        calls = asked.setdefault((on[1], on[2]), [])
        ok, failed = " returns " in on[3], on[3].endswith(" failed")
        waiting = [index for index, act in enumerate(calls) if not act.line]
        if not ok and not failed:
            calls.append(replace(_act(on[1], on[2], number, FOREVER, "", 0), certain=False))
        elif waiting:
            code = "OK" if ok else "" if unresolved(read.error) else split(read.error)[0]
            act = _act(on[1], on[2], calls[0].start, number, code, number)
            calls[waiting[0]] = act = replace(act, end=number, certain=bool(act.reply))
            if made:
                found.made(act, made[1], on[2])
            if len(waiting) == 1:
                _end_calls(found, {(on[1], on[2]): asked.pop((on[1], on[2]))}, number)
    _end_calls(found, asked, FOREVER)
    return found


def _end_calls(found: RecordedActs, asked: dict[tuple[str, str], list[RecordedAct]], at: int) -> None:
    for calls in asked.values():
        for act in calls:
            found.acts[act.of, act.entity].append(replace(act, start=calls[0].start, end=at))
    asked.clear()


def of_events(lines: Sequence[bytes]) -> RecordedActs:
    """Return the acts that caused the events that a plugin received, with line numbers as times.

    For each entity, only the events on the first connection that mentions the entity are used. A pod is fresh if the
    plugin received the pod's start. A container of a fresh pod is fresh if the same connection mentions it first.
    """
    found = RecordedActs()
    connection: dict[Entity, int] = {}
    begun = 0
    for number, line in enumerate(lines, 1):
        event = decoded(line, nri_events.DECODER)
        begun += event is not None and event.connects
        if event is None or event.event not in EVENT_NAMES or not event.pod:
            continue
        name = EVENT_NAMES[event.event]
        entity = (CONTAINER, event.container) if event.container else (POD, event.pod)
        if connection.setdefault(entity, begun) == begun:
            act = RecordedAct(entity=entity[1], of=entity[0], event=name, start=number, end=number, line=number)
            found.acts[entity].append(act)
            found.pods.setdefault(event.container, event.pod)
            found.fresh |= {entity} if name == "RunPodSandbox" else set()
    inner = [((CONTAINER, each), (POD, pod)) for each, pod in found.pods.items()]
    found.fresh |= {each for each, pod in inner if pod in found.fresh and connection.get(each) == connection[pod]}
    return found


def told(lines: Sequence[bytes], calls: Iterable[TimedCall]) -> dict[tuple[str, str, int], bool]:
    """Map (name, id, start) of each call to whether the plugin received the events of the call before its reply.

    Include only calls that succeeded between a synchronisation of the plugin and its last event on that connection.
    Include a stop or removal only if the creation of its entity was relayed on that connection. Exclude it if an
    earlier stop or removal of the entity or its pod was given up, because that call may have acted without an event.
    """
    spans: list[tuple[int, int]] = []
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    pods: dict[str, str] = {}
    for line in lines:
        event = decoded(line, nri_events.DECODER)
        if event is None or event.ts is None:
            continue
        first, last = (event.ts, 0) if event.connects or event.event == "Synchronize" or not spans else spans.pop()
        spans.append((first, max(last, event.ts)))
        times[EVENT_NAMES.get(event.event, ""), event.container or event.pod].append(event.ts)
        pods.setdefault(event.container, event.pod)
    found: dict[tuple[str, str, int], bool] = {}
    given_up: set[str] = set()
    for _, call, start, end in sorted(calls, key=lambda each: each.start):
        ends = call.op.startswith(("Stop", "Remove"))
        given_up |= {call.id} if ends and meant(call.code, call.detail) in LOST else set()
        span = next((each for each in spans if each[0] < start and end < each[1]), None)
        if call.op not in _TOLD or call.code != "OK" or span is None:
            continue
        begun = any(span[0] < at for name in ("CreateContainer", "RunPodSandbox") for at in times[name, call.id])
        if ends and (not begun or given_up & {call.id, pods.get(call.id, "")}):
            continue
        since = 0 if ends else start  # a stop or removal that was already done succeeds without an event
        found[call.op, call.id, start] = all(
            any(since <= ts <= end for ts in times[name, call.id]) for name in _TOLD[call.op]
        )
    return found
