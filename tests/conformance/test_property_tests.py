"""A simulated machine passes the tests of its properties, and a mutant fails the properties that catch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from shipped import known_mutants, specification
from thorough import TIMES

from fsm.conformance.lookup import Simulated
from fsm.conformance.suite import run_property_test
from fsm.language.library import names
from fsm.machine.claims import Reachable, Requires
from fsm.monitor.property_watch import untestable

if TYPE_CHECKING:
    from fsm.machine.claims import Property
    from fsm.mutation import Mutant

HELD = [
    (name, stated)
    for name in names()
    for stated in specification(name).properties
    if stated.expected(None) is None and not untestable(stated) and not isinstance(stated.claim, Requires)
]
EXAMPLES = [2 if TIMES > 1 or number % 5 == 0 else 0 for number in range(len(HELD))]
"""The number of random tests of each property.

By day, four out of five properties have only targeted tests.
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stated", "examples"),
    [(*held, examples) for held, examples in zip(HELD, EXAMPLES, strict=True)],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_machine_that_plays_itself_has_its_properties(name: str, stated: Property, examples: int) -> None:
    """A simulated machine violates no proved property."""
    machine = specification(name).machine

    result = run_property_test(machine, stated, lambda: Simulated(machine), examples=examples)
    if result.untested:  # targeted tests do not exercise the property
        result = run_property_test(machine, stated, lambda: Simulated(machine), examples=2)

    assert (result.failure, result.untested) == (None, "")


CAUGHT = [
    (name, stated, mutant)
    for name in ("nri-container", "nri-pod")
    for stated in specification(name).properties
    if not untestable(stated)
    for mutant in known_mutants(name).values()
    if mutant.name in stated.catches and not mutant.name.endswith(": silent")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stated", "mutant"), CAUGHT, ids=lambda each: getattr(each, "name", each))
def test_what_a_property_catches_in_the_model_it_catches_in_an_implementation(
    name: str, stated: Property, mutant: Mutant
) -> None:
    machine = specification(name).machine
    result = run_property_test(machine, stated, lambda: Simulated(mutant.machine), examples=0)

    if isinstance(stated.claim, Reachable):
        assert result.unmet
        return
    assert result.failure is not None
    assert result.failure.breaks is not None
    assert result.failure.breaks.of is stated
