"""An NRI plugin that records the events that it receives and requests no changes.

A separate thread writes the lines. If it falls too far behind, the plugin disconnects until everything is written.
The new connection in the recording shows that lines may be missing before it.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from fsm.runtimes.live.call_recording import Outbox, named
from fsm.runtimes.live.runtime_session import NAMESPACE
from fsm.runtimes.names import POD_EVENTS
from fsm.runtimes.reference.clock import LoopThread
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets import unix_sockets
from fsm.runtimes.sockets.nri_link import NriError, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin, offered
from fsm.runtimes.sockets.ttrpc import Code, RpcError
from fsm.sut import BrokenError

BEHIND: Final = 50_000  # maximum number of lines that may wait to be written


class LineWriter(Outbox[bytes]):
    def __init__(self, file: BinaryIO | gzip.GzipFile, *, most: int = BEHIND) -> None:
        super().__init__(lambda line: file.write(line + b"\n"), idle=file.flush, most=most)

    def close(self, seconds: float | None = None) -> None:
        super().close(seconds)
        if self.error is not None:
            raise self.error


def opened(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open *path* for appending to a recording, which is compressed if its name ends in ``.gz``.

    A compressed file must not exist yet. In an uncompressed file, an incomplete last line is terminated first.
    """
    if path.suffix == ".gz":
        return gzip.open(path, "xb")
    file = path.open("ab")
    if path.is_file() and file.tell():
        with path.open("rb") as written:
            written.seek(-1, os.SEEK_END)
            if written.read(1) != b"\n":
                file.write(b"\n")
    return file


class NriRecorder:
    """Handles the requests that the recording plugin receives, and passes a line for each request to *put*.

    If *put* rejects a line, *full* is called. ``events`` and ``connections`` hold the numbers of events and connections
    so far.
    """

    def __init__(self, put: Callable[[bytes], bool], full: Callable[[], None] = lambda: None) -> None:
        self._put, self._full = put, full
        self._open = False
        self.events = 0
        self.connections = 0

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        self._open = True  # the next request, Synchronize, lists everything that was missed
        self.connections += 1
        self._record("Configure", runtime=request.runtime_name, version=request.runtime_version)
        return offered(request)

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        listed = [{"id": each.id, "pod": each.pod_sandbox_id, "state": _state(each)} for each in containers]
        self._record("Synchronize", pods=[{"id": pod.id} for pod in pods], containers=listed)
        return ()

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        self.events += 1
        if event.container is None or event.name in POD_EVENTS:
            self._record(event.sent, pod=event.pod.id)
        else:
            pod = event.pod.id or event.container.pod_sandbox_id
            self._record(event.sent, pod=pod, container=event.container.id, state=_state(event.container))
        return None

    def _record(self, event: str, **more: object) -> None:
        if self._open and not self._put(msgspec.json.encode({"ts": time.time_ns(), "event": event, **more})):
            self._open = False  # a line is now missing, so record nothing more from this connection
            self._full()


def _state(container: nri.Container) -> str:
    return named(nri.ContainerState, container.state)


async def record(
    address: str, writer: LineWriter, *, name: str = "fsm-record", ended: asyncio.Event, told: Callable[[str], None]
) -> NriRecorder:
    """Record the events of the runtime at the socket *address* until *ended* is set.

    If the runtime restarts, the plugin connects again. *told* is called with messages for the user. Raise
    :class:`OSError` if the first attempt to connect fails or the events cannot be written, or :class:`NriError` if the
    runtime refuses the plugin.
    """
    full = asyncio.Event()
    recorder = NriRecorder(writer.put, full.set)
    patient = False
    while not ended.is_set():
        plugin = NriPlugin(name, "99", recorder)
        running = asyncio.create_task(plugin.run(address, patient=patient, lost=lambda why: told(_lost(why))))
        patient = True
        waits = [asyncio.create_task(each.wait()) for each in (ended, full)]
        try:
            await asyncio.wait({running, *waits}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await plugin.leave()
            await running
        if writer.error is not None:
            raise writer.error
        if full.is_set():
            told("the output is too slow, so the plugin stays disconnected until all events are written")
            full.clear()
            while writer.waiting and not ended.is_set():  # noqa: ASYNC110  (the writer is a thread and may never end)
                await asyncio.sleep(0.05)
    return recorder


def _lost(why: Exception | None) -> str:
    return f"the runtime {why}" if isinstance(why, NriError) else "the runtime has closed the connection"


_JOINING: Final = 10.0  # number of seconds to wait for the plugin to join or leave
_ADDED: Final = 0.02  # number of seconds that a runtime needs to add a plugin after synchronising it

_T = TypeVar("_T")


class ToldPlugin(NriRecorder):
    """A test plugin that connects to the socket *address*, and ignores each pod for whose name *mine* is false.

    ``recording`` holds the lines of all tests. ``told`` holds the events of the current test, each with the step
    during which the event arrived. Requests named in ``refused`` are answered with an error. Raise
    :class:`InputError` if nothing listens at *address*.
    """

    def __init__(self, address: str, mine: Callable[[str], bool]) -> None:
        unix_sockets.reached(address)
        super().__init__(self._keep)
        self._address, self._mine = address, mine
        self.recording: list[bytes] = []
        self.forget()
        self.doing = ""
        self._plugin: NriPlugin | None = None
        self._connection: Future[None] | None = None
        self._synchronized = threading.Event()
        self._thread = LoopThread("plugin")

    @property
    def joined(self) -> bool:
        return self._plugin is not None and not self.lost

    @property
    def lines(self) -> list[bytes]:
        return self.recording[self._begun :]

    def _keep(self, line: bytes) -> bool:
        self.recording.append(line)
        return True

    def forget(self) -> None:
        self._begun = len(self.recording)
        self.told: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self.running: set[str] = set()  # ids of the containers that are running according to the received events
        self.lost = ""  # the reason why the runtime closed the connection, or an empty string

    def join(self) -> None:
        """Connect, and wait until the runtime relays events to the plugin. Raise :class:`BrokenError` on failure."""
        self.leave()
        self._synchronized.clear()
        self._plugin = NriPlugin("fsm-test", "99", self)
        self._connection = self._thread.start(self._plugin.run(self._address, lost=self._lost))
        until = time.monotonic() + _JOINING
        while not self._synchronized.wait(0.01):
            if self._connection.done() or time.monotonic() >= until:
                why = self._connection.exception() if self._connection.done() else None
                self.leave()
                raise BrokenError(f"a plugin cannot connect: {why or f'it was not synchronised within {_JOINING:g} s'}")
        self._run_in_time(self._plugin.update_containers(()))  # answered only after the synchronisation
        time.sleep(_ADDED)

    def leave(self) -> None:
        if self._plugin is None or self._connection is None:
            return
        plugin, connection = self._plugin, self._connection
        self._plugin = self._connection = None
        self.running.clear()
        self._run_in_time(plugin.leave())
        try:
            connection.result(_JOINING)
        except (NriError, OSError, TimeoutError):
            connection.cancel()

    def close(self) -> None:
        if not self._thread.closed:
            self.leave()
            self._thread.close()

    def _lost(self, why: Exception | None) -> None:
        self.lost = f"the runtime has closed the connection of the plugin{f': it {why}' if why else ''}"

    def _run_in_time(self, work: Coroutine[object, object, _T]) -> _T | None:
        try:
            return self._thread.run(work, _JOINING)
        except (NriError, TimeoutError):
            return None

    # The runtime's requests are handled on the plugin's thread.

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        mine = {pod.id: pod for pod in pods if self._is_mine(pod)}
        inside = [container for container in containers if container.pod_sandbox_id in mine]
        await super().synchronize([*mine.values()], inside)
        self.running = {each.id for each in inside if each.state == nri.CONTAINER_RUNNING}
        self._synchronized.set()
        return ()

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        if not self._is_mine(event.pod):
            return None
        await super().relay(event)
        self.told.append((event.name, self.doing))
        if event.container is not None and event.name == "StartContainer":
            self.running.add(event.container.id)
        elif event.container is not None and event.name in {"StopContainer", "RemoveContainer"}:
            self.running.discard(event.container.id)
        if event.name in self.refused:
            raise RpcError(Code.UNKNOWN, f"the test refuses {event.name}")
        return None

    def _is_mine(self, pod: nri.PodSandbox) -> bool:
        return pod.namespace == NAMESPACE and self._mine(pod.name)
