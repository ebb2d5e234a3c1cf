"""One client connection to a runtime, relayed byte by byte, and the calls read along the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from fsm.runtimes.live.http2 import PREFACE, Frame, FrameSplitter, UnreadableError, farewell
from fsm.runtimes.live.passing_calls import PassingCalls

_BUFFERED: Final = 4 << 20
"""Number of bytes waiting for one side at which the other side is no longer read."""


class Interference(Protocol):
    """Changes the calls on a connection.  It receives each frame, and forwards it or a replacement."""

    def from_client(self, part: Frame, now: int) -> None: ...

    def from_server(self, part: Frame, now: int) -> None: ...

    def busy(self) -> bool:
        """Check whether it still holds frames to forward."""
        ...


class Gone(Protocol):
    """Called when a connection has ended."""

    def __call__(self, relay: Relay, /, *, by_runtime: bool) -> None: ...


class _Side(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None], over: Callable[[], None]) -> None:
        self._take, self._over = take, over
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self._waiting: list[bytes] = []
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._refused:
            self.transport.abort()
        self.transport.set_write_buffer_limits(high=_BUFFERED)
        for each in self._waiting:
            self.transport.write(each)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._over()

    def write(self, data: bytes) -> None:
        if self.transport is None:
            self._waiting.append(data)
        else:
            self.transport.write(data)

    def close(self) -> None:
        """Close once all written data is sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close now, or as soon as the connection is made."""
        self._refused = True
        if self.transport is not None:
            self.transport.abort()

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


class Relay:
    """A client connection, and its own connection to the runtime.

    *unreadable* is called if the data cannot be decoded.  The data is still forwarded, except that the connection ends
    if calls were to be changed.  *gone* is called at the end.
    """

    def __init__(
        self,
        calls: PassingCalls,
        *,
        unreadable: Callable[[], None],
        gone: Gone,
        interference: Callable[[Relay], Interference] | None = None,
    ) -> None:
        self.calls = calls
        self._unreadable, self._gone = unreadable, gone
        self.client = _Side(self._from_client, self._client_gone)
        self.server = _Side(self._from_server, self._server_gone)
        self.client.other, self.server.other = self.server, self.client
        self._asking, self._answering = FrameSplitter(PREFACE), FrameSplitter()
        self._interference = interference(self) if interference else None
        self._reads, self._over = True, False
        self._leaving, self._left = False, False

    async def connect(self, path: str) -> None:
        """Connect to the runtime.  Raise ``OSError`` if it cannot be reached."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self.server, path)
        if self._over:
            self.server.close()

    def _from_client(self, data: bytes) -> None:
        now = time.time_ns()
        if self._interference is None:
            self.server.write(data)
        if not self._reads:
            return
        greets = self._asking.greets
        try:
            parts = self._asking.frames(data)
            if self._interference is None:
                for part in parts:
                    self.calls.from_client(part, now)
            else:
                if greets and not self._asking.greets:
                    self.server.write(PREFACE)
                for part in parts:
                    self._interference.from_client(part, now)
        except UnreadableError:
            self._give_up(now)

    def _from_server(self, data: bytes) -> None:
        now = time.time_ns()
        if self._interference is None:
            self.client.write(data)
        if self._reads:
            take = self._interference.from_server if self._interference else self.calls.from_server
            try:
                for part in self._answering.frames(data):
                    take(part, now)
            except UnreadableError:
                self._give_up(now)
        if self._leaving:
            self.leave()

    def _give_up(self, now: int) -> None:
        self._reads = False
        self._unreadable()
        self.calls.end_all(now, code="UNKNOWN", detail="what passed could not be read")
        if self._interference is not None:
            self.abort()

    def leave(self) -> None:
        """Ask the client to start no more calls, and close once the calls in progress have ended."""
        self._leaving = True
        if not self._left and self._reads and self._answering.between:
            self._left = True
            self.client.write(farewell())
        if not self.calls.streams and not (self._interference and self._interference.busy()):
            self.client.close()
            self.server.close()

    def abort(self) -> None:
        """Close both connections now."""
        self.client.abort()
        self.server.abort()

    def _client_gone(self) -> None:
        self._finish("CANCELED", "the client has closed the connection", by_runtime=self.calls.goes)
        self.server.close()

    def _server_gone(self) -> None:
        self._finish("UNAVAILABLE", "the runtime has closed the connection", by_runtime=not self._leaving)
        self.client.close()

    def _finish(self, code: str, detail: str, *, by_runtime: bool) -> None:
        if not self._over:
            self._over = True
            self.calls.end_all(time.time_ns(), code=code, detail=detail)
            self._gone(self, by_runtime=by_runtime)
