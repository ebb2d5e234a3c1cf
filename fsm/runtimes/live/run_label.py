"""Whose a pod is that a test has made: the label of a run, by which leftovers are told from what is in use.

The label names the process, when it was started, and where its number means something: the boot and the PID namespace.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

KEY: Final = "io.container-fsm.run"
"""The label of everything that a test makes in a runtime; its value is :class:`RunLabel` as text."""

NAMESPACE: Final = "container-fsm"
"""The namespace of all pods of tests."""

_STARTED: Final = 19
"""The place of the start time in ``/proc/PID/stat``, counted from behind the name of the command."""


class RunLabel(NamedTuple):
    """One run of a test: a process; ``started`` in ticks since ``boot``, in the PID ``namespace``."""

    boot: str
    namespace: str
    process: int
    started: int

    def __str__(self) -> str:
        """As a label has it.

        >>> str(RunLabel("b", "n", 7, 9))
        'b.n.7.9'
        """
        return f"{self.boot}.{self.namespace}.{self.process}.{self.started}"


def own() -> RunLabel:
    """The label of this process."""
    return RunLabel(_boot(), _namespace(), os.getpid(), _started(os.getpid()) or 0)


def read(text: str) -> RunLabel | None:
    """The label in *text*, if that is one.

    >>> read("b.n.7.9"), read("else")
    (RunLabel(boot='b', namespace='n', process=7, started=9), None)
    """
    parts = text.split(".")
    if len(parts) != len(RunLabel._fields) or not all(each.isdecimal() for each in parts[2:]):
        return None
    return RunLabel(parts[0], parts[1], int(parts[2]), int(parts[3]))


def ended(label: RunLabel) -> bool:
    """Whether the run has ended for certain: it was before this boot, or its process is no more.

    Of a process in another PID namespace nothing is known.
    """
    if label.boot != _boot():
        return True
    return label.namespace == _namespace() and _started(label.process) != label.started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")


def _namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116  (a link to what is no path)


def _started(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_STARTED])
