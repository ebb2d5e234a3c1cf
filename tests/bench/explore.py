"""Measure the states per second that fsm and SPIN search, on the same machines with a million states.

    python tests/bench/explore.py [--states 1000000] [--counters 6] [--containers 9] [--rounds 2]

There are two models. The first is a random machine in a single table, which :func:`fsm.machine.graph.explore`
searches; in Promela, a process looks up the next state in the same table. The second is a product of several counters
that is not built in advance. It is searched by :func:`fsm.checker.breadth_first.search`, which decides every
property; in Promela, each counter is a process of the exported model.

If the extra ``fast`` is installed, two systems are also searched with packed states (:mod:`fsm.checker.packed`): the
counters, and a pod whose stop affects all of its containers. Each system is searched once for all states, and once
for a claim that holds. Loading and compiling are not measured.

SPIN is compiled with ``-O2`` and searches all states without reduction, both depth first, which is its default, and
breadth first, as fsm does. The time to build the verifier is reported separately. All searches take turns in one run,
and the best CPU time counts. Files are generated in a temporary folder.
"""

from __future__ import annotations

import argparse
import gc
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from machines import counter
from random_systems import system_of
from toy_systems import stated_of

from fsm.checker import decide, packing
from fsm.checker.breadth_first import Limit, SearchEdge, search
from fsm.checker.cones import Cones
from fsm.checker.instants import Successors
from fsm.interop.promela import promela
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable
from fsm.machine.table import Table, Way, tabulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fsm.checker.packed.packed_graph import PackedGraph
    from fsm.machine.claims import Property
    from fsm.machine.product.system import System

DIGITS = 9
STATES = 5
MANY = 10**9
SPIN = shutil.which("spin") or ""
GCC = shutil.which("gcc") or ""
SEARCHES = {"SPIN, depth first": [], "SPIN, breadth first": ["-DBFS"]}


# -- one machine of many states ----------------------------------------------------


def random_successors(states: int) -> tuple[list[int], list[int]]:
    """Return the successors of all states under two events.

    One event follows a cycle through all states, and the other has random targets.
    """
    chance = random.Random(1)
    order = list(range(1, states))
    chance.shuffle(order)
    round_ = [0] * states
    for here, to in zip([0, *order], [*order, 0], strict=True):
        round_[here] = to
    return round_, [chance.randrange(states) for _ in range(states)]


def random_table(successors: tuple[list[int], list[int]]) -> Table:
    """Build the machine as a table, because its text would take hundreds of megabytes."""
    small = tabulate(counter(to=1))
    states = len(successors[0])
    targets = [to for row in successors for to in row]
    ways = tuple(
        Way(index=index, name="done", to=to, reply=("ok",), emits=(), begins=False, deviation=None)
        for index, to in enumerate(targets)
    )
    return Table(
        machine=small.machine,
        states=tuple(map(str, range(states))),
        shows=tuple(map(str, range(states))),
        initial=0,
        rows=small.rows,
        row=small.row,
        end={},
        ways=ways,
        origin=tuple(divmod(index, states) for index in range(len(ways))),
        cells=tuple((way,) for way in ways),
    )


def random_promela(successors: tuple[list[int], list[int]], folder: Path) -> str:
    with (folder / "table.h").open("w", encoding="utf-8") as file:
        for name, row in zip("ab", successors, strict=True):
            file.write(f"static const int {name}[] = {{{','.join(map(str, row))}}};\n")
    return (
        'c_decl { \\#include "table.h"\n}\n'
        "int state = 0;\n"
        "active proctype machine() {\n"
        "end:\n   do\n"
        "   :: d_step { true -> c_code { now.state = a[now.state]; } }\n"
        "   :: d_step { true -> c_code { now.state = b[now.state]; } }\n"
        "   od\n}\n"
    )


# -- a product of small machines -----------------------------------------------------


def product(count: int) -> tuple[int, int]:
    steps = Successors(tabulate(counter(to=DIGITS)))

    def following(node: tuple[int, ...]) -> Iterator[SearchEdge[tuple[int, ...]]]:
        for place, state in enumerate(node):
            for step in steps.after(state):
                yield SearchEdge(taken=step.taken, to=(*node[:place], step.way.to, *node[place + 1 :]))

    counts = search((0,) * count, following, limit=Limit(states=MANY)).counts
    return counts.states, counts.transitions


def counters(count: int) -> System:
    lines = ['[system]\nname = "counters"\ntitle = "C"\nabout = "C"\nsource = "none"']
    lines.append(f'[part.c]\nmachine = "counter"\ncount = {count}')
    lines += [
        f'[event.{event}]\nkind = "call"\nof = "c"\nabout = "C"\nsteps = ["c.{event}"]' for event in ("add", "reset")
    ]
    return system_of("\n".join(lines), {"counter": counter(to=DIGITS)})


def pod(containers: int) -> System:
    lines = ['[system]\nname = "pod"\ntitle = "P"\nabout = "P"\nsource = "none"']
    lines.append(f'[part]\npod.machine = "switch"\nc = {{ machine = "counter", count = {containers} }}')
    lines += [
        f'[event.{event}]\nkind = "call"\nof = "c"\nabout = "C"\nwhen = "pod is n1"\nsteps = ["c.{event}"]'
        for event in ("add", "reset")
    ]
    head = 'kind = "call"\nof = "pod"\nabout = "P"\nwhen = "pod is'
    lines.append(f'[event.run]\n{head} n0"\nsteps = ["pod.add"]')
    lines.append(f'[event.stop]\n{head} n1"\nsteps = ["every c.reset", "pod.reset"]')
    return system_of("\n".join(lines), {"counter": counter(to=STATES - 1), "switch": counter(to=1)})


def pod_promela(containers: int) -> str:
    end = "; ".join(f"c[{each}] = 0" for each in range(containers))
    last = STATES - 1
    return (
        f"byte pod = 0;\nbyte c[{containers}];\n"
        f"active [{containers}] proctype container() {{\nend:\n   do\n"
        f"   :: d_step {{ pod == 1 && c[_pid] < {last} -> c[_pid]++ }}\n"
        f"   :: d_step {{ pod == 1 && c[_pid] == {last} -> skip }}\n"
        "   :: d_step { pod == 1 -> c[_pid] = 0 }\n   od\n}\n"
        "active proctype sandbox() {\nend:\n   do\n"
        "   :: d_step { pod == 0 -> pod = 1 }\n"
        f"   :: d_step {{ pod == 1 -> {end}; pod = 0 }}\n   od\n}}\n"
    )


def product_packed(system: System) -> tuple[int, int]:
    graph: PackedGraph = import_module("fsm.checker.packed.packed_graph").PackedGraph(SystemTable(system))
    counts = graph.counts(Limit(states=MANY))
    return counts.states, counts.transitions


def claimed(system: System) -> tuple[int, int]:
    with patch.object(packing, "FEW", MANY):
        counts = decide(_claim(system), Cones(system=system), limit=MANY).searched
    return counts.states, counts.transitions


def folded(system: System) -> tuple[int, int]:
    cones = Cones(system=system)
    decide(_claim(system), cones, limit=MANY)
    counts = cones.size(Limit(states=MANY))
    assert counts is not None
    return counts.states, counts.transitions


def _claim(system: System) -> Property:
    return stated_of(system, 'always = "no c is n0 or some c is n0"')


def bytes_a_state(run: Callable[[], tuple[int, int]]) -> float:
    tracemalloc.start()
    states, _ = run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / states


def product_promela(count: int) -> str:
    text = promela(counter(to=DIGITS))
    [declaration] = re.findall(r"^byte state = .*;$", text, re.MULTILINE)
    return text.replace(declaration, "").replace(
        "active proctype machine() {", f"active [{count}] proctype machine() {{\n   {declaration}"
    )


# -- measuring -------------------------------------------------------------------------


def spent() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def verifier(text: str, folder: Path, options: list[str]) -> tuple[Path, float]:
    (folder / "model.pml").write_text(text, encoding="utf-8")
    pan = folder / f"pan{''.join(options)}"
    start = spent()
    subprocess.run([SPIN, "-a", "model.pml"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    how = ["-O2", "-w", "-DSAFETY", "-DNOREDUCE", *options]
    subprocess.run([GCC, *how, "-o", str(pan), "pan.c"], cwd=folder, check=True)
    return pan, spent() - start


def verified(pan: Path, most: int) -> tuple[int, int]:
    ran = subprocess.run([pan, f"-m{2 * most}", "-w24"], cwd=pan.parent, capture_output=True, text=True, check=True)
    found = [re.search(rf"([\d.e+]+) {word}", ran.stdout) for word in ("states, stored", "transitions")]
    assert all(found), ran.stdout
    assert "errors: 0" in ran.stdout, ran.stdout
    assert "max search depth too small" not in ran.stdout, ran.stdout
    states, transitions = (int(float(each[1])) for each in found if each)
    return states, transitions - 1


def explored(table: Table) -> tuple[int, int]:
    graph = explore(table)
    return len(graph.depth), len(graph.transitions)


def compare(
    title: str,
    ours: Callable[[], tuple[int, int]],
    text: str,
    folder: Path,
    *,
    most: int,
    rounds: int,
    more: Mapping[str, Callable[[], tuple[int, int]]] | None = None,
) -> dict[str, float]:
    made = {name: verifier(text, folder, options) for name, options in SEARCHES.items()}
    contenders = (
        {"fsm": ours}
        | dict(more or {})
        | {name: (lambda pan=pan: verified(pan, most)) for name, (pan, _) in made.items()}
    )
    times = dict.fromkeys(contenders, float("inf"))
    counts: dict[str, tuple[int, int]] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            gc.collect()
            start = spent()
            counts[name] = run()
            times[name] = min(times[name], spent() - start)
    states, transitions = counts["fsm"]
    # SPIN rounds large numbers.
    assert all(abs(each[0] - states) <= states / 1e6 for each in counts.values()), counts
    assert all(abs(each[1] - transitions) <= transitions / 1e6 for each in counts.values()), counts
    print(f"{title}: {states:,} states, {transitions:,} transitions")  # noqa: T201
    for name, taken in times.items():
        ratio = "" if name == "fsm" else f"  {times['fsm'] / taken:6.2f} x as fast as fsm"
        making = "" if name not in made else f", after {made[name][1]:.1f} s of making its verifier"
        print(f"  {name:<20}{states / taken:>12,.0f} states/s  {taken:7.2f} s{ratio}{making}")  # noqa: T201
    best = min(times[name] for name in made)
    ratios = {name: best / taken for name, taken in times.items() if name not in made}
    print("  beside SPIN:", ", ".join(f"{name} {ratio:.1f} x" for name, ratio in ratios.items()))  # noqa: T201
    return ratios


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--states", type=int, default=1_000_000)
    options.add_argument("--counters", type=int, default=6)
    options.add_argument("--containers", type=int, default=9)
    options.add_argument("--rounds", type=int, default=2)
    asked = options.parse_args()
    if not (SPIN and GCC):
        sys.exit("SPIN or a compiler is missing: apt-get install spin gcc libc6-dev")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = asked.counters
        size = (DIGITS + 1) ** count
        more = {}
        if find_spec("numba"):
            start = spent()
            claimed(counters(3))
            print(f"loading what packed states are searched with: {spent() - start:.1f} s")  # noqa: T201
            system = counters(count)
            more = {
                "fsm, packed": lambda: product_packed(system),
                "fsm, packed, a claim": lambda: claimed(system),
                "fsm, representatives": lambda: folded(system),
            }
        text = product_promela(count)
        compare(f"{count} counters", lambda: product(count), text, folder, most=size, rounds=asked.rounds, more=more)
        for each, run in more.items():
            print(f"  {each}: {bytes_a_state(run):.0f} bytes a state at most")  # noqa: T201
        if more:
            nested = pod(asked.containers)
            text, size = pod_promela(asked.containers), STATES**asked.containers + 1
            ours, claim = partial(product_packed, nested), partial(claimed, nested)
            title = f"a pod with {asked.containers} containers"
            searches = {"fsm, a claim": claim, "fsm, representatives": partial(folded, nested)}
            compare(title, ours, text, folder, most=size, rounds=asked.rounds, more=searches)
            for which, run in {"fsm": ours, "fsm, a claim": claim}.items():
                print(f"  {which}: {bytes_a_state(run):.0f} bytes a state at most")  # noqa: T201
        successors = random_successors(asked.states)
        text = random_promela(successors, folder)
        table = random_table(successors)
        compare("random machine", lambda: explored(table), text, folder, most=asked.states, rounds=asked.rounds)


if __name__ == "__main__":
    main()
