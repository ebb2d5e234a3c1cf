"""One connection between a runtime and a plugin, as both sides need it, and the names and numbers of NRI events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from fsm.runtimes.names import REQUEST, REQUESTS
from fsm.runtimes.sockets.frames import FrameError, Multiplexer
from fsm.runtimes.sockets.nri_pb2 import Container, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox
from fsm.runtimes.sockets.ttrpc import Client, Handler, ProtocolError, Server

PLUGIN: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
CONNECTIONS: Final = {PLUGIN: 1, RUNTIME: 2}  # maps each service to the number of the connection that carries it
VERSION: Final = "v0.12.0"  # the version of NRI that both sides implement and report to each other

NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(REQUESTS, 1)}
"""Maps the RPC name of each event to its number."""
BY_NUMBER: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}
ANSWERED: Final = frozenset({"CreateContainer", "UpdateContainer", "StopContainer"})
"""Events that a plugin may answer with changes. They are never relayed as StateChange."""
ALWAYS: Final = frozenset(name for name, number in NUMBERS.items() if number <= NUMBERS["RemoveContainer"])
"""Events of the first version of NRI. A runtime of that version refuses a plugin that subscribes to others."""

Answer = TypeVar("Answer", bound=Message)


class NriError(Exception):
    """The other side violated NRI. The text begins in lower case and says what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvent:
    """An event relayed to a plugin. ``name`` is its RPC, and ``sent`` the RPC or StateChange enum name received."""

    name: str
    pod: PodSandbox
    container: Container | None = None
    resources: LinuxResources | None = None
    sent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginChanges:
    """The changes in a plugin's answer. An ``adjustment`` applies to the container that is being created."""

    adjustment: ContainerAdjustment | None = None
    updates: tuple[ContainerUpdate, ...] = ()


def mask(events: Collection[str]) -> int:
    """Return the bit mask of *events*.

    >>> hex(mask(["RunPodSandbox", "RemoveContainer"]))
    '0x401'
    """
    return sum(1 << (NUMBERS[event] - 1) for event in set(events))


class NriLink:
    """A stream between both sides. This side provides the *served* service and calls the service of the other side."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, served: str, methods: Mapping[str, Handler]
    ) -> None:
        self._mux = Multiplexer(reader, writer)
        self._called = RUNTIME if served == PLUGIN else PLUGIN
        # The sender that `open` returns is needed to make the object that receives.
        send = self._mux.open(CONNECTIONS[served], lambda data: self._server.received(data))  # noqa: PLW0108
        self._server = Server(send, {served: methods})
        send = self._mux.open(CONNECTIONS[self._called], lambda data: self._client.received(data))  # noqa: PLW0108
        self._client = Client(send)

    async def call(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """Return the other side's answer. Raise the errors of :meth:`.ttrpc.Client.call`."""
        return await self._client.call(self._called, method, request, answer, seconds)

    async def run(self) -> None:
        """Read and answer until the other side closes. Raise :class:`NriError` if it violates a protocol."""
        try:
            await self._mux.run()
        except (FrameError, ProtocolError) as error:
            raise NriError(f"sent data that is not NRI: {error}") from error
        finally:
            await self.close()

    async def leave(self) -> None:
        """Close the connection when the calls in progress are answered, or after the time limit of a request."""
        await self._server.finish(REQUEST)
        await self.close()

    async def close(self) -> None:
        """Close the connection and end every call in progress. May be called again."""
        self._client.close()
        await self._server.close()
        await self._mux.close()
