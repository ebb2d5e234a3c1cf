"""Frames: several connections over one, as NRI uses them between a runtime and a plugin.

A frame has the number of its connection and the length of its payload, both of 32 bits, big-endian, and the payload.
There is no handshake; data for a connection that was not opened are dropped.  A payload is a piece of a stream of
bytes, so no frame is ever held whole: it takes no more memory than what was read in one call.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

LONGEST: Final = 10 + (4 << 20)
"""The most bytes of a frame's payload: the longest message of ttrpc, with its header."""

FIRST: Final = 4_096
"""Bytes of the first frame of a longer message: NRI in Go cannot read a frame larger than its buffer of this size."""

LINGER: Final = 1.0
"""Seconds in which a peer may read what was sent before the close."""

RESERVED: Final = 0
"""The number that no connection may have."""

_HEADER: Final = struct.Struct(">II")
_CHUNK: Final = 65_536

Taker: TypeAlias = "Callable[[bytes], Awaitable[None]]"
"""Takes the next bytes of a connection, and returns when more may come."""


class FrameError(Exception):
    """The peer has sent something that is no frame; nothing after it can be read."""


def frames(connection: int, data: bytes) -> bytes:
    """Return the frames that carry *data*: one, or one of :data:`FIRST` bytes and others for the rest.

    >>> frames(1, b"abc").hex(" ")
    '00 00 00 01 00 00 00 03 61 62 63'
    """
    cuts = [0, *range(FIRST, len(data), LONGEST)] if len(data) > FIRST else [0]
    pieces = [data[start:end] for start, end in zip(cuts, [*cuts[1:], len(data)], strict=True)]
    return b"".join(_HEADER.pack(connection, len(each)) + each for each in pieces)


class FrameDecoder:
    """Decodes bytes, received in any pieces, into parts of the streams of each connection.

    >>> decoder = FrameDecoder()
    >>> [piece for byte in frames(2, b"ab") for piece in decoder.pieces(bytes([byte]))]
    [(2, b'a'), (2, b'b')]
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._connection = RESERVED
        self._left = 0

    def pieces(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the number of a connection with bytes for it; raises :class:`FrameError` for invalid frames."""
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield self._connection, piece
                continue
            missing = _HEADER.size - len(self._header)
            self._header += data[at : at + missing]
            at += missing
            if len(self._header) == _HEADER.size:
                self._connection, self._left = _HEADER.unpack(self._header)
                self._header.clear()
                if self._connection == RESERVED:
                    raise FrameError(f"a frame for connection {RESERVED}, which is reserved")
                if self._left > LONGEST:
                    raise FrameError(f"a frame of {self._left:,} bytes, where {LONGEST:,} are the most")

    @property
    def within(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self._left or self._header)


class Multiplexer:
    """The connections over one stream of bytes.  First :meth:`open` them, then :meth:`run`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._opened: dict[int, Taker] = {}
        self._turn = asyncio.Lock()

    def open(self, connection: int, received: Taker) -> Callable[[bytes], Awaitable[None]]:
        """Return a function that sends bytes on *connection*; incoming bytes go to *received*, one call at a time.

        Sending waits while the peer does not read, and raises :class:`ConnectionError` when the peer has gone.
        """
        if connection == RESERVED or connection in self._opened:
            raise ValueError(f"connection {connection} is {'in use' if connection else 'reserved'}")
        self._opened[connection] = received

        async def send(data: bytes) -> None:
            async with self._turn:  # no other frame may come between the frames of a message
                if self._writer.is_closing():
                    raise ConnectionResetError("the connection is closed")
                self._writer.write(frames(connection, data))
                await self._writer.drain()

        return send

    async def run(self) -> None:
        """Read until the peer closes; raises :class:`FrameError` for an invalid or unfinished frame."""
        decoder = FrameDecoder()
        with suppress(ConnectionError):
            while data := await self._reader.read(_CHUNK):
                for connection, piece in decoder.pieces(data):
                    if received := self._opened.get(connection):
                        await received(piece)
        if decoder.within and not self._writer.is_closing():
            raise FrameError("the connection ended in the middle of a frame")

    async def close(self) -> None:
        """Close the stream after giving the peer a moment to read what was sent; may be called again."""
        self._writer.close()
        try:
            async with asyncio.timeout(LINGER):
                await self._writer.wait_closed()
        except ConnectionError:
            return
        except TimeoutError:
            self._writer.transport.abort()
