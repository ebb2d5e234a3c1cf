"""An NRI plugin that only observes: it records the events relayed to it, and requests nothing.

Lines are written on a separate thread, so an answer never waits for a disk. If writing falls too far behind, the plugin
disconnects until everything is written, and is then synchronised again. A recording therefore never lacks lines without
showing it.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import msgspec

from fsm.runtimes.live.outbox import Outbox
from fsm.runtimes.names import POD_EVENTS
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import NriError, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin, offered

BEHIND: Final = 50_000  # maximum number of lines that may wait to be written


class LineSink(Protocol):
    """Where the lines of a recording go."""

    def put(self, line: bytes) -> bool:
        """Accept *line*, or return False if that is not possible."""


class LineWriter(Outbox[bytes]):
    """Writes lines to *file* on a thread of its own, soon after each :meth:`put`."""

    def __init__(self, file: BinaryIO | gzip.GzipFile, *, most: int = BEHIND) -> None:
        super().__init__(lambda line: file.write(line + b"\n"), idle=file.flush, most=most)

    def close(self, seconds: float | None = None) -> None:
        """Write all queued lines and stop. Raise :class:`OSError` if not all could be written."""
        super().close(seconds)
        if self.error is not None:
            raise self.error


def opened(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open *path* for appending a recording, which is compressed if the name ends in ``.gz``.

    A compressed file must not exist yet. If a killed process left the last line of an uncompressed file unfinished,
    write a newline first.
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
    """Handlers of the recording plugin. ``events`` and ``connections`` count what was recorded.

    *full* is called when a line could not be accepted.
    """

    def __init__(self, writer: LineSink, full: Callable[[], None]) -> None:
        self._writer = writer
        self._full = full
        self._open = False
        self.events = 0
        self.connections = 0

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        self._open = True  # the synchronisation that follows lists everything
        self.connections += 1
        self._record("Configure", runtime=request.runtime_name, version=request.runtime_version)
        return offered(request)

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        listed = [
            {"id": container.id, "pod": container.pod_sandbox_id, "state": _state(container)}
            for container in containers
        ]
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

    async def shut_down(self) -> None:
        """Do nothing, because the end of the connection is what counts."""

    def _record(self, event: str, **more: object) -> None:
        if not self._open:
            return
        line = msgspec.json.encode({"ts": time.time_ns(), "event": event, **more})
        if not self._writer.put(line):
            self._open = False  # no later line may look as if it directly followed the previous one
            self._full()


def _state(container: nri.Container) -> str:
    try:
        return nri.ContainerState.Name(container.state)
    except ValueError:
        return str(container.state)


async def record(
    address: str,
    writer: LineWriter,
    *,
    name: str = "fsm-record",
    index: str = "99",
    ended: asyncio.Event,
    told: Callable[[str], None],
) -> NriRecorder:
    """Record the events relayed to a plugin at the socket *address* until *ended*, across restarts of the runtime.

    *told* is called with messages for the user. Raise :class:`OSError` if nothing listens at first or if writing fails,
    and :class:`~fsm.runtimes.sockets.nri_link.NriError` if the runtime refuses the plugin.
    """
    full = asyncio.Event()
    recorder = NriRecorder(writer, full.set)
    patient = False
    while not ended.is_set():
        plugin = NriPlugin(name, index, recorder)
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
            told("writing is too slow: not connected until it has caught up")
            full.clear()
            while writer.waiting and not ended.is_set():  # noqa: ASYNC110  (a thread writes, and may never end)
                await asyncio.sleep(0.05)
    return recorder


def _lost(why: Exception | None) -> str:
    return f"the runtime {why}" if isinstance(why, NriError) else "the runtime has closed the connection"
