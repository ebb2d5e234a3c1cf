"""Unix socket addresses as runtimes and the kubelet write them: whether they work, and how gRPC writes them."""

import os
import resource
import signal
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from fsm.errors import InputError, reason, refused

CODE: Final = "FSM603"

_LONGEST: Final = 107
"""Maximum length in bytes of a socket path on Linux."""

_PATIENCE: Final = 5.0
"""Number of seconds within which a socket must accept a connection.  After that, its queue counts as full."""

_WAY: Final = "use unix:///run/containerd/containerd.sock, with the path of the socket"

SERVER_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.server_handshake_timeout_ms", 2_000),
    ("grpc.max_connection_idle_ms", 60_000),
    # Without a limit, idle connections would use up all file descriptors, even those that calls need for files.
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
"""Options of a channel to a Unix socket.

Proxies from the environment are for networks.  Without an authority, gRPC sends the path of the socket, which Go
servers refuse.  Each channel has its own connection, and retries soon after the runtime has restarted.  The minimum
time between two attempts keeps its default, because it is also the time limit for a runtime to answer a connection, and
a starting runtime needs more.
"""


@contextmanager
def peers_may_leave() -> Iterator[None]:
    """Ignore SIGPIPE in the context, so that writing to a closed connection raises an error instead of killing fsm."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)


def path(address: str) -> str:
    """Return the path in *address*: ``unix:///path``, ``unix:path``, or an absolute path.

    Raise :class:`InputError` for any other form of address.

    >>> path("unix:///run/containerd/containerd.sock"), path("unix:fsm.sock"), path("/run/crio/crio.sock")
    ('/run/containerd/containerd.sock', 'fsm.sock', '/run/crio/crio.sock')
    """
    if address.startswith("unix:"):
        found = address.removeprefix("unix:")
        if found.startswith("//"):
            found = found.removeprefix("//")
            if not found.startswith("/"):
                raise refused(
                    address, CODE, "has a host in the place of a path", "write unix:///PATH, with three slashes"
                )
    elif address.startswith("/"):
        found = address
    else:
        raise refused(address, CODE, "is not the address of a Unix socket", _WAY)
    if not found or "\0" in found:
        raise refused(address, CODE, "names no path", _WAY)
    if (size := len(os.fsencode(found))) > _LONGEST:
        what = f"has a path of {size} bytes, where the system has room for {_LONGEST}"
        raise refused(address, CODE, what, "make a symbolic link to its folder, and use that")
    return found


def target(address: str) -> str:
    """Return *address* as gRPC expects it.

    >>> target("/run/a socket")
    'unix:/run/a%20socket'
    """
    return f"unix:{quote(os.fsencode(path(address)))}"


def reached(address: str) -> str:
    """Return the path of the socket at *address*, after checking that something listens on it.

    Raise :class:`InputError` if there is no socket, if it may not be used, or if nothing listens on it.
    """
    found = path(address)
    try:
        if not stat.S_ISSOCK(os.stat(found).st_mode):  # noqa: PTH116  (keeps a path that is not UTF-8)
            raise refused(address, CODE, "is not a socket", _WAY)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PATIENCE)
            probe.connect(found)
    except OSError as error:
        raise unreachable(address, error) from error
    return found


_REASONS: Final[Mapping[type[OSError], tuple[str, str]]] = {
    FileNotFoundError: (
        "there is no such socket",
        "is the runtime running? its configuration has the path of its socket",
    ),
    NotADirectoryError: ("there is no such socket", "a part of the path is not a folder"),
    PermissionError: ("may not be used by this user", "most runtimes let only root use their socket: try sudo"),
    ConnectionRefusedError: ("nothing listens on this socket", "the runtime that made it has ended: start it again"),
    TimeoutError: ("does not accept connections", "the runtime may hang"),
    BlockingIOError: ("does not accept connections", "the runtime may hang"),
}


def unreachable(address: str, error: OSError) -> InputError:
    """Return the error to report when connecting to *address* failed with *error*."""
    known = next((reason for kind, reason in _REASONS.items() if isinstance(error, kind)), None)
    what, hint = known or (f"cannot be connected to: {reason(error)}", _WAY)
    return refused(address, CODE, what, hint)
