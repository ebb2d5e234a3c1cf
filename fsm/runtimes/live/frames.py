"""Frames: several connections over one, as NRI has them between a runtime and a plugin.

A frame is the number of its connection, the length of its payload, both of 32 bits, big-endian, and the payload.  There
is no handshake; what comes for a connection that was not opened is dropped.  A payload is a piece of a stream of bytes,
so nothing here holds a whole frame: however long one is, no more memory is taken than for what was read at once.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

LONGEST: Final = 10 + (4 << 20)
"""Bytes of payload that a frame may have: those of the longest message of ttrpc, with its header."""

FIRST: Final = 4_096
"""Bytes of the first frame of a longer message: NRI in Go reads no frame that is larger than its buffer of so many."""

LINGER: Final = 1.0
"""Seconds that a peer has to read what was sent before the end."""

RESERVED: Final = 0
"""The connection that nobody may use."""

_HEADER: Final = struct.Struct(">II")
_CHUNK: Final = 65_536

Taker: TypeAlias = "Callable[[bytes], Awaitable[None]]"
"""Takes the next bytes of a connection, and returns when more may come."""


class FrameError(Exception):
    """The peer has sent what is no frame; nothing after it can be read."""


def frames(connection: int, data: bytes) -> bytes:
    """The frames that carry *data*: one, or one of :data:`FIRST` bytes and others for the rest.

    >>> frames(1, b"abc").hex(" ")
    '00 00 00 01 00 00 00 03 61 62 63'
    """
    cuts = [0, *range(FIRST, len(data), LONGEST)] if len(data) > FIRST else [0]
    pieces = [data[start:end] for start, end in zip(cuts, [*cuts[1:], len(data)], strict=True)]
    return b"".join(_HEADER.pack(connection, len(each)) + each for each in pieces)


class FrameDecoder:
    """Takes bytes as they come, however they are cut, and yields pieces of the streams of each connection.

    >>> decoder = FrameDecoder()
    >>> [piece for byte in frames(2, b"ab") for piece in decoder.pieces(bytes([byte]))]
    [(2, b'a'), (2, b'b')]
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._connection = RESERVED
        self._left = 0

    def pieces(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The number of a connection with bytes for it; :class:`FrameError` where there is no frame."""
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
        """Whether a frame has begun and not ended."""
        return bool(self._left or self._header)


class Multiplexer:
    """The connections over one stream of bytes.  :meth:`open` them, then :meth:`run` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._opened: dict[int, Taker] = {}
        self._turn = asyncio.Lock()

    def open(self, connection: int, received: Taker) -> Callable[[bytes], Awaitable[None]]:
        """What sends bytes on *connection*, of which *received* is called with those that come, one call at a time.

        Sending waits while the peer does not read, and raises :class:`ConnectionError` when it has gone.
        """
        if connection == RESERVED or connection in self._opened:
            raise ValueError(f"connection {connection} is {'in use' if connection else 'reserved'}")
        self._opened[connection] = received

        async def send(data: bytes) -> None:
            async with self._turn:  # nothing may come between the frames of one message
                if self._writer.is_closing():
                    raise ConnectionResetError("the connection is closed")
                self._writer.write(frames(connection, data))
                await self._writer.drain()

        return send

    async def run(self) -> None:
        """Read until the peer closes; :class:`FrameError` at nonsense, or at an end in the middle of a frame."""
        decoder = FrameDecoder()
        with suppress(ConnectionError):
            while data := await self._reader.read(_CHUNK):
                for connection, piece in decoder.pieces(data):
                    if received := self._opened.get(connection):
                        await received(piece)
        if decoder.within and not self._writer.is_closing():
            raise FrameError("the connection ended in the middle of a frame")

    async def close(self) -> None:
        """Close the stream; what was sent is still given to a peer that reads it soon.  May be called again."""
        self._writer.close()
        try:
            async with asyncio.timeout(LINGER):
                await self._writer.wait_closed()
        except ConnectionError:
            return
        except TimeoutError:
            self._writer.transport.abort()
