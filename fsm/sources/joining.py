"""What a call on a pod does to its containers, and whom a shortened id means.

StopPodSandbox stops the containers of the pod, RemovePodSandbox removes them,
and no line of a log says so container by container.  Here the two are joined:
from calls on pods and containers come observations of each, in order.

A container whose creation nobody recorded may belong to any pod whose start
nobody recorded either; such a pod's calls *may* then have reached it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fsm.sources.texts import ABSENT
from fsm.trace import Observation

if TYPE_CHECKING:
    from fsm.trace import Phase

CONTAINER: Final = "container"
POD: Final = "pod"

POD_CALLS: Final = frozenset(  # CreateContainer names the pod; the container has no id yet
    {
        "RunPodSandbox",
        "StopPodSandbox",
        "RemovePodSandbox",
        "PodSandboxStatus",
        "PortForward",
        "UpdatePodSandboxResources",
        "CreateContainer",
    }
)
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

STRANGERS: Final = 65_536
"""Containers and pods of unrecorded origin that are kept apart; the oldest are forgotten first."""


@dataclass(slots=True, kw_only=True)
class _Reached:
    """A call in progress on a pod: the containers it certainly reaches, and those it may reach."""

    call: str
    certain: tuple[str, ...]
    perhaps: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Joiner:
    """Follows who belongs to whom, and turns calls into observations."""

    _pod_of: dict[str, str] = field(default_factory=dict)
    _containers: dict[str, dict[str, None]] = field(default_factory=dict)
    _whole: set[str] = field(default_factory=set)
    _strangers: dict[str, OrderedDict[str, None]] = field(
        default_factory=lambda: {CONTAINER: OrderedDict(), POD: OrderedDict()}
    )
    _reached: dict[str, list[_Reached]] = field(default_factory=dict)
    _anonymous: int = 0

    def kind(self, identity: str) -> str:
        """Whether *identity* is a container or a pod, as far as is known."""
        if identity in self._containers or identity in self._strangers[POD]:
            return POD
        return CONTAINER if identity in self._pod_of or identity in self._strangers[CONTAINER] else ""

    def _meant(self, identity: str, of: str) -> tuple[tuple[str, ...], bool]:
        """The full ids that *identity* may stand for, and whether it is certain that it stands for one of them.

        Every call takes an unambiguous beginning of an id for the id.  What is
        unambiguous to the runtime need not be so here: of some we do not know
        that they exist, of others that they do not exist any more.
        """
        if _FULL.fullmatch(identity):
            return (identity,), True
        known = self._pod_of if of == CONTAINER else self._containers
        mine = tuple(each for each in known if each.startswith(identity))
        strangers = tuple(each for each in self._strangers[of] if each.startswith(identity) and each not in known)
        return (*mine, *strangers), len(mine) == 1 and not strangers

    def observations(
        self,
        call: str,
        identity: str,
        phase: Phase,
        *,
        reply: str = "",
        met: str = "",
        detail: str = "",
        at: int | str | None = None,
    ) -> list[Observation]:
        """What the *phase* of *call* on *identity* says of everybody concerned."""
        of = POD if call in POD_CALLS else CONTAINER
        if not identity:
            return []
        meant, certain = self._meant(identity, of)
        if certain:
            return self._of(
                Observation(entity=meant[0], of=of, event=call, phase=phase, reply=reply, met=met, detail=detail, at=at)
            )
        # An id that may stand for several: its reply is judged by itself, and
        # whether the call was on one of them nobody knows.
        found: list[Observation] = []
        if phase in {"reply", "answered"} and reply:
            self._anonymous += 1
            name = f"{identity} ({self._anonymous})"
            found.append(
                Observation(entity=name, of=of, event=call, phase="answered", reply=reply, met=met, detail=detail, at=at)
            )
        if phase != "answered":
            for each in meant:
                found += self._of(Observation(entity=each, of=of, event=call, phase=phase, at=at))
        return found

    def _of(self, seen: Observation) -> list[Observation]:
        """*seen*, and what it means for the containers of the pod that it is about."""
        if seen.of == POD:
            found = [*self._before(seen), seen, *self._after(seen)]
            if seen.entity not in self._containers:
                self._meet(seen)
            return found
        if seen.event == "RemoveContainer" and seen.phase == "reply" and seen.reply == "ok":
            self._forget(seen.entity)
        elif seen.entity not in self._pod_of:
            self._meet(seen)
        return [seen]

    def _meet(self, seen: Observation) -> None:
        """Remember somebody of unrecorded origin, as long as there may be such a one."""
        strangers = self._strangers[seen.of]
        if seen.met == ABSENT or (seen.event == "RemovePodSandbox" and seen.reply == "ok"):
            strangers.pop(seen.entity, None)
            return
        strangers[seen.entity] = None
        strangers.move_to_end(seen.entity)
        if len(strangers) > STRANGERS:
            strangers.popitem(last=False)

    def pod(self, identity: str) -> str:
        """The full id of the pod that *identity* stands for; empty if that is not certain."""
        meant, certain = self._meant(identity, POD)
        return meant[0] if certain else ""

    def created(self, container: str, pod: str, *, at: int | str | None = None) -> list[Observation]:
        """A container came to be; calls in progress on its pod may reach it.

        *pod* is empty where it cannot be told which one it is.
        """
        if pod:
            self._pod_of[container] = pod
            self._containers.setdefault(pod, {})[container] = None
        else:
            self._strangers[CONTAINER][container] = None
        seen = [Observation(entity=container, of=CONTAINER, event="CreateContainer", reply="ok", at=at)]
        for reached in self._reached.get(pod, ()):
            # It came after the call had begun: perhaps too late to be found by it.
            reached.perhaps = (*reached.perhaps, container)
            seen += _inner(reached.call, (container,), "request", at=at)
        return seen

    def ran(self, pod: str, *, at: int | str | None = None) -> list[Observation]:
        """A pod came to be: all its containers will be known."""
        self._containers.setdefault(pod, {})
        self._whole.add(pod)
        return [Observation(entity=pod, of=POD, event="RunPodSandbox", reply="ok", at=at)]

    def restarted(self, *, at: int | str | None = None) -> list[Observation]:
        """The runtime starts again: nobody waits for a reply any more."""
        self._reached.clear()
        return [Observation(event="load", at=at)]

    def _forget(self, container: str) -> None:
        self._strangers[CONTAINER].pop(container, None)
        pod = self._pod_of.pop(container, None)
        if pod is not None:
            self._containers.get(pod, {}).pop(container, None)

    def _before(self, seen: Observation) -> list[Observation]:
        """The requests that a request on a pod makes of its containers."""
        if seen.event not in _INNER or seen.phase != "request":
            return []
        pod = seen.entity
        mine = tuple(self._containers.get(pod, ()))
        others = () if pod in self._whole else tuple(self._strangers[CONTAINER])
        self._reached.setdefault(pod, []).append(_Reached(call=seen.event, certain=mine, perhaps=others))
        return _inner(seen.event, (*mine, *others), "request", at=seen.at)

    def _after(self, seen: Observation) -> list[Observation]:
        """How those requests ended, once the reply on the pod is there."""
        if seen.event not in _INNER or seen.phase not in {"reply", "lost"}:
            return []
        pod = seen.entity
        calls = self._reached.get(pod, [])
        reached = next((each for each in calls if each.call == seen.event), None)
        if reached is None:
            return []
        calls.remove(reached)
        if not calls:
            del self._reached[pod]
        ok = seen.reply == "ok"
        found = _inner(seen.event, reached.certain, seen.phase, at=seen.at, reply="ok" if ok else "")
        found += _inner(seen.event, reached.perhaps, seen.phase, at=seen.at)
        if seen.event == "RemovePodSandbox" and ok:
            self._pod_is_gone(pod, reached)
        return found

    def _pod_is_gone(self, pod: str, reached: _Reached) -> None:
        for each in reached.certain:
            self._forget(each)
        for each in self._containers.pop(pod, {}):
            # Created while its pod was being removed, it may be left without one.
            self._forget(each)
            self._strangers[CONTAINER][each] = None
        self._whole.discard(pod)


def _inner(
    call: str, containers: tuple[str, ...], phase: Phase, *, at: int | str | None, reply: str = ""
) -> list[Observation]:
    """What *call* on a pod is for each of the *containers*."""
    return [
        Observation(entity=each, of=CONTAINER, event=inner, phase=phase, reply=reply, at=at)
        for each in containers
        for inner in _INNER[call]
    ]
