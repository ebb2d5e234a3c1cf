"""Frames are decoded correctly even if the data is split, and hostile frames use no memory."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

from fsm.runtimes.sockets.nri_link import FIRST, LONGEST, FrameError, Multiplexer, frames


def joined(messages: list[tuple[int, bytes]]) -> dict[int, bytes]:
    streams = dict.fromkeys(range(1, 5), b"")
    for connection, data in messages:
        streams[connection] += data
    return streams


async def decoded(pieces: list[bytes]) -> dict[int, bytes]:
    """Send *pieces* one by one, and return the data that arrives on each of four connections."""
    (_, writer), far = await ends()
    got = dict.fromkeys(range(1, 5), b"")

    def taker(number: int) -> Callable[[bytes], Awaitable[None]]:
        async def take(data: bytes) -> None:
            got[number] += data

        return take

    far.takers = {number: taker(number) for number in got}
    running = asyncio.create_task(far.run())
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    writer.close()
    try:
        await running
    finally:
        await far.close()
    return got


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


MESSAGES = st.lists(st.tuples(st.integers(1, 4), st.binary(max_size=50)), max_size=8)
SIZES = st.lists(st.integers(0, 40), max_size=30)


@given(MESSAGES, SIZES)
def test_what_is_encoded_is_decoded_however_it_is_cut(messages: list[tuple[int, bytes]], sizes: list[int]) -> None:
    wire = b"".join(frames(connection, data) for connection, data in messages)

    assert joined(messages) == asyncio.run(decoded(cut(wire, sizes)))


@given(MESSAGES.filter(bool))
def test_a_lost_byte_is_noticed(messages: list[tuple[int, bytes]]) -> None:
    wire = b"".join(frames(connection, data) for connection, data in messages)

    with pytest.raises(FrameError, match="ended in the middle of a frame"):
        asyncio.run(decoded([wire[:-1]]))


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (0, [0]),
        (FIRST, [FIRST]),
        (FIRST + 1, [FIRST, 1]),
        (5_010, [FIRST, 914]),
        (LONGEST, [FIRST, LONGEST - FIRST]),
        (FIRST + LONGEST + 1, [FIRST, LONGEST, 1]),
    ],
)
def test_a_long_message_is_cut_as_go_reads_it(size: int, lengths: list[int]) -> None:
    """A long message is split into frames that fit the buffer of NRI in Go, which hangs if a frame is larger."""
    wire = frames(1, bytes(size))
    found = []
    while wire:
        connection, length = struct.unpack_from(">II", wire)
        assert connection == 1
        found.append(length)
        wire = wire[8 + length :]

    assert lengths == found


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (struct.pack(">II", 0, 5), "a frame for connection 0, which is reserved"),
        (struct.pack(">II", 1, LONGEST + 1), "a frame of 4,194,315 bytes, more than 4,194,314"),
        (b"\xff" * 8, "a frame of 4,294,967,295 bytes, more than 4,194,314"),
        (b"GET / HTTP/1.1\r\n", "a frame of 790,644,820 bytes, more than 4,194,314"),
    ],
)
def test_what_is_no_frame_is_refused(header: bytes, why: str) -> None:
    with pytest.raises(FrameError) as refused:
        asyncio.run(decoded([header]))

    assert why == str(refused.value)


async def test_a_long_frame_takes_no_memory() -> None:
    """A long legal frame is not kept in memory, because it is passed on in pieces."""
    (_, writer), far = await ends()
    sizes: list[int] = []

    async def take(data: bytes) -> None:
        sizes.append(len(data))

    far.takers = {1: take}
    running = asyncio.create_task(far.run())
    chunk = bytes(65_536)
    tracemalloc.start()
    try:
        writer.write(struct.pack(">II", 1, LONGEST))
        for at in range(0, LONGEST, len(chunk)):
            writer.write(chunk[: LONGEST - at])
            await writer.drain()
        writer.close()
        await running
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await far.close()

    assert sum(sizes) == LONGEST
    assert peak < 16 * len(chunk)


async def ends() -> tuple[tuple[asyncio.StreamReader, asyncio.StreamWriter], Multiplexer]:
    left, right = socket.socketpair()
    return await asyncio.open_connection(sock=left), Multiplexer(*await asyncio.open_connection(sock=right))


async def test_connections_over_one_stream_do_not_mix() -> None:
    (reader, writer), far = await ends()
    near = Multiplexer(reader, writer)
    got: dict[int, bytes] = {1: b"", 2: b""}

    async def one(data: bytes) -> None:
        got[1] += data

    async def two(data: bytes) -> None:
        got[2] += data

    far.takers = {1: one, 2: two}
    running = asyncio.create_task(far.run())
    await asyncio.gather(*(near.send(number, bytes([64 + number]) * 100_000) for number in (1, 2, 3)))
    await near.close()
    await running
    await far.close()

    assert got == {1: b"A" * 100_000, 2: b"B" * 100_000}, "connection 3 was not opened, so nothing of it came"


async def test_an_end_within_a_frame_is_an_error() -> None:
    (_, writer), far = await ends()
    writer.write(frames(1, b"abc")[:-1])
    writer.close()

    with pytest.raises(FrameError, match="ended in the middle of a frame"):
        await far.run()

    await far.close()


async def test_nobody_sends_on_what_is_closed() -> None:
    (_, writer), near = await ends()
    await near.close()
    with pytest.raises(ConnectionError):
        await near.send(1, b"late")
    writer.close()
