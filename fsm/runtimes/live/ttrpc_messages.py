"""ttrpc messages: a ten-byte header (length, stream, kind, flags; big-endian), and *length* bytes of data."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

LONGEST: Final = 4 << 20
"""Maximum number of bytes of data in a message."""

_HEADER: Final = struct.Struct(">IIBB")


class MessageKind(IntEnum):
    """The kind of a message.  NRI does not use data streams."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Message(NamedTuple):
    """A message.  ``data`` is ``None`` if its ``length`` exceeded the limit, so that the data was dropped."""

    stream: int
    kind: int
    data: bytes | None
    length: int


def encoded(stream: int, kind: MessageKind, data: bytes) -> bytes:
    """Return the bytes of a message.  The caller has checked the length of *data*.

    >>> encoded(1, MessageKind.REQUEST, b"hi").hex(" ")
    '00 00 00 02 00 00 00 01 01 00 68 69'
    """
    return _HEADER.pack(len(data), stream, kind, 0) + data


class MessageDecoder:
    """Decodes messages from the bytes of one stream, received in any pieces.  Holds at most one message.

    >>> decoder = MessageDecoder()
    >>> [each.data for byte in encoded(3, MessageKind.RESPONSE, b"yes") for each in decoder.messages(bytes([byte]))]
    [b'yes']
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._dropping = 0
        self._head: tuple[int, int, int] | None = None

    def messages(self, data: bytes) -> Iterator[Message]:
        view = memoryview(data)
        while True:
            if self._head is None:
                missing = _HEADER.size - len(self._held)
                self._held += view[:missing]
                view = view[missing:]
                if len(self._held) < _HEADER.size:
                    return
                length, stream, kind, _ = _HEADER.unpack(self._held)
                self._held.clear()
                self._head = (length, stream, kind)
                self._dropping = length if length > LONGEST else 0
            length, stream, kind = self._head
            if self._dropping:
                dropped = min(self._dropping, len(view))
                self._dropping -= dropped
                view = view[dropped:]
                if self._dropping:
                    return
                self._head = None
                yield Message(stream, kind, None, length)
                continue
            missing = length - len(self._held)
            self._held += view[:missing]
            view = view[missing:]
            if len(self._held) < length:
                return
            whole = bytes(self._held)
            self._held.clear()
            self._head = None
            yield Message(stream, kind, whole, length)
