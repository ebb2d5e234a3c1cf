"""Read a log of containerd as a trace of requests, replies, exits and restarts.

containerd logs a request and its outcome on separate lines, and the call takes effect between them. The requests of
some calls are logged only at debug level. If such a call fails, the trace has an observation in phase *answered*
without a request. An exit is logged before the state of the container changes.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from fsm.recordings.line_reader import FOREIGN
from fsm.runtimes.names import CONTAINER, CONTAINER_CALLS, MAKES, POD, POD_CALLS
from fsm.runtimes.recordings.containerd_texts import Entry, entry, met, split, unresolved
from fsm.runtimes.recordings.open_calls import Beginning
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.trace import Observation, Phase

RELEVANT: Final = re.compile(
    rb"for \\*\"|(?:RunP|RemoveP)od[Ss]andbox|CreateContainer|exit event|TaskExit|TaskOOM|starting containerd|"
    rb"Start recovering state|Container to stop|Suppressed \d+ messages|-- (?:Re)?[Bb]oot|"
    rb"panic: |fatal error: |\"MESSAGE\" ?: ?\["
)
"""Matches all lines that may be relevant. Most lines are not."""
_CALL: Final = re.compile(r'^(\w+) for "([^"]*)"(.*)', re.DOTALL)
_REMOVED_POD: Final = re.compile(r'^RemovePodSandbox "([^"]*)" returns successfully')
_RUN: Final = re.compile(r"^RunPod[Ss]andbox for ")
_RAN: Final = re.compile(r' returns sandbox id "([^"]*)"$')
_CREATE: Final = re.compile(r'^CreateContainer within sandbox "([^"]*)" for ')
_CREATED: Final = re.compile(r' returns container id "([^"]*)"$')
_EXIT: Final = re.compile(
    r"(?:received (?P<what>(?:sandbox |container |sandbox container )?)exit event|"
    r"TaskExit event(?P<pod> in podsandbox handler)?)[ {:]*"
    r"(?:&TaskExit\{)?(?:container_id|sandbox_id|ContainerID):\"?(?P<entity>[0-9a-f]{64})\"?"
    r"(?:,?\s*(?:id|ID):\"?(?P<process>[^\",\s]*)\"?)?"
)
_OOM: Final = re.compile(r"^TaskOOM event (?:&TaskOOM\{)?(?:ContainerID|container_id):\"?([0-9a-f]{64})")
_SEEN: Final = re.compile(
    r'^Container to stop "([0-9a-f]{64})" must be in running or unknown state, current state "(CONTAINER_[A-Z]+)"'
)
_FAILED_RELAY: Final = re.compile(rb"NRI (?:failed to|[a-z -]+ notification failed)|closing plugin ")
_GIVEN_UP: Final = re.compile(r"\bcontext (?:canceled|deadline exceeded)")
_UNRELAYED: Final = {
    "NRI post-create notification failed": "PostCreateContainer",
    "NRI post-start notification failed": "PostStartContainer",
    "NRI post-update notification failed": "PostUpdateContainer",
    "NRI failed to stop container": "StopContainer",
    "NRI failed to remove container": "RemoveContainer",
    "NRI sandbox stop notification failed": "StopPodSandbox",
    "NRI pod removal notification failed": "RemovePodSandbox",
}
"""Maps log messages about failed relays to the events that were not relayed. The calls may still succeed."""
_SUPPRESSED: Final = re.compile(rb"Suppressed \d+ messages from \S*containerd\S*\.service")
CRASH: Final = re.compile(rb"(?:^|containerd(?:\[\d+\])?: )(?:panic|fatal error): ")
_BOOT: Final = re.compile(rb"^-- (?:Reboot|Boot [0-9a-f]+)")
_LOGGED: Final = frozenset(
    {
        "StopPodSandbox",
        "RemovePodSandbox",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "UpdateContainerResources",
    }
)
"""The calls on existing entities whose requests are logged at the same level as their successes."""
_UNLOGGED: Final = (POD_CALLS | CONTAINER_CALLS) - _LOGGED - MAKES
_NAMES: Final = {name.lower(): name for name in _LOGGED | _UNLOGGED}
_REPLIED: Final = re.compile(r"^ returns (?:successfully|URL |with exit code |with |stats|status)")
_FAILED: Final = re.compile(r"^ failed\b")
DOUBTFUL: Final = 64
"""Number of replies before a crash that are doubtful, because a handler that panics still logs success."""
_CALLED: Final = re.compile(r"Metadata\{Name:([^,}]+)(?:,Uid:[^,}]*,Namespace:([^,}]+))?")
_NAMED: Final = 65_536  # maximum number of containers and pods whose names are kept
NO_EVENT: Final = "lines without a lifecycle event"
UNKNOWN_EXITS: Final = "exits of unknown containers or pods"


@dataclass(slots=True, kw_only=True)
class Log:
    """Converts the lines of a log to observations.

    If ``as_called`` is true, only the entities that a call names are observed, and a failed relay to a plugin becomes
    a lost output without an entity. ``names`` maps the id of each recent entity to the names that users may use for
    it, which are ``NAME``, ``NAMESPACE/NAME`` for a pod, and ``POD/NAME`` for a container.
    """

    notes: Counter[str] = field(default_factory=Counter)
    version: str = ""
    names: OrderedDict[str, tuple[str, ...]] = field(default_factory=OrderedDict)
    as_called: bool = False
    joiner: Joiner = field(default_factory=lambda: Joiner(beginning=Beginning()))
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rebooted: bool = False
    _booting: bool = False
    replies: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=DOUBTFUL))

    def observations(self, line: bytes) -> Sequence[Observation]:
        seen = self.read(line)
        self.replies.extend((each.entity, each.of) for each in seen if each.phase == "reply")
        return seen

    def paused(self, quiet: int) -> Sequence[tuple[int, Observation]]:
        del quiet
        return ()

    def gap(self) -> Sequence[tuple[int, Observation]]:
        self.asked.clear()
        self.joiner = Joiner(beginning=Beginning())
        return [(0, Observation(phase="gap"))]

    def read(self, line: bytes) -> Sequence[Observation]:
        relay = _failed_relay(line) if self.as_called and _FAILED_RELAY.search(line) else ()
        if relay or RELEVANT.search(line) is None:
            self.notes[NO_EVENT] += 1
            return relay
        found = entry(line)
        if found is None:
            return self._join_calls(self._observations_without_message(line))
        begun = self.joiner.begun(found.at)
        seen = self.observations_before_join(found)
        if seen is None:
            self.notes[NO_EVENT] += 1
            return begun
        return [*begun, *self._join_calls(seen)]

    def _join_calls(self, found: Sequence[Observation]) -> Sequence[Observation]:
        return found if self.as_called else [each for seen in found for each in self.joiner.joined(seen)]

    def _observations_without_message(self, line: bytes) -> Sequence[Observation]:
        if _SUPPRESSED.search(line):
            return [seen for _, seen in self.gap()]
        if _BOOT.match(line):
            self._rebooted = True
            return self._restart_observations("")
        if CRASH.search(line):
            self.notes["crashes"] += 1
            return [Observation(entity=entity, of=of, phase="gap") for entity, of in dict.fromkeys(self.replies)]
        self.notes[FOREIGN] += bool(line.strip())
        return ()

    def observations_before_join(self, found: Entry) -> Sequence[Observation] | None:
        message = found.message
        if (call := _CALL.match(message)) and (name := _NAMES.get(call[1].lower())):
            return self._call_observations(name, call[2], call[3], found)
        if removed := _REMOVED_POD.match(message):
            return self._reply_observations("RemovePodSandbox", removed[1], "ok", found)
        if create := _CREATE.match(message):
            return self._creation_observations(create[1], found)
        if not _RUN.match(message):
            return self._event_observations(found)
        run = Observation(of=POD, event="RunPodSandbox", phase="reply", at=found.at)
        if ran := _RAN.search(message):
            self.store_names(ran[1], message)
            return (structs.replace(run, entity=ran[1], reply="ok"),)
        return (run if message.endswith(" failed, error") else structs.replace(run, phase="request"),)

    def _event_observations(self, found: Entry) -> Sequence[Observation] | None:
        message = found.message
        if exit_event := _EXIT.search(message):
            return self._exit_observations(exit_event, found)
        if oom := _OOM.match(message):
            return (Observation(entity=oom[1], of=CONTAINER, event="oom", phase="noticed", at=found.at),)
        if sight := _SEEN.match(message):
            shown = Observation(entity=sight[1], of=CONTAINER, event="ContainerStatus", phase="answered", reply="ok")
            return (structs.replace(shown, met=sight[2], at=found.at),)
        if message not in {"starting containerd", "Start recovering state"}:
            return None
        starting = message == "starting containerd"
        self.version = found.version if starting else self.version
        known = self._rebooted or (self._booting and not starting)
        self._rebooted, self._booting = False, starting
        return () if known else self._restart_observations(found.at)

    def _restart_observations(self, at: str) -> Sequence[Observation]:
        self.asked.clear()
        self.notes["restarts"] += 1
        return (Observation(event="restart", at=at),)

    def _call_observations(self, name: str, identity: str, rest: str, found: Entry) -> Sequence[Observation]:
        if _FAILED.match(rest):
            return self._reply_observations(name, identity, "", found)
        if _REPLIED.match(rest):
            return self._reply_observations(name, identity, "ok", found)
        if name in _UNLOGGED:
            self.asked[name, identity] += 1
        of = POD if name in POD_CALLS else CONTAINER
        return (Observation(entity=identity, of=of, event=name, phase="request", at=found.at),)

    def _reply_observations(self, name: str, identity: str, reply: str, found: Entry) -> Sequence[Observation]:
        text = ""
        if not reply:
            reply, text = split(found.error) if found.error else ("", "")
        asked = self.asked[name, identity]
        phase: Phase = "reply" if asked or name not in _UNLOGGED else "answered"
        if asked > 1:
            self.asked[name, identity] = asked - 1
        else:
            del self.asked[name, identity]
        if unresolved(text):
            reply = text = ""
        if phase == "answered" and not reply:
            return ()
        of = POD if name in POD_CALLS else CONTAINER
        seen = Observation(entity=identity, of=of, event=name, phase=phase, reply=reply, at=found.at)
        return (structs.replace(seen, met=met(text, pod=of == POD), detail=found.error),)

    def _creation_observations(self, pod: str, found: Entry) -> Sequence[Observation]:
        created = _CREATED.search(found.message)
        if created is None:
            rest = " failed" if found.message.endswith(" failed") else ""
            return self._call_observations("CreateContainer", pod, rest, found)
        self.store_names(created[1], found.message, self.names.get(pod, ()))
        made = Observation(entity=created[1], of=CONTAINER, event="CreateContainer", phase="reply", reply="ok")
        return (structs.replace(made, detail=pod, at=found.at),)

    def store_names(self, identity: str, message: str, pods: Sequence[str] = ()) -> None:
        if found := _CALLED.search(message):
            before = (found[2],) if found[2] else pods
            self.names[identity] = (found[1], *(f"{each}/{found[1]}" for each in before))
            if len(self.names) > _NAMED:
                self.names.popitem(last=False)

    def _exit_observations(self, exit_event: re.Match[str], found: Entry) -> Sequence[Observation]:
        entity, process = exit_event["entity"], exit_event["process"]
        if process and process != entity:
            return ()  # an Exec process, not the container's main process
        what = (exit_event["what"] or "").strip()
        pod = what.startswith("sandbox") or exit_event["pod"] is not None
        of = POD if pod else CONTAINER if what == "container" or self.as_called else self.joiner.kind(entity)
        if not of:
            self.notes[UNKNOWN_EXITS] += 1
            return ()
        return (Observation(entity=entity, of=of, event="exit", phase="noticed", at=found.at),)


def _failed_relay(line: bytes) -> Sequence[Observation]:
    found = entry(line)
    if found is None or not _GIVEN_UP.search(f"{found.message} {found.error}"):
        return ()
    output = _UNRELAYED.get(found.message, "closed" if found.message.startswith("closing plugin ") else "")
    return (Observation(output=output, phase="lost", at=found.at),) if output else ()
