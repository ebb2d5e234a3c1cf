"""Channels over SPDY or WebSocket that carry the input, the output and the result of a command."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.typing import Headers
from wsproto.utilities import ProtocolError

from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.driven import CallError, WorldError
from fsm.runtimes.reference.node.workloads import Write
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.spdy import Opened, Pinged, Spdy, StreamData

BUFFER: Final = 1 << 16
HELD: Final = 64 << 20  # number of bytes that may wait for a client
PATIENCE: Final = 30.0  # number of seconds that a client may take to send its request or to open its channels
LINGER: Final = 2.0  # number of seconds that a client may take to read the last data


class SocketLink:
    """A connection that carries bytes in both directions. Slow clients are disconnected.

    ``held`` has bytes that were already read from the connection. They are received first.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.held = reader, writer, b""

    async def received(self) -> AsyncIterator[bytes]:
        if self.held:
            yield self.held
        with suppress(OSError):
            while data := await self.reader.read(BUFFER):
                yield data

    def send(self, data: bytes) -> None:
        if self.writer.transport.get_write_buffer_size() > HELD:
            self.writer.transport.abort()
        if not self.writer.is_closing():
            self.writer.write(data)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(LINGER):
                await self.writer.drain()
                self.writer.write_eof()
                while await self.reader.read(BUFFER):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self.writer.close()


class WebSocketLink:
    """A WebSocket connection over *link*, which carries messages in both directions.

    *headers* and *path* are from the client's request. The connection uses the first of *protocols* that the client
    supports, if any. Raise :class:`wsproto.utilities.ProtocolError` if the request is invalid.
    """

    def __init__(self, link: SocketLink, headers: Headers, path: str, protocols: Sequence[str]) -> None:
        self._link = link
        self._socket = WSConnection(ConnectionType.SERVER)
        self._socket.initiate_upgrade_connection(headers, path)
        known = [each for event in self._socket.events() if isinstance(event, Request) for each in event.subprotocols]
        protocol = next((protocol for protocol in protocols if protocol in known), None)
        link.send(self._socket.send(AcceptConnection(subprotocol=protocol)))

    async def received(self) -> AsyncIterator[bytes]:
        message = bytearray()
        async for data in self._link.received():
            try:
                self._socket.receive_data(data)
                for event in self._socket.events():
                    match event:
                        case BytesMessage(data=part) | TextMessage(data=part):
                            message += part if isinstance(part, bytes | bytearray) else part.encode()
                            if event.message_finished:
                                yield bytes(message)
                                message.clear()
                        case Ping():
                            self._link.send(self._socket.send(event.response()))
                        case CloseConnection():
                            return
            except ProtocolError:
                return

    def send(self, data: bytes) -> None:
        if self._socket.state is ConnectionState.OPEN:
            self._link.send(self._socket.send(BytesMessage(data=data)))

    async def close(self) -> None:
        with suppress(ProtocolError):
            self._link.send(self._socket.send(CloseConnection(code=1_000)))
        await self._link.close()


Link: TypeAlias = SocketLink | WebSocketLink
INPUT, OUTPUT, ERRORS, RESULT = "stdin", "stdout", "stderr", "error"
NUMBERS: Final = (INPUT, OUTPUT, ERRORS, RESULT)
"""The channels in the order of their numbers in WebSocket messages. Channel 4 is for terminal sizes."""
Connect: TypeAlias = Callable[[int, asyncio.StreamReader, Callable[[bytes], None]], Awaitable[None]]
"""A function that connects a stream to a port, or raises :class:`OSError`.

Its arguments are the number of the port, the data to send to the port, and a callback for data from the port.
"""
CLOSES: Final = 255  # first byte of a message that closes a channel. The second byte is the number of the channel.


class MessageChannels:
    """The channels of a command over WebSocket. The first byte of each message is the number of the channel.

    ``given`` is the standard input of the command, and ``ready`` is set once all channels are open.
    """

    def __init__(self, link: Link) -> None:
        self.given, self.ready = asyncio.StreamReader(), asyncio.Event()
        self._link = link
        self.ready.set()
        self.write(b"", False)  # noqa: FBT003  (clients wait for a first message before they send)

    async def read(self) -> None:
        """Read what the client sends until it closes the connection."""
        async for each in self._link.received():
            if each[:1] == bytes([NUMBERS.index(INPUT)]):
                _feed(self.given, each[1:])
            elif each == bytes([CLOSES, NUMBERS.index(INPUT)]):
                _feed(self.given, b"")
        _feed(self.given, b"")

    def write(self, data: bytes, error: bool) -> None:  # noqa: FBT001  (its callers pass it by position)
        self._link.send(bytes([NUMBERS.index(ERRORS if error else OUTPUT)]) + data)

    def finish(self, result: bytes) -> None:
        """Send *result*, the exit status of the command, and close all channels."""
        self._link.send(bytes([NUMBERS.index(RESULT)]) + result)


class SpdyChannels:
    """The channels of a command over SPDY. The client opens a stream for each of the *wanted* channels."""

    def __init__(self, link: Link, wanted: Collection[str]) -> None:
        self.given, self.ready = asyncio.StreamReader(), asyncio.Event()
        self._link, self._spdy = link, Spdy()
        self._wanted = {*wanted}
        self._streams: dict[str, int] = {}

    async def read(self) -> None:
        async for event in _events(self._link, self._spdy):
            if isinstance(event, Opened):
                self._streams[event.headers.get("streamtype", "")] = event.stream
                if self._wanted <= self._streams.keys():
                    self.ready.set()
            elif event.stream == self._streams.get(INPUT):
                _forward_data(event, self.given)
        _feed(self.given, b"")

    def write(self, data: bytes, error: bool) -> None:  # noqa: FBT001
        stream = self._streams.get(ERRORS if error else OUTPUT)
        if stream is not None and data:
            self._link.send(self._spdy.data(stream, data))

    def finish(self, result: bytes) -> None:
        for kind, stream in self._streams.items():
            self._link.send(self._spdy.data(stream, result if kind == RESULT else b"", over=True))
        self._link.send(self._spdy.leave(max(self._streams.values(), default=0)))


Channels: TypeAlias = MessageChannels | SpdyChannels


class ForwardedPorts:
    def __init__(self, link: Link, connect: Connect) -> None:
        self._link, self._spdy, self._connect = link, Spdy(), connect
        self._errors: dict[str, int] = {}
        self._given: dict[int, asyncio.StreamReader] = {}
        self._forwarding = Tasks()

    async def serve(self) -> None:
        try:
            async for event in _events(self._link, self._spdy):
                if isinstance(event, Opened):
                    self._open(event.stream, event.headers)
                elif event.stream in self._given:
                    _forward_data(event, self._given[event.stream])
        finally:
            await self._forwarding.cancel()

    def _open(self, stream: int, headers: Mapping[str, str]) -> None:
        request = headers.get("requestid", "")
        if headers.get("streamtype") == RESULT:
            self._errors[request] = stream
            return
        self._given[stream] = asyncio.StreamReader()
        self._forwarding.start(self._forward(stream, request, headers.get("port", "")))

    async def _forward(self, stream: int, request: str, port: str) -> None:
        why = b""
        try:
            await self._connect(
                int(port), self._given[stream], lambda data: self._link.send(self._spdy.data(stream, data))
            )
        except (OSError, ValueError) as error:
            why = f"an error occurred forwarding port {port}: {error}".encode()
        self._link.send(self._spdy.data(stream, b"", over=True))
        if request in self._errors:
            self._link.send(self._spdy.data(self._errors.pop(request), why, over=True))
        del self._given[stream]


async def _events(link: Link, spdy: Spdy) -> AsyncIterator[Opened | StreamData]:
    async for data in link.received():
        for event in spdy.receive(data):
            if isinstance(event, Opened):
                link.send(spdy.reply(event.stream))
                yield event
            elif isinstance(event, StreamData):
                yield event
            elif isinstance(event, Pinged):
                link.send(spdy.ping(event.number))


def _forward_data(sent: StreamData, to: asyncio.StreamReader) -> None:
    if sent.data:
        _feed(to, sent.data)
    if sent.over:
        _feed(to, b"")


def _feed(to: asyncio.StreamReader, data: bytes) -> None:
    if data and not to.at_eof():
        to.feed_data(data)
    elif not data:
        to.feed_eof()


CommandRun: TypeAlias = Callable[[Write, asyncio.StreamReader | None], Awaitable[int]]
"""A function that runs a command or attaches to it, and returns its exit code.

Its arguments are a callback for the output of the command, and the input of the command, if any.
"""


class OfferedCommand(NamedTuple):
    """A command whose streams are offered to a client, with the client's request."""

    run: CommandRun
    request: cri.ExecRequest | cri.AttachRequest

    @property
    def channels(self) -> set[str]:
        asked = self.request
        wanted = {INPUT: asked.stdin, OUTPUT: asked.stdout, ERRORS: asked.stderr and not asked.tty}
        return {RESULT, *(name for name, channel in wanted.items() if channel)}


async def serve_stream(offered: OfferedCommand | Connect, link: Link) -> None:
    if not isinstance(offered, OfferedCommand):
        await ForwardedPorts(link, offered).serve()
        return
    over_websocket = isinstance(link, WebSocketLink)
    channels: Channels = MessageChannels(link) if over_websocket else SpdyChannels(link, offered.channels)
    tasks = Tasks()
    reading = tasks.start(channels.read())
    try:
        ready = tasks.start(channels.ready.wait())
        await asyncio.wait({ready, reading}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            acting = tasks.start(_run(offered, channels))
            await asyncio.wait({acting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if acting.done():
                channels.finish(acting.result())
        if reading.done():
            reading.result()
    finally:
        await tasks.cancel()


async def _run(offered: OfferedCommand, channels: Channels) -> bytes:
    write: Write = channels.write
    given = channels.given if offered.request.stdin else None
    terminal = Tasks()
    if offered.request.tty:
        # A terminal merges standard output and standard error, and ends each line with CR LF.
        typed, write = given, lambda data, _error: channels.write(data.replace(b"\n", b"\r\n"), False)  # noqa: FBT003
        if typed:
            given = asyncio.StreamReader()
            terminal.start(_echo(typed, given, channels.write))
    try:
        code = await offered.run(write, given)
    except (CallError, WorldError) as error:
        return _status(f"error executing command in container: {error}", "InternalError", code=500)
    finally:
        await terminal.cancel()
    if not code:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    return _status(f"command terminated with non-zero exit code: exit status {code}", "NonZeroExitCode", details=causes)


def _status(message: str, reason: str, **more: object) -> bytes:
    return json.dumps({"metadata": {}, "status": "Failure", "message": message, "reason": reason, **more}).encode()


async def _echo(typed: asyncio.StreamReader, given: asyncio.StreamReader, write: Write) -> None:
    while data := await typed.read(BUFFER):
        data, end, _ = data.replace(b"\x03", b"\x04").partition(b"\x04")
        given.feed_data(data.replace(b"\r", b"\n"))
        write(data.replace(b"\r", b"\r\n"), False)  # noqa: FBT003
        if end:
            break
    given.feed_eof()


async def connected(port: int, given: asyncio.StreamReader, send: Callable[[bytes], None]) -> None:
    """Forward *given* to the local port *port*, and data from this port to *send*, until the port disconnects."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def passed() -> None:
        while data := await given.read(BUFFER):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    passing = Tasks()
    passing.start(passed())
    try:
        while data := await reader.read(BUFFER):
            send(data)
    finally:
        await passing.cancel()
        writer.close()
