"""Refinement of machines with data agrees with a second opinion on the unrolled machines."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from data_pairs import random_data_pair, second_opinion, shown_by
from thorough import TIMES

from fsm.checker.breadth_first import Limit
from fsm.checker.refinement import check_refines
from fsm.machine.evidence import Refuted
from fsm.machine.table import tabulate
from fsm.machine.traversal import LimitError
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from data_pairs import DataPair

LIMIT = Limit(states=4_000)


def agreed(pair: DataPair, *, most: int) -> str:
    """Return the answer.  Fail if the second opinion disagrees, also about the length of the counterexample."""
    conclusion, _ = check_refines(tabulate(pair.machine), tabulate(pair.other), pair.overlap, LIMIT)
    if isinstance(conclusion, Unknown) and not {*shown_by(pair.other)} <= {*shown_by(pair.machine)}:
        return "unknown"
    length, far = second_opinion(pair).shortest(most=most)
    if not isinstance(conclusion, Refuted):
        assert length is None
        return "refines" if far == 1_000_000 else "refines so far"
    assert length == conclusion.length or (length is None and far < conclusion.length)
    return "fails" if length else "fails later"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_machines_with_data_refine_alike(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first * TIMES, (first + 10) * TIMES):
        try:
            found[agreed(random_data_pair(random.Random(seed)), most=150)] += 1
        except LimitError:  # a pair with too many states
            found["too large"] += 1

    print(found)
