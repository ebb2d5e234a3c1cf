"""What a call on a pod does to its containers, and which entity a shortened id stands for.

StopPodSandbox stops the containers of the pod and RemovePodSandbox removes them, without a log line for each
container.  Here calls on pods and containers become observations of each entity, in order.

A container whose creation is not recorded may belong to any pod whose start is not recorded; calls on such a pod
*may* have reached it.  So may calls on a pod that overlap with a creation in it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from fsm.recordings.open_calls import Beginning
from fsm.recordings.time_order import WINDOW
from fsm.trace import ABSENT, Observation, Phase, nanoseconds

CONTAINER: Final = "container"
POD: Final = "pod"

MAKES: Final = frozenset({"RunPodSandbox", "CreateContainer"})
"""Calls that make what has no id yet; a creation names the pod."""

POD_CALLS: Final = MAKES | {
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "PortForward",
    "UpdatePodSandboxResources",
}

CONTAINER_CALLS: Final = frozenset(
    {
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "ContainerStatus",
        "UpdateContainerResources",
        "ReopenContainerLog",
        "ExecSync",
        "Exec",
        "Attach",
        "ContainerStats",
        "CheckpointContainer",
    }
)
_INNER: Final = {"StopPodSandbox": ("StopContainer",), "RemovePodSandbox": ("StopContainer", "RemoveContainer")}
_FULL: Final = re.compile(r"[0-9a-f]{64}")
_NOT_READY: Final = "SANDBOX_NOTREADY"

UNRECORDED: Final = 65_536
"""The most containers, and pods, of unrecorded origin that are remembered; the oldest are forgotten first."""


@dataclass(slots=True, kw_only=True)
class _Reached:
    """A call in progress on a pod: the containers it certainly reaches, and those it may reach."""

    call: str
    certain: tuple[str, ...]
    perhaps: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Joiner:
    """Tracks which container belongs to which pod, and turns calls into observations.

    ``beginning`` is set while calls from before the recording may be in progress.
    """

    beginning: Beginning | None = None
    _pod_of: dict[str, str] = field(default_factory=dict)
    _containers: dict[str, dict[str, None]] = field(default_factory=dict)
    _whole: set[str] = field(default_factory=set)
    _unrecorded: dict[str, OrderedDict[str, int]] = field(
        default_factory=lambda: {CONTAINER: OrderedDict(), POD: OrderedDict()}
    )
    _reached: dict[str, list[_Reached]] = field(default_factory=dict)
    _removed: dict[str, OrderedDict[str, None]] = field(
        default_factory=lambda: {CONTAINER: OrderedDict(), POD: OrderedDict()}
    )
    _creating: dict[str, list[int]] = field(default_factory=dict)
    _leaks: dict[str, int] = field(default_factory=dict)
    _met: int = 0
    _stopped: set[str] = field(default_factory=set)
    _not_ready: set[str] = field(default_factory=set)
    _starts: dict[str, list[bool]] = field(default_factory=dict)
    _overlapped: dict[str, list[str]] = field(default_factory=dict)
    _anonymous: int = 0
    _began: int | None = None

    def kind(self, identity: str) -> str:
        """The kind of *identity*, container or pod; empty if it is unknown."""
        if identity in self._containers or identity in self._unrecorded[POD]:
            return POD
        return CONTAINER if identity in self._pod_of or identity in self._unrecorded[CONTAINER] else ""

    def _meant(self, identity: str, of: str) -> tuple[tuple[str, ...], bool]:
        """The full ids that *identity* may stand for, and whether it certainly stands for one of them.

        Every call accepts an unambiguous prefix of an id.  A prefix that is unambiguous to the runtime may be
        ambiguous here, where not every entity that exists is known, nor which ones exist no longer.
        """
        if _FULL.fullmatch(identity):
            return (identity,), True
        known = self._pod_of if of == CONTAINER else self._containers
        mine = tuple(each for each in known if each.startswith(identity))
        unrecorded = tuple(each for each in self._unrecorded[of] if each.startswith(identity) and each not in known)
        return (*mine, *unrecorded), len(mine) == 1 and not unrecorded

    def concerned(self, identity: str, of: str) -> list[tuple[str, str]]:
        """Whom a call on *identity* may concern, with the kind of each: the containers of a pod too."""
        meant, _ = self._meant(identity, of) if identity else ((), False)
        inner = [(each, CONTAINER) for pod in meant if of == POD for each in self._reach(pod)]
        return [*((each, of) for each in meant), *inner]

    def joined(self, seen: Observation) -> list[Observation]:
        """The observations, of all entities concerned, that *seen* stands for, whose entity is the id as it was given."""
        match seen.event:
            case "" | "exit" | "oom":
                return [seen]
            case "restart":
                return self._restarted(seen)
            case _ if not seen.entity:
                return []  # the run of a pod that has no id yet, or gets none
            case "RunPodSandbox":  # all its containers will be known
                self._containers.setdefault(seen.entity, {})
                self._whole.add(seen.entity)
                return [structs.replace(seen, phase="", detail="")]
            case "CreateContainer" if seen.of == CONTAINER:
                on_pod = structs.replace(seen, entity=seen.detail, of=POD, detail="", start=None)
                return [*(self._called(on_pod) if seen.detail else ()), *self._created(seen)]
            case _:
                return self._called(seen)

    def _called(self, call: Observation) -> list[Observation]:
        identity, of = call.entity, call.of
        what = structs.replace(call, reply="", met="", detail="", fields=None)
        meant, certain = self._meant(identity, of)
        found = self._vague(what, meant)
        if certain:
            return [*found, *self._of(structs.replace(call, entity=meant[0]))]
        # The id may stand for several entities, or for an unknown one: its reply is
        # judged by itself, and the call may have been on any of them.
        if call.phase in {"reply", "answered"} and call.reply:
            self._anonymous += 1
            found.append(structs.replace(call, entity=f"{identity} ({self._anonymous})", phase="answered"))
        if call.phase != "answered":
            for each in meant:
                found += self._of(structs.replace(what, entity=each))
        return found

    def _vague(self, seen: Observation, meant: tuple[str, ...]) -> list[Observation]:
        """What *seen* may mean for containers if its pod is never named in full."""
        if seen.of != POD or seen.entity in meant or (meant and seen.entity not in self._reached):
            return []
        return [*self._before(seen), *self._after(seen)]

    def _of(self, seen: Observation) -> list[Observation]:
        """*seen*, and what it means for the containers of the pod that it is about."""
        if seen.of == POD:
            if seen.event == "CreateContainer":
                self._creates(seen)
            elif seen.met == _NOT_READY:
                self._not_ready.add(seen.entity)
            met = [] if seen.entity in self._containers else self._meet(seen)
            return [*met, *self._before(seen), *self._certain(seen, seen.entity), *self._after(seen)]
        pod = self._pod_of.get(seen.entity, "")
        if seen.event == "RemoveContainer" and seen.phase == "reply" and seen.reply == "ok":
            self._forget(seen.entity)
            return self._certain(seen, pod)
        met = [] if pod else self._meet(seen)
        return [*met, *self._certain(seen, pod), *self._starting(seen, pod)]

    def _starting(self, seen: Observation, pod: str) -> list[Observation]:
        """That a start has succeeded which was asked for when *pod* had been stopped, or was not ready.

        Of several starts in progress, and of those given up, it is unknown which one the reply is to.
        """
        if seen.event != "StartContainer" or not pod:
            return []
        starts = self._starts.setdefault(seen.entity, [])
        if seen.phase == "request":
            starts.append(pod in self._stopped or pod in self._not_ready)
            return []
        if seen.phase != "reply" or not starts:
            return []
        late = seen.reply == "ok" and all(starts)
        starts.remove(max(starts))
        what = f"StartContainer succeeded after the pod had been {'stopped' if pod in self._stopped else 'shown as not ready'}"
        return [Observation(entity=pod, of=POD, event="started-once-stopped", at=seen.at, detail=what)] if late else []

    def _closed(self, pod: str) -> bool:
        """Whether all containers of *pod* are known, also because it was removed."""
        return pod in self._whole or pod in self._removed[POD]

    def _doubtful(self, pod: str) -> bool:
        """Whether *pod* and its containers may be older than the recording, with unrecorded calls in progress."""
        return self.beginning is not None and not self._closed(pod)

    def _certain(self, seen: Observation, pod: str) -> list[Observation]:
        """*seen*; only what is certain of it if its entity may be older than the recording."""
        return [seen] if self.beginning is None or self._closed(pod) else self.beginning.doubted(seen)

    def _meet(self, seen: Observation) -> list[Observation]:
        """Remember an entity of unrecorded origin while it may exist; the calls that may reach it."""
        unrecorded = self._unrecorded[seen.of]
        if seen.entity in self._removed[seen.of]:
            return []
        if seen.met == ABSENT or (seen.event == "RemovePodSandbox" and seen.reply == "ok"):
            unrecorded.pop(seen.entity, None)
            return []
        found: list[Observation] = []
        if seen.of == CONTAINER and seen.entity not in unrecorded:
            for pod in self._reached:
                if pod in self._leaks or (self.beginning is None and not self._closed(pod)):
                    found += self._joins(seen.entity, pod, at=seen.at)
        self._remember(seen.entity, seen.of)
        return found

    def _remember(self, identity: str, of: str) -> None:
        unrecorded = self._unrecorded[of]
        self._met += 1
        unrecorded.setdefault(identity, self._met)
        unrecorded.move_to_end(identity)
        if len(unrecorded) > UNRECORDED:
            unrecorded.popitem(last=False)

    def _candidates(self, pod: str) -> tuple[str, ...]:
        """Containers of unrecorded origin that may belong to *pod*."""
        since = self._leaks.get(pod) if self._closed(pod) else 0
        if since is None:
            return ()
        return tuple(each for each, met in self._unrecorded[CONTAINER].items() if met > since)

    def _joins(self, container: str, pod: str, *, at: int | str | None) -> list[Observation]:
        """The requests of calls in progress on *pod*, which *container* may have missed."""
        found: list[Observation] = []
        for reached in self._reached.get(pod, ()):
            reached.perhaps = (*reached.perhaps, container)
            found += _inner(reached.call, (container,), "request", at=at)
        return found

    def _creates(self, seen: Observation) -> None:
        pod = seen.entity
        if seen.phase == "request":
            self._creating.setdefault(pod, []).append(self._met)
            return
        met = self._creating.get(pod) or [self._met]
        if seen.phase == "lost":
            self._leaks.setdefault(pod, met[0])  # there may be a container with an unknown id
        del met[0]
        if not met:
            self._creating.pop(pod, None)
            if seen.reply != "ok":
                self._overlapped.pop(pod, None)

    def _created(self, seen: Observation) -> list[Observation]:
        """A container was created; calls in progress on its pod may reach it."""
        container, at = seen.entity, seen.at
        meant, certain = self._meant(seen.detail, POD)
        pod = meant[0] if certain else ""
        if pod:
            self._pod_of[container] = pod
            self._containers.setdefault(pod, {})[container] = None
        else:
            self._remember(container, CONTAINER)
        found = [structs.replace(seen, phase="", detail="")]
        if self._doubtful(pod):
            return found
        found += self._joins(container, pod, at=at)
        for call in self._overlapped.get(pod, ()):
            found += _inner(call, (container,), "request", at=at)
            found += _inner(call, (container,), "reply", at=at)
        if pod not in self._creating:
            self._overlapped.pop(pod, None)
        return found

    def _restarted(self, seen: Observation) -> list[Observation]:
        self.beginning = None
        self.may_restart()
        for pod, met in self._creating.items():
            self._leaks.setdefault(pod, met[0])
        self._reached.clear()
        self._creating.clear()
        self._overlapped.clear()
        self._starts.clear()
        return [seen]

    def may_restart(self) -> None:
        """The runtime may have restarted here: a pod that it could not recover before may be ready again."""
        self._not_ready.clear()

    def begun(self, at: str) -> list[Observation]:
        """What it means that no unrecorded call is in progress any more, if *at* is later than any call takes."""
        now = nanoseconds(at) if self.beginning else None
        if self.beginning is None or now is None:
            return []
        self._began = now if self._began is None else self._began
        since = now - self._began
        if since <= WINDOW or (since <= 2 * WINDOW and not self._quiet(self.beginning)):
            return []
        found = self.beginning.over()
        self.beginning = None
        for pod, calls in self._reached.items():
            if not self._closed(pod):
                for reached in calls:
                    reached.perhaps = self._reach(pod)
                    found += _inner(reached.call, reached.perhaps, "request", at=None)
        return found

    def _quiet(self, beginning: Beginning) -> bool:
        """Whether no recorded call is in progress on what may be older than the recording."""
        return all(map(self._closed, self._reached)) and beginning.quiet()

    def _reach(self, pod: str) -> tuple[str, ...]:
        return (*self._containers.get(pod, ()), *self._candidates(pod))

    def _forget(self, container: str) -> None:
        self._gone(container, CONTAINER)
        self._unrecorded[CONTAINER].pop(container, None)
        self._starts.pop(container, None)
        pod = self._pod_of.pop(container, None)
        if pod is not None:
            self._containers.get(pod, {}).pop(container, None)

    def _before(self, seen: Observation) -> list[Observation]:
        """The requests that a request on a pod makes of its containers."""
        if seen.event not in _INNER or seen.phase != "request":
            return []
        pod = seen.entity
        doubtful = self._doubtful(pod)
        mine = () if doubtful else tuple(self._containers.get(pod, ()))
        others = () if doubtful else self._candidates(pod)
        self._reached.setdefault(pod, []).append(_Reached(call=seen.event, certain=mine, perhaps=others))
        return _inner(seen.event, (*mine, *others), "request", at=seen.at)

    def _after(self, seen: Observation) -> list[Observation]:
        """How those requests ended, when the call on the pod replied."""
        if seen.event not in _INNER or seen.phase not in {"reply", "lost"}:
            return []
        pod = seen.entity
        if pod in self._creating:
            self._overlapped.setdefault(pod, []).append(seen.event)
        calls = self._reached.get(pod, [])
        reached = next((each for each in calls if each.call == seen.event), None)
        found: list[Observation] = []
        if reached is None:
            # Its request was not recorded, or named a pod that was not known yet.
            reached = _Reached(call=seen.event, certain=(), perhaps=())
            reach = () if self._doubtful(pod) else self._reach(pod)
            found = [Observation(entity=each, of=CONTAINER, phase="gap", at=seen.at) for each in reach]
        else:
            calls.remove(reached)
        if not calls:
            self._reached.pop(pod, None)
        ok = seen.reply == "ok"
        found += _inner(seen.event, reached.certain, seen.phase, at=seen.at, reply="ok" if ok else "")
        found += _inner(seen.event, reached.perhaps, seen.phase, at=seen.at)
        if ok:
            self._stopped.add(pod)
        if seen.event == "RemovePodSandbox" and ok:
            self._pod_is_gone(pod, reached)
        return found

    def _pod_is_gone(self, pod: str, reached: _Reached) -> None:
        for each in reached.certain:
            self._forget(each)
        for each in self._containers.pop(pod, {}):
            # Created while its pod was being removed, it may be left without one.
            self._forget(each)
            self._remember(each, CONTAINER)
            self._removed[CONTAINER].pop(each, None)
        for pods in (self._whole, self._stopped, self._not_ready):
            pods.discard(pod)
        self._leaks.pop(pod, None)
        self._gone(pod, POD)

    def _gone(self, identity: str, of: str) -> None:
        removed = self._removed[of]
        removed[identity] = None
        if len(removed) > UNRECORDED:
            removed.popitem(last=False)


def _inner(
    call: str, containers: tuple[str, ...], phase: Phase, *, at: int | str | None, reply: str = ""
) -> list[Observation]:
    """What *call* on a pod is for each of the *containers*."""
    return [
        Observation(entity=each, of=CONTAINER, event=inner, phase=phase, reply=reply, at=at)
        for each in containers
        for inner in _INNER[call]
    ]
