"""Test a pod and its container in a real runtime, together with a test plugin, as one system.

The outputs of the system are the events that the runtime relays to the plugin. A runtime relays the exit of a
container on a separate thread, so this event may arrive before or after others. The SUT therefore puts the exit
after the other outputs of its step, but before the removal of the container.

In a race, several threads also make calls on a second container of the pod. Races are judged from a recording of the
calls and events. :class:`ToldNodeSUT` judges that recording after each step.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fsm.conformance.oracle import ToldEvents
from fsm.conformance.race_runs import Witness
from fsm.errors import InputError
from fsm.language.library import load
from fsm.linearizability.history import Operation
from fsm.machine import Machine
from fsm.machine.findings import Covered, Violation
from fsm.monitor.judgement import Judged, judge
from fsm.runtimes.live.call_recording import encoded
from fsm.runtimes.live.container_sut import RuntimeContainerSUT, RuntimePodSUT
from fsm.runtimes.live.entity_sut import EntitySUT
from fsm.runtimes.live.nri_recorder import ToldPlugin
from fsm.runtimes.live.runtime_session import RuntimeSession, wait
from fsm.runtimes.names import CONTAINER, EVENT_NAMES, POD, RUNNING
from fsm.runtimes.node_model import NODE
from fsm.runtimes.recordings.nri_events import DECODER
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.sut import BrokenError, UnsupportedError

_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"{event}-pod": (POD, event) for event in ("run", "stop", "remove", "exit")},
    **{f"{event}-container": (CONTAINER, event) for event in ("create", "start", "stop", "remove", "exit")},
    "update-container": (CONTAINER, "update-resources"),
}
"""Maps each event of the system to the pod or the container, and to the event's name in its machine."""

_WITH: Final[Mapping[tuple[str, str], str]] = {
    ("run-pod", "failed"): "undone",
    ("create-container", "failed"): "failed",
    ("start-container", "failed"): "failed",
    ("stop-container", "not-stopped"): "not-stopped",
}
"""Maps an event of the system and its outcome to the outcome that the pod or the container must produce."""

_REFUSED: Final[Mapping[str, str]] = {
    "run-pod": "RunPodSandbox",
    "create-container": "CreateContainer",
    "start-container": "StartContainer",
    "update-container": "UpdateContainer",
}
"""Maps each event that a plugin can refuse to the request that the plugin must answer with an error."""

_NEVER: Final[Mapping[str, Collection[str]]] = {
    "run-pod": {"left-over", "failed-late"},
    "stop-pod": {"network-held"},
    "create-container": {"failed-late"},
    "start-container": {"failed-late"},
    "stop-container": {"gone-already"},
    "remove-container": {"no-record", "not-removed"},
}
"""Maps an event to outcomes that no client can cause, because they happen only after a fault."""

_FAULTS: Final = frozenset(
    {
        *(f"{CONTAINER} {each}" for each in ("cut-short", "failed", "no-info", "skipped")),
        *(f"{POD} {each}" for each in ("failed", "not-stopped", "unmonitored", "forgotten", "unknown", "skipped")),
    }
)
"""Steps of the pod or container that happen only after a fault. The names of system outcomes contain such steps."""

_DAMAGED: Final = f"{CONTAINER} unknown"  # the container's step at a restart if its checkpoint is damaged
_COSTLY: Final = frozenset({"restart", "run-pod"})  # events that take several times as long as other events
_LATE: Final = "relay-exit"
_STOPPED: Final = "StopContainer"
_RELAYED: Final = 2.0  # number of seconds to wait for the runtime to relay the exit of a container
_ON_IT: Final = frozenset({"create-container", "start-container", "stop-container", "remove-container"})
"""Calls for which the runtime itself relays StopContainer. During other events, StopContainer means an exit."""
_ANEW: Final = frozenset({"start-container", "plugin-leaves", "restart"})
"""Events that end any doubt about whether the runtime has relayed an exit."""

_SECOND: Final = ".2"  # suffix of the events of the second container
_CALLS: Final = tuple(event for event, (of, name) in _EVENTS.items() if of == CONTAINER and name != "exit")

CONTRACT: Final = "nri-plugin-contract"  # name of the model that judges races
LAYER: Final = ("nri-container", "nri-pod")


class RuntimeNodeSUT:
    """A pod, its container and a test plugin in a real runtime, as one SUT.

    The plugin connects to the socket *nri*. The events relayed to it are judged against *model* under *profile*. The
    calls of a race are also judged against the machines in *by_calls*. *seen* is called with the answer to each call.
    The SUT closes the *session*.
    """

    before = ("plugin-joins",)
    beside = tuple(f"{each}{_SECOND}" for each in _CALLS)

    def __init__(
        self,
        session: RuntimeSession,
        nri: str,
        *,
        model: str = CONTRACT,
        profile: str | None = None,
        by_calls: Sequence[Machine] = (),
        seen: Callable[[CallAnswer], object] | None = None,
    ) -> None:
        self._session = session
        self.model, self._profile, self._by_calls = model, profile, by_calls
        self._seen = seen
        self._event = ""
        self._begin()
        try:
            self.plugin = ToldPlugin(nri, lambda name: name in self._names)
        except BaseException:
            session.close()
            raise
        session.seen = self._record_call
        self._pod = RuntimePodSUT(load("pod-sandbox"), session)
        machine, place = load("container-status"), lambda: self._pod.place
        self._container = RuntimeContainerSUT(machine, session, place=place)
        self._second = RuntimeContainerSUT(machine, session, place=place)
        self._entities: Mapping[str, EntitySUT] = {POD: self._pod, CONTAINER: self._container}

    def _begin(self) -> None:
        self._calls: list[bytes] = []
        self._names: set[str] = set()
        self._heard = self._taken = 0
        self._late, self._awaited = False, True

    def events(self) -> ToldEvents:
        return self._session.events.told(NODE)

    def _record_call(self, answer: CallAnswer) -> None:
        self._calls.append(encoded(answer))
        if self.plugin.joined:  # a plugin that has left receives no events until it joins again
            self._heard = len(self._calls)
        if self._seen is not None:
            self._seen(answer)

    def close(self) -> None:
        try:
            self.plugin.close()
        finally:
            self._session.close()

    def reset(self) -> None:
        self.plugin.leave()
        for sut in (self._second, self._container, self._pod):
            sut.reset()
        self.plugin.forget()
        self._begin()

    def judged(self) -> Judged | None:
        if not self.plugin.lines:
            return None
        calls, events = self._write_recordings()
        with_calls = "" if self.model in LAYER else calls
        try:
            return judge(events, calls=with_calls, models=[self.model], profile=self._profile)
        except InputError as error:
            if {each.code for each in error.problems} != {"FSM206"}:
                raise
            return None

    def _write_recordings(self) -> tuple[str, str]:
        calls = self._session.folder / "calls"
        for end, content in self._files().items():
            Path(f"{calls}{end}").write_bytes(content)
        return str(calls), f"{calls}.nri"

    def _files(self) -> Mapping[str, bytes]:
        return {"": b"".join(self._calls[: self._heard]), ".nri": b"".join(line + b"\n" for line in self.plugin.lines)}

    def race_violations(self) -> Sequence[Violation]:
        for sut in (self._second, self._container, self._pod):
            sut.remove()
        found = [*illegal(self.judged())]
        if self._by_calls:
            calls, _ = self._write_recordings()
            found += illegal(judge(calls, models=self._by_calls))
        return found

    def mended(self) -> bool:
        self.plugin.leave()
        if self._session.client.call("ListPodSandbox").code == "OK":
            return True
        with suppress(BrokenError):
            if self._session.restart is not None:
                self._session.restart()
                return True
        return False

    def witness(self) -> Witness:
        ahead = time.time_ns() - time.monotonic_ns()
        relayed = []
        for event in map(DECODER.decode, self.plugin.lines):
            if event.ts is not None and event.event in EVENT_NAMES:
                at, what = event.ts - ahead, f"{EVENT_NAMES[event.event]} {(event.container or event.pod)[:4]}"
                relayed.append(Operation(called=at, returned=at + 1, event=what))
        return Witness(told=tuple(relayed), files=self._files())

    def never(self, event: str, outcome: str) -> bool:
        way, _, within = outcome.partition(": ")
        steps = within.split(", ")
        lacking = (event == "restart" and not self._session.restart) or (_DAMAGED in steps and not self._session.damage)
        return lacking or way in _NEVER.get(event, ()) or not _FAULTS.isdisjoint(steps)

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
        elif event == "restart" and _DAMAGED in outcome:
            self._container.arrange("restart", "unknown")
        return False  # no outcome is certain: the container's state and the relayed events are not always known

    def do(self, event: str) -> str:
        self._event = self.plugin.doing = event
        try:
            reply = self._do_event(event)
        finally:
            self.plugin.doing = ""
            self.plugin.refused.clear()
        if self.plugin.lost:
            raise BrokenError(self.plugin.lost)
        return reply

    def _do_event(self, event: str) -> str:
        if event == "run-pod":
            self._names.add(self._pod.renew())
        if event in _ANEW:
            self._awaited = True
        if event in _EVENTS:
            part, name = _EVENTS[event]
            return self._entities[part].do(name)
        if event in self.beside:
            return self._second.do(_EVENTS[event.removesuffix(_SECOND)][1])
        if event == "plugin-joins":
            self.plugin.join()
            self._awaited = bool(self.plugin.running)  # if no container runs, its exit may have been relayed already
        elif event == "plugin-leaves":
            self.plugin.leave()
        elif event == "restart":
            self.plugin.leave()
            self._container.do("restart")
            self._pod.find()
        elif event != _LATE:
            raise UnsupportedError("neither a CRI client nor a plugin can cause this event")
        return ""

    def shows(self) -> str:
        pod, container = self._pod.shows(), self._container.shows()
        if self.plugin.running and container != RUNNING:
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


def illegal(judged: Judged | None) -> Iterator[Violation]:
    for judgement in judged.judgements if judged else ():
        for finding in judgement.findings:
            yield replace(finding.first[0], file="", line=0)


class ToldNodeSUT(RuntimeNodeSUT):
    """A node under test whose relayed events are judged against *model* after each step."""

    def __init__(self, *runtime: Any, **options: Any) -> None:  # noqa: ANN401  (the parameters of the base class)
        self._last: Judged | None = None
        self._covered: dict[str, Counter[tuple[str, str]]] = {}
        super().__init__(*runtime, **options)

    def reset(self) -> None:
        self._count()
        super().reset()

    def violation(self) -> Violation | None:
        self._last = self.judged() or self._last
        return next(illegal(self._last), None)

    def covered(self) -> tuple[Covered, ...]:
        self._count()
        return tuple(Covered(machine=name, cells=dict(cells)) for name, cells in self._covered.items())

    def _count(self) -> None:
        for each in self._last.judgements if self._last else ():
            self._covered.setdefault(each.machine.name, Counter()).update(each.covered.cells)
        self._last = None
