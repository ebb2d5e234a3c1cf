"""Run a command and make sure that none of its processes is left behind.

The reaper is a process between fsm and the command. It is run as ``python -c TEXT PARENT GRACE COMMAND...`` and imports
no other fsm module. A process group would not be enough, because a process can leave its group. On Linux, the reaper is
a *subreaper*: it becomes the parent of every orphaned descendant and can therefore find all of them.

When the command exits, the reaper exits with the same exit code or signal. It also exits when it receives SIGTERM or
when the process PARENT is gone.
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
SUBREAPER: Final = 36  # options of ``prctl(2)``
LOOK: Final = 0.1  # number of seconds between checks that PARENT still exists
PATIENCE: Final = 5.0  # number of seconds to wait until killed processes are gone
REQUESTS: Final = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # signals that ask the reaper to exit


def control(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        control(PDEATHSIG, signal.SIGKILL)  # kills the command if the reaper is killed
        for each in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)  # Python ignores these signals, and the command would inherit this.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)  # noqa: S606  (a shell would be one more process, and parse the words again)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def descendants() -> set[int]:
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
    """Reap all exited processes. Return whether any process is left, and the exit status of *child*, if known."""
    with suppress(ChildProcessError):
        while True:
            ended, how = os.waitpid(-1, os.WNOHANG)
            if not ended:
                return True, status
            if ended == child:
                status = how
    return False, status


def end(child: int, status: int | None, grace: float) -> int | None:
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
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os._exit(os.WEXITSTATUS(status) if status is not None else 1)


def main(parent: int, grace: float, command: list[str]) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_BLOCK, {*REQUESTS, signal.SIGCHLD})
    control(SUBREAPER, 1)
    outer = os.getpid()
    child = os.fork()  # Use two reapers, one below the other, because the command may kill its own parent.
    if not child:
        os.setsid()
        control(SUBREAPER, 1)
        parent, child = outer, start(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)  # Close the pipes here, so that their readers see end of file.
    status = None
    while status is None and os.getppid() == parent:
        received = signal.sigtimedwait({*REQUESTS, signal.SIGCHLD}, LOOK)
        _, status = reap(child, status)
        if received is not None and received.si_signo in REQUESTS:
            break
    leave(end(child, status, grace))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
