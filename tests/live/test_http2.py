"""A relay reads HTTP/2 frames, header blocks and messages, even if frames are split."""

from __future__ import annotations

import gzip

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from fsm.runtimes.sockets.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    Frame,
    FrameSplitter,
    HeaderBlocks,
    HeaderWriter,
    Messages,
    UnreadableError,
    frame,
    goaway_frame,
    window_update_frame,
)

PADDED, PRIORITY = 0x8, 0x20

frames = st.lists(st.builds(frame, st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=300)))
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20).map(str.encode)
headers = st.lists(st.tuples(names, st.binary(max_size=300)), min_size=1, max_size=300)


@given(parts=frames, cuts=st.lists(st.integers(1, 200), min_size=1))
def test_frames_are_the_same_however_they_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    splitter = FrameSplitter(PREFACE)
    found: list[Frame] = []
    data = PREFACE + b"".join(parts)
    while data:
        size = cuts[len(found) % len(cuts)]
        found += splitter.frames(data[:size])
        data = data[size:]

    assert [PREFACE, *parts] == [each.whole for each in found]
    assert splitter.between


def test_what_begins_otherwise_is_no_http2() -> None:
    splitter = FrameSplitter(PREFACE)

    assert splitter.frames(PREFACE[:5]) == []
    with pytest.raises(UnreadableError):
        splitter.frames(b"HTTP/1.1")


def test_padding_and_priority_are_no_payload() -> None:
    [data, asked] = FrameSplitter().frames(
        frame(DATA, 1, b"\x02abc\0\0", PADDED) + frame(HEADERS, 1, b"\x01" + bytes(5) + b"xy\0", PADDED | PRIORITY)
    )

    assert (b"abc", b"xy") == (data.payload(), asked.payload())
    assert (6, 0) == (data.counted(), asked.counted())


@given(given_headers=headers, ends=st.booleans())
def test_headers_are_read_as_they_were_written(given_headers: list[tuple[bytes, bytes]], *, ends: bool) -> None:
    """Headers may need several frames. The writer's blocks do not refer to each other, so any block may be left out."""
    writer, reader = HeaderWriter(), HeaderBlocks()
    writer.frames(1, given_headers, ends=False)
    parts = FrameSplitter().frames(writer.frames(3, given_headers, ends=ends))

    found = [reader.add(each) for each in parts]

    assert found[-1] == (tuple(given_headers), ends)
    assert {None} >= set(found[:-1])
    assert [HEADERS, *[CONTINUATION] * (len(parts) - 1)] == [each.kind for each in parts]


def test_blocks_of_a_peer_refer_to_earlier_ones() -> None:
    """A header block cannot be read if it refers to an earlier block that was not read."""
    encoder = Encoder()
    blocks = [
        Frame(HEADERS, END_HEADERS, 1, frame(HEADERS, 1, encoder.encode([(b"grpc-x", b"1")]), END_HEADERS))
        for _ in range(2)
    ]
    reader = HeaderBlocks()

    assert [(((b"grpc-x", b"1"),), False)] * 2 == [reader.add(each) for each in blocks]
    with pytest.raises(UnreadableError):
        HeaderBlocks().add(blocks[1])


@pytest.mark.parametrize("squeezed", [False, True])
def test_a_message_is_complete_with_its_last_byte(*, squeezed: bool) -> None:
    body = gzip.compress(b"hello") if squeezed else b"hello"
    data = bytes([squeezed]) + len(body).to_bytes(4, "big") + body
    messages = Messages(keep=True)

    messages.add(data[:7])
    assert messages.first() is None
    messages.add(data[7:] + data)
    assert messages.first() == b"hello"


def test_each_message_of_a_stream_is_taken_once() -> None:
    data = b"".join(b"\0" + len(body).to_bytes(4, "big") + body for body in (b"one", b"", b"three"))
    for size in range(1, len(data) + 1):
        messages = Messages(keep=True, each=True)
        found: list[bytes | None] = []
        for at in range(0, len(data), size):
            messages.add(data[at : at + size])
            found += messages.taken()
        assert [b"one", b"", b"three"] == found


@pytest.mark.parametrize("data", [b"\x01\0\0\0\x02no", b"\0\xff\xff\xff\xffbig"])
def test_a_message_that_cannot_be_read_is_none(data: bytes) -> None:
    messages = Messages(keep=True)
    messages.add(data)

    assert messages.first() is None


def test_frames_of_our_own() -> None:
    assert window_update_frame(0) == b""
    [more, bye] = FrameSplitter().frames(window_update_frame(7) + goaway_frame())
    assert b"\0\0\0\x07" == more.payload()
    assert b"\x7f\xff\xff\xff\0\0\0\0" == bye.payload()
    assert Frame(DATA, END_STREAM, 1, frame(DATA, 1, b"", END_STREAM)).ends()
