"""Unix sockets that this process makes: only this user may use them, and they are removed when they are no longer needed."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fsm.errors import InputError, refused
from fsm.live.sockets import CODE, path


@contextmanager
def listening(address: str, bind: Callable[[], object]) -> Iterator[None]:
    """Let *bind* make the socket at *address*, with mode 0600, and remove it in the end.

    A socket that nobody listens on any more is replaced.  Raises :class:`InputError` if somebody does, if something else
    is there, or if none can be made.
    """
    at = Path(path(address))
    _vacate(address, at)
    before = os.umask(0o177)
    try:
        with socket.socket(socket.AF_UNIX) as trial:  # gRPC writes of its own to standard error where it fails
            trial.bind(str(at))
        at.unlink()
        bind()
        made = at.stat().st_ino
    except (OSError, RuntimeError) as error:  # gRPC has the second
        raise _unusable(address, at, error) from error
    finally:
        os.umask(before)
    try:
        yield
    finally:
        with suppress(OSError):
            if at.stat().st_ino == made:  # and not another one that was put there since
                at.unlink()


def _vacate(address: str, at: Path) -> None:
    """Make room for a socket at *at*: remove one that nobody listens on."""
    try:
        found = at.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(address, at, error) from error
    if not stat.S_ISSOCK(found.st_mode):
        raise refused(address, CODE, "is there already, and is no socket", "name a path at which there is nothing")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(at))
        except ConnectionRefusedError:
            at.unlink()
        except OSError as error:
            raise _unusable(address, at, error) from error
        else:
            raise refused(address, CODE, "is in use: another process listens there", "end it, or name another path")


def _unusable(address: str, at: Path, error: Exception) -> InputError:
    if not at.parent.is_dir():
        return refused(address, CODE, f"cannot be made: there is no folder {at.parent}", "make it first")
    if not os.access(at.parent, os.W_OK):
        return refused(address, CODE, f"cannot be made: nothing may be written to {at.parent}", "name another folder")
    why = (error.strerror if isinstance(error, OSError) else "") or "the system refuses it"
    return refused(address, CODE, f"cannot be made: {why.lower()}", "name another path")
