"""The label of a test run on the pods that it makes, which tells leftovers from what is in use.

The label names the process, its start time, and the boot and PID namespace in which its process id is valid.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

KEY: Final = "io.container-fsm.run"
"""The key of the label on everything that a test makes in a runtime; its value is :class:`RunLabel` as text."""

NAMESPACE: Final = "container-fsm"
"""The Kubernetes namespace of all pods of tests."""

_STARTED: Final = 19
"""The index of the start time in ``/proc/PID/stat``, counted from behind the name of the command."""


class RunLabel(NamedTuple):
    """One run of a test: its process, ``started`` in ticks since ``boot``, in the PID ``namespace``."""

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
    """The label of this process."""
    return RunLabel(_boot(), _namespace(), os.getpid(), _started(os.getpid()) or 0)


def read(text: str) -> RunLabel | None:
    """Return the label in *text*; ``None`` if it is none.

    >>> read("b.n.7.9"), read("else")
    (RunLabel(boot='b', namespace='n', process=7, started=9), None)
    """
    parts = text.split(".")
    if len(parts) != len(RunLabel._fields) or not all(each.isdecimal() for each in parts[2:]):
        return None
    return RunLabel(parts[0], parts[1], int(parts[2]), int(parts[3]))


def ended(label: RunLabel) -> bool:
    """Check whether the run has certainly ended: it was before this boot, or its process no longer exists.

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
