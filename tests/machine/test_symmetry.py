"""Exchanging interchangeable copies maps steps to steps and does not change verdicts."""

from __future__ import annotations

import random
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from machines import door, job
from random_systems import is_small, random_claim_of, random_system, system_of
from thorough import amount
from toy_systems import OFFICE, stated_of

from fsm.checker import decide, instants, packing
from fsm.checker.breadth_first import Limit, reachable_size, size_of_states
from fsm.checker.cones import Cones
from fsm.language.library import claims, load_system
from fsm.machine.claims import Always, Never, Reachable, is_of
from fsm.machine.evidence import Proved, Refuted, Run
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import Exchange, Orbits, Symmetry
from fsm.machine.product.system import System

if TYPE_CHECKING:
    from fsm.machine.claims import Property
    from fsm.machine.evidence import Conclusion
    from fsm.machine.product.system import Locals

LARGEST = 300
"""The maximum number of states of a random system."""

MOST_MOVES = 7
"""The maximum number of moves of an event in a random system."""

chances = st.integers(0, 1 << 32).map(random.Random)
systems_of_three = chances.map(lambda chance: random_system(chance, 3))


def small(system: System) -> System:
    """Return *system*, or make Hypothesis reject it if it is too large."""
    assume(is_small(system, LARGEST, MOST_MOVES))
    return system


# -- exchanges ---------------------------------------------------------------------------


def exchanged(state: Locals, exchange: Exchange) -> Locals:
    found = list(state)
    for digit, other in exchange.digits.items():
        found[other] = state[digit]
    return tuple(found)


def differing(system: System, exchange: Exchange) -> str:
    """Return a step of *system* that *exchange* does not map to a step. If there is none, return an empty string."""
    table = SystemTable(system)
    for state in explore(table).depth:
        before = table.locals(state)
        for row in table.joint:
            turned = table.effects(exchanged(before, exchange), exchange.events.get(row.joint.name, row.joint.name))
            expected = {
                (
                    name,
                    reply,
                    tuple(sorted(exchange.outputs.get(output, output) for output in emits)),
                    frozenset((exchange.digits.get(digit, digit), to) for digit, to in changed),
                )
                for name, reply, emits, *_, changed in table.effects(before, row.joint.name)
            }
            if expected != {
                (name, reply, tuple(sorted(emits)), frozenset(to)) for name, reply, emits, *_, to in turned
            }:
                return f"{row.joint.name} in {table.states[state]}"
    return ""


@settings(max_examples=amount(120, night=3_000))
@given(systems_of_three)
def test_exchanges_turn_steps_into_steps(system: System) -> None:
    """Exchanges that were derived from the text of the steps are checked against the steps themselves."""
    found = Symmetry(SystemTable(small(system))).exchanges

    assert not [each for each in found if differing(system, each)]


def test_an_exchange_that_is_none_is_noticed() -> None:
    """Jobs are not interchangeable if an error of the first job ends a call before the call reaches the second job."""
    clear = '[event.clear]\nkind = "call"\nabout = "C"\nsteps = ["every job.make"]\n'
    office, other = (system_of(OFFICE + more, {"door": door(), "job": job()}) for more in ("", clear))
    [exchange] = Symmetry(SystemTable(office)).exchanges

    assert not differing(office, exchange)
    assert differing(other, exchange).startswith("clear in")
    assert Symmetry(SystemTable(other)).exchanges == ()


@pytest.mark.parametrize(
    ("name", "members"),
    [("nri-plugin-contract", [2]), ("plugin-sync", [2]), ("cri-service", [2]), ("node", [2]), ("late-updates", [])],
)
def test_of_shipped_systems(name: str, members: list[int]) -> None:
    """Pods are interchangeable. Containers are not, because a pod's stop ends at the first container that fails."""
    table = SystemTable(load_system(name))
    groups = Symmetry(table).orbits([]).groups

    assert members == [len(group) for group in groups]
    if name == "node":
        assert [table.system.copies[digit].name for digit in groups[0][0]] == [
            "pod.1", "nri-pod.1", "container.1.1", "container.1.2", "nri-container.1.1", "nri-container.1.2",
            "notice.1.1", "notice.1.2",
        ]  # fmt: skip


def test_copies_that_a_claim_tells_apart_are_kept_apart() -> None:
    system = load_system("nri-plugin-contract", {"container": 4})
    of_one, of_all = (
        stated_of(system, f'{scope}never = "{condition}"').claim
        for scope, condition in (
            ('for = "container"\n', "emits StopContainer then container is running"),
            ("", "emits StopContainer then every container is running"),
        )
    )
    found = [
        Symmetry(SystemTable(system)).orbits(each.means for sequence in claim.sequences for each in sequence)
        for claim in (of_one, of_all)
        if isinstance(claim, Never)
    ]

    assert [((2,), (3,), (4,))] == list(found[0].groups)
    assert [((1,), (2,), (3,), (4,))] == list(found[1].groups)


# -- orbits ------------------------------------------------------------------------------

NESTED = Orbits((((1,), (2,)), ((4,), (5,)), ((0, 1, 2), (3, 4, 5))))
"""Two pods with two containers each."""


def orbit(state: Locals) -> set[Locals]:
    swaps = [{1: 2, 2: 1}, {4: 5, 5: 4}, {0: 3, 1: 4, 2: 5, 3: 0, 4: 1, 5: 2}]
    found, going = {state}, [state]
    while going:
        before = going.pop()
        for swap in swaps:
            after = tuple(before[swap.get(digit, digit)] for digit in range(6))
            if after not in found:
                found.add(after)
                going.append(after)
    return found


@given(st.tuples(*[st.integers(0, 2)] * 6))
def test_an_orbit_has_one_representative_and_its_size(state: Locals) -> None:
    those = orbit(state)
    [found] = {NESTED.representative(each) for each in those}

    assert found in those
    assert NESTED.size(NESTED.alike(found)) == len(those)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6).map(tuple))
def test_orbits_of_one_group(state: Locals) -> None:
    orbits = Orbits((tuple((digit,) for digit in range(len(state))),))
    found = orbits.representative(state)

    assert found == tuple(sorted(state))
    assert orbits.size(orbits.alike(found)) == len(set(permutations(state)))


# -- claims ------------------------------------------------------------------------------


def folding(patch: pytest.MonkeyPatch, *, folded: bool, quick: bool) -> None:
    """Force the search to fold all interchangeable copies or none, and to pack all states or none."""
    patch.setattr(packing, "FEW", 0 if folded else 10**9)
    patch.setattr(packing, "SMALL", 0)
    patch.setattr(packing, "UNCOMPILED", 0)
    if not quick:
        patch.setattr(instants, "packed", lambda _: None)


def concluded(system: System, stated: Property, *, folded: bool, quick: bool) -> tuple[Conclusion, SystemTable]:
    with pytest.MonkeyPatch.context() as patch:
        folding(patch, folded=folded, quick=quick)
        stepping = Cones(system=system).stepping(stated.claim)
        return decide(stated, stepping).verdict, instants.system_table(stepping.table)


def runs(verdict: Conclusion) -> list[Run]:
    if isinstance(verdict, Proved):
        return list(verdict.witnesses)
    return [verdict.evidence] if isinstance(verdict, Refuted) and isinstance(verdict.evidence, Run) else []


def is_run(table: SystemTable, run: Run) -> bool:
    state = table.initial
    for step in run.steps:
        ways = [
            way
            for way in table.step(state, table.row[step.event])
            if (way.name, way.emits, way.done, table.states[way.to])
            == (step.outcome, step.emits, step.done, step.target)
        ]
        if not ways or table.states[state] != step.source:
            return False
        state = ways[0].to
    return True


@pytest.mark.slow
@settings(max_examples=amount(60, night=5_000), suppress_health_check=[HealthCheck.filter_too_much])
@given(systems_of_three, chances, st.booleans())
def test_claims_come_out_the_same(system: System, chance: random.Random, quick: bool) -> None:  # noqa: FBT001
    """Folding copies changes neither verdicts nor lengths of runs, and every run found is a run of the system."""
    assume(Symmetry(SystemTable(small(system))).exchanges)
    if quick:
        pytest.importorskip("numba", reason="the extra 'fast' is not installed")
    stated = random_claim_of(system, chance)
    assume(isinstance(stated.claim, Always | Never | Reachable))
    plain, _ = concluded(system, stated, folded=False, quick=False)
    found, table = concluded(system, stated, folded=True, quick=quick)

    assert type(plain) is type(found)
    assert [run.length for run in runs(plain)] == [run.length for run in runs(found)]
    assert all(is_run(table, run) for run in runs(found))


def test_no_run_is_found_again_if_copies_are_confused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = claims("nri-plugin-contract")
    assert is_of(found, System)
    orbits = Symmetry.orbits
    monkeypatch.setattr(Symmetry, "orbits", lambda self, _: orbits(self, []))

    with pytest.raises(AssertionError):
        _ = [concluded(found.machine, each, folded=True, quick=False) for each in found.properties]


@settings(max_examples=amount(30, night=3_000))
@given(systems_of_three, st.booleans())
def test_sizes_are_those_of_all_states(system: System, quick: bool) -> None:  # noqa: FBT001
    """The size counts all states, even if the search visits only one representative of each orbit."""
    assume(Symmetry(SystemTable(small(system))).exchanges)
    if quick:
        pytest.importorskip("numba", reason="the extra 'fast' is not installed")
    with pytest.MonkeyPatch.context() as patch:
        folding(patch, folded=True, quick=quick)
        found = instants.StepCache(SystemTable(system)).size(Limit(states=LARGEST))

    table = SystemTable(system)
    if found.configurations is not None:
        assert found == size_of_states(table)
    else:
        assert found == reachable_size(table)
        assert found.representatives is not None
        assert found.representatives <= found.states
