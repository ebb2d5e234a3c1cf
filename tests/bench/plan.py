"""Measure how long the plan of a machine with 10 states and 3 guarded integers takes.

Usage: ``python tests/bench/plan.py``. The plan must take less than 5 seconds. It is compared in the same run with
a random walk through the same machine, which takes random events with random declared arguments and starts again every
50 steps, like a test of Hypothesis. The walk ends when it has met every side of every comparison that the plan meets,
or after ten times as long as the plan.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from machines import machine_of

from fsm.conformance.plan import Plan
from fsm.machine.table import tabulate

STATES = 10
RESTART = 50
PATIENCE = 10
LIMIT = 5.0


def text() -> str:
    """Return the machine. Each state needs other values to be left."""
    lines = ["[machine]", 'name = "ring"', 'title = "R"', 'about = "R."', 'source = "s"', 'initial = "s0"', "[states]"]
    lines += [f's{number} = {{ about = "A." }}' for number in range(STATES)]
    lines += [
        "[data]",
        "a = { from = 0, to = 20 }",
        "b = { from = 0, to = 20 }",
        "c = { from = 0, to = 1000, scope = true }",
    ]
    add, turn, pay = ([f"[event.{name}]", 'kind = "call"', 'about = "A."'] for name in ("add", "turn", "pay"))
    for event in (add, pay):
        event += ["arguments = { n = { from = 0, to = 50, scope = true } }"]
    for number in range(STATES):
        add += [
            f"moves.s{number} = [",
            f'{{ name = "more", stays = true, when = "a < {10 + number} and n < 7", set = {{ a = "a + 1", c = "c + n" }} }},',
            f'{{ name = "up", to = "s{(number + 1) % STATES}", when = "a >= {10 + number} and b > a - 9", set = {{ a = 0 }} }},',
            '{ name = "rest", stays = true, when = "otherwise", reply = "NO" }]',
        ]
        turn += [
            f"moves.s{number} = [",
            '{ name = "more", stays = true, when = "b < 20", set = { b = "b + 1" } },',
            f'{{ name = "up", to = "s{(number + 3) % STATES}", when = "otherwise", set = {{ b = 0, c = "max(c - 3, 0)" }} }}]',
        ]
        pay += [
            f"moves.s{number} = [",
            '{ name = "even", stays = true, when = "c == n and a == b", set = { c = 0 } },',
            f'{{ name = "up", to = "s{(number + 5) % STATES}", when = "c != n and n > 40", set = {{ b = 0 }} }},',
            '{ name = "rest", stays = true, when = "otherwise", reply = "NO" }]',
        ]
    return "\n".join([*lines, *add, *turn, *pay])


def main() -> None:
    table = tabulate(machine_of(text()))
    start = time.perf_counter()
    plan = Plan(table)
    edges = plan.edges
    taken = time.perf_counter() - start
    sides = {side for edge in edges for side in plan.sides(edge)}
    wanted = len(plan.boundaries.sides if plan.boundaries else ())
    print(f"plan: {taken:.2f} s, {len(edges)} tests, {len(sides)} of {wanted} sides of comparisons")  # noqa: T201
    chance, walk = random.Random(0), Plan(table)
    met: set[object] = set()
    start, here, steps = time.perf_counter(), walk.start, 0
    while not sides <= met and time.perf_counter() - start < PATIENCE * taken:
        here = walk.start if not steps % RESTART else here
        event = chance.choice([*table.machine.events.values()])
        args = tuple((name, chance.randint(each.low, each.high)) for name, each in event.arguments.items())
        (edge,) = walk.alternatives(here, event.name, "do", args)
        met |= walk.sides(edge)
        here, steps = edge.to or walk.start, steps + 1
    walked = time.perf_counter() - start
    print(f"random walk: {walked:.2f} s, {steps} steps, {len(met)} of {wanted} sides of comparisons")  # noqa: T201
    print(f"ratio: {walked / taken:.1f}{'' if sides <= met else ' and more'}")  # noqa: T201
    if taken > LIMIT:
        raise SystemExit(f"the plan took more than {LIMIT} s")


if __name__ == "__main__":
    main()
