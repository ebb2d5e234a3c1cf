"""Read the calls on a relayed gRPC connection, and report each call when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from google.protobuf.message import DecodeError, Message

from fsm.language.names import CODES
from fsm.runtimes.names import CONTAINER_CALLS, POD_CALLS
from fsm.runtimes.sockets import http2
from fsm.runtimes.sockets.cri_client import METHODS, Method

_UNITS: Final = {b"H": 3_600 * 10**9, b"M": 60 * 10**9, b"S": 10**9, b"m": 10**6, b"u": 10**3, b"n": 1}
_RESETS: Final = {7: "UNAVAILABLE", 8: "CANCELED", 11: "RESOURCE_EXHAUSTED", 12: "PERMISSION_DENIED"}
"""Maps each HTTP/2 error code of a stream reset to the gRPC code that clients report for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedCall:
    """A call as the runtime received and answered it.

    ``method`` is the full path of the method. ``request`` or ``reply`` is ``None`` if the message did not arrive or
    was not kept. ``start`` and ``end`` are in nanoseconds since the epoch. If a fault was injected, ``injected`` is its
    name or the error code that the client received. ``reached`` is false if the call never reached the runtime.

    A container event is also represented as a call with an empty ``code``. This call starts when the stream of events
    starts, and ends when the event arrives.
    """

    method: str
    start: int
    end: int
    request: bytes | None = None
    reply: bytes | None = None
    code: str = ""
    detail: str = ""
    injected: str = ""
    reached: bool = True


@dataclass(slots=True, kw_only=True)
class Stream:
    method: str
    start: int
    timeout: int | None
    request: http2.Messages
    reply: http2.Messages
    code: str = ""
    detail: str = ""
    asked: bool = False
    injected: str = ""


class PassingCalls:
    """Follows the calls on a connection by reading the frames of both directions.

    *ended* is called with each call that has ended, and with each event. ``goes`` becomes true when the runtime
    has announced that it will close the connection.
    """

    def __init__(self, ended: Callable[[PassedCall], None]) -> None:
        self.streams: dict[int, Stream] = {}
        self.goes = False
        self._ended = ended
        self._asked, self._answered = http2.HeaderBlocks(), http2.HeaderBlocks()

    def from_client(self, part: http2.Frame, now: int) -> None:
        if part.kind in {http2.HEADERS, http2.CONTINUATION}:
            block = self._asked.add(part)
            if block is not None and part.stream not in self.streams:
                self.streams[part.stream] = _begin_stream(dict(block[0]), now)
        elif (stream := self.streams.get(part.stream)) is None:
            pass
        elif part.kind == http2.DATA:
            if not stream.asked:
                stream.start, stream.asked = now, True
            stream.request.add(part.payload())
        elif part.kind == http2.RST_STREAM:
            # The timeout on the wire may be longer than the client's own timeout, because gRPC's C++ library
            # rounds it up to three digits and to milliseconds.
            late = stream.timeout is not None and now - stream.start >= stream.timeout * 99 // 100 - 10**6
            self.end(part.stream, now, code="DEADLINE_EXCEEDED" if late else "CANCELED")

    def from_server(self, part: http2.Frame, now: int) -> tuple[http2.Headers, bool] | None:
        block = self._answered.add(part) if part.kind in {http2.HEADERS, http2.CONTINUATION} else None
        stream = self.streams.get(part.stream)
        if stream is None:
            self.goes |= part.kind == http2.GOAWAY
            return block
        if part.kind == http2.DATA:
            stream.reply.add(part.payload())
            if stream.reply.each:
                for message in stream.reply.taken():
                    end = max(now, stream.start)
                    self._ended(PassedCall(method=stream.method, reply=message, start=stream.start, end=end))
        elif part.kind == http2.RST_STREAM:
            code = _RESETS.get(int.from_bytes(part.payload(), "big"), "INTERNAL")
            self.end(part.stream, now, code=code, detail="the stream was reset")
        if block is not None:
            headers = dict(block[0])
            if b"grpc-status" in headers:
                stream.code = code_of(headers[b"grpc-status"])
                stream.detail = unquote_to_bytes(headers.get(b"grpc-message", b"")).decode("utf-8", "replace")
        if part.ends() if block is None else block[1]:
            self.end(part.stream, now)
        return block

    def end(self, number: int, now: int, *, code: str = "", detail: str = "", reached: bool = True) -> None:
        if (stream := self.streams.pop(number, None)) is None:
            return
        call = PassedCall(
            method=stream.method,
            request=stream.request.first(),
            reply=stream.reply.first(),
            start=stream.start,
            end=max(now, stream.start),
            code=stream.code or code or "UNKNOWN",
            detail=stream.detail or detail,
            injected=stream.injected,
            reached=reached,
        )
        self._ended(call)

    def end_all(self, now: int, *, code: str, detail: str) -> None:
        for number in tuple(self.streams):
            self.end(number, now, code=code, detail=detail)


def _begin_stream(headers: dict[bytes, bytes], now: int) -> Stream:
    method = headers.get(b":path", b"").decode("utf-8", "replace")
    keep, each = of_lifecycle(method), of_events(method)
    return Stream(
        method=method,
        start=now,
        timeout=_timeout_nanoseconds(headers.get(b"grpc-timeout", b"")),
        request=http2.Messages(keep=keep),
        reply=http2.Messages(keep=keep or each, each=each),
    )


def code_of(number: bytes) -> str:
    """Return the name of the gRPC code *number*.

    >>> code_of(b"14"), code_of(b"99")
    ('UNAVAILABLE', 'UNKNOWN')
    """
    return CODES[int(number)] if number.isdigit() and int(number) < len(CODES) else "UNKNOWN"


def _timeout_nanoseconds(timeout: bytes) -> int | None:
    valid = timeout[:-1].isdigit() and timeout[-1:] in _UNITS
    return int(timeout[:-1]) * _UNITS[timeout[-1:]] if valid else None


_SERVICES: Final = frozenset(
    f"/runtime.{version}.{service}" for version in ("v1", "v1alpha2") for service in ("RuntimeService", "ImageService")
)


def known(path: str) -> Method | None:
    service, _, name = path.rpartition("/")
    return METHODS.get(name) if service in _SERVICES else None


def of_lifecycle(path: str) -> bool:
    """Tell whether the method at *path* acts on a container or pod, or asks for the version.

    >>> of_lifecycle("/runtime.v1.RuntimeService/StopContainer"), of_lifecycle("/runtime.v1.ImageService/ListImages")
    (True, False)
    """
    method = known(path)
    return method is not None and method.name in POD_CALLS | CONTAINER_CALLS | {"Version"}


def of_events(path: str) -> bool:
    method = known(path)
    return method is not None and method.name == "GetContainerEvents"


def identity(path: str, request: bytes) -> str:
    method = known(path)
    with suppress(DecodeError):
        return id_in(method.request.FromString(request)) if method else ""
    return ""


def id_in(request: Message) -> str:
    """Return the id of the container or pod in *request*, or an empty string if there is none."""
    return getattr(request, "container_id", "") or getattr(request, "pod_sandbox_id", "")
