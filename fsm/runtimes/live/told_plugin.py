"""A test's plugin: it joins, leaves and refuses on demand, and keeps events of the test's own pods.

It runs on a thread of its own, and the test calls it from another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from fsm.runtimes.live.leftovers import NAMESPACE
from fsm.runtimes.live.nri_recorder import NriRecorder
from fsm.runtimes.reference.clock import LoopThread
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets import unix_sockets
from fsm.runtimes.sockets.nri_link import NriError, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin
from fsm.runtimes.sockets.ttrpc import Code, RpcError
from fsm.sut import BrokenError

_JOINING: Final = 10.0  # number of seconds within which the plugin must be synchronised or have left
_ADDED: Final = 0.02  # number of seconds after its synchronisation until the runtime also relays events to the plugin

_T = TypeVar("_T")


class ToldPlugin:
    """A plugin at the socket *address* that ignores every pod whose name *mine* rejects.

    ``recording`` holds the recorded lines of all tests. ``told`` holds the names of the events received in this test,
    each with the event that the test was ``doing`` then. ``refused`` holds the names of requests to answer with an
    error. Raise :class:`InputError` if nothing listens at *address*.
    """

    def __init__(self, address: str, mine: Callable[[str], bool]) -> None:
        self._address = address
        self._mine = mine
        unix_sockets.reached(address)
        self.recording: list[bytes] = []
        self._begun = 0
        self.told: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self.doing = ""
        self.lost = ""  # why the runtime closed the connection, or empty if it did not
        self.running: set[str] = set()  # containers that were reported as running and not yet as stopped
        self._recorder = NriRecorder(self, lambda: None)
        self._plugin: NriPlugin | None = None
        self._connection: Future[None] | None = None
        self._synchronized = threading.Event()
        self._thread = LoopThread("plugin")

    @property
    def joined(self) -> bool:
        """Whether the plugin is connected, as far as it knows."""
        return self._plugin is not None and not self.lost

    @property
    def lines(self) -> list[bytes]:
        """The lines recorded in this test."""
        return self.recording[self._begun :]

    def put(self, line: bytes) -> bool:
        """Append *line* to the recording."""
        self.recording.append(line)
        return True

    def forget(self) -> None:
        """Forget the previous test."""
        self._begun = len(self.recording)
        self.told.clear()
        self.refused.clear()
        self.running.clear()
        self.lost = ""

    def join(self) -> None:
        """Connect, after leaving if connected, and return when the runtime relays events to the plugin.

        Raise :class:`BrokenError` if the runtime does not accept the plugin.
        """
        self.leave()
        self._synchronized.clear()
        self._plugin = NriPlugin("fsm-test", "99", self)
        self._connection = self._thread.start(self._plugin.run(self._address, lost=self._lost))
        until = time.monotonic() + _JOINING
        while not self._synchronized.wait(0.01):
            if self._connection.done() or time.monotonic() >= until:
                why = self._connection.exception() if self._connection.done() else None
                self.leave()
                raise BrokenError(f"a plugin cannot join: {why or f'it was not synchronised within {_JOINING:g} s'}")
        self._within(self._plugin.update_containers(()))  # the part that synchronised the plugin answers
        time.sleep(_ADDED)

    def leave(self) -> None:
        """Close the connection, if there is one."""
        if self._plugin is None or self._connection is None:
            return
        plugin, connection = self._plugin, self._connection
        self._plugin = self._connection = None
        self.running.clear()
        self._within(plugin.leave())
        try:
            connection.result(_JOINING)
        except (NriError, OSError, TimeoutError):
            connection.cancel()

    def close(self) -> None:
        """Leave and stop the thread. May be called again."""
        if not self._thread.closed:
            self.leave()
            self._thread.close()

    def _lost(self, why: Exception | None) -> None:
        self.lost = f"the runtime has closed the connection of the plugin{f': it {why}' if why else ''}"

    def _within(self, work: Coroutine[object, object, _T]) -> _T | None:
        try:
            return self._thread.run(work, _JOINING)
        except (NriError, TimeoutError):
            return None

    # Requests of the runtime, handled on the plugin's thread.

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        return await self._recorder.configure(request)

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        mine = {pod.id: pod for pod in pods if self._is_mine(pod)}
        inside = [container for container in containers if container.pod_sandbox_id in mine]
        await self._recorder.synchronize([*mine.values()], inside)
        self.running = {each.id for each in inside if each.state == nri.CONTAINER_RUNNING}
        self._synchronized.set()
        return ()

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        if not self._is_mine(event.pod):
            return None
        await self._recorder.relay(event)
        self.told.append((event.name, self.doing))
        if event.container is not None and event.name == "StartContainer":
            self.running.add(event.container.id)
        elif event.container is not None and event.name in {"StopContainer", "RemoveContainer"}:
            self.running.discard(event.container.id)
        if event.name in self.refused:
            raise RpcError(Code.UNKNOWN, f"the test refuses {event.name}")
        return None

    async def shut_down(self) -> None:
        """Do nothing, because the connection ends too."""

    def _is_mine(self, pod: nri.PodSandbox) -> bool:
        return pod.namespace == NAMESPACE and self._mine(pod.name)
