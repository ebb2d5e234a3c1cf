"""Kill a process at each system call made while writing an output file, and find what is left.

Run as ``python tests/support/leftovers.py new|old [named]``: the file is new or replaces an old one; *named*
simulates a system without unnamed files. Prints the system calls, then those that left another file behind. Fails if
the file itself is torn.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from crashing import MEMORY, traced

from fsm.cli.output import write

OLD, NEW = b"old " * 1000, b"new " * 2000


def names(old: bytes | None, *options: str) -> tuple[list[str], bytes | None]:
    """Return the names left beside the file, and its content, after *old* was replaced under ``strace``."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder, "a.svg")
        if old is not None:
            path.write_bytes(old)
        traced(lambda: write(path, NEW), *options)
        return sorted({each.name for each in path.parent.iterdir()} - {path.name}), (
            path.read_bytes() if path.exists() else None
        )


def main(old: bytes | None) -> None:
    with tempfile.NamedTemporaryFile(prefix="fsm-") as log:
        assert names(old, "-o", log.name) == ([], NEW)
        calls = re.findall(r"^(\w+)\(", log.read().decode(), flags=re.MULTILINE)
    seen: Counter[str] = Counter()
    left = []
    for call in calls:
        seen[call] += 1
        beside, content = names(old, "-o", os.devnull, "-e", f"inject={call}:signal=KILL:when={seen[call]}")
        assert content in {old, NEW}, f"killed at {call}: {content!r}"
        left += [call] * len(beside)
    sys.stdout.write(f"{' '.join(calls)}\n{' '.join(left)}\n")


if __name__ == "__main__":
    if "named" in sys.argv:
        del os.O_TMPFILE
    main(OLD if "old" in sys.argv else None)
