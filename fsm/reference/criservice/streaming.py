"""The streaming server: over HTTP, for who was given a token, what a container has to say."""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from fsm.reference.criservice.components import Component

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class StreamingServer(Component):
    """Listens at *address*, whose port may be 0 for any that is free.

    >>> import asyncio
    >>> from urllib.request import urlopen
    >>> async def reads() -> bytes:
    ...     server = StreamingServer()
    ...     server.start()
    ...     url = server.grant(lambda: b"hello")
    ...     with await asyncio.to_thread(urlopen, url) as answer:
    ...         said = answer.read()
    ...     server.stop()
    ...     return said
    >>> asyncio.run(reads())
    b'hello'
    """

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__()
        self.address = address
        self._granted: dict[str, Callable[[], bytes]] = {}
        self._http: _Http | None = None
        self._broken: asyncio.Future[None] | None = None

    def grant(self, stream: Callable[[], bytes]) -> str:
        """An address at which *stream* can be read, once."""
        if self._http is None:
            message = "the streaming server does not listen"
            raise OSError(message)
        token = secrets.token_urlsafe(8)
        self._granted[token] = stream
        return f"http://{self._http.server_name}:{self._http.server_port}/{token}"

    @property
    def socket(self) -> socket.socket | None:
        """That at which it listens."""
        return self._http.socket if self._http else None

    def open(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._http = _Http(self.address, self._granted)
        self._broken = loop.create_future()
        loop.add_reader(self._http.fileno(), self._asked)

    async def work(self) -> None:
        """Fails when nobody can be listened to any more."""
        if self._broken is not None:
            await self._broken

    def shut(self) -> None:
        """Listen no more; who is being served goes on."""
        if self._http is not None:
            asyncio.get_running_loop().remove_reader(self._http.fileno())
            self._http.server_close()
            self._http = None

    def _asked(self) -> None:
        """Somebody connects, and is answered on a thread of his own."""
        if self._http is None or self._broken is None or self._broken.done():
            return
        self._http.handle_request()
        if self._http.error is not None:
            self._broken.set_exception(self._http.error)


class _Http(ThreadingHTTPServer):
    block_on_close = False
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], granted: dict[str, Callable[[], bytes]]) -> None:
        self.error: OSError | None = None
        super().__init__(address, _handler(granted))

    def server_bind(self) -> None:
        """Without asking anybody what this host is called."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def get_request(self) -> tuple[socket.socket, object]:
        """Who connects; that he has hung up already is no error of the server."""
        try:
            return super().get_request()
        except ConnectionError:
            raise
        except OSError as error:
            self.error = error
            raise


def _handler(granted: dict[str, Callable[[], bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The stream of the token, once."""
            stream = granted.pop(self.path.strip("/"), None)
            self.send_response(HTTPStatus.OK if stream else HTTPStatus.NOT_FOUND)
            self.end_headers()
            if stream:
                self.wfile.write(stream())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler
