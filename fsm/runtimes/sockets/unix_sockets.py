"""Parse the addresses of Unix sockets, create sockets, and accept connections."""

import asyncio
import errno
import os
import resource
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Final
from urllib.parse import quote

from fsm.errors import InputError, reason, refused
from fsm.runtimes.reference.clock import Tasks

CODE: Final = "FSM603"
_LONGEST: Final = 107  # maximum length in bytes of a socket path on Linux
_PATIENCE: Final = 5.0  # number of seconds to wait for a socket to accept a connection
_WAY: Final = "use unix:///run/containerd/containerd.sock, with the path of the socket"

SERVER_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.server_handshake_timeout_ms", 2_000),
    ("grpc.max_connection_idle_ms", 60_000),
    # Without this limit, idle connections would use up all file descriptors, even those that calls need for files.
    ("grpc.max_allowed_incoming_connections", resource.getrlimit(resource.RLIMIT_NOFILE)[0] % (1 << 31) // 2),
)
CHANNEL_OPTIONS: Final[tuple[tuple[str, int | str], ...]] = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
)
"""gRPC options for channels to Unix sockets.

Proxies from the environment are ignored, because they are meant for networks. By default, gRPC would send the path of
the socket as the authority, which Go servers refuse. Every channel has its own connection, and reconnects soon after
the runtime has restarted. The time limit for connecting is not reduced, because a runtime that is starting may be slow.
"""


@contextmanager
def peers_may_leave() -> Iterator[None]:
    """Ignore SIGPIPE within the context, so that writing to a closed connection raises an error."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def path(address: str) -> str:
    """Return the path in *address*, which is ``unix:///path``, ``unix:path`` or an absolute path.

    Raise :class:`InputError` for any other form of address.

    >>> path("unix:///run/containerd/containerd.sock"), path("unix:fsm.sock"), path("/run/crio/crio.sock")
    ('/run/containerd/containerd.sock', 'fsm.sock', '/run/crio/crio.sock')
    """
    if not address.startswith(("unix:", "/")):
        raise refused(address, CODE, "this is not the address of a Unix socket", _WAY)
    found = address.removeprefix("unix://" if address.startswith("unix://") else "unix:")
    if address.startswith("unix://") and not found.startswith("/"):
        what = "the address has a host instead of a path"
        raise refused(address, CODE, what, "write unix:///PATH, with three slashes")
    if not found or "\0" in found:
        raise refused(address, CODE, "the address has no path", _WAY)
    if (size := len(os.fsencode(found))) > _LONGEST:
        what = f"the path has {size} bytes, but the system allows at most {_LONGEST}"
        raise refused(address, CODE, what, "make a symbolic link to the folder of the socket, and use the link")
    return found


def target(address: str) -> str:
    """Convert *address* to the form that gRPC expects.

    >>> target("/run/a socket")
    'unix:/run/a%20socket'
    """
    return f"unix:{quote(os.fsencode(path(address)))}"


def reached(address: str) -> str:
    """Return the path of the socket at *address*. Raise :class:`InputError` if this user cannot connect to it."""
    found = path(address)
    try:
        if not stat.S_ISSOCK(os.stat(found).st_mode):  # noqa: PTH116  (keeps a path that is not UTF-8)
            raise refused(address, CODE, "this is not a socket", _WAY)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PATIENCE)
            probe.connect(found)
    except OSError as error:
        raise unreachable(address, error) from error
    return found


_REASONS: Final[Mapping[type[OSError], tuple[str, str]]] = {
    FileNotFoundError: (
        "there is no such socket",
        "check that the runtime is running; its configuration has the path of its socket",
    ),
    NotADirectoryError: ("there is no such socket", "a part of the path is not a folder"),
    PermissionError: ("this user may not use the socket", "most runtimes let only root use their socket, so try sudo"),
    ConnectionRefusedError: (
        "nothing listens on this socket",
        "the runtime that made the socket has ended; start the runtime again",
    ),
    TimeoutError: ("the socket does not accept connections", "the runtime may hang"),
    BlockingIOError: ("the socket does not accept connections", "the runtime may hang"),
}


def unreachable(address: str, error: OSError) -> InputError:
    known = next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), None)
    what, hint = known or (f"fsm cannot connect to the socket: {reason(error)}", _WAY)
    return refused(address, CODE, what, hint)


@contextmanager
def listening(address: str, bind: Callable[[], object] | None = None) -> Iterator[socket.socket]:
    """Create a socket at *address*, by calling *bind* if it is given, and remove it at the end of the context.

    Only the current user may use the socket. An existing socket on which no process listens is replaced. Raise
    :class:`InputError` if a process listens on it, if the path is not a socket, or if the socket cannot be created.
    """
    at = Path(path(address))
    try:
        made = bound(str(at))
        if bind:  # the socket was created first, because gRPC would print any errors
            made.close()
            at.unlink()
            with _restrict_to_user():
                bind()
        number = at.stat().st_ino
    except (OSError, RuntimeError) as error:  # gRPC raises RuntimeError
        raise unusable(address, error) from error
    try:
        yield made
    finally:
        made.close()
        with suppress(OSError):
            if at.stat().st_ino == number:  # still the same socket
                at.unlink()


def bound(name: str) -> socket.socket:
    """Create a socket at the path *name* that only this user may use.

    An existing socket is replaced if no process listens on it. Otherwise, raise :class:`OSError` with ``EADDRINUSE``,
    or :class:`FileExistsError` if the path is not a socket.
    """
    _remove_unused_socket(Path(name))
    made = socket.socket(socket.AF_UNIX)
    try:
        with _restrict_to_user():
            made.bind(name)
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _restrict_to_user() -> Iterator[None]:
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def _remove_unused_socket(at: Path) -> None:
    try:
        found = at.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "exists already and is not a socket", str(at))
    with socket.socket(socket.AF_UNIX) as probe, suppress(BlockingIOError):  # a full queue means that a process listens
        probe.setblocking(False)  # noqa: FBT003  (its only parameter)
        try:
            probe.connect(str(at))
        except ConnectionRefusedError:
            at.unlink()
            return
    raise OSError(errno.EADDRINUSE, "another process listens there", str(at))


def unusable(address: str, error: Exception) -> InputError:
    folder = Path(path(address)).parent
    what, hint = f"the socket cannot be made: nothing may be written to {folder}", "name another folder"
    if isinstance(error, FileExistsError):
        what, hint = "the file exists already and is not a socket", "name a path that does not exist yet"
    elif isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        what = "the socket is in use: another process listens there"
        hint = "end the other process, or name another path"
    elif not folder.is_dir():
        what, hint = f"the socket cannot be made: there is no folder {folder}", "make the folder first"
    elif os.access(folder, os.W_OK):
        why = (error.strerror if isinstance(error, OSError) else "") or "the system refuses it"
        what, hint = f"the socket cannot be made: {why.lower()}", "name another path"
    return refused(address, CODE, what, hint)


class Acceptor:
    """Accepts connections on the socket *listening* in the running event loop, and passes them to *take*.

    An eighth of the process's file descriptors is reserved for files and for modules imported later. When all others
    are in use, clients wait in the socket's queue. The first time that this happens, *say* is called with a message.
    """

    # An asyncio server is not used here. It would use the last file descriptor, and then
    # print a hundred tracebacks per second.

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
        asyncio.get_running_loop().remove_reader(self.listening)
        self.listening.close()

    def _listen(self) -> None:
        if self.listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.listening, self._accept)

    def _accept(self) -> None:
        limit, _ = getrlimit(RLIMIT_NOFILE)
        try:
            os.close(lowest := os.dup(self.listening.fileno()))
            if 0 < limit <= lowest + limit // 8:  # the system always assigns the lowest free descriptor
                raise OSError  # noqa: TRY301  (handled in the same way as too many open files)
            self._take(self.listening.accept()[0])
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone
            pass
        except OSError:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.listening)
            loop.call_later(0.1, self._listen)
            if self._say:
                self._say(
                    f"new connections wait until others end, because too many files are open (ulimit -n is {limit:,})"
                )
                self._say = None


def accept_streams(
    listening: socket.socket, take: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
) -> Acceptor:
    tasks = Tasks()

    async def open_streams(connection: socket.socket) -> None:
        take(*await asyncio.open_connection(sock=connection))

    return Acceptor(listening, lambda connection: tasks.start(open_streams(connection)))
