"""Encode and decode the part of SPDY/3.1 that Kubernetes uses for streams. Flow control is not used.

A control frame begins with a type, flags and a length. A data frame has a stream number instead of the type. Headers
are compressed separately for each direction.
"""

import zlib
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

VERSION: Final = 3
SYN_STREAM: Final = 1
SYN_REPLY: Final = 2
RST_STREAM: Final = 3
PING: Final = 6
GOAWAY: Final = 7

FIN: Final = 1  # flag of the last frame of a stream in one direction
CONTROL: Final = 1 << 31
LARGEST: Final = 1 << 20  # maximum size in bytes of a received frame and of its decompressed headers
PART: Final = 1 << 15  # maximum size in bytes of the data in a frame that this side sends

_HEAD: Final = Struct(">II")
_NUMBER: Final = Struct(">I")
_SYN: Final = Struct(">IIH")

NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
"""The words at the beginning of the dictionary for header compression, where each word follows its length."""
TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
"""The rest of the dictionary for header compression."""
DICTIONARY: Final = (
    b"".join(_NUMBER.pack(len(each)) + each.replace("_", " ").encode() for each in NAMES.split()) + TEXT.encode()
)


class SpdyError(Exception):
    """The received data is not valid SPDY, or is more than this side accepts."""


class Opened(NamedTuple):
    """The other side has opened or accepted a stream. If ``over`` is true, it will send no data on the stream."""

    stream: int
    headers: Mapping[str, str]
    over: bool = False


class StreamData(NamedTuple):
    """The other side has sent data on a stream. If ``over`` is true, this is the last data."""

    stream: int
    data: bytes
    over: bool = False


class Pinged(NamedTuple):
    """The other side has sent a ping to be returned, or has returned a ping."""

    number: int


SpdyEvent: TypeAlias = Opened | StreamData | Pinged


class Spdy:
    r"""An end of a SPDY connection, which converts between bytes and events.

    >>> client, server = Spdy(), Spdy()
    >>> sent = client.open(1, {"streamtype": "stdin"}) + client.data(1, b"hello", over=True)
    >>> for each in server.receive(sent):
    ...     print(each)
    Opened(stream=1, headers={'streamtype': 'stdin'}, over=False)
    StreamData(stream=1, data=b'hello', over=True)
    >>> list(client.receive(server.reply(1)))
    [Opened(stream=1, headers={}, over=False)]
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._compress = zlib.compressobj(zdict=DICTIONARY)
        self._expand = zlib.decompressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[SpdyEvent]:
        """Yield the events that *data* completes. Raise :class:`SpdyError` if *data* is invalid."""
        self._held += data
        while len(self._held) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._held)
            length = second & 0xFFFFFF
            if length > LARGEST:
                raise SpdyError(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(self._held) < end:
                return
            body = bytes(self._held[_HEAD.size : end])
            del self._held[:end]
            over = bool(second >> 24 & FIN)
            if not first & CONTROL:
                yield StreamData(first, body, over)
            elif first >> 16 & 0x7FFF != VERSION:
                raise SpdyError(f"version {first >> 16 & 0x7FFF} of SPDY; 3 is spoken here")
            else:
                yield from self._control_events(first & 0xFFFF, body, over=over)

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return a frame that opens *stream*. A client must use odd numbers."""
        return self._frame(SYN_STREAM, _SYN.pack(stream, 0, 0) + self._compress_headers(headers))

    def reply(self, stream: int) -> bytes:
        return self._frame(SYN_REPLY, _NUMBER.pack(stream) + self._compress_headers({}))

    def data(self, stream: int, data: bytes, *, over: bool = False) -> bytes:
        parts = [data[at : at + PART] for at in range(0, max(len(data), 1), PART)]
        last = len(parts) - 1
        return b"".join(
            _HEAD.pack(stream, (FIN << 24 if over and index == last else 0) | len(part)) + part
            for index, part in enumerate(parts)
        )

    def ping(self, number: int) -> bytes:
        return self._frame(PING, _NUMBER.pack(number))

    def leave(self, last: int = 0) -> bytes:
        return self._frame(GOAWAY, _HEAD.pack(last, 0))

    def _control_events(self, kind: int, body: bytes, *, over: bool) -> Iterator[SpdyEvent]:
        offset = {SYN_STREAM: _SYN.size, SYN_REPLY: _NUMBER.size, RST_STREAM: 8, PING: 4}.get(kind, 0)
        if len(body) < offset:
            raise SpdyError(f"a control frame of type {kind} with {len(body)} bytes")
        number = _NUMBER.unpack_from(body)[0] & ~CONTROL if offset else 0
        if kind in {SYN_STREAM, SYN_REPLY}:
            yield Opened(number, self._expand_headers(body[offset:]), over)
        elif kind == RST_STREAM:
            yield StreamData(number, b"", over=True)
        elif kind == PING:
            yield Pinged(number)

    def _frame(self, kind: int, body: bytes) -> bytes:
        return _HEAD.pack(CONTROL | VERSION << 16 | kind, len(body)) + body

    def _compress_headers(self, headers: Mapping[str, str]) -> bytes:
        texts = [each.encode() for pair in headers.items() for each in pair]
        raw = _NUMBER.pack(len(headers)) + b"".join(_NUMBER.pack(len(text)) + text for text in texts)
        return self._compress.compress(raw) + self._compress.flush(zlib.Z_SYNC_FLUSH)

    def _expand_headers(self, block: bytes) -> dict[str, str]:
        try:
            raw = self._expand.decompress(block, LARGEST)
        except zlib.error as error:
            raise SpdyError(f"headers that cannot be expanded: {error}") from error
        texts, at = list[str](), _NUMBER.size
        while at + _NUMBER.size <= len(raw):
            end = at + _NUMBER.size + _NUMBER.unpack_from(raw, at)[0]
            texts.append(raw[at + _NUMBER.size : end].decode(errors="replace"))
            at = end
        if len(raw) < _NUMBER.size or at != len(raw) or len(texts) != 2 * _NUMBER.unpack_from(raw)[0]:
            raise SpdyError("headers that are no pairs")
        return dict(zip(texts[::2], texts[1::2], strict=True))
