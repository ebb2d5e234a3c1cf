"""Refinement compared with a second opinion that tries all runs, on shipped pairs and on changed machines."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from machines import DOOR, edited, machine_of
from naive_refinement import Refining
from random_machines import random_machine
from shipped import specification
from thorough import TIMES

from fsm.checker.refinement import check_refines
from fsm.library import load, specified
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.property.claims import Refines
from fsm.property.evidence import Refuted

if TYPE_CHECKING:
    from fsm.machine import Machine

LIMIT = 20_000


class Pair(NamedTuple):
    """A pair, whether one refines the other, and the number of calls at a time."""

    machine: Machine
    other: Machine
    overlap: int


def agreed(pair: Pair, *, most: int) -> bool:
    """Whether it refines, by both; counterexamples have the same length, unless the second opinion gives up before."""
    conclusion, _ = check_refines(tabulate(pair.machine), tabulate(pair.other), pair.overlap, LIMIT)
    length, far = Refining(pair.machine, pair.other, pair.overlap).shortest(most=most)
    if not isinstance(conclusion, Refuted):
        assert length is None
        return True
    assert length == conclusion.length or (length is None and far < conclusion.length)
    return False


def shipped() -> list[Pair]:
    """Each pair that a shipped property compares, under each profile and none, and once with the other unprofiled."""
    pairs = []
    for name in specified():
        machine = load(name)
        for each in specification(name).properties:
            if isinstance(each.claim, Refines):
                other = each.claim.other
                pairs.append(Pair(machine, other, each.claim.overlap))
                for profile in machine.profiles:
                    pairs.append(Pair(machine.under(profile), other, 0))
                    if profile in other.profiles:
                        pairs.append(Pair(machine.under(profile), other.under(profile), 0))
    return pairs


@pytest.mark.parametrize("pair", shipped(), ids=lambda pair: f"{pair.machine.name}-{pair.overlap}")
def test_shipped_machines_refine_alike(pair: Pair) -> None:
    """As far as the second opinion gets in a few seconds; for single calls, to the end."""
    agreed(pair, most=(100_000 if not pair.overlap else 500 if TIMES == 1 else 1_500))


def random_pair(seed: int) -> Pair:
    """A machine and a copy with one cell changed; sometimes an exact copy, or another machine."""
    chance = random.Random(seed)
    machine = random_machine(chance)
    changed = [each.machine for each in mutants(machine)]
    other = chance.choice([machine, random_machine(chance), *[chance.choice(changed or [machine]) for _ in range(8)]])
    return Pair(machine, other, chance.choice((0, 1, 1, 2)))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_machines_refine_alike(first: int) -> None:
    """Some hold and some fail."""
    found = {agreed(random_pair(seed), most=150) for seed in range(first * TIMES, (first + 10) * TIMES)}

    assert found == {True, False}


def test_a_signal_that_only_the_other_has_is_hidden() -> None:
    """An empty name on the wire is not a common name."""
    opens = edited(DOOR, 'moves  = { shut = "ajar" }', 'moves  = { shut = "open" }')
    bare = edited(opens, '[event.warp]\nkind   = "hidden"', '[event.warp]\nkind   = "signal"')
    text = edited(opens, "[event.warp]", "[event.shrink]")

    assert agreed(Pair(machine_of(text), machine_of(bare), 1), most=150)
