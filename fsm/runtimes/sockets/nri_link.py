"""The connection between a runtime and a plugin, for both sides, and the numbers of NRI events."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from google.protobuf.message import Message

from fsm.runtimes.names import REQUEST, REQUESTS
from fsm.runtimes.sockets.nri_pb2 import Container, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox
from fsm.runtimes.sockets.ttrpc import Client, Handler, ProtocolError, Server

LONGEST: Final = 10 + (4 << 20)  # maximum size of a frame's payload in bytes: the longest ttrpc message with its header

FIRST: Final = 4_096
"""Size in bytes of the first frame of a long message. NRI's Go library has a buffer of this size for it."""

LINGER: Final = 1.0  # number of seconds that a peer may take to read the last data before the connection is closed
RESERVED: Final = 0  # reserved number, which no connection may have

_HEADER: Final = struct.Struct(">II")
_CHUNK: Final = 65_536

Taker: TypeAlias = "Callable[[bytes], Awaitable[None]]"
"""A callback for the next bytes of a connection. It is not called again before it has returned."""


class FrameError(Exception):
    """The peer has sent an invalid frame, so all later data is unreadable."""


def frames(connection: int, data: bytes) -> bytes:
    """Split *data* into frames of *connection*. If there are several frames, the first has :data:`FIRST` bytes.

    >>> frames(1, b"abc").hex(" ")
    '00 00 00 01 00 00 00 03 61 62 63'
    """
    pieces = [data[start:end] for start, end in pairwise([0, *range(FIRST, len(data), LONGEST), len(data)])]
    return b"".join(_HEADER.pack(connection, len(piece)) + piece for piece in pieces)


class Multiplexer:
    """Carries several connections over one byte stream. ``takers`` maps connections to callbacks for their data."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.takers: dict[int, Taker] = {}
        self._turn = asyncio.Lock()

    async def send(self, connection: int, data: bytes) -> None:
        """Send *data*, waiting until the peer reads. Raise :class:`ConnectionError` if it has disconnected."""
        async with self._turn:  # do not mix the frames of different messages
            if self._writer.is_closing():
                raise ConnectionResetError("the connection is closed")
            self._writer.write(frames(connection, data))
            await self._writer.drain()

    async def run(self) -> None:
        """Read until the peer closes the stream. Raise :class:`FrameError` if a frame is invalid or cut short."""
        left = 0
        try:
            while True:
                connection, left = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                if connection == RESERVED:
                    raise FrameError(f"a frame for connection {RESERVED}, which is reserved")
                if left > LONGEST:
                    raise FrameError(f"a frame of {left:,} bytes, more than {LONGEST:,}")
                while left and (piece := await self._reader.read(min(left, _CHUNK))):
                    left -= len(piece)
                    if take := self.takers.get(connection):
                        await take(piece)
        except ConnectionError:
            return  # the transport is closed already
        except asyncio.IncompleteReadError as error:
            if (left or error.partial) and not self._writer.is_closing():
                raise FrameError("the connection ended in the middle of a frame") from error

    async def close(self) -> None:
        """Close the stream, after giving the peer some time to read the last data. Repeated calls have no effect."""
        self._writer.close()
        try:
            async with asyncio.timeout(LINGER):
                await self._writer.wait_closed()
        except ConnectionError:
            return
        except TimeoutError:
            self._writer.transport.abort()


PLUGIN: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
CONNECTIONS: Final = {PLUGIN: 1, RUNTIME: 2}  # maps each service to the number of the connection that carries it
VERSION: Final = "v0.12.0"  # the version of NRI that both sides implement and report to each other

NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(REQUESTS, 1)}

Answer = TypeVar("Answer", bound=Message)


class NriError(Exception):
    """The other side has violated NRI. The message describes the violation and begins in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedEvent:
    """An event relayed to a plugin.

    If the plugin received the event as StateChange, ``sent`` is the event's name in the enum of NRI. For any other
    event that a plugin has received, ``sent`` is the same as ``name``.
    """

    name: str
    pod: PodSandbox
    container: Container | None = None
    resources: LinuxResources | None = None
    sent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginChanges:
    """The changes that a plugin requests in an answer. ``adjustment`` applies to the container being created."""

    adjustment: ContainerAdjustment | None = None
    updates: tuple[ContainerUpdate, ...] = ()


class NriLink(Multiplexer):
    """A connection between a runtime and a plugin. This side serves *served* and calls the other side's service."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, served: str, methods: Mapping[str, Handler]
    ) -> None:
        super().__init__(reader, writer)
        self._called = RUNTIME if served == PLUGIN else PLUGIN
        self._server = Server(partial(self.send, CONNECTIONS[served]), {served: methods})
        self._client = Client(partial(self.send, CONNECTIONS[self._called]))
        self.takers = {CONNECTIONS[served]: self._server.received, CONNECTIONS[self._called]: self._client.received}

    async def call(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        return await self._client.call(self._called, method, request, answer, seconds)

    async def run(self) -> None:
        """Answer requests until the other side disconnects. Raise :class:`NriError` if it violates the protocol."""
        try:
            await super().run()
        except (FrameError, ProtocolError) as error:
            raise NriError(f"sent data that is not NRI: {error}") from error
        finally:
            await self.close()

    async def leave(self) -> None:
        """Close the connection once the calls in progress have been answered or have reached their time limit."""
        await self._server.finish(REQUEST)
        await self.close()

    async def close(self) -> None:
        self._client.close()
        await self._server.close()
        await super().close()
