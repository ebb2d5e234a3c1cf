"""Measure the operations per second of ``linearize`` on random legal histories, compared with a naive checker.

    python tests/bench/linearize.py [--operations 3000] [--rounds 3]

The best round counts. The naive checker is so slow that it runs only once, on a tenth of the operations.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import naive
from naive_linearizability import linearizable

from fsm.language.library import load
from fsm.linearizability import Linearizable, linearize
from fsm.linearizability.history import History, Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine import Machine

MACHINES = ("container-status", "cri-container")
CLIENTS = (1, 3, 5, 8)


def history(machine: Machine, size: int, clients: int) -> History:
    chance, state, instant = random.Random(size * clients), machine.initial, 0
    free, done = list(range(clients)), list[Operation]()
    running: list[tuple[Operation, str]] = []
    calls = [event.name for event in machine.events.values() if event.kind == "call"]
    while len(done) < size:
        instant += 1
        choice = chance.random()
        acting = [index for index, (_, stage) in enumerate(running) if stage != "acted"]
        over = [index for index, (_, stage) in enumerate(running) if stage == "acted"]
        if choice < 0.4 and free:
            running.append(
                (Operation(called=instant, returned=None, event=chance.choice(calls), thread=free.pop()), "asked")
            )
        elif choice < 0.8 and acting:
            index = chance.choice(acting)
            state, running[index] = acted(chance, machine, state, *running[index])
        elif over:
            operation, _ = running.pop(chance.choice(over))
            done.append(replace(operation, returned=instant))
            free.append(operation.thread)
    return History(operations=tuple(done))


def acted(
    chance: random.Random, machine: Machine, state: str, operation: Operation, stage: str
) -> tuple[str, tuple[Operation, str]]:
    ways = (naive.ends if stage == "begun" else naive.ways)(machine, state, operation.event)
    if not ways:
        return state, (replace(operation, reply="ok"), "acted")
    way = chance.choice(sorted(ways, key=lambda way: (way.outcome, way.to)))
    if way.begins:
        return way.to, (operation, "begun")
    reply = chance.choice(sorted(way.replies))
    shows = machine.states[way.to].shows if chance.random() < 0.3 else ""
    return way.to, (replace(operation, reply="UNKNOWN" if reply == "error" else reply, shows=shows), "acted")


def timed(rounds: int, run: Callable[[], bool]) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        assert run()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--operations", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    for name in MACHINES:
        machine = load(name)
        for clients in CLIENTS:
            whole = history(machine, asked.operations, clients)
            small = History(operations=whole.operations[: asked.operations // 10])
            ours = timed(asked.rounds, lambda: isinstance(linearize(machine, whole), Linearizable))  # noqa: B023
            naively = timed(1, lambda: linearizable(machine, small))  # noqa: B023
            print(  # noqa: T201
                f"{name:<18}{clients} clients  linearize {asked.operations / ours:>10,.0f} operations/s"
                f"  naive {len(small.operations) / naively:>8,.0f} operations/s"
            )


if __name__ == "__main__":
    main()
