"""Unix sockets made by this process.  Only this user may use them, and they are removed after use."""

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fsm.errors import InputError, refused
from fsm.runtimes.live.sockets import CODE, path


@contextmanager
def listening(address: str, bind: Callable[[], object]) -> Iterator[None]:
    """Have *bind* make the socket at *address* with mode 0600, and remove it at the end.

    A socket that nobody listens on is replaced.  Raise :class:`InputError` if another process listens on it, if
    something else exists there, or if the socket cannot be made.
    """
    at = Path(path(address))
    try:
        bound(str(at)).close()  # fails before gRPC does, which prints to standard error
        at.unlink()
        with _for_this_user():
            bind()
        made = at.stat().st_ino
    except (OSError, RuntimeError) as error:  # gRPC raises RuntimeError
        raise unusable(address, error) from error
    try:
        yield
    finally:
        with suppress(OSError):
            if at.stat().st_ino == made:  # unless it has been replaced in the meantime
                at.unlink()


def bound(name: str) -> socket.socket:
    """Return a socket at the path *name* that only this user may use, replacing one that nobody listens on.

    Raise ``OSError``: ``FileExistsError`` if something else exists there, or ``EADDRINUSE`` if it is in use.
    """
    _vacate(Path(name))
    made = socket.socket(socket.AF_UNIX)
    try:
        with _for_this_user():
            made.bind(name)
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _for_this_user() -> Iterator[None]:
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def _vacate(at: Path) -> None:
    try:
        found = at.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "is there already, and is no socket", str(at))
    with socket.socket(socket.AF_UNIX) as probe, suppress(BlockingIOError):  # a full queue means that a process listens
        probe.setblocking(False)  # noqa: FBT003  (its only parameter)
        try:
            probe.connect(str(at))
        except ConnectionRefusedError:
            at.unlink()
            return
    raise OSError(errno.EADDRINUSE, "another process listens there", str(at))


def unusable(address: str, error: Exception) -> InputError:
    """Return the error to report when making a socket at *address* failed with *error*."""
    at = Path(path(address))
    number = error.errno if isinstance(error, OSError) else 0
    if number == errno.EEXIST:
        return refused(address, CODE, "is there already, and is no socket", "name a path at which there is nothing")
    if number == errno.EADDRINUSE:
        return refused(address, CODE, "is in use: another process listens there", "end it, or name another path")
    if not at.parent.is_dir():
        return refused(address, CODE, f"cannot be made: there is no folder {at.parent}", "make it first")
    if not os.access(at.parent, os.W_OK):
        return refused(address, CODE, f"cannot be made: nothing may be written to {at.parent}", "name another folder")
    why = (error.strerror if isinstance(error, OSError) else "") or "the system refuses it"
    return refused(address, CODE, f"cannot be made: {why.lower()}", "name another path")
