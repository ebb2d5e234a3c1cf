"""The streaming server, as far as the service depends on it: it listens until it is closed or its socket breaks."""

import asyncio
import socket
from contextlib import suppress

from fsm.reference.criservice.components import Component


class StreamingServer(Component):
    """A server that listens at *address*, where port 0 is any free port, and hangs up: it has no streams."""

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__()
        self.address = address
        self.socket: socket.socket | None = None

    def open(self) -> None:
        self.socket = socket.create_server(self.address)
        self.socket.setblocking(False)  # noqa: FBT003  (its only argument)

    async def work(self) -> None:
        while self.socket is not None:
            with suppress(ConnectionError):  # the client has closed it already
                client, _ = await asyncio.get_running_loop().sock_accept(self.socket)
                client.close()

    def close(self) -> None:
        if self.socket is not None:
            asyncio.get_running_loop().remove_reader(self.socket)
            self.socket.close()
            self.socket = None
