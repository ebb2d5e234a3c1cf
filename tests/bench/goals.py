"""Measure judging and checking against performance goals, each relative to a peer in the same run.

    python tests/bench/goals.py [--lines 1000000] [--rounds 2] [--damaged 300]

Times are CPU times of one core unless stated otherwise, and the best of several rounds counts. Only the figures for
whole commands include loading and compiling. The run takes about a quarter of an hour and exits with 1 if a goal is
missed. Files are generated in a temporary folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import explore
import judge
import overlapping
import startup
import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

FSM = str(Path(sys.executable).with_name("fsm"))


class Figure(NamedTuple):
    name: str
    found: float
    unit: str
    goal: float
    peer: str
    most: bool = False

    @property
    def reached(self) -> bool:
        return self.found <= self.goal if self.most else self.found >= self.goal

    def __str__(self) -> str:
        wanted = f"{'at most' if self.most else 'at least'} {self.goal:,g}"
        verdict = "reached" if self.reached else "MISSED"
        return f"{self.name:<38}{self.found:>12,.2f} {self.unit:<12}{wanted:<20}{verdict:<9}{self.peer}"


def lines(folder: Path, count: int, rounds: int) -> Iterator[Figure]:
    trace, limited, log = folder / "trace.jsonl", folder / "limited.jsonl", folder / "containerd.log"
    judge.trace(trace, count)
    judge.trace(limited, count, shows=False)
    judge.log(log, count)
    contenders = {"fsm": judge.judged, "msgspec": judge.decode_json, "transitions": judge.checked}
    times = judge.best(trace, contenders, rounds + 1)
    fsm, msgspec, transitions = times.values()
    rate = f"fsm {count / fsm.computing:,.0f} lines/s"
    yield Figure("JSON lines", transitions.computing / fsm.computing, "x", 8, f"{rate}, beside transitions")
    yield Figure("JSON lines", msgspec.computing / fsm.computing, "x", 0.15, "msgspec, decoding line by line")
    fsm, msgspec = judge.best(limited, {"fsm": judge.judged, "msgspec": judge.decode_json}, rounds + 1).values()
    rate = f"fsm {count / fsm.computing:,.0f} lines/s"
    yield Figure("JSON lines, time limits", msgspec.computing / fsm.computing, "x", 0.15, f"{rate}, beside msgspec")
    logs = {"fsm": judge.judged, "slowly": judge.judged_slowly, "polars": judge.extract}
    fsm, slowly, polars = judge.best(log, logs, rounds + 1).values()
    for name, number in (("containerd log", 0), ("containerd log, by the clock", 1)):
        rate = f"fsm {count / fsm[number]:,.0f} lines/s"
        yield Figure(name, slowly[number] / fsm[number], "x", 8, f"{rate}, beside line by line")
        yield Figure(name, polars[number] / fsm[number], "x", 0.3, "polars, one regular expression")


def columns(folder: Path, rows: int, rounds: int) -> Iterator[Figure]:
    for name, path in tables.written(folder, rows).items():
        tables.judged(path)
        fsm, pyarrow = judge.best(path, {"fsm": tables.judged, "pyarrow": tables.read}, rounds).values()
        peer = f"by the clock {rows / fsm.clock / 1e6:.1f} M; pyarrow, reading: {rows / pyarrow.computing / 1e6:.1f} M"
        yield Figure(f"Parquet, {name}", rows / fsm.computing / 1e6, "M rows/s", 10, peer)


def calls(folder: Path, count: int, rounds: int, damaged: int) -> Iterator[Figure]:
    recording, warm = (
        overlapping.written(folder / f"{clients}.jsonl", overlapping.recording(many, clients))
        for clients, many in ((overlapping.CLIENTS, count), (1, 10))
    )
    with get_context("fork").Pool(1, maxtasksperchild=1) as process:

        def best(run: overlapping.Run) -> float:
            return min(process.apply(overlapping.timed, (run, recording, warm)) for _ in range(rounds))

        searched = count / best(overlapping.searched)
        peer = f"a search for one order: {searched:,.0f}"
        yield Figure("calls of six clients at once", count / best(overlapping.judged), "calls/s", 5_000, peer)
        run = partial(process.apply, overlapping.timed)
        slowest = max(run((overlapping.judged_somehow, path)) for path in overlapping.damaged(damaged, folder))
        yield Figure(f"the slowest of {damaged} damaged ones", slowest, "s", 2, "", most=True)


def states(folder: Path, rounds: int) -> Iterator[Figure]:
    explore.claimed(explore.counters(3))
    counted, nested = explore.counters(6), explore.pod(9)
    for name, system, text, size in (
        ("6 counters", counted, explore.product_promela(6), 10**6),
        ("pod, 9 containers", nested, explore.pod_promela(9), explore.STATES**9 + 1),
    ):
        ours = partial(explore.product_packed, system)
        searched = {"a claim": partial(explore.claimed, system), "folded": partial(explore.folded, system)}
        ratios = explore.compare(name, ours, text, folder, most=size, rounds=rounds, more=searched)
        yield Figure(f"{name}, explored", ratios["fsm"], "x", 5, "SPIN, the better one of its searches")
        yield Figure(f"{name}, a claim", ratios["a claim"], "x", 5, "SPIN, without a claim")
        yield Figure(f"{name}, by representatives", ratios["folded"], "x", 5, "SPIN, of all states, without a claim")
        most = max(map(explore.bytes_a_state, (ours, searched["a claim"])))
        yield Figure(f"{name}, memory", most, "bytes/state", 40, "", most=True)


def commands() -> Iterator[Figure]:
    floor = min(startup.seconds(startup.COMMANDS['python -c "import click"']) for _ in range(5))
    peer = f"python -c 'import click': {floor:.3f} s"
    helped = min(startup.seconds(startup.COMMANDS["fsm --help"]) for _ in range(5))
    yield Figure("fsm --help", helped, "s", 0.1, peer, most=True)
    for command, goal in (("check", 5), ("check node", 2), ("mutate node", 120)):
        taken = min(spent(command) for _ in range(1 if goal > 100 else 2))
        yield Figure(f"fsm {command}", taken, "s", goal, "", most=True)
    large = "--memory 16384 --seconds 600 check node --parts pod=3,container=3"
    yield Figure(f"fsm {large.partition(' check')[2].strip()}", spent(large), "s", 600, "decided", most=True)


def spent(arguments: str) -> float:
    start = explore.spent()
    done = subprocess.run([FSM, *arguments.split()], check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in {0, 1}:  # exit code 1 is a verdict, too
        raise RuntimeError(f"fsm {arguments} ended with {done.returncode}")
    return explore.spent() - start


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--damaged", type=int, default=300)
    asked = options.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in (
            lines(folder, asked.lines, asked.rounds),
            columns(folder, 10 * asked.lines, asked.rounds),
            calls(folder, asked.lines // 100, asked.rounds, asked.damaged),
            states(folder, asked.rounds),
            commands(),
        ):
            for each in part:
                figures.append(each)
                print(each, flush=True)  # noqa: T201  (a program that prints)
    missed = [each for each in figures if not each.reached]
    print(f"{len(figures) - len(missed)} of {len(figures)} goals are reached; missed:", *missed, sep="\n  ")  # noqa: T201  (the same)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
