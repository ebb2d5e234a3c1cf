"""Serve the streams of Exec, Attach and PortForward on the loopback interface, over SPDY or WebSocket.

A client requests the URL of a stream over HTTP, and upgrades the connection. The URL cannot be guessed, and works only
once.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from secrets import token_urlsafe
from socket import create_server
from typing import Final

import h11
from wsproto.utilities import ProtocolError

from fsm.runtimes.names import RUNNING
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.node import ServedNode
from fsm.runtimes.reference.node.node_containers import NodeContainer, NodeContainers
from fsm.runtimes.reference.node.workloads import Workload, Write
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.spdy import SpdyError
from fsm.runtimes.sockets.stream_channels import (
    BUFFER,
    PATIENCE,
    Connect,
    Link,
    OfferedCommand,
    SocketLink,
    WebSocketLink,
    connected,
    serve_stream,
)
from fsm.runtimes.sockets.unix_sockets import Acceptor, accept_streams

HOST: Final = "127.0.0.1"
SPDY: Final = "SPDY/3.1"
COMMANDS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The protocols for command streams, newest first. Both send the result as JSON."""
PORTS: Final = "portforward.k8s.io"
TUNNELLED: Final = f"{SPDY}+{PORTS}"  # protocol for port forwarding over WebSocket. The messages carry SPDY frames.
VALID: Final = 60.0  # number of seconds for which a URL is valid


class NodeStreams:
    """Serves the streams of *node* that have been offered to clients. The first offer starts the server."""

    def __init__(self, node: ServedNode) -> None:
        self._node = node
        self._offers: dict[str, OfferedCommand | Connect] = {}
        self._server: Acceptor | None = None
        self._sessions = Tasks()
        self._writers = set[asyncio.StreamWriter]()

    def command(self, container: str, request: cri.ExecRequest | cri.AttachRequest) -> str:
        kind, run = "attach", partial(attach, self._node.containers, container)
        if isinstance(request, cri.ExecRequest):
            kind, run = "exec", partial(run_in, self._node.containers, container, tuple(request.cmd))
        return self._offer(kind, OfferedCommand(run, request))

    def ports(self) -> str:
        """Offer a stream for port forwarding, and return its URL.

        If the node runs real processes, connections are forwarded to this machine. Otherwise, they are refused.
        """
        return self._offer("portforward", connected if self._node.processes else _refuse_connection)

    def _offer(self, kind: str, offered: OfferedCommand | Connect) -> str:
        if self._server is None:
            self._server = accept_streams(create_server((HOST, 0)), self._accept)
        port = self._server.listening.getsockname()[1]
        path = f"/{kind}/{token_urlsafe(16)}"
        self._offers[path] = offered
        asyncio.get_running_loop().call_later(VALID, self._offers.pop, path, None)
        return f"http://{HOST}:{port}{path}"

    async def close(self) -> None:
        if self._server:
            self._server.close()
        writers = [*self._writers]
        await self._sessions.cancel()
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._sessions.start(self._serve(reader, writer)).add_done_callback(lambda _: self._writers.discard(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: Link
        link = socket = SocketLink(reader, writer)
        try:
            async with asyncio.timeout(PATIENCE):
                asked, http = await _request(reader)
            socket.held = http.trailing_data[0]
            link = await self._upgrade_connection(asked, http, socket)
        except (h11.RemoteProtocolError, ProtocolError, SpdyError, TimeoutError, OSError):
            pass
        finally:
            with suppress(OSError):
                await link.close()

    async def _upgrade_connection(self, asked: h11.Request, http: h11.Connection, socket: SocketLink) -> Link:
        """Serve or refuse the stream that is requested by *asked*. Return its link, which the caller must close."""
        path = asked.target.decode()
        offered = self._offers.pop(path.partition("?")[0], None)
        wanted = _header(asked, b"upgrade").lower()
        if offered is None:
            socket.send(_refusal(http, 404, "no such stream: its URL was used, or is too old"))
        elif wanted == "websocket":
            protocols = COMMANDS if isinstance(offered, OfferedCommand) else (TUNNELLED,)
            messages = WebSocketLink(socket, list(asked.headers), path, protocols)
            await serve_stream(offered, messages)
            return messages
        elif wanted == SPDY.lower():
            known = {each.strip() for each in _header(asked, b"x-stream-protocol-version").split(",")}
            protocol = next((each for each in COMMANDS if each in known), "")
            protocol = protocol if isinstance(offered, OfferedCommand) else PORTS
            if not protocol:
                socket.send(_refusal(http, 403, f"no protocol of streams in common; known are {', '.join(COMMANDS)}"))
                return socket
            headers = [("Connection", "Upgrade"), ("Upgrade", SPDY), ("X-Stream-Protocol-Version", protocol)]
            socket.send(http.send(h11.InformationalResponse(status_code=101, headers=headers)) or b"")
            await serve_stream(offered, socket)
        else:
            socket.send(_refusal(http, 400, f"a stream needs an upgrade to {SPDY} or WebSocket"))
        return socket


async def _request(reader: asyncio.StreamReader) -> tuple[h11.Request, h11.Connection]:
    http, asked = h11.Connection(h11.SERVER), None
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(BUFFER))
        elif isinstance(event, h11.Request):
            asked = event
        elif isinstance(event, h11.EndOfMessage) and asked:
            return asked, http
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionError("nothing was asked for")


def _header(asked: h11.Request, name: bytes) -> str:
    return ",".join(value.decode(errors="replace") for key, value in asked.headers if key == name)


def _refusal(http: h11.Connection, code: int, why: str) -> bytes:
    body = f"{why}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Connection", "close")]
    sent = (h11.Response(status_code=code, headers=headers), h11.Data(data=body), h11.EndOfMessage())
    return b"".join(http.send(each) or b"" for each in sent)


async def run_in(
    containers: NodeContainers, identity: str, words: tuple[str, ...], write: Write, given: asyncio.StreamReader | None
) -> int:
    """Run a command in the container *identity* with connected standard streams, and return its exit code.

    Raise :class:`~fsm.runtimes.reference.driven.CallError` if the container is not running, or
    :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.
    """
    if (found := _running(containers, "exec", identity)) is None:
        return 0
    container, workload = found
    return await workload.execute(replace(container.command, words=words), write, given)


async def attach(containers: NodeContainers, identity: str, write: Write, given: asyncio.StreamReader | None) -> int:
    """Connect to the streams of the container's main process until it exits, and return 0.

    The end of the client's input reaches the process only if the container was created with ``stdin_once``. Raise the
    same errors as :func:`run_in`.
    """
    if (found := _running(containers, "attach", identity)) is None:
        return 0
    container, workload = found
    workload.readers.add(write)
    feeding = asyncio.create_task(_feed(workload, given, ends=container.config.stdin_once))
    try:
        await workload.ended()
    finally:
        workload.readers.discard(write)
        feeding.cancel()
    return 0


def _running(containers: NodeContainers, use: str, identity: str) -> tuple[NodeContainer, Workload] | None:
    found = containers.find(identity, use)
    if found.world.workload is None or found.shows != RUNNING:
        containers.use(use, identity)
        return None
    return found, found.world.workload


async def _feed(workload: Workload, given: asyncio.StreamReader | None, *, ends: bool) -> None:
    while given and (data := await given.read(BUFFER)):
        workload.feed(data)
    if given and ends:
        workload.feed(b"")


async def _refuse_connection(_port: int, _given: asyncio.StreamReader, _send: Callable[[bytes], None]) -> None:
    raise ConnectionRefusedError("connection refused: nothing listens in a simulated pod")
