"""Shipped properties have the stated results and catch the mutants that they name.

No mutant survives. Systems with many copies are checked with one copy of each part when that does not change the
result; `tests/cli/test_check_command.py` proves them with all copies.
"""

from __future__ import annotations

from functools import cache

import pytest
from shipped import claims, known_mutants, specification
from thorough import TIMES

from fsm.checker import decide, examine
from fsm.checker.cones import Cones
from fsm.language.library import composition, load, load_system, names, single, specified, systems
from fsm.machine.claims import NO_PROFILE, Reachable, Requires, Specification, is_of
from fsm.machine.evidence import Proved, Refuted, Undecided
from fsm.machine.product.system import System
from fsm.machine.table import tabulate
from fsm.mutation import JointMutant, joint_mutants
from fsm.mutation.outcomes import joint_mutation_outcomes, mutation_outcomes

FEW = 8
"""The maximum number of copies in a system that is checked with all of its copies."""

MOST = 100
EVERY = 48 if TIMES == 1 else 1
"""The interval at which mutants of a large system are tried.

The nightly run tries all mutants.
"""

CASES = [(name, profile) for name in specified() for profile in (None, *load(name).profiles)]
STATED = [(name, each.name) for name in specified() for each in specification(name).properties]
COMPLETE = (
    "cri-service",
    "late-updates",
    "node",
    "nri-locks",
    "nri-plugin-contract",
    "nri-setup",
    "plugin-sync",
    "plugin-updates",
    "pod-records",
    "shared-ids",
    "two-plugins",
)
"""Systems whose mutants are all killed, and whose properties all name a mutant."""

JOINT_CASES = [(name, profile) for name in systems() for profile in (None, *load_system(name).profiles)]
JOINT_STATED = [(name, each.name) for name in systems() for each in claims(name).properties]


def test_every_model_has_properties() -> None:
    assert specified() == names()


@pytest.mark.parametrize(("name", "profile"), CASES, ids=str)
def test_comes_out_as_stated(name: str, profile: str | None) -> None:
    """The property has the stated result and length, and the machine has the stated size."""
    examined = examine(specification(name), profile)

    assert examined.expected == examined.counts
    for each in examined.checked:
        assert not each.unexpected, (each.of.name, each.verdict)
        decided = not isinstance(each.of.claim, Requires)
        assert isinstance(each.verdict, Proved | Refuted if decided else Undecided), (each.of.name, each.verdict)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stated"), STATED, ids=["/".join(each) for each in STATED])
def test_catches_the_mutants_that_it_names(name: str, stated: str) -> None:
    """A property must catch all mutants that it names. With few exceptions, it must name at least one."""
    known = known_mutants(name)
    (found,) = [each for each in specification(name).properties if each.name == stated]

    assert found.catches or found.expected(None) or isinstance(found.claim, Requires)
    for mutant in found.catches:
        assert mutant in known, f"no mutant is called {mutant!r}"
        checked = decide(found, tabulate(known[mutant].machine))
        assert checked.unexpected or not isinstance(checked.verdict, Proved | Refuted), mutant


LONG = {"container-status"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.nightly if each in LONG else ()) for each in specified()]
)
def test_no_mutant_survives(name: str) -> None:
    """A mutation of a single cell breaks a property or cannot be observed."""
    found = specification(name)

    assert [
        each.mutant.name for each in mutation_outcomes(found.machine, found.properties, whole=False) if each.survives
    ] == []


@pytest.mark.parametrize(
    ("name", "stated"), STATED + JOINT_STATED, ids=["/".join(each) for each in STATED + JOINT_STATED]
)
def test_is_worded_and_sourced(name: str, stated: str) -> None:
    """Each property has a sentence, a source and, unless it is ``reachable``, a level."""
    (found,) = [each for each in claims(name).properties if each.name == stated]

    assert found.says.endswith(".")
    assert found.says[0].isupper() or found.says.startswith("containerd ")
    assert len(found.source) > 10
    assert isinstance(found.claim, Reachable) or found.level


# -- systems ---------------------------------------------------------------------


@cache
def _joint(name: str) -> Specification[System]:
    found = claims(name)
    assert is_of(found, System)
    return found if len(found.machine.copies) <= FEW else single(found)


@cache
def _joint_mutants(name: str) -> dict[str, JointMutant]:
    system = _joint(name).machine
    return {each.name: each for each in joint_mutants(system, composition(system))}


@pytest.mark.parametrize(("name", "profile"), JOINT_CASES, ids=str)
def test_of_a_system_comes_out_as_stated(name: str, profile: str | None) -> None:
    found = _joint(name)
    examined = examine(found, profile)

    assert claims(name).expect.get(profile or NO_PROFILE) or name not in COMPLETE
    assert examined.expected in {None, examined.counts}
    for each in examined.checked:
        assert not each.unexpected, (each.of.name, each.verdict)
        assert isinstance(each.verdict, Proved | Refuted), (each.of.name, each.verdict)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stated"), JOINT_STATED, ids=["/".join(each) for each in JOINT_STATED])
def test_of_a_system_catches_the_mutants_that_it_names(name: str, stated: str) -> None:
    known = _joint_mutants(name)
    (found,) = [each for each in _joint(name).properties if each.name == stated]

    assert found.catches or found.expected(None) or name not in COMPLETE
    for mutant in found.catches:
        assert mutant in known, f"no mutant is called {mutant!r}"
        checked = decide(found, Cones(system=known[mutant].change(_joint(name).machine)))
        assert checked.unexpected or not isinstance(checked.verdict, Proved | Refuted), mutant


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPLETE)
def test_no_mutant_of_a_system_survives(name: str) -> None:
    """A mutation of a joint event breaks a property or changes no step.

    In large systems, only a sample is tried.
    """
    found = _joint(name)
    every = EVERY if len(_joint_mutants(name)) > MOST else 1
    became = joint_mutation_outcomes(found, list(_joint_mutants(name).values())[::every], whole=False)

    assert [each.mutant.name for each in became if each.survives] == []
