"""One connection between a runtime and a plugin, as both of them need it; the names and numbers of NRI's events."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from fsm.recordings.nri_events import EVENTS
from fsm.runtimes.live.frames import FrameError, Multiplexer
from fsm.runtimes.live.nri_pb2 import Container, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox
from fsm.runtimes.live.ttrpc import Client, Handler, ProtocolError, Server

PLUGIN: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
CONNECTIONS: Final = {PLUGIN: 1, RUNTIME: 2}
"""The number of the connection on which each service is served."""

VERSION: Final = "v0.12.0"
"""The version of NRI that both sides speak, and tell each other."""
REGISTRATION: Final = 5.0
"""Seconds in which a plugin registers, and is then configured, unless the runtime says otherwise."""
REQUEST: Final = 2.0
"""Seconds in which a plugin answers, unless the runtime says otherwise."""

NUMBERS: Final[Mapping[str, int]] = {
    name: number for number, name in enumerate((*EVENTS, "ValidateContainerAdjustment"), 1)
}
"""The number of each event, by the name of its RPC."""
BY_NUMBER: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}
POD_EVENTS: Final = frozenset(name for name in EVENTS if name.endswith("PodSandbox"))
ANSWERED: Final = frozenset({"CreateContainer", "UpdateContainer", "StopContainer"})
"""The events to which a plugin may answer with changes; they are never relayed as StateChange."""
ALWAYS: Final = frozenset(name for name, number in NUMBERS.items() if number <= NUMBERS["RemoveContainer"])
"""The events of the first version of NRI; a runtime of that version refuses a plugin that asks for others."""

Answer = TypeVar("Answer", bound=Message)


class NriError(Exception):
    """The other side does not do what NRI asks of it; the text begins in lower case and names what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvent:
    """What a plugin is told; ``name`` is the RPC that is meant, ``sent`` what came: that, or the enum's name in StateChange."""

    name: str
    pod: PodSandbox
    container: Container | None = None
    resources: LinuxResources | None = None
    sent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginChanges:
    """What a plugin asks for in its answer; an ``adjustment`` is of the container that is being created."""

    adjustment: ContainerAdjustment | None = None
    updates: tuple[ContainerUpdate, ...] = ()


def mask(events: Collection[str]) -> int:
    """The mask of *events*.

    >>> hex(mask(["RunPodSandbox", "RemoveContainer"]))
    '0x401'
    """
    return sum(1 << (NUMBERS[each] - 1) for each in set(events))


def subscribed(events: int) -> frozenset[str]:
    """The events of a mask; of an empty one all of them.  :class:`NriError` if a bit is of none.

    >>> sorted(subscribed(0x401)), len(subscribed(0))
    (['RemoveContainer', 'RunPodSandbox'], 14)
    """
    if events == 0:
        return frozenset(NUMBERS)
    unknown = events & ~mask(NUMBERS)
    if unknown:
        raise NriError(f"subscribed to unknown events: {unknown & 0xFFFFFFFF:#x}")
    return frozenset(name for name, number in NUMBERS.items() if events & 1 << (number - 1))


class NriLink:
    """A stream between both sides, of which this one serves the service *served*, and calls the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        served: str,
        methods: Mapping[str, Handler],
    ) -> None:
        self._mux = Multiplexer(reader, writer)
        self._called = RUNTIME if served == PLUGIN else PLUGIN
        # Each needs what the other side's bytes are taken by, before there is anything to send with.
        self._server = Server(self._mux.open(CONNECTIONS[served], self._asked), {served: methods})
        self._client = Client(self._mux.open(CONNECTIONS[self._called], self._answered))

    async def _asked(self, data: bytes) -> None:
        await self._server.received(data)

    async def _answered(self, data: bytes) -> None:
        await self._client.received(data)

    async def call(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """The other side's answer; :class:`~fsm.runtimes.live.ttrpc.RpcError` or :class:`~fsm.runtimes.live.ttrpc.ClosedError`."""
        return await self._client.call(self._called, method, request, answer, seconds)

    async def run(self) -> None:
        """Read and answer until the other side closes; :class:`NriError` if it sends nonsense."""
        try:
            await self._mux.run()
        except (FrameError, ProtocolError) as error:
            raise NriError(f"sent what is no NRI: {error}") from error
        finally:
            await self.close()

    async def leave(self) -> None:
        """End the connection when the calls in progress were answered, or have had the time of a request."""
        await self._server.finish(REQUEST)
        await self.close()

    async def close(self) -> None:
        """End the connection, and every call in progress; may be called again."""
        self._client.close()
        await self._server.close()
        await self._mux.close()


async def inherited(number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The stream that a runtime has left open as file *number* for a plugin that it has started."""
    return await asyncio.open_unix_connection(sock=socket.socket(fileno=number))
