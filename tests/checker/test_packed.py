"""Compiled searches of packed states have the same results as plain searches."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from guide import PROGRESS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from machines import counter, door, job
from random_systems import is_small, random_claim_of, random_system, system_of
from thorough import amount
from toy_systems import OFFICE, stated_of

pytest.importorskip("numba", reason="the extra 'fast' is not installed")

import numba
import numpy as np

from fsm.checker import decide
from fsm.checker.breadth_first import Limit, reachable_size
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache, system_table
from fsm.checker.packed import leading
from fsm.checker.packed.expansion import ACCEPTED, REJECTED, SPREAD
from fsm.checker.packed.exploration import KEPT, Visited, mixed, numbered
from fsm.checker.packed.packed_graph import MOST_KEPT, WINDOW, PackedGraph
from fsm.checker.packed.programs import StateVector, TooWideError
from fsm.checker.packing import packed
from fsm.language.library import claims, load_system, systems
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.graph import steps
from fsm.machine.product import SystemTable
from fsm.machine.product.reduction import Influence
from fsm.machine.traversal import BreadthFirst, LimitError

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine.claims import Property
    from fsm.machine.evidence import Checked
    from fsm.machine.product.system import System

CHANCES = st.integers(0, 1 << 32).map(random.Random)
"""A strategy for seeded random generators.

Systems that Hypothesis builds itself are mostly too small.
"""

LARGEST = 400
"""The maximum number of states of a random system."""


def small(system: System) -> System:
    """Return *system*, or make Hypothesis reject it if it has too many states."""
    assume(is_small(system, LARGEST))
    return system


def both(
    stated: Property, system: System, *, limit: int = 100_000, most_kept: int = MOST_KEPT, window: int = WINDOW
) -> tuple[Checked, Checked]:
    plain, quick = (Cones(system=system).stepping(stated.claim) for _ in range(2))
    plain.packed = None
    quick.packed = PackedGraph(system_table(quick.table), most_kept=most_kept, window=window)
    return decide(stated, plain, limit=limit), decide(stated, quick, limit=limit)


# -- states and steps ------------------------------------------------------------------


@settings(max_examples=amount(15, night=2_000))
@given(CHANCES)
def test_the_same_steps_in_the_same_order(chance: random.Random) -> None:
    """States have the same numbers, and their steps are those of the table."""
    system = small(random_system(chance))
    table = SystemTable(system)
    plain = StepCache(table).reached
    graph = PackedGraph(SystemTable(system))

    assert reachable_size(table) == graph.counts(Limit(states=LARGEST))
    for state in plain:
        assert table.locals(state) == graph.locals(state)
        expected = [
            (row.index, way.name, way.reply, way.emits, way.to)
            for row in table.rows
            for way in table.step(state, row.index)
        ]
        first, last = graph.steps.first[state : state + 2]
        labels = [graph.labels[label] for label in graph.steps.labels[first:last]]
        found = [
            (label.row, label.name, label.reply, label.emits, to)
            for label, to in zip(labels, graph.steps.to[first:last].tolist(), strict=True)
        ]
        assert expected == found


def test_a_state_of_several_words_has_all_its_copies() -> None:
    table = SystemTable(load_system("node"), cone=range(10))
    vector = StateVector(table)
    state = tuple((digit * 7) % len(table.table_of(copy.part).states) for digit, copy in enumerate(table.system.copies))
    inside = tuple(at if digit in table.cone else vector.initial[digit] for digit, at in enumerate(state))

    assert inside == vector.unpacked(vector.packed(state))


def counters(count: int, *, to: int, further: str = "") -> System:
    text = '[system]\nname = "counters"\ntitle = "C"\nabout = "C"\nsource = "none"\n'
    for number, first in enumerate(range(0, count, 8)):
        text += f'[part.c{number}]\nmachine = "counter"\ncount = {min(8, count - first)}\n'
        for event in ("add", "reset"):
            text += f'[event.{event}{number}]\nkind = "call"\nof = "c{number}"\nabout = "C"\nsteps = ["c{number}.{event}"]\n'
    return system_of(text + further, {"counter": counter(to=to)})


@pytest.mark.parametrize(
    ("count", "to", "words"),
    [
        (2, 9, 1),
        (16, 9, 1),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((18, 9, 2), (40, 2, 2), (36, 9, 3))),
    ],
)
def test_states_take_one_to_three_words(count: int, to: int, words: int) -> None:
    system = counters(count, to=to)
    table = SystemTable(system)
    graph = PackedGraph(SystemTable(system))
    while graph.met < 60 and graph.expand():
        pass
    plain = BreadthFirst([table.initial], lambda state: steps(table, state), limit=60)
    with pytest.raises(LimitError):
        plain.exhausted()

    assert graph.vector.width == words
    for state in range(50):
        assert table.locals(state) == graph.locals(state)


def test_an_event_may_depend_on_more_combinations_than_fit_into_a_word() -> None:
    """The event depends on 17 copies with 4 bits each."""
    anywhere = '[event.jump]\nkind = "call"\nof = "c0"\nabout = "J"\nwhen = "{}"\nsteps = ["c0.add"]\n'
    system = counters(24, to=9, further=anywhere.format("no c1 is n9 and no c2 is n9"))
    table, graph = SystemTable(system), PackedGraph(SystemTable(system))
    while graph.met < 60 and graph.expand():
        pass
    plain = BreadthFirst([table.initial], lambda state: steps(table, state), limit=60)
    with pytest.raises(LimitError):
        plain.exhausted()

    assert max(len(event.digits) for event in table.joint) == 17
    for state in range(50):
        assert table.locals(state) == graph.locals(state)


def test_wider_states_are_not_packed() -> None:
    with pytest.raises(TooWideError):
        StateVector(SystemTable(counters(50, to=9)))
    assert packed(SystemTable(counters(50, to=9))) is None


# -- claims ------------------------------------------------------------------------------


@settings(max_examples=amount(30, night=5_000))
@given(CHANCES, st.sampled_from([0, 2_500, MOST_KEPT]), st.sampled_from([1, 7, 60, WINDOW]))
def test_random_claims_come_out_the_same(chance: random.Random, most_kept: int, window: int) -> None:
    """Verdict, run and size agree, whether steps are stored or computed again."""
    system = small(random_system(chance))
    plain, quick = both(random_claim_of(system, chance), system, most_kept=most_kept, window=window)

    assert plain == quick


@settings(max_examples=amount(20, night=5_000))
@given(CHANCES, st.sampled_from([0, MOST_KEPT]), st.sampled_from([1, 60, WINDOW]))
def test_leads_to_comes_out_the_same(chance: random.Random, most_kept: int, window: int) -> None:
    """Compiled code finds the same verdict, run and size as Python code, under weak and strong fairness."""
    system = small(random_system(chance))
    plain, quick = both(random_claim_of(system, chance, ("leads-to",)), system, most_kept=most_kept, window=window)

    assert plain == quick


def test_leads_to_is_decided_by_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim fails, but would seem to hold if the compiled code considered no cycle fair."""
    system = load_system("plugin-sync")
    [stated] = [each for each in claims("plugin-sync").properties if each.name == "calls-go-on"]
    right, _ = both(stated, system)
    monkeypatch.setattr(leading, "can_stay_due", lambda *_: False)
    _, wrong = both(stated, system)

    assert isinstance(right.verdict, Refuted)
    assert isinstance(wrong.verdict, Proved)


@settings(max_examples=amount(15, night=1_000))
@given(CHANCES, st.integers(1, 60))
def test_a_limit_stops_both(chance: random.Random, limit: int) -> None:
    """The plain search and the compiled search stop at the same number of states."""
    system = small(random_system(chance))
    plain, quick = both(random_claim_of(system, chance), system, limit=limit)

    assert plain == quick


STARTING = (
    OFFICE.replace(
        "[event.make]",
        """\
[event.haste]
kind  = "call"
of    = "job"
about = "It is made, whatever the reply."
ways.made = { steps = ["job.make"], reply = ["EARLY", "LATE"] }
[event.make]""",
    )
    + """\
[event.start]
kind  = "call"
of    = "job"
about = "It is refused with any error."
steps = ["job.start"]
"""
)


@pytest.mark.parametrize(
    ("claim", "limit"),
    [
        ('never = "some job is ended then open"', 10**30),  # larger than a machine word
        ('for = "job"\nnever = "haste replies LATE"', 100_000),  # the state was already reached with the other reply
        ('for = "job"\nnever = "haste replies LATE"', 1),
        ('for = "job"\nnever = "start and job is ended"\nuntil = "start replies LATE"', 10**5),  # it is never true
    ],
)
def test_of_an_office_it_comes_out_the_same(claim: str, limit: int) -> None:
    system = system_of(STARTING, {"door": door(), "job": job()})
    plain, quick = both(stated_of(system, claim), system, limit=limit)

    assert plain == quick


SHIPPED = [
    pytest.param(name, profile, marks=pytest.mark.nightly if name == "node" else ())
    for name in systems()
    for profile in (None, *load_system(name).profiles)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile"), SHIPPED)
def test_shipped_systems_come_out_the_same(name: str, profile: str | None) -> None:
    system = load_system(name).under(profile)
    plain, quick = Cones(system=system), Cones(system=system)
    for each in claims(name).properties:
        plain.stepping(each.claim).packed = None
        stepping = quick.stepping(each.claim)
        stepping.packed = stepping.packed or PackedGraph(system_table(stepping.table))
        assert decide(each, plain) == decide(each, quick), each.name


# -- with the extra and without it ----------------------------------------------------------

COMMAND = "import sys; {} from fsm.__main__ import main; main()"
LARGE = "node", "-P", "remove-pod-is-idempotent", "-p", "none"
"""Arguments with which ``fsm check`` compiles the search, because the cone has thousands of states."""


def checked(*args: str, before: str = "", **env: str) -> tuple[int, str, str]:
    """Run ``fsm check`` in a new process that executes *before* first.

    Progress messages are removed from the output on standard error.
    """
    command = [sys.executable, "-c", COMMAND.format(before), "check", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **env})
    return done.returncode, done.stdout, PROGRESS.sub("", done.stderr)


@pytest.mark.slow
def test_without_the_extra_it_comes_out_the_same() -> None:
    assert checked(*LARGE) == (plain := checked(*LARGE, before="sys.modules['numba'] = None;"))
    assert (0, "") == (plain[0], plain[2])


@pytest.mark.slow
def test_what_is_small_loads_nothing() -> None:
    """Checking small inputs does not import numpy."""
    refuse = (
        "sys.meta_path.insert(0, type('Refusing', (), {'find_spec': staticmethod(lambda name, *_: "
        "sys.exit('loads ' + name) if name == 'numpy' else None)}));"
    )
    assert (0, "") == (done := checked("container-status", "cri-service", before=refuse))[::2], done
    assert "loads numpy" in checked(*LARGE, before=refuse)[2]


@pytest.mark.nightly
def test_code_is_kept_where_that_can_be_written(tmp_path: Path) -> None:
    expected = checked(*LARGE)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(checked, *LARGE, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}

    assert [expected] * 2 == [each.result() for each in both]
    assert kept
    assert expected == checked(*LARGE, XDG_CACHE_HOME=str(tmp_path))
    assert kept == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    assert expected == checked(*LARGE, XDG_CACHE_HOME="/dev/null")


def state_of(hashed: int) -> int:
    """Return the state of one machine word that has the hash *hashed*."""
    back, whole = pow(int(SPREAD), -1, 1 << 64), (1 << 64) - 1
    folded = hashed * back & whole
    return (folded ^ folded >> 32) * back & whole


@pytest.mark.parametrize(("exact", "numbers"), [(False, [0, 1, 0, 1]), (True, [0, 1, 2, 3])])
def test_states_of_the_same_tag_are_told_apart(numbers: list[int], *, exact: bool) -> None:
    words = np.array([state_of(7 << 40 | low) for low in (1, 2)], np.uint64)
    visited = Visited(states=np.zeros(8, np.uint64), slots=np.zeros(8, np.uint64), exact=exact)
    hashed = numba.njit(lambda at: mixed(words, at, (0,)))
    entered = numba.njit(lambda at, visited, count: numbered(words, at, mixed(words, at, (0,)), visited, count, (0,)))
    hashes = [np.uint64(hashed(at)) for at in (0, 1)]

    found: list[int] = []
    for at in (0, 1, 0, 1):
        count = max(found, default=-1) + 1
        found.append(int(entered(at, visited, count)))

    assert (7 << 8, 7 << 8) == tuple(int(each) >> 32 for each in hashes)
    assert numbers == found


# -- planted defects --------------------------------------------------------------------------


def taken(graph: PackedGraph) -> list[object]:
    while graph.met <= LARGEST and graph.expand():
        pass
    kept = int(graph.progress[KEPT])
    steps = graph.steps.to[: graph.steps.first[kept]].tolist()
    return [kept, graph.states.tolist(), graph.labels, steps]


@pytest.mark.parametrize(
    ("array", "column", "value"),
    [
        ("tests", 4, REJECTED),
        ("tests", 5, ACCEPTED),
        ("events", 0, ACCEPTED),
        ("events", 3, 0),
        ("paths", 0, ACCEPTED),
        ("paths", 2, 0),
        ("moves", 0, ACCEPTED),
        ("moves", 1, ACCEPTED),
        ("moves", 4, 0),
        ("options", 0, 0),
        ("options", 1, -1),
        ("options", 3, 0),
        ("emitted", 0, 0),
        ("reads", 3, 0),
        ("kept", 0, -1),
    ],
)
def test_a_planted_mistake_shows(array: str, column: int, value: int) -> None:
    """A wrong number in the compiled program changes some step of the system ``node``."""
    system = load_system("node")
    inside = Influence(system).cone(
        {copy.digit for copy in system.copies if copy.name in {"pod.1", "nri-container.1.1"}}
    )
    table = SystemTable(system, cone=inside)
    expected = taken(PackedGraph(table))

    numbers = getattr(PackedGraph(table).program, array)
    numbers = numbers.reshape(len(numbers), -1)
    rows = [row for row in range(len(numbers)) if numbers[row, column] != value]
    shown = False
    for row in rows:
        graph = PackedGraph(table)
        changed = numbers.copy()
        changed[row, column] = value
        graph.program = graph.program._replace(**{array: changed})
        shown = shown or expected != taken(graph)
        if shown:
            break
    assert shown, f"{len(rows)} numbers were changed"
