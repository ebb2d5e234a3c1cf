"""A process that stands between us and a command, and leaves no process of the command behind.

It is run by itself, as ``python -c TEXT PARENT GRACE COMMAND...``, and imports no other module of fsm.  A process group
is not enough: a process that makes a group of its own leaves it.  On Linux a *subreaper* becomes the parent of every
descendant whose own parent is gone, so that none gets out of sight.

It ends when the command ends, with its exit code or by its signal; when it is sent SIGTERM; and when PARENT is no more.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

PDEATHSIG: Final = 1
SUBREAPER: Final = 36
"""Numbers of ``prctl(2)``."""

LOOK: Final = 0.1
"""Seconds between two looks at whether PARENT is still there."""

PATIENCE: Final = 5.0
"""Seconds in which whatever is killed must be gone."""

REQUESTS: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""The signals that ask it to end."""


def control(option: int, value: int) -> None:
    """Call ``prctl`` where there is one."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command: list[str]) -> int:
    """Start *command* as the leader of a session of its own; its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        control(PDEATHSIG, signal.SIGKILL)  # if its reaper is killed
        for each in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)  # Python ignores them
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)  # noqa: S606  (a shell would be one more process, and quote again)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def descendants() -> set[int]:
    """Every process below this one that has not ended."""
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with suppress(OSError):
                state, parent = (each / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                parents[int(each.name)] = 0 if state == "Z" else int(parent)
    found, below = set(), {os.getpid()}
    while below:
        below = {child for child, parent in parents.items() if parent in below}
        found |= below
    return found


def reap(child: int, status: int | None) -> tuple[bool, int | None]:
    """Whether any process is left, after ended ones are reaped, and the *status* of *child* if it has ended."""
    with suppress(ChildProcessError):
        while True:
            ended, how = os.waitpid(-1, os.WNOHANG)
            if not ended:
                return True, status
            if ended == child:
                status = how
    return False, status


def end(child: int, status: int | None, grace: float) -> int | None:
    """Ask *child* and its group to end, and after *grace* seconds kill whatever is left; the status of *child*."""
    if status is None:
        with suppress(OSError):
            os.killpg(child, signal.SIGTERM)
    begin = time.monotonic()
    while True:
        left, status = reap(child, status)
        passed = time.monotonic() - begin
        if not left or passed > grace + PATIENCE:
            return status
        if status is not None or passed > grace:
            for each in descendants():
                with suppress(OSError):
                    os.kill(each, signal.SIGKILL)
        time.sleep(0.001 if passed < LOOK else LOOK / 10)


def leave(status: int | None) -> NoReturn:
    """End as the command ended."""
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os._exit(os.WEXITSTATUS(status) if status is not None else 1)


def main(parent: int, grace: float, command: list[str]) -> NoReturn:
    """Run *command* until one of the three ends, under two reapers: if it kills its parent, there is still the other."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*REQUESTS, signal.SIGCHLD})
    control(SUBREAPER, 1)
    outer = os.getpid()
    child = os.fork()
    if not child:
        os.setsid()
        control(SUBREAPER, 1)
        parent, child = outer, start(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)  # so that an end of file is one
    status = None
    while status is None and os.getppid() == parent:
        received = signal.sigtimedwait({*REQUESTS, signal.SIGCHLD}, LOOK)
        _, status = reap(child, status)
        if received is not None and received.si_signo in REQUESTS:
            break
    leave(end(child, status, grace))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
