"""Measure the steps per second of a child process, compared with a bare loop over pipes.

Usage: ``python tests/bench/child.py``. Both send the same lines to the same container, which is a C program. The bare
loop neither encodes nor decodes anything, has no time limit, and simply reads answers with ``readline``. Rounds
alternate, and the best round counts.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.conformance.exec.adapter import child

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).resolve().parent.parent / "suts" / "container.c"
LIFE = ("create", "start", "exec", "stop", "status", "remove")


def ours(program: str, steps: int) -> float:
    sut = child([program])
    sut.reset()
    begin = time.perf_counter()
    for number in range(steps):
        sut.do(LIFE[number % len(LIFE)])
        sut.shows()
    taken = time.perf_counter() - begin
    sut.close()
    return taken


def bare(program: str, steps: int) -> float:
    lines = [b'{"id":%d,"do":"%s"}\n' % (1_000 + each, event.encode()) for each, event in enumerate(LIFE)]
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        begin = time.perf_counter()
        for number in range(steps):
            process.stdin.write(lines[number % len(LIFE)])
            process.stdin.flush()
            process.stdout.readline()
        taken = time.perf_counter() - begin
        process.stdin.close()
    return taken


def started(program: str) -> float:
    begin = time.perf_counter()
    child([program]).close()
    return time.perf_counter() - begin


def best(time_of: Callable[[], float], rounds: int) -> float:
    return min(time_of() for _ in range(rounds))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=30_000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "container")
        subprocess.run(["gcc", "-O2", "-o", program, SOURCE], check=True)  # noqa: S607
        mine = theirs = float("inf")
        for _ in range(asked.rounds):
            mine = min(mine, ours(program, asked.steps))
            theirs = min(theirs, bare(program, asked.steps))
        print(f"bare pipe  {asked.steps / theirs:10,.0f} steps/s")  # noqa: T201
        print(f"child      {asked.steps / mine:10,.0f} steps/s, {theirs / mine:.2f} times as many")  # noqa: T201
        print(f"start      {best(lambda: started(program), asked.rounds) * 1000:10.0f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
