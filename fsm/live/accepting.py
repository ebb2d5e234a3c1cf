"""Accept connections on asyncio, and keep descriptors free for everything else."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import Callable
from typing import Final

from fsm.reference.tasks import Tasks

_PAUSE: Final = 0.1
"""Seconds until a server without free descriptors tries again."""

_QUIET: Final = 60.0
"""Seconds between two messages about the limit."""


class Acceptor:
    """Accepts connections on *listening* in the running loop, and calls *take* with each, until it is closed.

    An eighth of the descriptors that the process may have stays free: for files, modules that are imported later, and the
    connections that *take* makes.  Until then clients wait in the queue of the socket, and *say* is told why.
    """

    # A server of asyncio would use the last descriptor, and print a hundred tracebacks a second from then on.

    def __init__(
        self,
        listening: socket.socket,
        take: Callable[[socket.socket], object],
        *,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        listening.setblocking(False)  # noqa: FBT003  (its only parameter)
        listening.listen()
        self.listening = listening
        self._take, self._say, self._said = take, say, -_QUIET
        self._loop = asyncio.get_running_loop()
        self._listen()

    def close(self) -> None:
        """Accept nothing more."""
        if self.listening.fileno() >= 0:
            self._loop.remove_reader(self.listening)
            self.listening.close()

    def _listen(self) -> None:
        if self.listening.fileno() >= 0:
            self._loop.add_reader(self.listening, self._accept)

    def _accept(self) -> None:
        try:
            connection = self.listening.accept()[0] if _has_room(self.listening) else None
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone
            return
        except OSError:
            connection = None
        if connection is not None:
            connection.setblocking(False)  # noqa: FBT003
            self._take(connection)
            return
        self._loop.remove_reader(self.listening)
        self._loop.call_later(_PAUSE, self._listen)
        if time.monotonic() >= self._said + _QUIET:
            self._said = time.monotonic()
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            self._say(f"new connections wait until others end: too many files are open (ulimit -n is {limit:,})")


def accept_streams(
    listening: socket.socket, take: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
) -> Acceptor:
    """Accept connections on *listening* as streams."""
    tasks = Tasks()

    async def open_streams(connection: socket.socket) -> None:
        take(*await asyncio.open_connection(sock=connection))

    return Acceptor(listening, lambda connection: tasks.start(open_streams(connection)))


def _has_room(listening: socket.socket) -> bool:
    """Whether an eighth of the descriptors is free: the system always gives the lowest one that is."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(listening.fileno())
    os.close(lowest)
    return limit < 0 or lowest < limit - limit // 8
