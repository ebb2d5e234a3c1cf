"""A pod and its container in a real runtime, and a plugin of ours, as one system under test.

What happens to the pod and to the container goes through CRI, as where one of them is tested alone; what it puts out is
what the plugin is told of them.  That a container has ended by itself is relayed on a thread of its own, in no order with
anything else: so it is taken as the last of what a step has put out, and only where a removal tells of it, before that.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from fsm.conformance.lookup import NODE
from fsm.conformance.other_judges import ToldEvents
from fsm.library import load
from fsm.live.container_sut import RuntimeContainerSUT
from fsm.live.entity_sut import EntitySUT
from fsm.live.pod_sut import RuntimePodSUT
from fsm.live.runtime_session import RuntimeSession, wait
from fsm.live.told_plugin import ToldPlugin
from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.sut import BrokenError, UnsupportedError

_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "run-pod": (POD, "run"),
    "stop-pod": (POD, "stop"),
    "remove-pod": (POD, "remove"),
    "exit-pod": (POD, "exit"),
    "create-container": (CONTAINER, "create"),
    "start-container": (CONTAINER, "start"),
    "stop-container": (CONTAINER, "stop"),
    "remove-container": (CONTAINER, "remove"),
    "update-container": (CONTAINER, "update-resources"),
    "exit-container": (CONTAINER, "exit"),
}
"""What is done by the SUT of the pod, or of the container, and how their machines call it."""

_WITH: Final[Mapping[tuple[str, str], str]] = {
    ("run-pod", "failed"): "undone",
    ("create-container", "failed"): "failed",
    ("start-container", "failed"): "failed",
    ("stop-container", "not-stopped"): "not-stopped",
}
"""The outcome that is arranged with the pod, or the container, so that a joint event ends in one of its ways."""

_REFUSED: Final[Mapping[str, str]] = {
    "run-pod": "RunPodSandbox",
    "create-container": "CreateContainer",
    "start-container": "StartContainer",
    "update-container": "UpdateContainer",
}
"""What the plugin answers with an error, for an event to be refused by it."""

_NEVER: Final = frozenset(
    {
        ("run-pod", "left-over"),
        ("run-pod", "failed-late"),
        ("stop-pod", "network-held"),
        ("create-container", "failed-late"),
        ("start-container", "failed-late"),
        ("stop-container", "gone-already"),
        ("remove-container", "no-record"),
        ("remove-container", "not-removed"),
    }
)
"""The ways of joint events that only a fault takes, which no client can arrange."""

_FAULTS: Final = frozenset(
    {
        *(f"{CONTAINER} {each}" for each in ("cut-short", "failed", "no-info", "unknown", "skipped")),
        *(f"{POD} {each}" for each in ("failed", "not-stopped", "unmonitored", "forgotten", "unknown", "skipped")),
    }
)
"""What only a fault brings about within a way; such steps are in the names of ways that have the same."""

_COSTLY: Final = frozenset({"restart", "run-pod"})
"""What takes several times as long as anything else."""

_LATE: Final = "relay-exit"

_STOPPED: Final = "StopContainer"

_RELAYED: Final = 2.0
"""Seconds in which the end of a container is relayed."""

_ON_IT: Final = frozenset({"create-container", "start-container", "stop-container", "remove-container"})
"""The calls that relay that a container has stopped themselves; from others it comes by itself."""


_ANEW: Final = frozenset({"start-container", "plugin-leaves", "restart"})
"""After these nothing is relayed of an end that the plugin does not expect."""


class RuntimeNodeSUT:
    """A pod and its container in the runtime of *session*, which it closes, with a plugin at its socket *nri*.

    *restart* restarts the runtime, where that is possible.
    """

    def __init__(self, session: RuntimeSession, nri: str, restart: Callable[[], None] | None = None) -> None:
        self._session = session
        self._restart = restart
        self._names: set[str] = set()
        try:
            self.plugin = ToldPlugin(nri, lambda name: name in self._names)
        except BaseException:
            session.close()
            raise
        self._pod = RuntimePodSUT(load("pod-sandbox"), session)
        self._container = RuntimeContainerSUT(load("container-status"), session, place=lambda: self._pod.place)
        self._entities: Mapping[str, EntitySUT] = {POD: self._pod, CONTAINER: self._container}
        self._event = ""
        self._late = False
        self._awaited = True
        self._taken = 0

    def events(self) -> ToldEvents:
        return self._session.events.told(NODE)

    def close(self) -> None:
        try:
            self.plugin.close()
        finally:
            self._session.close()

    def reset(self) -> None:
        self.plugin.leave()
        self._container.reset()
        self._pod.reset()
        self.plugin.forget()
        self._names.clear()
        self._late, self._awaited, self._taken = False, True, 0

    def never(self, event: str, outcome: str) -> bool:
        way, _, steps = outcome.partition(": ")
        if event == "restart" and self._restart is None:
            return True
        return (event, way) in _NEVER or not _FAULTS.isdisjoint(steps.split(", "))

    def unasked(self) -> Collection[str]:
        return (_LATE,)

    def costly(self, event: str) -> bool:
        return event in _COSTLY

    def arrange(self, event: str, outcome: str) -> bool:
        if outcome == "refused-by-plugin":
            self.plugin.refused.add(_REFUSED[event])
        elif (event, outcome) in _WITH:
            part, name = _EVENTS[event]
            self._entities[part].arrange(name, _WITH[event, outcome])
        return False  # what the container is in, and what was relayed of it, is not always known

    def do(self, event: str) -> str:
        self._event = self.plugin.doing = event
        try:
            reply = self._done(event)
        finally:
            self.plugin.doing = ""
            self.plugin.refused.clear()
        if self.plugin.lost:
            raise BrokenError(self.plugin.lost)
        return reply

    def _done(self, event: str) -> str:
        if event == "run-pod":
            self._names.add(self._pod.renew())
        if event in _ANEW:
            self._awaited = True
        if event in _EVENTS:
            part, name = _EVENTS[event]
            return self._entities[part].do(name)
        if event == "plugin-joins":
            self.plugin.join()
            self._awaited = self.plugin.running  # what ended before was perhaps relayed before
        elif event == "plugin-leaves":
            self.plugin.leave()
        elif event == "restart" and self._restart is not None:
            self.plugin.leave()
            self._restart()
            self._pod.find()
        elif event == "restart":
            raise UnsupportedError("--restart-command says how")
        elif event != _LATE:
            raise UnsupportedError("no client of CRI, and no plugin, can make it happen")
        return ""

    def shows(self) -> str:
        pod, container = self._pod.shows(), self._container.shows()
        if self.plugin.running and container != "CONTAINER_RUNNING":
            wait(lambda: not self.plugin.running, _RELAYED)
        return f"{POD} {pod}, {CONTAINER} {container}" if pod and container else ""

    def outputs(self) -> tuple[str, ...] | None:
        new = self.plugin.told[self._taken :]
        self._taken += len(new)
        found = [_STOPPED] if self._late else []
        self._late = False
        for name, doing in new:
            if name == _STOPPED and doing not in _ON_IT:
                self._late = True
                continue
            if name == "RemoveContainer" and self._late:
                found.append(_STOPPED)
                self._late = False
            found.append(name)
        if self._event == _LATE:
            if not self._late and not self._awaited:
                return None
            found += [_STOPPED] * self._late
            self._late = False
        return tuple(found)
