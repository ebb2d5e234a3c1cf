"""Compare fsm with the test by hand: lines, and the bugs that each finds with the seeds 1 to 5 and 500 examples."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from by_hand import by_hand
from connection_pool import BUGS
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tested_connection import PooledConnection

import fsm

HERE = Path(__file__).parent
EXAMPLES = 500


def found_by_fsm(bug: str, number: int, examples: int) -> bool:
    machine = fsm.load(HERE / "pool.toml")
    threads = 2 if bug == "double-lending" else 1
    sut = partial(PooledConnection, *[bug] * bool(bug))
    tested = fsm.conform(machine, sut, seed=number, examples=examples, threads=threads)
    return not isinstance(tested.verdict, fsm.Holds)


def found_by_hand(bug: str, number: int, examples: int) -> bool:
    kind = seed(number)(by_hand([bug]))
    how = settings(max_examples=examples, stateful_step_count=50, database=None, deadline=None, phases=[Phase.generate])
    try:
        run_state_machine_as_test(kind, settings=how)
    except (AssertionError, BaseExceptionGroup):
        return True
    return False


def row(bug: str, seeds: range, examples: int) -> list[str]:
    """Return the cells of a line of the table: the bug, and for each test, seeds that find it and seconds."""
    cells = [bug or "no bug"]
    tests: tuple[Callable[[str, int, int], bool], ...] = (found_by_fsm, found_by_hand)
    for test in tests:
        began = time.monotonic()
        found = sum(test(bug, number, examples) for number in seeds)
        cells.append(f"{found} of {len(seeds)}, {(time.monotonic() - began) / len(seeds):.1f} s")
    return cells


def code_lines(name: str) -> int:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def main() -> None:
    """Print the table of README.md."""
    seeds = range(1, 1 + int(sys.argv[1]) if sys.argv[1:] else 6)
    print("| bug | fsm | by hand |\n|---|---|---|")
    for bug in ("", *BUGS):
        print(f"| {' | '.join(row(bug, seeds, EXAMPLES))} |", flush=True)
    ours = {name: code_lines(name) for name in ("pool.toml", "tested_connection.py", "forms/pool.toml")}
    print(f"\nlines: {ours}; by hand: {code_lines('by_hand.py')}")


if __name__ == "__main__":
    main()
