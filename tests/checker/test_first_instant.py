"""The quick search for the first instant at which a condition is true has the same results as the full search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_claims import random_property
from random_machines import random_machine
from thorough import amount

from fsm.checker import decide, first_instant
from fsm.checker.instants import StepCache
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.machine.evidence import Checked

KINDS = ("always", "never", "reachable")


def searched(claim: Property, machine: Machine, limit: int = 100_000) -> Checked:
    """Return the conclusion of the full search, which is otherwise used only for large machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_instant, "MOST", 0)
        return decide(claim, StepCache(tabulate(machine)), limit=limit)


@settings(max_examples=amount(150, night=5_000))
@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_random_claims_come_out_as_searched(chance: random.Random, limit: int) -> None:
    """Both searches return the same verdict, run and size, even if a limit stops the search."""
    machine = random_machine(chance)
    claim = random_property(chance, machine, KINDS)

    assert searched(claim, machine) == decide(claim, StepCache(tabulate(machine)))
    assert searched(claim, machine, limit) == decide(claim, StepCache(tabulate(machine)), limit=limit)
