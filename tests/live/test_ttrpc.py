"""The ttrpc peer decodes messages, answers calls, and does not keep hostile messages in memory."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.runtimes.sockets import ttrpc
from fsm.runtimes.sockets.nri_pb2 import ConfigureRequest, ConfigureResponse, Empty
from fsm.runtimes.sockets.ttrpc import (
    LONGEST,
    Client,
    ClosedError,
    MessageDecoder,
    MessageKind,
    ProtocolError,
    RpcError,
    Server,
    TtrpcMessage,
    encoded,
    method,
)
from fsm.runtimes.sockets.ttrpc_pb2 import Request, Response

SENT = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(MessageKind), st.binary(max_size=40)), max_size=8)


@given(SENT, st.lists(st.integers(0, 30), max_size=30))
def test_what_is_encoded_is_decoded_however_it_is_cut(
    sent: list[tuple[int, MessageKind, bytes]], sizes: list[int]
) -> None:
    wire = b"".join(encoded(*each) for each in sent)
    decoder = MessageDecoder()
    found: list[TtrpcMessage] = []
    for size in sizes:
        found += decoder.messages(wire[:size])
        wire = wire[size:]
    found += decoder.messages(wire)

    assert [TtrpcMessage(stream, kind, data, len(data)) for stream, kind, data in sent] == found


@given(SENT.filter(bool))
def test_the_wrong_byte_order_is_noticed(sent: list[tuple[int, MessageKind, bytes]]) -> None:
    """An encoder that writes little-endian numbers is not understood."""
    wire = b"".join(struct.pack("<IIBB", len(data), stream, kind, 0) + data for stream, kind, data in sent)

    assert [each[2] for each in sent] != [each.data for each in MessageDecoder().messages(wire) if each.stream < 10]


def test_a_message_that_is_too_long_is_dropped_and_told() -> None:
    decoder = MessageDecoder()
    wire = (
        struct.pack(">IIBB", LONGEST + 1, 7, MessageKind.REQUEST, 0)
        + bytes(LONGEST + 1)
        + encoded(9, MessageKind.REQUEST, b"next")
    )

    found = [each for at in range(0, len(wire), 65_536) for each in decoder.messages(wire[at : at + 65_536])]

    assert found == [
        TtrpcMessage(7, MessageKind.REQUEST, None, LONGEST + 1),
        TtrpcMessage(9, MessageKind.REQUEST, b"next", 4),
    ]


class Wire:
    def __init__(self, **methods: ttrpc.Handler) -> None:
        self.client = Client(self._ask)
        self.server = Server(self._respond, {"Door": methods})
        self.responses: list[TtrpcMessage] = []

    async def _ask(self, data: bytes) -> None:
        await self.server.received(data)

    async def _respond(self, data: bytes) -> None:
        self.responses += MessageDecoder().messages(data)
        await self.client.received(data)

    async def call(self, name: str = "Configure", service: str = "Door", seconds: float = 5.0) -> ConfigureResponse:
        return await self.client.call(service, name, ConfigureRequest(config="x"), ConfigureResponse, seconds)

    async def request(self, data: bytes, stream: int = 1) -> Response:
        await self.server.received(encoded(stream, MessageKind.REQUEST, data))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answer = self.responses.pop()
        assert answer.data is not None
        return Response.FromString(answer.data)


def configure(answer: Callable[[ConfigureRequest], Awaitable[ConfigureResponse]]) -> ttrpc.Handler:
    return method(ConfigureRequest, answer)


async def good(request: ConfigureRequest) -> ConfigureResponse:
    return ConfigureResponse(events=len(request.config))


async def bad(request: ConfigureRequest) -> ConfigureResponse:
    raise LookupError(request.config)


async def refusing(request: ConfigureRequest) -> ConfigureResponse:
    raise RpcError(5, request.config)


async def hanging(request: ConfigureRequest) -> ConfigureResponse:
    await asyncio.Event().wait()
    return await good(request)


async def test_a_call_is_answered() -> None:
    assert (await Wire(Configure=configure(good)).call()).events == 1


@pytest.mark.parametrize(
    ("handler", "service", "name", "code", "text"),
    [
        (bad, "Door", "Configure", ttrpc.Code.UNKNOWN, "LookupError: x"),
        (refusing, "Door", "Configure", 5, "x"),
        (good, "Window", "Configure", ttrpc.Code.UNIMPLEMENTED, "service Window"),
        (good, "Door", "Push", ttrpc.Code.UNIMPLEMENTED, "method Push"),
    ],
)
async def test_a_call_fails_as_the_server_says(
    handler: Callable[[ConfigureRequest], Awaitable[ConfigureResponse]], service: str, name: str, code: int, text: str
) -> None:
    with pytest.raises(RpcError) as failed:
        await Wire(Configure=configure(handler)).call(name, service)

    assert (code, text) == (failed.value.code, failed.value.message)


async def test_a_call_that_is_not_answered_in_time_fails() -> None:
    wire = Wire(Configure=configure(hanging))

    with pytest.raises(RpcError) as failed:
        await wire.call(seconds=0.02)
    assert failed.value.code == ttrpc.Code.DEADLINE_EXCEEDED
    await asyncio.sleep(0.02)  # the server knows the deadline, and has also given up

    assert wire.server.held == 0


async def test_a_caller_that_has_stopped_waiting_gets_no_answer() -> None:
    """A call is not answered after the caller's deadline, because a runtime then drops the slow plugin."""
    wire = Wire(Configure=configure(hanging))
    asked = Request(service="Door", method="Configure", timeout_nano=10**7)

    await wire.server.received(encoded(1, MessageKind.REQUEST, asked.SerializeToString()))
    assert wire.server.held
    await asyncio.sleep(0.05)

    assert (wire.server.held, wire.responses) == (0, [])


async def test_what_is_not_protobuf_is_refused() -> None:
    wire = Wire(Configure=configure(good))

    assert (await wire.request(b"\xff\xff")).status.code == ttrpc.Code.INVALID_ARGUMENT
    inner = Request(service="Door", method="Configure", payload=b"\xff").SerializeToString()
    assert (await wire.request(inner)).status.message == "the payload is not of type ConfigureRequest"


async def test_requests_beyond_the_limits_are_refused() -> None:
    wire = Wire(Configure=configure(hanging))
    asked = Request(service="Door", method="Configure").SerializeToString()
    for number in range(ttrpc.CALLS):
        await wire.server.received(encoded(2 * number + 1, MessageKind.REQUEST, asked))

    assert (await wire.request(asked, 999)).status.code == ttrpc.Code.RESOURCE_EXHAUSTED
    await wire.server.close()
    assert wire.server.held == 0

    long = Request(
        service="Door", method="Configure", payload=ConfigureRequest(config="x" * (LONGEST - 100)).SerializeToString()
    )
    for number in range(4):
        await wire.server.received(encoded(2 * number + 1, MessageKind.REQUEST, long.SerializeToString()))
    assert wire.server.held <= ttrpc.HELD
    assert (await wire.request(long.SerializeToString(), 999)).status.code == ttrpc.Code.RESOURCE_EXHAUSTED
    await wire.server.close()


async def test_what_is_too_long_is_neither_sent_nor_taken() -> None:
    async def lengthy(request: ConfigureRequest) -> ConfigureRequest:
        return ConfigureRequest(config="x" * LONGEST + request.config)

    wire = Wire(Configure=configure(good), Lengthy=method(ConfigureRequest, lengthy))
    codes = []
    for name, text in (("Configure", "x" * LONGEST), ("Lengthy", "")):
        with pytest.raises(RpcError) as failed:
            await wire.client.call("Door", name, ConfigureRequest(config=text), ConfigureRequest, 5)
        codes.append(failed.value.code)
    over = struct.pack(">IIBB", LONGEST + 1, 1, MessageKind.REQUEST, 0)
    await wire.server.received(over + bytes(LONGEST + 1))
    (answer,) = wire.responses[1:]
    assert answer.data is not None

    assert [*codes, Response.FromString(answer.data).status.code] == [ttrpc.Code.RESOURCE_EXHAUSTED] * 3


async def test_nonsense_is_a_protocol_error() -> None:
    wire = Wire(Configure=configure(good))
    with pytest.raises(ProtocolError, match="kind 2, but requests"):
        await wire.server.received(encoded(1, MessageKind.RESPONSE, b""))
    with pytest.raises(ProtocolError, match="kind 3, but responses"):
        await wire.client.received(encoded(1, MessageKind.DATA, b""))
    await wire.client.received(encoded(99, MessageKind.RESPONSE, b"to nobody"))

    async def nonsense(_data: bytes) -> None:
        await mute.received(encoded(1, MessageKind.RESPONSE, b"\xff\xff"))

    mute = Client(nonsense)
    with pytest.raises(ProtocolError, match="not of type Empty"):
        await mute.call("Door", "Shutdown", Empty(), Empty, 5)


async def test_calls_end_with_the_connection() -> None:
    wire = Wire(Configure=configure(hanging))
    call = asyncio.create_task(wire.call())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    wire.client.close()

    with pytest.raises(ClosedError, match="not answered"):
        await call
    with pytest.raises(ClosedError, match="cannot be called"):
        await wire.call()
    await wire.server.close()
