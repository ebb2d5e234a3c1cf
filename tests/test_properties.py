"""The shipped properties: proved or failing as stated, each broken by the mutants it names, and no mutant left over."""

from __future__ import annotations

from functools import cache

import pytest

from fsm.checking import check, examine
from fsm.evidence import Proved, Refuted
from fsm.library import load, names, specification, specified
from fsm.mutating import Mutant, fates, mutants
from fsm.properties import Reachable
from fsm.table import tabulate

CASES = [(name, profile) for name in specified() for profile in (None, *load(name).profiles)]
STATED = [(name, each.name) for name in specified() for each in specification(name).properties]


def test_every_model_has_properties() -> None:
    """None is left to itself."""
    assert specified() == names()


@pytest.mark.parametrize(("name", "profile"), CASES, ids=str)
def test_comes_out_as_stated(name: str, profile: str | None) -> None:
    """Proved, or refuted in as many steps as are known; and the machine has the size that is stated."""
    examined = examine(specification(name), profile)

    assert examined.expected == examined.counts
    for each in examined.checked:
        assert not each.surprising, (each.of.name, each.conclusion)
        assert isinstance(each.conclusion, Proved | Refuted), (each.of.name, each.conclusion)


@cache
def _mutants(name: str) -> dict[str, Mutant]:
    return {each.name: each for each in mutants(load(name))}


@pytest.mark.parametrize(("name", "stated"), STATED, ids=["/".join(each) for each in STATED])
def test_catches_the_mutants_that_it_names(name: str, stated: str) -> None:
    """At least one, unless it is known to fail without a profile, where there is nothing to break."""
    known = _mutants(name)
    (found,) = [each for each in specification(name).properties if each.name == stated]

    assert found.catches or found.expected(None)
    for mutant in found.catches:
        assert mutant in known, f"no mutant is called {mutant!r}"
        checked = check(found, tabulate(known[mutant].machine))
        assert checked.surprising or not isinstance(checked.conclusion, Proved | Refuted), mutant


@pytest.mark.parametrize("name", specified())
def test_no_mutant_survives(name: str) -> None:
    """Every mistake in one cell is noticed by a property, or by nobody who watches."""
    found = specification(name)

    assert [each.mutant.name for each in fates(found.machine, found.properties, whole=False) if each.survives] == []


@pytest.mark.parametrize(("name", "stated"), STATED, ids=["/".join(each) for each in STATED])
def test_is_worded_and_sourced(name: str, stated: str) -> None:
    """A sentence with a full stop, and a source; what can be reached needs no level of its own."""
    (found,) = [each for each in specification(name).properties if each.name == stated]

    assert found.says.endswith(".")
    assert found.says[0].isupper() or found.says.startswith("containerd ")
    assert len(found.source) > 10
    assert isinstance(found.claim, Reachable) or found.level
