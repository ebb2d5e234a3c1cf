"""Measure the search of a machine with data, compared with SPIN on the exported Promela.

    python tests/bench/data.py [--size 84] [--rounds 5]

Both search exhaustively and must find the same number of states. Times are CPU times of one core, and the best of
several rounds counts. SPIN's program is compiled with -O2; compilation is excluded on both sides, and so is loading.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from fsm.checker.breadth_first import Limit
from fsm.checker.instants import StepCache
from fsm.interop.promela import promela
from fsm.language.library import load
from fsm.machine import Machine
from fsm.machine.in_progress import in_progress
from fsm.machine.table import tabulate

MODEL = """\
[machine]
name    = "counters"
title   = "Three counters"
about   = "Counts, adds and exchanges."
source  = "a benchmark"
initial = "open"

[states]
open = {{ about = "Adds." }}
shut = {{ about = "Counts." }}

[data]
a = {{ from = 0, to = {last} }}
b = {{ from = 0, to = {last} }}
c = {{ from = 0, to = {last} }}

[event.inc]
kind  = "call"
about = "Count."
moves.open = [
  {{ name = "ok", stays = true, when = "a < {last}", set = {{ a = "a + 1" }} }},
  {{ name = "full", to = "shut", when = "otherwise", reply = "FULL" }},
]
moves.shut = [
  {{ name = "ok", stays = true, when = "b < {last} and a + b < {sum}", set = {{ b = "b + 1" }} }},
  {{ name = "full", to = "open", when = "otherwise", set = {{ a = 0, c = "min(c + 1, {last})" }}, reply = "FULL" }},
]

[event.put]
kind      = "call"
about     = "Add to two counters."
arguments = {{ n = {{ from = 0, to = 3 }} }}
refuses   = {{ shut = "SHUT" }}
moves.open = [
  {{ name = "ok", stays = true, when = "n > 0 and max(b, c) + n <= {last}", set = {{ b = "b + n", c = "c + n" }} }},
  {{ name = "no", stays = true, when = "otherwise", reply = "NO" }},
]

[event.swap]
kind       = "call"
about      = "Exchange two counters."
moves.open = {{ to = "shut", set = {{ a = "b", b = "a" }} }}
moves.shut = {{ to = "open", set = {{ c = "max(c - 1, 0)" }} }}
"""


def searched(machine: Machine) -> tuple[int, float]:
    stepping = StepCache(in_progress(tabulate(machine)))
    begin = time.process_time()
    counts = stepping.size(Limit(states=1 << 40))
    return counts.configurations or 0, time.process_time() - begin


def explored(program: Path) -> tuple[int, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = subprocess.run([program, "-m100000000"], capture_output=True, text=True, check=True, cwd=program.parent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"(\d+) states, stored", told.stdout)
    return int(found[1]) if found else 0, after.ru_utime - before.ru_utime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=84, help="values of each counter")
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "counters.toml"
        model.write_text(MODEL.format(last=given.size - 1, sum=2 * given.size - 10), encoding="utf-8")
        machine = load(str(model))
        (folder / "counters.pml").write_text(promela(machine), encoding="utf-8")
        subprocess.run(["spin", "-a", "counters.pml"], check=True, cwd=folder, stdout=subprocess.DEVNULL)  # noqa: S607
        subprocess.run(["gcc", "-O2", "-DSAFETY", "-o", "pan", "pan.c"], check=True, cwd=folder)  # noqa: S607
        searched(machine)  # compile
        own = [searched(machine) for _ in range(given.rounds)]
        spins = [explored(folder / "pan") for _ in range(given.rounds)]
    states = {count for count, _ in (*own, *spins)}
    fsm, spin = (min(seconds for _, seconds in each) for each in (own, spins))
    found = " and ".join(f"{each:,}" for each in sorted(states))
    print(f"{found} states: fsm {fsm:.2f} s, SPIN {spin:.2f} s, ratio {fsm / spin:.2f}")  # noqa: T201
    if len(states) > 1:
        raise SystemExit("the numbers of states differ")


if __name__ == "__main__":
    main()
