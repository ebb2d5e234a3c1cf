"""The streaming server: a stream of a container over HTTP, for the client that has its token."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from fsm.reference.criservice.components import Component


class StreamingServer(Component):
    """A server that listens at *address*; port 0 is any free port.

    >>> import asyncio
    >>> from urllib.request import urlopen
    >>> async def example() -> bytes:
    ...     server = StreamingServer()
    ...     server.start()
    ...     url = server.grant(lambda: b"hello")
    ...     with await asyncio.to_thread(urlopen, url) as response:
    ...         content = response.read()
    ...     server.stop()
    ...     return content
    >>> asyncio.run(example())
    b'hello'
    """

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__()
        self.address = address
        self._granted: dict[str, Callable[[], bytes]] = {}
        self._http: _Http | None = None
        self._broken: asyncio.Future[None] | None = None

    def grant(self, stream: Callable[[], bytes]) -> str:
        """A URL at which *stream* can be read once."""
        if self._http is None:
            raise OSError("the streaming server does not listen")
        token = secrets.token_urlsafe(8)
        self._granted[token] = stream
        host, port = self._http.socket.getsockname()
        return f"http://{host}:{port}/{token}"

    @property
    def socket(self) -> socket.socket | None:
        return self._http.socket if self._http else None

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._http = _Http(self.address, _handler(self._granted))
        self._broken = loop.create_future()
        loop.add_reader(self._http.fileno(), self._accept)

    async def work(self) -> None:
        if self._broken is not None:
            await self._broken

    def close(self) -> None:
        if self._http is not None:
            asyncio.get_running_loop().remove_reader(self._http.fileno())
            self._http.server_close()
            self._http = None

    def _accept(self) -> None:
        if self._http is None or self._broken is None or self._broken.done():
            return
        try:
            self._http.process_request(*self._http.get_request())
        except ConnectionError:  # the client has closed it already
            return
        except OSError as error:
            self._broken.set_exception(error)


class _Http(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16


def _handler(granted: dict[str, Callable[[], bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Respond with the stream of the token, once."""
            stream = granted.pop(self.path.strip("/"), None)
            self.send_response(HTTPStatus.OK if stream else HTTPStatus.NOT_FOUND)
            self.end_headers()
            if stream:
                self.wfile.write(stream())

        def log_message(self, *_: object) -> None: ...

    return Handler
