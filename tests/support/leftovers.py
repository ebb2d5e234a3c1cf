"""Kill a process at each system call while it writes an output file, and find files that it leaves behind.

Usage: ``python tests/support/leftovers.py new|old [named]``. The output file is new or replaces an old file. With
*named*, a system without unnamed files is simulated. The script prints all system calls, and then the calls at which
a kill left another file behind. It fails if the output file itself is torn.
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
