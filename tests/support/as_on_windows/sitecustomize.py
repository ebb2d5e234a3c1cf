"""Hide the features of Python that are missing on Windows.

Python imports this file at start-up if its folder is in PYTHONPATH. The standard library and other packages still see
the features, because they have code of their own for Windows.
"""

import builtins
import os
import select
import signal
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Final

MODULES: Final = {"curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
SIGNALS: Final = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
SHORT: Final = {
    signal: {each for each in dir(signal) if each.startswith("SIG")} - SIGNALS
    | {"alarm", "getitimer", "setitimer", "ITIMER_PROF", "ITIMER_REAL", "ITIMER_VIRTUAL", "pause", "pthread_kill"}
    | {"pthread_sigmask", "sigtimedwait", "sigwait", "SIG_BLOCK", "SIG_SETMASK", "SIG_UNBLOCK"},
    os: {"chown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getuid", "killpg"}
    | {"mkfifo", "pread", "sched_getaffinity", "setsid", "statvfs", "sync", "uname", "wait3", "wait4"}
    | {"O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "WNOHANG"},
    select: {"poll", "epoll", "POLLIN", "POLLOUT"},
}


def _without(module: ModuleType, names: set[str]) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update({name: value for name, value in vars(module).items() if name not in names})
    return copy


_import = builtins.__import__
_shown: Final = {module.__name__: _without(module, names) for module, names in SHORT.items()}


def _import_as_on_windows(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002  (their names in Python)
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if str((globals or {}).get("__name__", "")).partition(".")[0] == "fsm" and not level:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in _shown:
            return _shown[name]
    return _import(name, globals, locals, fromlist, level)


builtins.__import__ = _import_as_on_windows
