"""What carries streams: an HTTP connection upgraded to SPDY or WebSocket."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.typing import Headers
from wsproto.utilities import ProtocolError

BUFFER: Final = 1 << 16
HELD: Final = 64 << 20
"""Maximum number of bytes that may wait for a client.  A client that does not read is disconnected."""
LINGER: Final = 2.0
"""Number of seconds within which a client may read the last data."""


class Link(Protocol):
    """Carries bytes or messages in both directions."""

    def received(self) -> AsyncIterator[bytes]:
        """Yield the data received until the end."""

    def send(self, data: bytes) -> None:
        """Send *data*, or do nothing if the link is closed."""

    async def close(self) -> None:
        """Send all pending data, and close the link."""


class SocketLink:
    """Bytes on a socket.  *held* are bytes already read from it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: bytes = b"") -> None:
        self.reader, self.writer = reader, writer
        self._held = held

    async def received(self) -> AsyncIterator[bytes]:
        if self._held:
            yield self._held
        with suppress(OSError):
            while data := await self.reader.read(BUFFER):
                yield data

    def send(self, data: bytes) -> None:
        if self.writer.transport.get_write_buffer_size() > HELD:
            self.writer.transport.abort()
        if not self.writer.is_closing():
            self.writer.write(data)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(LINGER):
                await self.writer.drain()
                self.writer.write_eof()
                while await self.reader.read(BUFFER):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self.writer.close()


class WebSocketLink:
    """WebSocket messages on the socket of *link*, requested with *headers*, in one of the *protocols*.

    ``protocol`` is the first of them that the client knows, or empty if it knows none.  Raise
    :class:`wsproto.utilities.ProtocolError` for an invalid request.
    """

    def __init__(self, link: SocketLink, headers: Headers, path: str, protocols: Sequence[str]) -> None:
        self._link = link
        self._socket = WSConnection(ConnectionType.SERVER)
        self._socket.initiate_upgrade_connection(headers, path)
        known = [each for event in self._socket.events() if isinstance(event, Request) for each in event.subprotocols]
        self.protocol = next((each for each in protocols if each in known), "")
        link.send(self._socket.send(AcceptConnection(subprotocol=self.protocol or None)))

    async def received(self) -> AsyncIterator[bytes]:
        message = bytearray()
        async for data in self._link.received():
            try:
                self._socket.receive_data(data)
                for event in self._socket.events():
                    match event:
                        case BytesMessage(data=part) | TextMessage(data=part):
                            message += part if isinstance(part, bytes | bytearray) else part.encode()
                            if event.message_finished:
                                yield bytes(message)
                                message.clear()
                        case Ping():
                            self._link.send(self._socket.send(event.response()))
                        case CloseConnection():
                            return
            except ProtocolError:
                return

    def send(self, data: bytes) -> None:
        if self._socket.state is ConnectionState.OPEN:
            self._link.send(self._socket.send(BytesMessage(data=data)))

    async def close(self) -> None:
        with suppress(ProtocolError):
            self._link.send(self._socket.send(CloseConnection(code=1_000)))
        await self._link.close()
