"""A pod and a container in the reference NRI layer under test; the outputs are the requests to a first plugin.

A second plugin has a higher index.  It must receive each request after the
first plugin, unless that answered with an error.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import ClassVar, Final, NamedTuple

from fsm.library import load
from fsm.machine import Machine, Moves
from fsm.reference.harness import ScopedSUT, dispatch
from fsm.reference.nri.api import NRI
from fsm.reference.nri.config import RELEASES, Config
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fakes import FakeDomain, FakePlugin
from fsm.reference.nri.messages import Answer, Container, ContainerState, Pod, Request
from fsm.reference.nri.nri_errors import NRIError, NRIStoppedError, PluginLostError
from fsm.reference.nri.subscriptions import EVENTS
from fsm.sut import BrokenError

FIRST: Final = "10"
"""The index of the plugin whose requests are the outputs."""

SECOND: Final = "20"
"""The index of the plugin that checks their order."""

POD: Final = Pod(id="pod", name="pod", namespace="default")
CONTAINER: Final = Container(id="container", pod_id=POD.id, name="container")


class _Heard(NamedTuple):
    """A request to the plugin with the index ``to``, which answers with ``error`` or ``lost``, or nothing.

    ``alone`` is whether no other plugin was connected.
    """

    to: str
    event: str
    answer: str
    alone: bool


class _NriSUT(ScopedSUT):
    """The layer of *release* with its plugins; *kind* makes the layer."""

    name: ClassVar[str]
    """The name of the machine."""

    def __init__(self, release: str = "", kind: Callable[[Config, Domains], NRI] = NRI) -> None:
        self.machine: Final[Machine] = load(self.name)
        self._config: Final = Config(release=release if release in RELEASES else "")
        self._kind: Final = kind
        self._joining: Final = threading.Lock()
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._heard: list[_Heard] = []
        self.sent: dict[str, tuple[str, ...]] = {}
        self._script: dict[str, str] = {}
        self._alone = threading.Event()
        self._domain = FakeDomain()
        self.nri = self._kind(self._config, Domains([self._domain]))
        self._scope.callback(self._end)
        self.nri.start()
        self._plugins = {index: self._joined(index) for index in (FIRST, SECOND)}

    def _end(self) -> None:
        self.nri.wait_for_exits()
        with suppress(NRIStoppedError):
            self.nri.stop()

    def arrange(self, event: str, outcome: str) -> bool:
        """Let the first plugin fail, or be lost, at the last request of that outcome."""
        cells = self.machine.events[event].cells.values()
        ways = [way for cell in cells if isinstance(cell, Moves) for way in cell.outcomes]
        emits = next((way.emits for way in ways if way.name == outcome and way.emits), ())
        self._script.clear()
        if emits and outcome != "ok":
            self._script[emits[-1]] = outcome.partition("-")[0]
        return bool(emits)

    def do(self, event: str) -> str:
        try:
            return dispatch(self.name, event, self._calls())
        finally:
            self._script.clear()
            self._replace_lost()

    def outputs(self) -> Sequence[str]:
        """The requests to the first plugin; raises :class:`BrokenError` if the second did not receive the same after it.

        ``sent`` has the requests to each plugin by index.
        """
        heard = list(self._heard)
        self._heard.clear()
        self.sent = {index: tuple(each.event for each in heard if each.to == index) for index in (FIRST, SECOND)}
        connected = True
        for each, following in zip_longest(heard, heard[1:]):
            followed = following is not None and (following.to, following.event) == (SECOND, each.event)
            if each.to == FIRST:
                right = each.alone or followed == (each.answer != "error")
            else:
                right = not (followed and connected)
            if not right:
                order = ", ".join(f"{one.event} to {one.to}" for one in heard)
                message = (
                    f"plugins {FIRST} and {SECOND} must be called in turn, up to the first error; sent were {order}"
                )
                raise BrokenError(message)
            connected &= each.answer != "lost"
        return self.sent[FIRST]

    def shows(self) -> str:
        raise NotImplementedError

    def _calls(self) -> Mapping[str, Callable[[], object]]:
        raise NotImplementedError

    def _joined(self, index: str) -> FakePlugin:
        plugin = FakePlugin(index=index, answers=dict.fromkeys(EVENTS, partial(self._answer, index)))
        self.nri.register(plugin)
        return plugin

    def _answer(self, index: str, request: Request) -> Answer:
        answer = self._script.get(request.event, "") if index == FIRST else ""
        self._heard.append(_Heard(index, request.event, answer, self._alone.is_set()))
        if answer == "error":
            raise NRIError("as arranged", code="INTERNAL")
        if answer == "lost":
            raise PluginLostError("as arranged")
        return Answer()

    def _replace_lost(self) -> None:
        """Let another plugin join for each that was lost; the domain lists no container then."""
        with self._joining:
            for index, plugin in self._plugins.items():
                if f"{index}-{plugin.name}" not in self.nri.plugins:
                    self._plugins[index] = self._joined(index)


class NriPodSUT(_NriSUT):
    """A pod in the reference NRI layer of *release*; *kind* makes the layer.

    >>> sut = NriPodSUT()
    >>> sut.do("run-pod-sandbox"), sut.outputs(), sut.shows()
    ('ok', ('RunPodSandbox',), 'running')
    >>> sut.arrange("stop-pod-sandbox", "error"), sut.do("stop-pod-sandbox"), sut.shows()
    (True, 'INTERNAL', 'stopped')
    >>> sut.close()
    """

    name = "nri-pod"

    def shows(self) -> str:
        return self.nri.pod_state(POD.id)

    def _calls(self) -> Mapping[str, Callable[[], object]]:
        nri = self.nri
        return {
            "run-pod-sandbox": lambda: nri.run_pod_sandbox(POD),
            "update-pod-sandbox": lambda: nri.update_pod_sandbox(POD),
            "post-update-pod-sandbox": lambda: nri.post_update_pod_sandbox(POD),
            "stop-pod-sandbox": lambda: nri.stop_pod_sandbox(POD),
            "remove-pod-sandbox": lambda: nri.remove_pod_sandbox(POD),
        }


class NriContainerSUT(_NriSUT):
    """A container in the reference NRI layer of *release*; *kind* makes the layer.

    >>> sut = NriContainerSUT()
    >>> sut.do("create-container"), sut.do("sync-running"), sut.shows()
    ('ok', '', 'running')
    >>> sut.do("remove-container"), sut.outputs()
    ('ok', ('CreateContainer', 'StopContainer', 'RemoveContainer'))
    >>> sut.close()
    """

    name = "nri-container"

    def shows(self) -> str:
        return self.nri.container_state(CONTAINER.id)

    def _calls(self) -> Mapping[str, Callable[[], object]]:
        nri = self.nri
        return {
            "create-container": lambda: nri.create_container(POD, CONTAINER),
            "post-create-container": lambda: nri.post_create_container(POD, CONTAINER),
            "start-container": lambda: nri.start_container(POD, CONTAINER),
            "post-start-container": lambda: nri.post_start_container(POD, CONTAINER),
            "update-container": lambda: nri.update_container(POD, CONTAINER, {}),
            "post-update-container": lambda: nri.post_update_container(POD, CONTAINER),
            "stop-container": lambda: nri.stop_container(POD, CONTAINER),
            "remove-container": lambda: nri.remove_container(POD, CONTAINER),
            "notify-exit": self._exit,
            "sync-created": lambda: self._synchronise(ContainerState.CREATED),
            "sync-running": lambda: self._synchronise(ContainerState.RUNNING),
            "sync-stopped": lambda: self._synchronise(ContainerState.STOPPED),
            "sync-gone": lambda: self._synchronise(ContainerState.UNKNOWN),
        }

    def _exit(self) -> None:
        self.nri.notify_container_exit(POD, CONTAINER)
        self.nri.wait_for_exits()

    def _synchronise(self, state: ContainerState) -> None:
        """Replace the second plugin by one that joins while the container is listed in *state*."""
        with self._joining:
            self._alone.set()
            self.nri.disconnect(self._plugins[SECOND])
            self._domain.containers = (replace(CONTAINER, state=state),)
            try:
                self._plugins[SECOND] = self._joined(SECOND)
            finally:
                self._domain.containers = ()
                self._alone.clear()
