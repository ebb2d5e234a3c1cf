"""Accept connections in asyncio, and keep file descriptors free for everything else."""

import asyncio
import os
import socket
from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit

from fsm.runtimes.reference.tasks import Tasks


class Acceptor:
    """Accepts connections on *listening* in the running loop and calls *take* with each, until it is closed.

    An eighth of the process's file descriptors stays free for files and for modules that are imported later.  When no
    others are left, clients wait in the socket's queue, and *say* is called once.
    """

    # An asyncio server would use the last descriptor, and then print a hundred tracebacks per second.

    def __init__(
        self,
        listening: socket.socket,
        take: Callable[[socket.socket], object],
        say: Callable[[str], None] | None = None,
    ) -> None:
        listening.setblocking(False)  # noqa: FBT003  (its only parameter)
        listening.listen()
        self.listening, self._take, self._say = listening, take, say
        self._listen()

    def close(self) -> None:
        """Stop accepting connections."""
        asyncio.get_running_loop().remove_reader(self.listening)
        self.listening.close()

    def _listen(self) -> None:
        if self.listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.listening, self._accept)

    def _accept(self) -> None:
        limit, _ = getrlimit(RLIMIT_NOFILE)
        try:
            os.close(lowest := os.dup(self.listening.fileno()))
            if 0 < limit <= lowest + limit // 8:  # the system assigns the lowest free number
                raise OSError  # noqa: TRY301  (handled like too many open files)
            self._take(self.listening.accept()[0])
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone
            pass
        except OSError:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.listening)
            loop.call_later(0.1, self._listen)
            if self._say:
                self._say(f"new connections wait until others end: too many files are open (ulimit -n is {limit:,})")
                self._say = None


def accept_streams(
    listening: socket.socket, take: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
) -> Acceptor:
    """Accept connections on *listening*, and call *take* with the streams of each."""
    tasks = Tasks()

    async def open_streams(connection: socket.socket) -> None:
        take(*await asyncio.open_connection(sock=connection))

    return Acceptor(listening, lambda connection: tasks.start(open_streams(connection)))
