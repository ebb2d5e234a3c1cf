"""Both sides of ttrpc over a byte stream. A :class:`Server` answers calls, and a :class:`Client` makes them.

A message has a ten-byte big-endian header (length, stream, kind and flags), followed by the data. The caller passes
the bytes that arrive to ``received``. Neither side trusts its peer: the memory for the peer's data is limited, and
invalid data either raises :class:`ProtocolError` or is answered with an error.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.sockets.ttrpc_pb2 import Request, Response, Status

LONGEST: Final = 4 << 20  # maximum number of bytes of data in a message
_HEADER: Final = struct.Struct(">IIBB")


class MessageKind(IntEnum):
    """The kind of a message. NRI uses only requests and responses."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class TtrpcMessage(NamedTuple):
    """A received message. If its ``length`` exceeds the limit, the data is dropped and ``data`` is ``None``."""

    stream: int
    kind: int
    data: bytes | None
    length: int


def encoded(stream: int, kind: MessageKind, data: bytes) -> bytes:
    """Return a message as bytes. The caller has to check the length of *data*.

    >>> encoded(1, MessageKind.REQUEST, b"hi").hex(" ")
    '00 00 00 02 00 00 00 01 01 00 68 69'
    """
    return _HEADER.pack(len(data), stream, kind, 0) + data


class MessageDecoder:
    """Decodes messages from a stream of bytes, with memory for only one message at a time.

    >>> decoder = MessageDecoder()
    >>> [each.data for byte in encoded(3, MessageKind.RESPONSE, b"yes") for each in decoder.messages(bytes([byte]))]
    [b'yes']
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._left = 0  # number of remaining bytes to drop from a message that is too long

    def messages(self, data: bytes) -> Iterator[TtrpcMessage]:
        self._held += data
        while len(self._held) >= _HEADER.size:
            length, stream, kind, _ = _HEADER.unpack_from(self._held)
            if length > LONGEST:
                self._left = self._left or length
                dropped = min(self._left, len(self._held) - _HEADER.size)
                del self._held[_HEADER.size : _HEADER.size + dropped]
                self._left -= dropped
                if self._left:
                    return
                length, message = 0, TtrpcMessage(stream, kind, None, length)
            elif len(self._held) < _HEADER.size + length:
                return
            else:
                whole = bytes(self._held[_HEADER.size : _HEADER.size + length])
                message = TtrpcMessage(stream, kind, whole, length)
            del self._held[: _HEADER.size + length]
            yield message


Code = IntEnum(
    "Code",
    "CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED"
    " FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED",
)

CALLS: Final = 256  # maximum number of calls in progress on a server. Further calls are refused.
HELD: Final = 4 * LONGEST  # maximum total size in bytes of the requests in progress
TEXT: Final = 1_000  # maximum number of characters that an error message quotes from a peer

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
Handler: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""A function that turns the payload of a request into the payload of the response, or raises :class:`RpcError`."""
Ask = TypeVar("Ask", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class RpcError(Exception):
    """A call has failed with the gRPC error *code*."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProtocolError(Exception):
    """The peer has violated the ttrpc protocol."""


class ClosedError(Exception):
    """The connection ended before the call was answered."""


def method(kind: type[Ask], answer: Callable[[Ask], Awaitable[Message]]) -> Handler:
    async def handler(payload: bytes) -> bytes:
        try:
            request = kind.FromString(payload)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"the payload is not of type {kind.DESCRIPTOR.name}") from error
        return (await answer(request)).SerializeToString()

    return handler


class Server:
    """Answers calls with the handlers in *services*, by service name and method name.

    Calls start in the order of arrival. ``held`` is the total size in bytes of the requests in progress.
    """

    def __init__(self, send: Send, services: Mapping[str, Mapping[str, Handler]]) -> None:
        self._send = send
        self._services = services
        self._decoder = MessageDecoder()
        self._calls = Tasks()
        self.held = 0

    async def received(self, data: bytes) -> None:
        for message in self._decoder.messages(data):
            if message.kind != MessageKind.REQUEST:
                raise ProtocolError(f"a message of kind {message.kind}, but requests are expected")
            if message.data is None:
                why = f"a request of {message.length:,} bytes, more than {LONGEST:,}"
            elif len(self._calls) >= CALLS or self.held + len(message.data) > HELD:
                why = f"{len(self._calls)} calls are in progress"
            else:
                self.held += len(message.data)
                self._calls.start(self._call(message.stream, message.data))
                continue
            await self._respond(message.stream, _failure(Code.RESOURCE_EXHAUSTED, why))

    async def _call(self, stream: int, data: bytes) -> None:
        try:
            payload = await self._answer(data)
            if payload is not None:
                await self._respond(stream, Response(status=Status(), payload=payload))
        except RpcError as error:
            await self._respond(stream, _failure(error.code, error.message))
        except Exception as error:  # noqa: BLE001  (an error in a handler must not end the server)
            await self._respond(stream, _failure(Code.UNKNOWN, f"{type(error).__name__}: {error}"))
        finally:
            self.held -= len(data)

    async def _answer(self, data: bytes) -> bytes | None:
        try:
            request = Request.FromString(data)
        except DecodeError as error:
            raise RpcError(Code.INVALID_ARGUMENT, "the data is not a request") from error
        if (service := self._services.get(request.service)) is None:
            raise RpcError(Code.UNIMPLEMENTED, f"service {request.service[:TEXT]}")
        if (handler := service.get(request.method)) is None:
            raise RpcError(Code.UNIMPLEMENTED, f"method {request.method[:TEXT]}")
        limit = request.timeout_nano / 1e9 if request.timeout_nano > 0 else None
        try:
            async with asyncio.timeout(limit) as deadline:
                return await handler(request.payload)
        except TimeoutError:
            if not deadline.expired():
                raise
            return None  # the deadline has passed, so the caller no longer waits for an answer

    async def _respond(self, stream: int, response: Response) -> None:
        data = response.SerializeToString()
        if len(data) > LONGEST:
            why = f"a response of {len(data):,} bytes, more than {LONGEST:,}"
            data = _failure(Code.RESOURCE_EXHAUSTED, why).SerializeToString()
        with suppress(ConnectionError):  # the caller has disconnected
            await self._send(encoded(stream, MessageKind.RESPONSE, data))

    async def finish(self, seconds: float) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=seconds)

    async def close(self) -> None:
        await self._calls.cancel()


def _failure(code: int, why: str) -> Response:
    return Response(status=Status(code=code, message=why))


class Client:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._decoder = MessageDecoder()
        self._streams = itertools.count(1, 2)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._closed = False

    async def received(self, data: bytes) -> None:
        """Process received *data*. Ignore late responses, and raise :class:`ProtocolError` for any other message."""
        for message in self._decoder.messages(data):
            if message.kind != MessageKind.RESPONSE:
                raise ProtocolError(f"a message of kind {message.kind}, but responses are expected")
            waiting = self._waiting.pop(message.stream, None)
            if waiting is None or waiting.done():
                continue
            if message.data is None:
                why = f"a response of {message.length:,} bytes, more than {LONGEST:,}"
                waiting.set_exception(RpcError(Code.RESOURCE_EXHAUSTED, why))
            else:
                waiting.set_result(message.data)

    async def call(self, service: str, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """Call *method* of *service*, and return the answer.

        Raise :class:`RpcError` if the call fails or takes longer than *seconds*, or :class:`ClosedError` if the
        connection ends. A request that is too long is not sent, and fails with ``RESOURCE_EXHAUSTED``.
        """
        payload = request.SerializeToString()
        asked = Request(service=service, method=method, payload=payload, timeout_nano=int(seconds * 1e9))
        data = asked.SerializeToString()
        if len(data) > LONGEST:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"a request of {len(data):,} bytes, more than {LONGEST:,}")
        if self._closed:
            raise ClosedError(f"{method} cannot be called: the connection is closed")
        stream = next(self._streams)
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = waiting
        try:
            async with asyncio.timeout(seconds):
                await self._send(encoded(stream, MessageKind.REQUEST, data))
                found = await waiting
        except TimeoutError as error:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{method} was not answered within {seconds:g} s") from error
        except ConnectionError as error:
            raise ClosedError(f"{method} was not answered: the connection is closed") from error
        finally:
            self._waiting.pop(stream, None)
        try:
            response = Response.FromString(found)
            if not response.status.code:
                return answer.FromString(response.payload)
        except DecodeError as error:
            raise ProtocolError(
                f"{method} was answered with data that is not of type {answer.DESCRIPTOR.name}"
            ) from error
        raise RpcError(response.status.code, response.status.message[:TEXT])

    def close(self) -> None:
        """Make all current and later calls raise :class:`ClosedError`."""
        self._closed = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClosedError("it was not answered: the connection is closed"))
