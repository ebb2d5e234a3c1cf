"""A simulated machine passes the tests of its properties, and a mutant fails the properties that catch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from machines import machine_of
from random_claims import stated
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


TILL = """\
[machine]
name = "till"
title = "A till"
about = "Pays back."
source = "handbook"
initial = "open"
[states]
open = { about = "Open." }
shut = { about = "Shut." }
[data]
charged = { from = 0, to = 3, shown = true }
refunded = { from = 0, to = 3, shown = true }
[event.charge]
kind = "call"
about = "Charge."
arguments = { sum = { from = 1, to = 3 } }
moves.open = [{ name = "more", stays = true, when = "charged + sum <= 3", set = { charged = "charged + sum" } },
              { name = "no", stays = true, when = "otherwise", reply = "NO" }]
refuses = { shut = "SHUT" }
[event.refund]
kind = "call"
about = "Refund."
arguments = { sum = { from = 1, to = 3 } }
moves.open = [{ name = "less", stays = true, when = "refunded + sum <= charged", set = { refunded = "refunded + sum" } },
              { name = "no", stays = true, when = "otherwise", reply = "NO" }]
refuses = { shut = "SHUT" }
[event.shut]
kind = "call"
about = "Shut."
moves.open = "shut"
moves.shut = { stays = true }
"""


@pytest.mark.parametrize(
    ("claim", "before", "after", "steps"),
    [
        ('always = "refunded <= charged"', "<= charged", "<= 3", ["refund(sum=1)"]),
        (
            'idempotent = "shut"',
            "moves.shut = { stays = true }",
            "moves.shut = { stays = true, set = { charged = 0 } }",
            ["charge(sum=1)", "shut", "shut"],
        ),
        ('never = "refunded == 1 then refunded == 3"', "", "", None),
        ('reachable = "refunded == 2 then is shut"', "", "", []),
    ],
)
def test_properties_about_data_are_tested(claim: str, before: str, after: str, steps: list[str] | None) -> None:
    """An implementation that breaks a property fails with the shortest test, and the model itself breaks one."""
    machine, implementation = machine_of(TILL), machine_of(TILL.replace(before, after))
    of = stated(machine, claim)
    result = run_property_test(machine, of, lambda: Simulated(implementation), examples=2)
    own = run_property_test(machine, of, lambda: Simulated(machine), examples=2)

    assert (result.untested, result.unmet, own.untested) == ("", (), "")
    assert (own.failure is None) == (steps is not None)
    if steps:
        assert result.failure is not None
        assert steps == [str(taken.step) for taken in result.failure.trace]


def test_what_data_make_untestable_is_named() -> None:
    """A machine with data may need any number of steps."""
    machine = machine_of(TILL)
    result = run_property_test(
        machine, stated(machine, 'from = "is open"\nleads-to = "is shut"'), lambda: Simulated(machine)
    )
    assert (result.unwatchable, "has data" in result.untested) == (True, True)
