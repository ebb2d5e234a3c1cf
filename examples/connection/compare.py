"""Compare the test by fsm with the test by hand: lines, and defects found with the seeds 1 to 5."""

import contextlib
import io
import logging
from pathlib import Path

import by_hand
import hypothesis
from connection import Connection
from defects import DEFECTS
from hypothesis.stateful import run_state_machine_as_test
from tested import Tested

import fsm

HERE = Path(__file__).parent
SEEDS = range(1, 6)


def lines(*names):
    texts = [(HERE / name).read_text(encoding="utf-8") for name in names]
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def by_fsm(kind, seed):
    machine = fsm.load(str(HERE / "models" / "connection.toml"))
    return not isinstance(fsm.conform(machine, lambda: Tested(kind), seed=seed).verdict, fsm.Holds)


def by_a_person(kind, seed):
    of = type("Test", (by_hand.ByHand,), {"kind": kind})
    phases = [hypothesis.Phase.generate]  # Shrinking takes up to half a minute, and finds nothing more.
    settings = hypothesis.settings(max_examples=100, database=None, deadline=None, print_blob=False, phases=phases)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run_state_machine_as_test(hypothesis.seed(seed)(of), settings=settings)
    except Exception:
        return True
    return False


def main():
    logging.disable()
    print(f"lines: fsm {lines('models/connection.toml', 'tested.py')}, by hand {lines('by_hand.py')}")
    print("found with seeds 1 to 5, of 5         fsm  by hand")
    for kind in [*DEFECTS, Connection]:
        found = [sum(test(kind, seed) for seed in SEEDS) for test in (by_fsm, by_a_person)]
        print(f"{kind.__name__ if kind in DEFECTS else 'no defect':<36}{found[0]:>5}{found[1]:>9}")


if __name__ == "__main__":
    main()
