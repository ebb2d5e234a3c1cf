"""A search that has to stop reports its progress, and keeps the verdicts that it has already reached."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from machines import counter
from random_systems import system_of
from toy_systems import specification_of, stated_of

from fsm.checker import decide, examine
from fsm.checker.cones import Cones
from fsm.machine.claims import NO_PROFILE, Counts, Specification
from fsm.machine.evidence import Proved
from fsm.report import ExitCode
from fsm.report.check_report import answer, text
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from fsm.machine.product.system import System
    from fsm.machine.traversal import Explored

COUNTERS = """\
[system]
name = "counters"
title = "C"
about = "C"
source = "none"

[part.c]
machine = "counter"
count = 4

[event]
add = { kind = "call", of = "c", about = "C", steps = ["c.add"] }
clear = { kind = "call", about = "C", steps = ["every c.reset"] }
"""
CLAIMS = {
    "one condition": 'always = "no c is n0 or some c is n0"',
    "two conditions": 'never = "every c is n7 then no c is n0 and some c is n0"',
    "two calls": 'idempotent = "clear"',
    "under fairness": 'leads-to = "some c is n0"\nfrom = "every c is n7"',
}
SIZE = 8**4


@dataclass(slots=True)
class Ending:
    """A callback that stops the search when it is called for the *at*-th time."""

    at: int
    looks: int = 0
    last: Explored | None = None

    def __call__(self, covered: Explored) -> str:
        self.looks += 1
        self.last = covered
        return "out of time" if self.looks >= self.at else ""


@pytest.fixture(scope="module")
def system() -> System:
    return system_of(COUNTERS, {"counter": counter(to=7)})


def cones(system: System, claim: str, *, packed: bool) -> Cones:
    found = Cones(system=system)
    stepping = found.stepping(stated_of(system, claim).claim)
    stepping.packed = None
    if packed:
        graph = pytest.importorskip("fsm.checker.packed.packed_graph", reason="the extra 'fast' is not installed")
        stepping.packed = graph.PackedGraph(stepping.table, window=60)
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_search_that_is_stopped_tells_how_far_it_came(claim: str, system: System, *, packed: bool) -> None:
    stated = stated_of(system, claim)
    first, later, never = Ending(1), Ending(3), Ending(1 << 60)

    found = [decide(stated, cones(system, claim, packed=packed), ending=each).verdict for each in (first, later, never)]

    assert later.last is not None
    nodes, depth, frontier = later.last
    assert Unknown(why="out of time before the search began") == found[0]
    where = f"after {nodes:,} states, with a frontier of {frontier:,} at depth {depth}"
    assert Unknown(why=f"out of time {where}") == found[1]
    assert 0 < frontier <= nodes < 2 * SIZE
    assert not isinstance(found[2], Unknown)
    assert never.looks > later.looks


def test_what_was_decided_stays_decided(system: System) -> None:
    stated = [stated_of(system, claim) for claim in CLAIMS.values()]
    first = Ending(1 << 60)
    decide(stated[0], Cones(system=system), ending=first)

    found = examine(Specification(machine=system, properties=tuple(stated)), ending=Ending(first.looks + 2))

    verdicts = [each.verdict for each in found.checked]
    assert isinstance(verdicts[0], Proved)
    assert [Unknown] * 3 == [type(each) for each in verdicts[1:]]
    assert Unknown(why="out of time before the search began") == verdicts[-1]


def test_what_was_not_begun_is_not_counted(system: System) -> None:
    of = specification_of(system, CLAIMS["one condition"])

    stopped, whole = examine(of, ending=Ending(2)), examine(of)

    assert stopped.counts is None
    assert "without a profile: more states than the search visited\n" in text([stopped])
    assert "without a profile: 4,096 states" in text([whole])


@pytest.mark.parametrize("wrong", [False, True])
def test_sizes_are_compared_only_if_every_claim_was_decided(*, wrong: bool) -> None:
    parts = COUNTERS.replace("[event]", '[part.alone]\nmachine = "counter"\n[event]')
    apart = system_of(
        f'{parts}more = {{ kind = "call", about = "M", steps = ["alone.add"] }}\n', {"counter": counter(to=7)}
    )
    stated = tuple(
        stated_of(apart, each) for each in ('always = "alone is n0 or not alone is n0"', CLAIMS["one condition"])
    )
    expect = Counts(states=SIZE + wrong, transitions=20_480, depth=28)
    of, never = Specification(machine=apart, properties=stated, expect={NO_PROFILE: expect}), Ending(1 << 60)

    whole = examine(of, ending=never)
    cut = [examine(of, ending=Ending(at)) for at in range(1, never.looks)]

    assert wrong == whole.resized, whole.counts
    decided = Counter(sum(isinstance(one.verdict, Proved) for one in each.checked) for each in cut)
    assert decided[0] > 0 < decided[1], decided
    undecided = [
        each for each in cut if len(each.checked) > sum(isinstance(one.verdict, Proved) for one in each.checked)
    ]
    assert {(False, ExitCode.UNKNOWN)} == {(each.resized, answer([each])) for each in undecided}
    assert cut[0].counts is None


def test_what_the_system_refuses_ends_a_search(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is unknown if there is not enough memory for a larger state table."""
    stated = stated_of(system, CLAIMS["one condition"])
    packed = cones(system, CLAIMS["one condition"], packed=True)

    def refused(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fsm.checker.packed.packed_graph.PackedGraph._enlarge_states", refused)
    found = decide(stated, packed).verdict

    assert isinstance(found, Unknown)
    assert re.fullmatch(r"out of memory after [\d,]+ states, with a frontier of [\d,]+ at depth \d+", found.why)
