"""Parse HTTP/2 frames, header blocks and gRPC messages as far as a proxy needs them.

Libraries for HTTP/2 and gRPC implement only endpoints.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from hpack import Decoder, Encoder, HeaderTuple
from hpack.exceptions import HPACKError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # first bytes that a client sends on a connection

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9
_GREETING: Final = -1

END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
_PADDED: Final = 0x8
_PRIORITY: Final = 0x20

CANCEL: Final = 8  # error code for resetting a stream that is no longer needed
LARGEST: Final = 16 << 20  # maximum size in bytes of a message. No client or runtime accepts longer messages.

_HEADER: Final = struct.Struct(">HBBBI")
_HEAD: Final = 9
_PIECE: Final = 16_384  # maximum frame size that every peer accepts
_ALL: Final = (1 << 31) - 1
_GZIP: Final = 31

Headers: TypeAlias = "Sequence[tuple[bytes, bytes]]"


class UnreadableError(Exception):
    """The data is not HTTP/2, or its headers cannot be decoded. All later data is unreadable too."""


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    whole: bytes

    def payload(self) -> bytes:
        start, end = _HEAD, len(self.whole)
        if self.flags & _PADDED and self.kind in {DATA, HEADERS}:
            if end == start:
                raise UnreadableError
            end -= self.whole[start]
            start += 1
        if self.flags & _PRIORITY and self.kind == HEADERS:
            start += 5
        return self.whole[start:end]

    def ends(self) -> bool:
        return self.kind in {DATA, HEADERS} and bool(self.flags & END_STREAM)

    def counted(self) -> int:
        return len(self.whole) - _HEAD if self.kind == DATA else 0


def frame(kind: int, stream: int, payload: bytes, flags: int = 0) -> bytes:
    """Return an HTTP/2 frame as bytes.

    >>> frame(RST_STREAM, 1, b"\\0\\0\\0\\x08").hex(" ")
    '00 00 04 03 00 00 00 00 01 00 00 00 08'
    """
    return _HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def reset(stream: int) -> bytes:
    return frame(RST_STREAM, stream, CANCEL.to_bytes(4, "big"))


def window_update_frame(size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, size.to_bytes(4, "big")) if size else b""


def goaway_frame() -> bytes:
    return frame(GOAWAY, 0, _ALL.to_bytes(4, "big") + bytes(4))


class FrameSplitter:
    """Splits a stream of bytes into frames. A *preface* before the frames counts as a separate frame.

    >>> splitter = FrameSplitter()
    >>> [each.stream for byte in reset(3) + reset(5) for each in splitter.frames(bytes([byte]))]
    [3, 5]
    """

    def __init__(self, preface: bytes = b"") -> None:
        self._preface, self._rest = preface, b""

    @property
    def between(self) -> bool:
        return not self._rest and not self._preface

    def frames(self, data: bytes) -> list[Frame]:
        """Return the frames that *data* completes. Raise :class:`UnreadableError` if the preface is wrong."""
        data = self._rest + data if self._rest else data
        at, found = 0, []
        if self._preface:
            if not data.startswith(self._preface[: len(data)]):
                raise UnreadableError
            if len(data) < len(self._preface):
                self._rest = data
                return []
            found.append(Frame(_GREETING, 0, 0, self._preface))
            at, self._preface = len(self._preface), b""
        while len(data) - at >= _HEAD:
            high, low, kind, flags, stream = _HEADER.unpack_from(data, at)
            end = at + _HEAD + (high << 8 | low)
            if end > len(data):
                break
            found.append(Frame(kind, flags, stream & _ALL, data[at:end]))
            at = end
        self._rest = data[at:]
        return found


class HeaderBlocks:
    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=LARGEST)
        self._decoder.max_allowed_table_size = _ALL
        self._block = b""
        self._ends = False

    def add(self, part: Frame) -> tuple[Headers, bool] | None:
        """Add *part*. If it completes a header block, return the headers and whether they end the stream.

        Otherwise, return ``None``. Raise :class:`UnreadableError` if the block cannot be decoded.
        """
        if part.kind == HEADERS:
            self._block, self._ends = b"", part.ends()
        self._block += part.payload()
        if len(self._block) > LARGEST:
            raise UnreadableError
        if not part.flags & END_HEADERS:
            return None
        try:
            return tuple(self._decoder.decode(self._block, raw=True)), self._ends
        except HPACKError as error:
            raise UnreadableError from error


class HeaderWriter:
    """Writes header blocks that do not refer to earlier ones, so that any of them can be dropped."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._encoder.header_table_size = 0

    def frames(self, stream: int, headers: Headers, *, ends: bool) -> bytes:
        kept = [each if isinstance(each, HeaderTuple) else HeaderTuple(*each) for each in headers]
        block = self._encoder.encode(kept, huffman=False)
        cuts = range(0, len(block), _PIECE)
        return b"".join(
            frame(
                CONTINUATION if at else HEADERS,
                stream,
                block[at : at + _PIECE],
                (END_STREAM if ends and not at else 0) | (END_HEADERS if at == cuts[-1] else 0),
            )
            for at in cuts
        )


class Messages:
    """Collects the first gRPC message in one direction of a stream, or all messages if *each* is true.

    If *keep* is false, no message is collected.
    """

    def __init__(self, *, keep: bool, each: bool = False) -> None:
        self._keep, self.each, self._data = keep, each, bytearray()

    @property
    def _end(self) -> int:
        return 5 + int.from_bytes(self._data[1:5], "big")  # one byte for the compression flag, and four for the length

    @property
    def complete(self) -> bool:
        return len(self._data) >= max(5, self._end)

    def add(self, data: bytes) -> None:
        if self._keep and (self.each or not self.complete):
            self._data += data
            if self._end > 5 + LARGEST:
                self._keep = False
                self._data.clear()

    def taken(self) -> Iterator[bytes | None]:
        while self.complete:
            yield self.first()
            del self._data[: self._end]

    def first(self) -> bytes | None:
        """Return the decompressed first message, or ``None`` if it is incomplete, too long or not valid gzip."""
        if not self.complete:
            return None
        message = bytes(self._data[5 : self._end])
        if not self._data[0]:
            return message
        try:
            inflate = zlib.decompressobj(wbits=_GZIP)
            found = inflate.decompress(message, LARGEST)
        except zlib.error:
            return None
        return found if inflate.eof else None
