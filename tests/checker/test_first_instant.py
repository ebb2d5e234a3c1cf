"""The quick search for the first instant of a condition has the same results as the full search."""

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
from fsm.language.library import claims, load
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
    """Verdict, run and size agree, even if a limit stops the search."""
    machine = random_machine(chance)
    claim = random_property(chance, machine, KINDS)

    assert searched(claim, machine) == decide(claim, StepCache(tabulate(machine)))
    assert searched(claim, machine, limit) == decide(claim, StepCache(tabulate(machine)), limit=limit)


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["source", "output", "outputs", "event", "reply", "moved", "state"])
def test_what_is_taken_for_alike_and_is_not_shows(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If different instants were grouped by mistake, some conclusion about a shipped machine would change."""
    names = ("container-status", "nri-container")
    stated = [(each, load(name)) for name in names for each in claims(name).properties]
    expected = [searched(each, machine) for each, machine in stated]
    depends = first_instant.depends
    monkeypatch.setattr(first_instant, "depends", lambda of: "__class__" if depends(of) == planted else depends(of))

    assert expected != [decide(each, StepCache(tabulate(machine))) for each, machine in stated]
