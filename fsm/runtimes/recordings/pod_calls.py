"""Derive the effects of pod calls on containers, and resolve abbreviated ids.

StopPodSandbox stops the containers of a pod, and RemovePodSandbox removes them, but a log has no line for each
container. This module therefore converts calls on pods and containers to observations of each entity, in order.

Some effects are uncertain. If neither the creation of a container nor the start of a pod was recorded, the container
may belong to the pod. If a call on a pod overlaps the creation of a container in it, the call may have affected the
container.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from fsm.recordings.time_order import WINDOW
from fsm.runtimes.names import CONTAINER, FULL_ID, INNER, NOT_READY, POD
from fsm.runtimes.recordings.open_calls import Beginning
from fsm.trace import ABSENT, Observation, Phase, nanoseconds

UNRECORDED: Final = 65_536
"""Maximum number of containers without a recorded creation to keep. The same limit applies to pods."""


@dataclass(slots=True, kw_only=True)
class Reached:
    """A call in progress on a pod, with the containers that it certainly affects and those that it may affect."""

    call: str
    certain: tuple[str, ...]
    perhaps: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Joiner:
    """Tracks the containers in each pod, and applies calls on a pod to its containers.

    ``beginning`` is set as long as calls from before the recording may still be in progress.
    """

    beginning: Beginning | None = None
    pod_of: dict[str, str] = field(default_factory=dict)
    containers: dict[str, dict[str, None]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    unrecorded: dict[str, OrderedDict[str, int]] = field(
        default_factory=lambda: {CONTAINER: OrderedDict(), POD: OrderedDict()}
    )
    reached: dict[str, list[Reached]] = field(default_factory=dict)
    removed: dict[str, OrderedDict[str, None]] = field(
        default_factory=lambda: {CONTAINER: OrderedDict(), POD: OrderedDict()}
    )
    creating: dict[str, list[int]] = field(default_factory=dict)
    leaks: dict[str, int] = field(default_factory=dict)
    met: int = 0
    stopped: set[str] = field(default_factory=set)
    not_ready: set[str] = field(default_factory=set)
    starts: dict[str, list[bool]] = field(default_factory=dict)
    overlapped: dict[str, list[str]] = field(default_factory=dict)
    _anonymous: int = 0
    began: int | None = None

    def kind(self, identity: str) -> str:
        if identity in self.containers or identity in self.unrecorded[POD]:
            return POD
        return CONTAINER if identity in self.pod_of or identity in self.unrecorded[CONTAINER] else ""

    def _possible_ids(self, identity: str, of: str) -> tuple[tuple[str, ...], bool]:
        """Return the full ids that *identity* may abbreviate, and whether there is certainly only one such id.

        Calls accept any unambiguous prefix of an id. A prefix that is unambiguous to the runtime may be ambiguous in
        a recording, which contains entities that no longer exist. A recording may also lack entities that exist.
        """
        if FULL_ID.fullmatch(identity):
            return (identity,), True
        known = self.pod_of if of == CONTAINER else self.containers
        mine = tuple(each for each in known if each.startswith(identity))
        unrecorded = tuple(each for each in self.unrecorded[of] if each.startswith(identity) and each not in known)
        return (*mine, *unrecorded), len(mine) == 1 and not unrecorded

    def concerned(self, identity: str, of: str) -> list[tuple[str, str]]:
        meant, _ = self._possible_ids(identity, of) if identity else ((), False)
        inner = [(each, CONTAINER) for pod in meant if of == POD for each in self._reachable_containers(pod)]
        return [*((each, of) for each in meant), *inner]

    def joined(self, seen: Observation) -> list[Observation]:
        """Return the observations of all entities that follow from *seen*, whose id may be abbreviated."""
        match seen.event:
            case "" | "exit" | "oom":
                return [seen]
            case "restart":
                return self._join_restart(seen)
            case _ if not seen.entity:
                return []  # RunPodSandbox has no id until it has succeeded
            case "RunPodSandbox":  # all containers of a new pod are created within the recording
                self.containers.setdefault(seen.entity, {})
                self.whole.add(seen.entity)
                return [structs.replace(seen, phase="", detail="")]
            case "CreateContainer" if seen.of == CONTAINER:
                on_pod = structs.replace(seen, entity=seen.detail, of=POD, detail="", start=None)
                return [*(self._join_call(on_pod) if seen.detail else ()), *self._join_container(seen)]
            case _:
                return self._join_call(seen)

    def _join_call(self, call: Observation) -> list[Observation]:
        identity, of = call.entity, call.of
        if FULL_ID.fullmatch(identity):
            return self._join_entity_call(call)
        what = structs.replace(call, reply="", met="", detail="", fields=None)
        meant, certain = self._possible_ids(identity, of)
        found: list[Observation] = []
        if of == POD and identity not in meant and (not meant or identity in self.reached):
            found = [*self._inner_requests(what), *self._inner_ends(what)]
        if certain:
            return [*found, *self._join_entity_call(structs.replace(call, entity=meant[0]))]
        # The call may be on any of these ids, so judge the reply separately.
        if call.phase in {"reply", "answered"} and call.reply:
            self._anonymous += 1
            found.append(structs.replace(call, entity=f"{identity} ({self._anonymous})", phase="answered"))
        if call.phase != "answered":
            for each in meant:
                found += self._join_entity_call(structs.replace(what, entity=each))
        return found

    def _join_entity_call(self, seen: Observation) -> list[Observation]:
        if seen.of == POD:
            if seen.event == "CreateContainer":
                self._track_creation(seen)
            elif seen.met == NOT_READY:
                self.not_ready.add(seen.entity)
            met = [] if seen.entity in self.containers else self._register_unrecorded(seen)
            return [*met, *self._inner_requests(seen), *self._certain_part(seen, seen.entity), *self._inner_ends(seen)]
        pod = self.pod_of.get(seen.entity, "")
        if seen.event == "RemoveContainer" and seen.phase == "reply" and seen.reply == "ok":
            self._forget(seen.entity)
            return self._certain_part(seen, pod)
        met = [] if pod else self._register_unrecorded(seen)
        return [*met, *self._certain_part(seen, pod), *self._late_start_observations(seen, pod)]

    def _late_start_observations(self, seen: Observation, pod: str) -> list[Observation]:
        if seen.event != "StartContainer" or not pod:
            return []
        starts = self.starts.setdefault(seen.entity, [])
        if seen.phase == "request":
            starts.append(pod in self.stopped or pod in self.not_ready)
            return []
        if seen.phase != "reply" or not starts:
            return []
        # The reply may belong to any start that is in progress or was given up. Report it only if all of these starts
        # were requested too late.
        late = seen.reply == "ok" and all(starts)
        starts.remove(max(starts))
        how = "stopped" if pod in self.stopped else "shown as not ready"
        what = f"StartContainer succeeded after the pod had been {how}"
        return [Observation(entity=pod, of=POD, event="started-once-stopped", at=seen.at, detail=what)] if late else []

    def _knows_all_containers(self, pod: str) -> bool:
        return pod in self.whole or pod in self.removed[POD]

    def _may_have_unrecorded_calls(self, pod: str) -> bool:
        return self.beginning is not None and not self._knows_all_containers(pod)

    def _certain_part(self, seen: Observation, pod: str) -> list[Observation]:
        beginning = None if self._knows_all_containers(pod) else self.beginning
        return beginning.certain_part(seen) if beginning else [seen]

    def _register_unrecorded(self, seen: Observation) -> list[Observation]:
        unrecorded = self.unrecorded[seen.of]
        if seen.entity in self.removed[seen.of]:
            return []
        if seen.met == ABSENT or (seen.event == "RemovePodSandbox" and seen.reply == "ok"):
            unrecorded.pop(seen.entity, None)
            return []
        found: list[Observation] = []
        if seen.of == CONTAINER and seen.entity not in unrecorded:
            for pod in self.reached:
                if pod in self.leaks or (self.beginning is None and not self._knows_all_containers(pod)):
                    found += self._requests_container_missed(seen.entity, pod, at=seen.at)
        self._remember(seen.entity, seen.of)
        return found

    def _remember(self, identity: str, of: str) -> None:
        unrecorded = self.unrecorded[of]
        self.met += 1
        unrecorded.setdefault(identity, self.met)
        unrecorded.move_to_end(identity)
        if len(unrecorded) > UNRECORDED:
            unrecorded.popitem(last=False)

    def _candidate_containers(self, pod: str) -> tuple[str, ...]:
        since = self.leaks.get(pod) if self._knows_all_containers(pod) else 0
        if since is None:
            return ()
        return tuple(each for each, met in self.unrecorded[CONTAINER].items() if met > since)

    def _requests_container_missed(self, container: str, pod: str, *, at: int | str | None) -> list[Observation]:
        found: list[Observation] = []
        for reached in self.reached.get(pod, ()):
            reached.perhaps = (*reached.perhaps, container)
            found += _inner_calls(reached.call, (container,), "request", at=at)
        return found

    def _track_creation(self, seen: Observation) -> None:
        pod = seen.entity
        if seen.phase == "request":
            self.creating.setdefault(pod, []).append(self.met)
            return
        met = self.creating.get(pod) or [self.met]
        if seen.phase == "lost":
            self.leaks.setdefault(pod, met[0])  # the pod may now contain a container with an unknown id
        del met[0]
        if not met:
            self.creating.pop(pod, None)
            if seen.reply != "ok":
                self.overlapped.pop(pod, None)

    def _join_container(self, seen: Observation) -> list[Observation]:
        container, at = seen.entity, seen.at
        meant, certain = self._possible_ids(seen.detail, POD)
        pod = meant[0] if certain else ""
        if pod:
            self.pod_of[container] = pod
            self.containers.setdefault(pod, {})[container] = None
        else:
            self._remember(container, CONTAINER)
        found = [structs.replace(seen, phase="", detail="")]
        if self._may_have_unrecorded_calls(pod):
            return found
        found += self._requests_container_missed(container, pod, at=at)
        for call in self.overlapped.get(pod, ()):
            found += _inner_calls(call, (container,), "request", at=at)
            found += _inner_calls(call, (container,), "reply", at=at)
        if pod not in self.creating:
            self.overlapped.pop(pod, None)
        return found

    def _join_restart(self, seen: Observation) -> list[Observation]:
        self.beginning = None
        self.not_ready.clear()
        for pod, met in self.creating.items():
            self.leaks.setdefault(pod, met[0])
        self.reached.clear()
        self.creating.clear()
        self.overlapped.clear()
        self.starts.clear()
        return [seen]

    def begun(self, at: str) -> list[Observation]:
        """Return the observations that follow if all calls from before the recording have certainly ended by *at*.

        If they have, stop expecting such calls. If this is not certain, return no observations.
        """
        now = nanoseconds(at) if self.beginning else None
        if self.beginning is None or now is None:
            return []
        self.began = now if self.began is None else self.began
        since = now - self.began
        closed = map(self._knows_all_containers, self.reached)  # evaluated only if needed
        if since <= WINDOW or (since <= 2 * WINDOW and not (all(closed) and self.beginning.quiet())):
            return []
        found = self.beginning.over()
        self.beginning = None
        for pod, calls in self.reached.items():
            if not self._knows_all_containers(pod):
                for reached in calls:
                    reached.perhaps = self._reachable_containers(pod)
                    found += _inner_calls(reached.call, reached.perhaps, "request", at=None)
        return found

    def _reachable_containers(self, pod: str) -> tuple[str, ...]:
        return (*self.containers.get(pod, ()), *self._candidate_containers(pod))

    def _forget(self, container: str) -> None:
        self._remember_removed(container, CONTAINER)
        self.unrecorded[CONTAINER].pop(container, None)
        self.starts.pop(container, None)
        pod = self.pod_of.pop(container, None)
        if pod is not None:
            self.containers.get(pod, {}).pop(container, None)

    def _inner_requests(self, seen: Observation) -> list[Observation]:
        if seen.event not in INNER or seen.phase != "request":
            return []
        pod = seen.entity
        doubtful = self._may_have_unrecorded_calls(pod)
        mine = () if doubtful else tuple(self.containers.get(pod, ()))
        others = () if doubtful else self._candidate_containers(pod)
        self.reached.setdefault(pod, []).append(Reached(call=seen.event, certain=mine, perhaps=others))
        return _inner_calls(seen.event, (*mine, *others), "request", at=seen.at)

    def _inner_ends(self, seen: Observation) -> list[Observation]:
        if seen.event not in INNER or seen.phase not in {"reply", "lost"}:
            return []
        pod = seen.entity
        if pod in self.creating:
            self.overlapped.setdefault(pod, []).append(seen.event)
        calls = self.reached.get(pod, [])
        reached = next((call for call in calls if call.call == seen.event), None)
        found: list[Observation] = []
        if reached is None:
            # The request was not recorded, or the pod was unknown at the time.
            reached = Reached(call=seen.event, certain=(), perhaps=())
            reach = () if self._may_have_unrecorded_calls(pod) else self._reachable_containers(pod)
            found = [Observation(entity=each, of=CONTAINER, phase="gap", at=seen.at) for each in reach]
        else:
            calls.remove(reached)
        if not calls:
            self.reached.pop(pod, None)
        ok = seen.reply == "ok"
        found += _inner_calls(seen.event, reached.certain, seen.phase, at=seen.at, reply="ok" if ok else "")
        found += _inner_calls(seen.event, reached.perhaps, seen.phase, at=seen.at)
        if ok:
            self.stopped.add(pod)
        if seen.event == "RemovePodSandbox" and ok:
            for each in reached.certain:
                self._forget(each)
            for each in self.containers.pop(pod, {}):
                # This container was created while its pod was being removed, so it may outlive the pod.
                self._forget(each)
                self._remember(each, CONTAINER)
                self.removed[CONTAINER].pop(each, None)
            self._forget_pod(pod)
        return found

    def _forget_pod(self, pod: str) -> None:
        self.containers.pop(pod, None)
        for pods in (self.whole, self.stopped, self.not_ready):
            pods.discard(pod)
        self.leaks.pop(pod, None)
        self._remember_removed(pod, POD)

    def _remember_removed(self, identity: str, of: str) -> None:
        removed = self.removed[of]
        removed[identity] = None
        if len(removed) > UNRECORDED:
            removed.popitem(last=False)


def _inner_calls(
    call: str, containers: tuple[str, ...], phase: Phase, *, at: int | str | None, reply: str = ""
) -> list[Observation]:
    return [
        Observation(entity=container, of=CONTAINER, event=inner, phase=phase, reply=reply, at=at)
        for container in containers
        for inner in INNER[call]
    ]
