"""A claim about a part with several copies can be checked for every copy."""

from __future__ import annotations

import pytest
from commands import fsm
from machines import door, job
from random_systems import system_of
from toy_systems import OFFICE, specification_of

from fsm.checker import examine
from fsm.language.library import claims, composed, specifications_of_copies, systems
from fsm.machine.claims import is_of
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.product.system import System

TURN = """
[event.clear]
kind  = "call"
about = "Make all jobs."
steps = ["every job.make"]
"""
CLAIM = 'for = "job"\nnever = "clear and job is absent"\n'


def office(more: str = "") -> System:
    return system_of(OFFICE + more, {"door": door(), "job": job()})


def test_a_copy_that_comes_out_otherwise_is_told() -> None:
    """Only the second copy refutes the claim, because an error of the first copy ends the call."""
    system = office(TURN)
    first, second = (specification_of(system, CLAIM, copy=copy) for copy in (0, 1))
    found = examine(first, copies=[second])

    assert [("it", Proved), ("it, copy 2", Refuted)] == [(each.of.name, type(each.verdict)) for each in found.checked]
    assert found.copies == 1


def test_copies_that_come_out_alike_are_counted_only() -> None:
    system = office()
    first, second = (specification_of(system, CLAIM.replace("clear", "make"), copy=copy) for copy in (0, 1))
    found = examine(first, copies=[second, second])

    assert (1, 2) == (len(found.checked), found.copies)


@pytest.mark.slow
@pytest.mark.parametrize("name", systems())
def test_copies_of_shipped_systems_come_out_alike(name: str) -> None:
    stated = claims(name)
    assert is_of(stated, System)
    several = {
        each: 3 if each == "container" else 2 for each, part in stated.machine.parts.items() if len(part.copies) > 1
    }
    for of in (stated, composed(stated, several)) if name == "nri-plugin-contract" else (stated,):
        copies = specifications_of_copies(of)
        for profile in (None, *of.machine.profiles):
            found = examine(of, profile, copies=copies)
            assert [each.name for each in of.properties] == [each.of.name for each in found.checked]
            assert found.copies == sum(len(each.properties) for each in copies)


def test_other_numbers_of_copies() -> None:
    three = fsm("check", "nri-plugin-contract", "--parts", "container=3", "--each-copy", "-p", "none")
    one = fsm("check", "nri-plugin-contract", "--parts", "container=1", "--each-copy", "-p", "none")

    assert (0, "") == (three.returncode, three.stderr)
    assert "without a profile: 3,756 states, 62,403 transitions, depth 8\n" in three.stdout
    assert "30 claims about other copies were also decided\n" in three.stdout
    assert one.returncode == 1
    assert "FAILS    lives" in one.stdout
    assert "other copies" not in one.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["container-status", "--parts", "pod=1"], "'container-status' is a machine, which has no parts"),
        (["node", "--parts", "pid=1"], "unknown part 'pid'"),
        (["node", "--parts", "pod=101"], "101 copies of 'pod'"),
    ],
)
def test_wrong_parts(arguments: list[str], said: str) -> None:
    ran = fsm("check", *arguments)

    assert ran.returncode == 2
    assert said in ran.stderr
