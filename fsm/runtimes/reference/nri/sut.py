"""A pod and a container in the reference NRI layer under test. The outputs are the requests to a first plugin.

A second plugin must receive each request after the first plugin, unless the first plugin answered with an error.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple

from fsm.language.library import load
from fsm.machine import Moves
from fsm.runtimes.names import REQUESTS
from fsm.runtimes.reference.driven import driver
from fsm.runtimes.reference.harness import ReferenceSUT
from fsm.runtimes.reference.nri.api import NRI
from fsm.runtimes.reference.nri.connection import Plugin
from fsm.runtimes.reference.nri.domain import Domain, Domains
from fsm.runtimes.reference.nri.messages import (
    Answer,
    Container,
    ContainerState,
    NRIError,
    NRIStoppedError,
    PluginLostError,
    Pod,
    Request,
    Update,
)
from fsm.runtimes.reference.nri.session import RELEASES, Config
from fsm.sut import BrokenError

FIRST: Final = "10"
SECOND: Final = "20"
"""Indices of the plugin whose requests are the outputs, and of the plugin that checks their order."""

POD: Final = Pod(id="pod", name="pod", namespace="default")
CONTAINER: Final = Container(id="container", pod_id=POD.id, name="container")


@dataclass(kw_only=True, eq=False)
class FakePlugin(Plugin):
    """A plugin that keeps what it receives. It answers an event with the function in ``answers``, if there is one.

    ``heard`` has the index and the event of each request. Several plugins may share it.
    """

    index: str = "10"
    name: str = "fake"
    events: Collection[str] = ()
    answers: Mapping[str, Callable[[Request], Answer]] = field(default_factory=dict)
    wants: Callable[[], Sequence[Update]] = tuple
    heard: list[tuple[str, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    synchronised: list[tuple[tuple[Pod, ...], tuple[Container, ...]]] = field(default_factory=list)

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self.synchronised.append((tuple(pods), tuple(containers)))
        return self.wants()

    def handle(self, request: Request) -> Answer:
        self.heard.append((self.index, request.event))
        self.requests.append(request)
        return self.answers[request.event](request) if request.event in self.answers else Answer()


class _SentRequest(NamedTuple):
    """A request to the plugin ``to``, its ``answer`` (``error``, ``lost`` or empty), and whether it was ``alone``."""

    to: str
    event: str
    answer: str
    alone: bool


def release(profile: str) -> str:
    """Return the release in *profile*, which may combine profiles, or an empty string for the newest release."""
    return next((name for name in profile.split("+") if name in RELEASES), "")


CALLS: Final = tuple(
    event.name for name in ("nri-pod", "nri-container") for event in load(name).events.values() if event.kind == "call"
)
"""The calls on a pod or a container."""


def happen(nri: NRI, event: str, container: Container = CONTAINER) -> None:
    """Make *event* happen to *container*, or to the pod if it is a pod event."""
    if event == "notify-exit":
        nri.notify_container_exit(POD, container)
        nri.wait_for_exits()
    else:
        nri.relay(event, POD, None if event.endswith("pod-sandbox") else container)


LISTED_AS: Final = {state.event: state for state in ContainerState}
"""Maps each listing event to the state in which the container is then listed."""


class _NriSUT(ReferenceSUT[NRI]):
    kinds = (NRI,)

    def reset(self) -> None:
        super().reset()
        self._joining = threading.Lock()
        self._sent: list[_SentRequest] = []
        self.sent: dict[str, tuple[str, ...]] = {}
        self._script: dict[str, str] = {}
        self._alone = threading.Event()
        self._domain = Domain()
        self.nri = self._kind(Config(release=release(self._profile)), Domains([self._domain]))
        self._scope.callback(self._end)
        self.nri.start()
        self._plugins = {index: self._join(index) for index in (FIRST, SECOND)}

    def _end(self) -> None:
        self.nri.wait_for_exits()
        with suppress(NRIStoppedError):
            self.nri.stop()

    def arrange(self, event: str, outcome: str) -> bool:
        """Make the first plugin fail or be lost at the last request of *outcome*. Return False if there is none."""
        cells = driver(self.machine).machine.events[event].cells.values()
        ways = [way for cell in cells if isinstance(cell, Moves) for way in cell.outcomes]
        emits = next((way.emits for way in ways if way.name == outcome and way.emits), ())
        self._script.clear()
        if emits and outcome != "ok":
            self._script[emits[-1]] = outcome.partition("-")[0]
        return bool(emits)

    def _happen(self, event: str) -> None:
        happen(self.nri, event)

    def _clear_faults(self) -> None:
        self._script.clear()
        with self._joining:
            for index, plugin in self._plugins.items():
                if f"{index}-{plugin.name}" not in self.nri.plugins:
                    self._plugins[index] = self._join(index)

    def outputs(self) -> Sequence[str]:
        """Store the requests to both plugins in ``sent``, check their order, and return those to the first plugin."""
        requests = list(self._sent)
        self._sent.clear()
        self.sent = {index: tuple(one.event for one in requests if one.to == index) for index in (FIRST, SECOND)}
        connected = True
        for request, following in zip_longest(requests, requests[1:]):
            followed = following is not None and (following.to, following.event) == (SECOND, request.event)
            if request.to == FIRST:
                right = request.alone or followed == (request.answer != "error")
            else:
                right = not (followed and connected)
            if not right:
                order = ", ".join(f"{one.event} to {one.to}" for one in requests)
                rule = f"plugins {FIRST} and {SECOND} must be called in turn, up to the first error"
                raise BrokenError(f"{rule}; sent were {order}")
            connected &= request.answer != "lost"
        return self.sent[FIRST]

    def _join(self, index: str) -> FakePlugin:
        plugin = FakePlugin(index=index, answers=dict.fromkeys(REQUESTS, partial(self._answer, index)))
        self.nri.register(plugin)
        return plugin

    def _answer(self, index: str, request: Request) -> Answer:
        answer = self._script.get(request.event, "") if index == FIRST else ""
        self._sent.append(_SentRequest(index, request.event, answer, self._alone.is_set()))
        if answer == "error":
            raise NRIError("as arranged", code="INTERNAL")
        if answer == "lost":
            raise PluginLostError("as arranged")
        return Answer()


class NriPodSUT(_NriSUT):
    """A pod in the reference NRI layer."""

    machine = "nri-pod"

    def shows(self) -> str:
        return self.nri.pod_state(POD.id)


class NriContainerSUT(_NriSUT):
    """A container in the reference NRI layer."""

    machine = "nri-container"

    def shows(self) -> str:
        return self.nri.container_state(CONTAINER.id)

    def _happen(self, event: str) -> None:
        """Call the NRI layer, or replace the second plugin with one that joins while the container is listed."""
        if event not in LISTED_AS:
            super()._happen(event)
            return
        with self._joining:
            self._alone.set()
            self.nri.disconnect(self._plugins[SECOND])
            self._domain.containers = (replace(CONTAINER, state=LISTED_AS[event]),)
            try:
                self._plugins[SECOND] = self._join(SECOND)
            finally:
                self._domain.containers = ()
                self._alone.clear()
