"""The reference NRI layer under test, with one pod and one container.

The outputs are the requests that the first of two plugins receives. The second plugin must then receive the same
requests, except for those that the first plugin has answered with an error.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, cycle, zip_longest
from typing import Final, NamedTuple

from fsm.language.library import load
from fsm.machine import Moves
from fsm.runtimes.names import REQUESTS
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.driven import Action, ReferenceSUT, driver
from fsm.runtimes.reference.nri import NRI, PluginSyncBlock, SyncLock
from fsm.runtimes.reference.nri.connection import Plugin
from fsm.runtimes.reference.nri.lifecycle import RELAYS
from fsm.runtimes.reference.nri.messages import (
    Answer,
    Container,
    ContainerState,
    Domain,
    Domains,
    NRIError,
    NRIStoppedError,
    PluginLostError,
    Pod,
    Request,
    Update,
)
from fsm.runtimes.reference.nri.session import RELEASES, Config, default_config
from fsm.sut import BrokenError

FIRST: Final = "10"
SECOND: Final = "20"
"""Indices of the plugins."""

POD: Final = Pod(id="pod", name="pod", namespace="default")
CONTAINER: Final = Container(id="container", pod_id=POD.id, name="container")


@dataclass(kw_only=True, eq=False)
class FakePlugin(Plugin):
    index: str = "10"
    name: str = "fake"
    events: Collection[str] = ()
    answers: Mapping[str, Callable[[Request], Answer]] = field(default_factory=dict)
    wants: Callable[[], Sequence[Update]] = tuple

    def synchronize(self, _pods: Sequence[Pod], _containers: Sequence[Container]) -> Sequence[Update]:
        return self.wants()

    def handle(self, request: Request) -> Answer:
        return self.answers[request.event](request) if request.event in self.answers else Answer()


class _SentRequest(NamedTuple):
    to: str
    event: str
    answer: str


def release(profile: str) -> str:
    return next((name for name in profile.split("+") if name in RELEASES), "")


CALLS: Final = tuple(
    event.name for name in ("nri-pod", "nri-container") for event in load(name).events.values() if event.kind == "call"
)


def happen(nri: NRI, event: str, container: Container = CONTAINER) -> None:
    if event == "notify-exit":
        nri.notify_container_exit(POD, container)
        nri.wait_for_exits()
    else:
        nri.relay(event, POD, None if event.endswith("pod-sandbox") else container)


LISTED_AS: Final = {state.event: state for state in ContainerState}


class _NriSUT(ReferenceSUT[NRI]):
    kinds = (NRI,)

    def reset(self) -> None:
        super().reset()
        self._listing = threading.Lock()
        self._sent: list[_SentRequest] = []
        self.sent: dict[str, tuple[str, ...]] = {}
        self._script: dict[str, str] = {}
        self._domain = Domain()
        self.nri = self._kind(Config(release=release(self._profile)), Domains([self._domain]))
        self._scope.callback(self._end)
        self.nri.start()
        self._join(FIRST)
        self._join(SECOND)

    def _end(self) -> None:
        self.nri.wait_for_exits()
        with suppress(NRIStoppedError):
            self.nri.stop()

    def arrange(self, event: str, outcome: str) -> bool:
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
        if f"{FIRST}-fake" not in self.nri.plugins:
            self._join(FIRST)

    def outputs(self) -> Sequence[str]:
        requests, self._sent = self._sent, []
        self.sent = {index: tuple(one.event for one in requests if one.to == index) for index in (FIRST, SECOND)}
        connected = True
        for request, following in zip_longest(requests, requests[1:]):
            followed = following is not None and (following.to, following.event) == (SECOND, request.event)
            expected = request.answer != "error" if request.to == FIRST else followed and not connected
            if followed != expected:
                order = ", ".join(f"{one.event} to {one.to}" for one in requests)
                rule = f"plugins {FIRST} and {SECOND} must be called in turn, up to the first error"
                raise BrokenError(f"{rule}; sent were {order}")
            connected &= request.answer != "lost"
        return self.sent[FIRST]

    def _join(self, index: str) -> None:
        self.nri.register(FakePlugin(index=index, answers=dict.fromkeys(REQUESTS, partial(self._answer, index))))

    def _answer(self, index: str, request: Request) -> Answer:
        answer = self._script.get(request.event, "") if index == FIRST else ""
        self._sent.append(_SentRequest(index, request.event, answer))
        if answer == "error":
            raise NRIError("as arranged", code="INTERNAL")
        if answer == "lost":
            raise PluginLostError("as arranged")
        return Answer()


class NriPodSUT(_NriSUT):
    machine = "nri-pod"

    def shows(self) -> str:
        return self.nri.pod_state(POD.id)


class NriContainerSUT(_NriSUT):
    machine = "nri-container"

    def shows(self) -> str:
        return self.nri.container_state(CONTAINER.id)

    def _happen(self, event: str) -> None:
        if event not in LISTED_AS:
            super()._happen(event)
            return
        plugin = FakePlugin(index="30")
        with self._listing:
            self._domain.containers = (replace(CONTAINER, state=LISTED_AS[event]),)
            try:
                self.nri.register(plugin)
            finally:
                self.nri.disconnect(plugin)
                self._domain.containers = ()


TIMEOUT: Final = 10.0  # time limit in seconds for answers of the plugins, which answer immediately

OTHER: Final = "other"

NEWEST: Final = "containerd-main"
"""The profile of ``nri-api`` that describes the newest release."""


class NriApiSUT(ReferenceSUT[NRI]):
    """The NRI interface of one release under test.

    Even under the profile ``upstream``, ``arrange`` accepts only intended outcomes.
    """

    machine = "nri-api"
    kinds = (NRI,)

    def reset(self) -> None:
        super().reset()
        self._release = release(self._profile)
        self._scope.callback(self._end)
        self._nri: NRI | None = None
        self._outcome = ""
        self._blocks: list[PluginSyncBlock] = []
        self._numbers = count(1)
        self._domain = Domain(containers=[Container(id=OTHER, pod_id=POD.id)])
        self._domains = Domains([self._domain])
        self._plugin = FakePlugin(wants=self._synchronise)
        self._relayed = cycle(event for event in CALLS if event not in RELAYS)

    def _end(self) -> None:
        for block in self._blocks:
            block.unblock()
        self._interface.wait_for_exits()
        with suppress(Exception):  # a planted bug may raise an error here, but the test has already found it
            self._interface.stop()

    def shows(self) -> str:
        return self._nri.state if self._nri else "none"

    def arrange(self, event: str, outcome: str) -> bool:
        self._outcome = outcome
        # The reference doesn't reproduce containerd's bugs, such as panicking after a stop.
        ways = driver(self.machine, self._release or NEWEST).offered(event, self.shows())
        return any(way.name == outcome for way in ways)

    def _actions(self) -> Mapping[str, Action]:
        return {
            "new": self._new,
            "new-default": lambda: self._make(default_config(self._release)),
            "is-enabled": lambda: self._outputs.extend(["enabled"] * self._interface.is_enabled()),
            "configure-timeouts": self._configure_timeouts,
            "register-domain": self._register_domain,
            "start": self._start,
            "stop": self._stop,
            "relay": lambda: self._relay(next(self._relayed)),
            "relay-end": lambda: self._relay("stop-container"),
            "relay-pod-update": lambda: self._relay("update-pod-sandbox"),
            "notify-exit": lambda: self._relay("notify-exit"),
            "block": self._block,
            "unblock": self._unblock,
            "join": self._join,
            "leave": lambda: self._interface.disconnect(FakePlugin(index="30")),
            "update-containers": self._update_containers,
        }

    def _clear_faults(self) -> None:
        self._outcome = ""
        self._plugin.answers = {}
        self._domain.stubborn = ()

    @property
    def _interface(self) -> NRI:
        """The first interface that was created, or a disabled interface if there is none yet."""
        return self._nri or NRI(Config(disable=True, release=self._release))

    def _new(self) -> None:
        request = -1 if self._outcome == "failed" else TIMEOUT
        disable = self._outcome == "disabled"
        try:
            config = Config(disable=disable, plugin_request_timeout=request, release=self._release)
        except ValueError as error:
            raise NRIError(str(error), code="INVALID_ARGUMENT") from error
        self._make(config)

    def _make(self, config: Config) -> None:
        request = TIMEOUT + next(self._numbers)
        config = replace(config, plugin_registration_timeout=TIMEOUT, plugin_request_timeout=request)
        before = self._interface.config
        lock = SyncLock(TurnedClock(hurried=True))  # never wait for a block to end: no other thread could end it
        nri = self._kind(config, self._domains, [self._plugin], self._listen, lock)
        self._nri = first = self._nri or nri
        changed = nri.is_enabled() and nri.config == config if nri is first else first.config != before
        self._outputs += ["timeouts"] * changed

    def _configure_timeouts(self) -> None:
        nri, request = self._interface, TIMEOUT + next(self._numbers)
        nri.configure_timeouts(registration=TIMEOUT, request=request)
        self._outputs += ["timeouts"] * (nri.config.request_timeout == request)

    def _register_domain(self) -> None:
        name = "k8s.io" if self._outcome == "duplicate" else f"domain-{next(self._numbers)}"
        self._domains.register(Domain(name=name))

    def _listen(self, path: str) -> Callable[[], object]:
        if self._outcome == "no-socket":
            raise OSError(f"no {path}")
        return bool

    def _start(self) -> None:
        nri = self._interface
        self._plugin.index = "none" if self._outcome == "no-plugins" else "10"
        try:
            nri.start()
        except NRIError:
            if self._outcome == "no-socket":
                self._outputs[:] = ["left-running" if nri.plugins else "dismissed"]
            raise

    def _synchronise(self) -> Sequence[Update]:
        self._outputs.append("synchronised")
        return ()

    def _stop(self) -> None:
        nri, before = self._interface, self._interface.plugins
        nri.stop()
        if before and not nri.plugins:
            self._outputs.append("dismissed")

    def _relay(self, event: str) -> None:
        nri, container = self._interface, Container(id=f"container-{next(self._numbers)}", pod_id=POD.id)
        if event in {"stop-container", "notify-exit"} and self._outcome in {"ok", "error", "relayed"}:
            happen(nri, "start-container", container)
        self._plugin.answers = dict.fromkeys(REQUESTS, self._answer)
        happen(nri, event, container)

    def _answer(self, request: Request) -> Answer:
        self._outputs.append("relayed")
        if self._outcome == "error":
            raise NRIError(f"no {request.event}", code="INTERNAL")
        return Answer()

    def _block(self) -> None:
        self._blocks.append(self._interface.block_plugin_sync())

    def _unblock(self) -> None:
        if self._outcome == "another" and len(self._blocks) == 1:
            self._block()
        while len(self._blocks) > 1 and self._outcome == "last":
            self._blocks.pop().unblock()
        (self._blocks.pop(0) if self._blocks else PluginSyncBlock()).unblock()

    def _join(self) -> None:
        index = "none" if self._outcome == "failed" else "20"
        plugin = FakePlugin(index=index, name=f"comes-{next(self._numbers)}", wants=self._synchronise)
        try:
            self._interface.register(plugin)
        finally:
            with suppress(NRIError):
                self._interface.disconnect(plugin)

    def _update_containers(self) -> None:
        self._domain.stubborn = (OTHER,) if self._outcome == "failed" else ()
        self._domain.done.clear()
        container_id = "no such" if self._outcome == "nothing-known" else OTHER
        try:
            self._interface.update_containers([Update(container_id=container_id)])
        finally:
            self._outputs += ["updated"] * len(self._domain.done)
