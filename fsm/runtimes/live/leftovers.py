"""Pods with the label of their run, and shims of containerd, which killed test runs leave behind.

The label names the process, its start time, and the boot and PID namespace in which its process id is valid. containerd
leaves some shims running when a start fails or when it is killed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

KEY: Final = "io.container-fsm.run"
"""Key of the label on everything that a test makes in a runtime. Its value is a :class:`RunLabel` as text."""

NAMESPACE: Final = "container-fsm"  # Kubernetes namespace of all test pods
_STARTED: Final = 19  # index of the start time in ``/proc/PID/stat``, counted from the field after the command name


class RunLabel(NamedTuple):
    """One test run: its process, which ``started`` this many ticks after ``boot``, in the PID ``namespace``."""

    boot: str
    namespace: str
    process: int
    started: int

    def __str__(self) -> str:
        """Return the value of the label.

        >>> str(RunLabel("b", "n", 7, 9))
        'b.n.7.9'
        """
        return f"{self.boot}.{self.namespace}.{self.process}.{self.started}"


def own() -> RunLabel:
    """Return the label of this process."""
    return RunLabel(_boot(), _namespace(), os.getpid(), _started(os.getpid()) or 0)


def read(text: str) -> RunLabel | None:
    """Return the label in *text*, or ``None`` if it is not a label.

    >>> read("b.n.7.9"), read("else")
    (RunLabel(boot='b', namespace='n', process=7, started=9), None)
    """
    parts = text.split(".")
    if len(parts) != len(RunLabel._fields) or not all(part.isdecimal() for part in parts[2:]):
        return None
    return RunLabel(parts[0], parts[1], int(parts[2]), int(parts[3]))


def ended(label: RunLabel) -> bool:
    """Check whether the run has certainly ended: it began before this boot, or its process no longer exists.

    Nothing is known about a process in another PID namespace.
    """
    if label.boot != _boot():
        return True
    return label.namespace == _namespace() and _started(label.process) != label.started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")


def _namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116  (the target of the link is no path)


def _started(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_STARTED])


def shims() -> dict[int, str]:
    """Return, by process id, the id for which each running shim was started. Empty without ``/proc``."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            program, *words = file.read_bytes().decode(errors="replace").split("\0")
            if Path(program).name.startswith("containerd-shim") and "-id" in words[:-1]:
                found[int(file.parent.name)] = words[words.index("-id") + 1]
    return found


def left(before: dict[int, str]) -> str:
    """Return the command that kills the shims started since *before*, or an empty string if there are none."""
    new = sorted(set(shims()) - set(before))
    return f"kill {' '.join(map(str, new))}" if new else ""
