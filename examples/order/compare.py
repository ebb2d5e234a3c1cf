"""Compare the test of the order by fsm with the one by hand: lines, and the bugs found with seeds 1 to 5."""

from pathlib import Path

from by_hand import by_hand
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from order import BUGS, orders

import fsm

SEEDS = range(1, 6)
HERE = Path(__file__).parent
QUIET = settings(database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def found_by_fsm(bug: str, chance: int) -> bool:
    machine = fsm.load(str(HERE / "order.toml"))
    return bool(fsm.conform(machine, orders(bug), seed=chance, most=1).failures)


def found_by_hand(bug: str, chance: int) -> bool:
    kind = seed(chance)(by_hand(orders(bug)))
    try:
        run_state_machine_as_test(kind, settings=QUIET)
    except AssertionError:
        return True
    return False


def lines(file: str) -> int:
    """Count the lines that are not empty."""
    return sum(bool(line.strip()) for line in (HERE / file).read_text(encoding="utf-8").splitlines())


def main() -> None:
    print(f"{'':10}  fsm  by hand")
    print(f"{'lines':10}  {lines('order.toml'):3}  {lines('by_hand.py'):7}")
    for bug in ("", *BUGS):
        ours, theirs = (sum(found(bug, chance) for chance in SEEDS) for found in (found_by_fsm, found_by_hand))
        print(f"{bug or 'no bug':10}  {ours:3}  {theirs:7}", flush=True)


if __name__ == "__main__":
    main()
