"""Measure the run times of commands, compared with another checkout of fsm.

    python tests/bench/command_times.py CHECKOUT [--rounds 5] [--only TEXT] [--plain] [--cold]

The two checkouts alternate, with this Python and its libraries. The best CPU time of each checkout counts, because
other load makes wall-clock times meaningless. ``--plain`` hides numba, so that nothing is compiled. ``--cold``
instead compares the wall-clock times of two runs of this checkout: the first run fills an empty cache of machine code,
and the second run uses that cache.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import judge
import tables

HERE: Final = Path(__file__).resolve().parent.parent.parent
RECORDED: Final = "tests/recordings"
COMMANDS: Final = (
    "list",
    "show container-status",
    "check container-status",
    "check cri-pod",
    "check plugin-sync",
    "check node",
    "mutate cri-pod",
    "diff container-status cri-container",
    "draw container-status -f dot -o -",
    "simulate container-status --length 2000",
    "test cri-container --against model:container-status --examples 20",
    f"judge {RECORDED}/containerd-1.6.20.log",
    f"judge {RECORDED}/1.7.24-contexts.log.gz",
    f"judge {RECORDED}/cri-calls-2.1.9.jsonl",
    f"cover -m cri-pod {RECORDED}/1.7.24-random.calls.jsonl.gz",
    f"explore {RECORDED}/containerd-2.1.9.log -o -",
    f"explore {RECORDED}/1.7.24-contexts.log.gz -o -",
    "judge {folder}/large.log",
    "judge {folder}/large.jsonl",
    "judge {folder}/timed.jsonl",
    "judge --model container-status {folder}/large.parquet",
)
HIDDEN: Final = "raise ImportError('hidden by the benchmark')\n"


def inputs(folder: Path, lines: int) -> None:
    judge.log(folder / "large.log", lines)
    judge.trace(folder / "large.jsonl", lines, shows=True)
    judge.trace(folder / "timed.jsonl", lines, shows=False)
    [table, *_] = tables.written(folder, lines).values()
    table.rename(folder / "large.parquet")


def environment(checkout: Path, caches: Path, *, plain: bool) -> Mapping[str, str]:
    paths = [str(checkout)]
    if plain:
        (caches / "plain" / "numba").mkdir(parents=True, exist_ok=True)
        (caches / "plain" / "numba" / "__init__.py").write_text(HIDDEN, encoding="utf-8")
        paths.insert(0, str(caches / "plain"))
    cache = caches / f"cache-of-{checkout.name}"
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(cache), "NO_COLOR": "1"}


def taken(checkout: Path, command: str, variables: Mapping[str, str]) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "fsm", *command.split()],
        cwd=checkout,
        env=variables,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in {0, 1, 3}:
        raise RuntimeError(f"fsm {command} ended with {done.returncode} in {checkout}: {done.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def compared(command: str, other: Path, rounds: int, caches: Path, *, plain: bool) -> str:
    best = dict.fromkeys((HERE, other), float("inf"))
    variables = {each: environment(each, caches, plain=plain) for each in best}
    for each in best:  # compile first
        taken(each, command, variables[each])
    for _ in range(rounds):
        for each in best:
            best[each] = min(best[each], taken(each, command, variables[each])[0])
    return f"{best[other]:8.2f} s {best[HERE]:8.2f} s {best[HERE] / best[other]:6.2f}"


def cold(number_of_command: int, command: str, rounds: int, caches: Path) -> str:
    best = [float("inf")] * 2
    for number in range(rounds):
        variables = environment(HERE, caches / f"{number}-{number_of_command}", plain=False)
        for index in range(2):
            best[index] = min(best[index], taken(HERE, command, variables)[1])
    return f"{best[0]:8.2f} s {best[1]:8.2f} s {best[0] / best[1]:6.2f}"


def rows(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    other = Path(options.checkout).resolve()
    for index, template in enumerate(COMMANDS):
        command = template.format(folder=folder)
        if options.only not in command:
            continue
        if options.cold:
            times = cold(index, command, options.rounds, folder)
        else:
            times = compared(command, other, options.rounds, folder, plain=options.plain)
        yield f"{times}  {template.replace('{folder}/', '')}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("checkout", nargs="?", default=str(HERE))
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--lines", type=int, default=400_000)
    options.add_argument("--only", default="", metavar="TEXT")
    options.add_argument("--plain", action="store_true")
    options.add_argument("--cold", action="store_true")
    asked = options.parse_args()
    print("   first     second      ratio" if asked.cold else "   other       here      ratio")  # noqa: T201  (a program that prints)
    with tempfile.TemporaryDirectory() as name:
        inputs(Path(name), asked.lines)
        for row in rows(asked, Path(name)):
            print(row, flush=True)  # noqa: T201  (the same)


if __name__ == "__main__":
    main()
