"""Each side of SPDY receives the frames that the other side sends, and refuses invalid frames."""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.runtimes.sockets.spdy import DICTIONARY, Opened, Pinged, Spdy, SpdyError, StreamData

TEXTS = st.text(max_size=8)
FRAMES = st.one_of(
    st.builds(
        Opened, stream=st.integers(1, 9), headers=st.dictionaries(TEXTS, TEXTS, max_size=3), over=st.just(value=False)
    ),
    st.builds(StreamData, stream=st.integers(1, 9), data=st.binary(max_size=40), over=st.booleans()),
    st.builds(Pinged, number=st.integers(0, 2**31 - 1)),
    st.none(),
)


def _sent(side: Spdy, frame: object) -> bytes:
    match frame:
        case Opened(stream=stream, headers=headers):
            return side.open(stream, headers)
        case StreamData(stream=stream, data=data, over=over):
            return side.data(stream, data, over=over)
        case Pinged(number=number):
            return side.ping(number)
        case _:
            return side.leave()


def test_the_dictionary_is_that_of_spdy() -> None:
    """The dictionary has the checksum by which zlib identifies it."""
    assert (1_423, 0xE3C6A7C2) == (len(DICTIONARY), zlib.adler32(DICTIONARY))


@given(st.lists(FRAMES, max_size=6), st.integers(1, 50))
def test_frames_arrive_as_they_were_sent(frames: list[object], size: int) -> None:
    """Frames arrive intact however their bytes are split. A GOAWAY frame causes no event.

    The compression of headers depends on earlier headers.
    """
    sender, receiver = Spdy(), Spdy()
    sent = b"".join(_sent(sender, each) for each in frames)
    arrived = [event for at in range(0, len(sent), size) for event in receiver.receive(sent[at : at + size])]

    assert [each for each in frames if each is not None] == arrived


@given(st.binary(max_size=80))
def test_other_bytes_are_refused_or_awaited(data: bytes) -> None:
    with suppress(SpdyError):
        list(Spdy().receive(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x80\x03\x00\x01\x00\x00\x00\x03abc",
        b"\x80\x03\x00\x02\x00\x00\x00\x08\x00\x00\x00\x01abcd",
        b"\x00\x00\x00\x01\x00\xff\xff\xff",
    ],
)
def test_wrong_frames_are_refused(data: bytes) -> None:
    with pytest.raises(SpdyError):
        list(Spdy().receive(data))
