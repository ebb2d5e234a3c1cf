"""The reference NRI layer under test: a plugin that subscribed to everything sees what is put out.

A second plugin, at a higher index, sees that it comes in order: it must be
sent what the first was sent, after it, unless the first answered with an error.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from fsm.library import load
from fsm.machine import Moves
from fsm.reference.nri.api import NRI
from fsm.reference.nri.config import RELEASES, Config
from fsm.reference.nri.domain import Domains
from fsm.reference.nri.fake_domain import FakeDomain
from fsm.reference.nri.messages import Answer, Container, ContainerState, Pod
from fsm.reference.nri.nri_errors import NRIError, NRIStoppedError, PluginLostError
from fsm.sut import BrokenError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fsm.machine import Machine
    from fsm.reference.nri.messages import Request, Update

FIRST: Final = "10"
"""The index of the plugin that sees the outputs."""

SECOND: Final = "20"
"""The index of the plugin that sees their order."""

POD: Final = Pod(id="pod", name="pod", namespace="default")
CONTAINER: Final = Container(id="container", pod_id=POD.id, name="container")


@dataclass(kw_only=True)
class _Heard:
    """A request as it came to a plugin, and what the plugin does about it: nothing, ``error`` or ``lost``.

    ``alone`` says that no other plugin was there.
    """

    index: str
    event: str
    does: str
    alone: bool


@dataclass(kw_only=True, eq=False)
class _Recorder:
    """A plugin that writes down what it is sent; ``script`` says by event what it does about it."""

    index: str
    heard: list[_Heard]
    alone: threading.Event
    script: Mapping[str, str] = field(default_factory=dict)
    name: str = "recorder"
    events: tuple[str, ...] = ()

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """Nothing is wanted."""
        del pods, containers
        return ()

    def handle(self, request: Request) -> Answer:
        """Do as the script says."""
        does = self.script.get(request.event, "")
        self.heard.append(_Heard(index=self.index, event=request.event, does=does, alone=self.alone.is_set()))
        if does == "error":
            raise NRIError("as arranged", code="INTERNAL")
        if does == "lost":
            raise PluginLostError("as arranged")
        return Answer()


class _NriSUT:
    """What the SUTs of containers and of pods have in common: the layer, its plugins, and what these do."""

    def __init__(self, machine: str, release: str, kind: Callable[[Config, Domains], NRI]) -> None:
        self.machine: Final[Machine] = load(machine)
        self._config: Final = Config(release=RELEASES.get(release, RELEASES[""]))
        self._kind: Final = kind
        self._joining: Final = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._heard: list[_Heard] = []
        self.sent: dict[str, tuple[str, ...]] = {}
        self._script: dict[str, str] = {}
        self._alone = threading.Event()
        self._domain = FakeDomain()
        self.nri = self._kind(self._config, Domains([self._domain]))
        self.nri.start()
        self._plugins = {index: self._joined(index) for index in (FIRST, SECOND)}

    def reset(self) -> None:
        """A new layer with two new plugins."""
        self.close()
        self._begin()

    def close(self) -> None:
        """End the plugins' threads."""
        self.nri.wait_for_exits()
        with suppress(NRIStoppedError):
            self.nri.stop()

    def arrange(self, event: str, outcome: str) -> bool:
        """The first plugin fails, or is lost, at the last that it is to be sent in that outcome."""
        cells = self.machine.events[event].cells.values()
        ways = [way for cell in cells if isinstance(cell, Moves) for way in cell.outcomes]
        emits = next((way.emits for way in ways if way.name == outcome and way.emits), ())
        self._script.clear()
        if emits and outcome != "ok":
            self._script[emits[-1]] = outcome.partition("-")[0]
        return bool(emits)

    def do(self, event: str) -> str:
        """Call the layer."""
        call = self._calls().get(event)
        if call is None:
            message = f"the reference of {self.machine.name} has no event {event!r}"
            raise UnsupportedError(message)
        try:
            call()
        except NRIError as error:
            return error.code
        finally:
            self._script.clear()
            self._replace_lost()
        return "ok" if self.machine.events[event].kind == "call" else ""

    def outputs(self) -> Sequence[str]:
        """What the first plugin was sent; raises :class:`BrokenError` if the second was not sent the same after it.

        ``sent`` says what either was sent, by its index.
        """
        heard = list(self._heard)
        self._heard.clear()
        self.sent = {index: tuple(each.event for each in heard if each.index == index) for index in (FIRST, SECOND)}
        there = True
        for each, following in zip_longest(heard, heard[1:]):
            followed = following is not None and (following.index, following.event) == (SECOND, each.event)
            if each.index == FIRST:
                right = each.alone or followed == (each.does != "error")
            else:
                right = not (followed and there)
            if not right:
                order = ", ".join(f"{one.event} to {one.index}" for one in heard)
                message = (
                    f"plugins {FIRST} and {SECOND} are to be asked in turn, up to the first error; sent were {order}"
                )
                raise BrokenError(message)
            there &= each.does != "lost"
        return self.sent[FIRST]

    def shows(self) -> str:
        """What the layer remembers."""
        raise NotImplementedError

    def _calls(self) -> Mapping[str, Callable[[], None]]:
        """By event, what lets it happen."""
        raise NotImplementedError

    def _joined(self, index: str) -> _Recorder:
        script = self._script if index == FIRST else {}
        plugin = _Recorder(index=index, heard=self._heard, alone=self._alone, script=script)
        self.nri.register(plugin)
        return plugin

    def _replace_lost(self) -> None:
        """Let another plugin join where one was lost; no container is listed to it, so nothing else happens."""
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

    def __init__(self, release: str = "", kind: Callable[[Config, Domains], NRI] = NRI) -> None:
        super().__init__("nri-pod", release, kind)

    def shows(self) -> str:
        """What the layer remembers."""
        return self.nri.pod_state(POD.id)

    def _calls(self) -> Mapping[str, Callable[[], None]]:
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

    def __init__(self, release: str = "", kind: Callable[[Config, Domains], NRI] = NRI) -> None:
        super().__init__("nri-container", release, kind)

    def shows(self) -> str:
        """What the layer remembers."""
        return self.nri.container_state(CONTAINER.id)

    def _calls(self) -> Mapping[str, Callable[[], None]]:
        nri = self.nri
        return {
            "create-container": lambda: _answered(nri.create_container(POD, CONTAINER)),
            "post-create-container": lambda: nri.post_create_container(POD, CONTAINER),
            "start-container": lambda: nri.start_container(POD, CONTAINER),
            "post-start-container": lambda: nri.post_start_container(POD, CONTAINER),
            "update-container": lambda: _answered(nri.update_container(POD, CONTAINER, {})),
            "post-update-container": lambda: nri.post_update_container(POD, CONTAINER),
            "stop-container": lambda: nri.stop_container(POD, CONTAINER),
            "remove-container": lambda: nri.remove_container(POD, CONTAINER),
            "notify-exit": self._exits,
            "sync-created": lambda: self._synchronised(ContainerState.CREATED),
            "sync-running": lambda: self._synchronised(ContainerState.RUNNING),
            "sync-stopped": lambda: self._synchronised(ContainerState.STOPPED),
            "sync-gone": lambda: self._synchronised(ContainerState.UNKNOWN),
        }

    def _exits(self) -> None:
        self.nri.notify_container_exit(POD, CONTAINER)
        self.nri.wait_for_exits()

    def _synchronised(self, state: ContainerState) -> None:
        """The second plugin hangs up, and another joins, to which the container is listed in *state*."""
        with self._joining:
            self._alone.set()
            self.nri.disconnect(self._plugins[SECOND])
            self._domain.containers = (replace(CONTAINER, state=state),)
            try:
                self._plugins[SECOND] = self._joined(SECOND)
            finally:
                self._domain.containers = ()
                self._alone.clear()


def _answered(_: object) -> None:
    """What plugins want is nothing that the machine speaks of."""
