"""A proxy that forwards bytes between clients and a runtime unchanged, and reports each call once it has ended.

Each client connection has its own connection to the runtime. When the runtime closes its connection, the proxy
also closes the client's connection, so that the client notices the loss as it would without the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from fsm.errors import reason
from fsm.runtimes.live.faults import FaultRules, StreamFaults
from fsm.runtimes.live.passing_calls import PassedCall, PassingCalls
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.sockets.http2 import PREFACE, Frame, FrameSplitter, UnreadableError, goaway_frame
from fsm.runtimes.sockets.unix_sockets import Acceptor

_BUFFERED: Final = 4 << 20  # maximum number of bytes that wait for one side before fsm stops reading from the other


class _Side(asyncio.Protocol):
    transport: asyncio.Transport
    other: _Side

    def __init__(self, take: Callable[[bytes], None], over: Callable[[], None]) -> None:
        self._take, self._over = take, over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._over()

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.transport.resume_reading()


class Relay:
    """Forwards data between one client of *proxy* and the runtime, over a separate connection to the runtime.

    If data cannot be decoded, it is forwarded anyway. With fault *rules*, both connections are closed instead.
    """

    def __init__(self, proxy: Proxy, rules: FaultRules | None) -> None:
        self.calls = PassingCalls(proxy.ended)
        self._proxy = proxy
        self.client = _Side(self._forward_from_client, self._finish_without_client)
        self.server = _Side(self._forward_from_server, self._finish_without_server)
        self.client.other, self.server.other = self.server, self.client
        self._asking, self._answering = FrameSplitter(PREFACE), FrameSplitter()
        self._faults: StreamFaults | None = None
        if rules:
            loop, to_client, to_server = asyncio.get_running_loop(), self.client.write, self.server.write
            self._faults = StreamFaults(self.calls, rules, loop, to_client, to_server)
        self._reader = self._faults or self.calls
        self._reads = True
        self._over = self._leaving = self._left = False

    async def connect(self, path: str, client: socket.socket) -> None:
        """Connect to the runtime at *path*, and begin to forward data between the runtime and *client*."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.server, path)
        self.server.transport.pause_reading()
        await loop.connect_accepted_socket(lambda: self.client, client)
        self.server.transport.resume_reading()

    def _forward_from_client(self, data: bytes) -> None:
        self._forward(data, self.server, self._asking, self._reader.from_client)

    def _forward_from_server(self, data: bytes) -> None:
        self._forward(data, self.client, self._answering, self._reader.from_server)
        if self._leaving:
            self.leave()

    def _forward(self, data: bytes, to: _Side, splitter: FrameSplitter, take: Callable[[Frame, int], object]) -> None:
        now = time.time_ns()
        if self._faults is None:
            to.write(data)
        if self._reads:
            try:
                for part in splitter.frames(data):
                    take(part, now)
            except UnreadableError:
                self._give_up(now)

    def _give_up(self, now: int) -> None:
        self._reads = False
        self._proxy.unreadable()
        self.calls.end_all(now, code="UNKNOWN", detail="the data of the connection could not be decoded")
        if self._faults is not None:
            self.abort()

    def leave(self) -> None:
        self._leaving = True
        if not self._left and self._reads and self._answering.between:
            self._left = True
            self.client.write(goaway_frame())
        if not self.calls.streams and not (self._faults and self._faults.busy()):
            self.client.transport.close()
            self.server.transport.close()

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()

    def _finish_without_client(self) -> None:
        self._finish("CANCELED", "the client has closed the connection", by_runtime=self.calls.goes)
        self.server.transport.close()

    def _finish_without_server(self) -> None:
        self._finish("UNAVAILABLE", "the runtime has closed the connection", by_runtime=not self._leaving)
        self.client.transport.close()

    def _finish(self, code: str, detail: str, *, by_runtime: bool) -> None:
        if not self._over:
            self._over = True
            self.calls.end_all(time.time_ns(), code=code, detail=detail)
            self._proxy.gone(self, by_runtime=by_runtime)


GRACE: Final = 5.0  # number of seconds to wait for calls in progress when the proxy stops
_TICK: Final = 0.01  # number of seconds between two checks for calls in progress
_LAST: Final = 1.0  # number of seconds to wait for aborted connections to close
_STEPS: Final = 8  # number of final event loop iterations that refuse new connections. At least four are needed.


class Proxy:
    """Forwards data between the clients of *listener* and the runtime at the socket *path*.

    *ended* is called with each call that has ended, and must not block. If the runtime cannot be reached or closes a
    connection, *ended* is called with a call that has no method. *say* is called with messages for the user. A message
    is repeated only after the situation that it describes has changed.
    """

    def __init__(
        self,
        listener: socket.socket,
        path: str,
        *,
        ended: Callable[[PassedCall], None],
        rules: FaultRules | None,
        say: Callable[[str], None],
    ) -> None:
        self.calls = self.unread = 0
        self.injected: Counter[str] = Counter()
        self._listener, self._path = listener, path
        self._report, self._rules, self._say = ended, rules, say
        self._relays: set[Relay] = set()
        self._connecting = Tasks()
        self._away = False

    async def run(self, stop: asyncio.Event, *, grace: float = GRACE) -> None:
        """Forward data until *stop* is set, and then wait about *grace* seconds for calls in progress to end."""
        acceptor = Acceptor(self._listener, lambda client: self._connecting.start(self._connect(client)), self._say)
        try:
            await stop.wait()
        finally:
            acceptor.close()
        for _ in range(round(grace / _TICK)):
            for relay in tuple(self._relays):
                relay.leave()
            if not self._relays and not self._connecting:
                break
            await asyncio.sleep(_TICK)
        for _ in range(round(_LAST / _TICK)):
            for relay in tuple(self._relays):
                relay.abort()
            await asyncio.sleep(_TICK)  # let the event loop close the connections
            if not self._relays and not self._connecting:
                break
        for _ in range(_STEPS):
            await asyncio.sleep(0)

    async def _connect(self, client: socket.socket) -> None:
        start, relay = time.time_ns(), Relay(self, self._rules)
        try:
            await relay.connect(self._path, client)
        except OSError as error:
            self._report_unavailable(start, f"the runtime cannot be reached: {reason(error)}")
            client.close()
            return
        self._relays.add(relay)
        if self._away:
            self._away = False
            self._say("the runtime can be reached again")

    def _report_unavailable(self, start: int, why: str) -> None:
        self._report(
            PassedCall(method="", start=start, end=time.time_ns(), code="UNAVAILABLE", detail=why, reached=False)
        )
        if not self._away:
            self._away = True
            self._say(why)

    def ended(self, call: PassedCall) -> None:
        self.calls += bool(call.code)
        if call.injected:
            self.injected[call.injected] += 1
        self._report(call)

    def unreadable(self) -> None:
        self.unread += 1
        if self.unread == 1:
            self._say("the data of a connection cannot be decoded, so its calls are unknown")

    def gone(self, relay: Relay, *, by_runtime: bool) -> None:
        self._relays.discard(relay)
        if by_runtime:
            self._report_unavailable(time.time_ns(), "the runtime has closed a connection")
