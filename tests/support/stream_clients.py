"""Streaming clients that behave like Kubernetes' own clients, over SPDY and over WebSocket."""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, Request

from fsm.runtimes.sockets.spdy import Opened, Pinged, Spdy, StreamData

CHANNELS = ("stdin", "stdout", "stderr", "error")


class Carrier(Protocol):
    def send(self, data: bytes) -> None: ...

    def received(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


def plain(url: str, request: str = "GET", headers: Mapping[str, str] | None = None) -> tuple[str, socket.socket]:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port or 0), timeout=20)
    lines = [f"{request} {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head and (data := connection.recv(1)):
        head += data
    return head.decode(), connection


def spdy_socket(url: str, protocol: str = "v4.channel.k8s.io") -> Carrier:
    asked = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": protocol}
    head, connection = plain(url, "POST", asked)
    assert head.startswith("HTTP/1.1 101 "), head
    assert protocol in head
    return _Bytes(connection)


class _Bytes:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.send, self.close = connection.sendall, connection.close

    def received(self) -> Iterator[bytes]:
        while data := self._connection.recv(1 << 16):
            yield data


class WebSocket:
    def __init__(self, url: str, protocol: str = "v5.channel.k8s.io") -> None:
        parts = urlsplit(url)
        self._connection = socket.create_connection((parts.hostname, parts.port or 0), timeout=20)
        self._socket = WSConnection(ConnectionType.CLIENT)
        asked = Request(host=parts.netloc, target=parts.path, subprotocols=[protocol])
        self._connection.sendall(self._socket.send(asked))
        self._pending = list[Any]()
        while not self._pending:
            self._socket.receive_data(self._connection.recv(1 << 16))
            self._pending += self._socket.events()
        first = self._pending.pop(0)
        self.refused = first.status_code if isinstance(first, RejectConnection) else 0
        assert self.refused or (isinstance(first, AcceptConnection) and first.subprotocol == protocol)

    def send(self, data: bytes) -> None:
        self._connection.sendall(self._socket.send(BytesMessage(data=data)))

    def close(self) -> None:
        self._connection.close()

    def received(self) -> Iterator[bytes]:
        message = b""
        while True:
            while self._pending:
                event = self._pending.pop(0)
                if isinstance(event, CloseConnection):
                    return
                message += event.data
                if event.message_finished:
                    yield message
                    message = b""
            data = self._connection.recv(1 << 16)
            if not data:
                return
            self._socket.receive_data(data)
            self._pending += self._socket.events()


def commanded(
    url: str, transport: str, given: bytes | None = None, *, until: bytes = b"", wanted: tuple[str, ...] = ()
) -> tuple[bytes, bytes, dict[str, Any]]:
    """Run a remote command, and return its output, its errors and its result.

    Input is sent if there is any, and is closed once the output contains *until*.
    """
    kinds = wanted or ("error", *(("stdin",) if given is not None else ()), "stdout", "stderr")
    return (_over_spdy if transport == "spdy" else _over_websocket)(url, kinds, given, until)


def _over_spdy(
    url: str, kinds: tuple[str, ...], given: bytes | None, until: bytes
) -> tuple[bytes, bytes, dict[str, Any]]:
    carrier, spdy = spdy_socket(url), Spdy()
    streams = {kind: 2 * index + 1 for index, kind in enumerate(kinds)}
    carrier.send(b"".join(spdy.open(stream, {"streamtype": kind}) for kind, stream in streams.items()) + spdy.ping(1))
    if given is not None:
        carrier.send(spdy.data(streams["stdin"], given, over=not until))
    heard, replied, over, pinged = defaultdict[int, bytes](bytes), set[int](), set[int](), False
    for data in carrier.received():
        for event in spdy.receive(data):
            match event:
                case Opened(stream=stream):
                    replied.add(stream)
                case StreamData(stream=stream, data=said, over=ends):
                    heard[stream] += said
                    over |= {stream} if ends else set()
                case Pinged(number=1):
                    pinged = True
                case _:
                    pass
        if until and until in heard[streams["stdout"]]:
            carrier.send(spdy.data(streams["stdin"], b"", over=True))
            until = b""
    carrier.close()
    assert (replied, over, pinged) == ({*streams.values()}, {*streams.values()}, True)
    return heard[streams["stdout"]], heard[streams.get("stderr", 0)], json.loads(heard[streams["error"]])


def _over_websocket(
    url: str, kinds: tuple[str, ...], given: bytes | None, until: bytes
) -> tuple[bytes, bytes, dict[str, Any]]:
    del kinds
    messages, closed = WebSocket(url), bytes([255, 0])
    if given is not None:
        messages.send(b"\0" + given)
        if not until:
            messages.send(closed)
    heard = defaultdict[int, bytes](bytes)
    for each in messages.received():
        heard[each[0]] += each[1:]
        if until and until in heard[1]:
            messages.send(closed)
            until = b""
    messages.close()
    return heard[1], heard[2], json.loads(heard[3])


def forwarded(carrier: Carrier, port: int, sent: bytes) -> tuple[bytes, bytes]:
    spdy, heard, over = Spdy(), defaultdict[int, bytes](bytes), set[int]()
    about = {"port": str(port), "requestid": "0"}
    carrier.send(spdy.open(1, {"streamtype": "error", **about}) + spdy.data(1, b"", over=True))
    carrier.send(spdy.open(3, {"streamtype": "data", **about}) + spdy.data(3, sent, over=True))
    for data in carrier.received():
        for event in spdy.receive(data):
            if isinstance(event, StreamData):
                heard[event.stream] += event.data
                over |= {event.stream} if event.over else set()
        if {1, 3} <= over:
            break
    carrier.close()
    return heard[3], heard[1]
