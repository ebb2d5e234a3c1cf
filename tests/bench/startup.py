"""Measure the wall-clock time of ``import fsm`` and ``fsm --help``.

Usage: ``python tests/bench/startup.py``. The script prints the best and the median time of twenty runs, and the same
for Python alone and for Python with click. If a best time exceeds its limit, it prints the slowest imports and exits
with 1. The median has no limit, because it
depends on how busy the machine is.
"""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

RUNS: Final = 20
LIMITS: Final = {'python -c "import fsm"': 0.15, "fsm --help": 0.1}
"""The maximum number of seconds, including the start of Python itself."""

PYTHON: Final = sys.executable
COMMANDS: Final = {
    "python -c pass": [PYTHON, "-c", "pass"],
    'python -c "import click"': [PYTHON, "-c", "import click"],
    'python -c "import fsm"': [PYTHON, "-c", "import fsm"],
    "fsm --help": [str(Path(PYTHON).with_name("fsm")), "--help"],
}


def seconds(command: list[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - before


def slowest(count: int) -> list[str]:
    """Return the slowest imports of ``fsm --help`` according to ``-X importtime``, not counting nested imports."""
    told = subprocess.run(
        [PYTHON, "-X", "importtime", "-m", "fsm", "--help"], check=True, capture_output=True, text=True
    )
    rows = re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", told.stderr)
    return [f"{int(own) / 1000:7.1f} ms  {name}" for own, name in sorted(rows, key=lambda row: -int(row[0]))[:count]]


def main() -> int:
    over = []
    print(f"{'':26}{'best':>8}{'median':>8}")  # noqa: T201  (a program that prints)
    for name, command in COMMANDS.items():
        seconds(command)  # fill the caches
        times = [seconds(command) for _ in range(RUNS)]
        if min(times) > LIMITS.get(name, math.inf):
            over.append(name)
        print(f"{name:26}{min(times):8.3f}{statistics.median(times):8.3f}")  # noqa: T201  (the same)
    if not over:
        return 0
    print(f"too slow: {', '.join(over)}; the slowest imports of the command:", *slowest(12), sep="\n")  # noqa: T201  (the same)
    return 1


if __name__ == "__main__":
    sys.exit(main())
