"""Mutants of cells cover every possible error in a single cell, as listed by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DOOR, JOB, door, edited, job, machine_of
from naive_equivalence import Watched
from naive_equivalence import bisimilar as alike
from random_claims import random_property, stated
from random_machines import random_machine
from thorough import TIMES, amount

from fsm.checker import decide
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.mutation.outcomes import as_stated, mutation_outcomes

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from fsm.machine import Machine
    from fsm.mutation import Mutant
    from fsm.mutation.outcomes import MutationOutcome

Ways = frozenset[tuple[str, frozenset[str], tuple[str, ...], bool]]
"""The outcomes of a cell, each with its target, its replies, its outputs, and whether a call begins."""


def ways_of(machine: Machine, event: str, state: str, *, ends: bool) -> Ways | None:
    ways = naive.ends(machine, state, event) if ends else naive.ways(machine, state, event)
    return None if ways is None else frozenset((way.to, way.replies, way.emits, way.begins) for way in ways)


def mistakes(machine: Machine, event: str, state: str, *, ends: bool) -> set[Ways | None]:
    call = machine.events[event].kind == "call"
    still = (state, frozenset({"ok"} if call else ()), (), False)
    found: set[Ways | None] = set()
    own = ways_of(machine, event, state, ends=ends)
    if not ends:
        found |= {None, frozenset({still})}
        found.add(frozenset({(state, frozenset({"error"}), (), False)}) if call else frozenset())
    outputs = {
        output
        for each in machine.events
        for at in machine.states
        for way in _every(machine, each, at)
        for output in way.emits
    }
    ways = (naive.ends if ends else naive.ways)(machine, state, event) or set()
    for way in ways:
        others = frozenset((each.to, each.replies, each.emits, each.begins) for each in ways - {way})
        found |= {others | {each} for each in one_changed(machine, event, way, outputs)}
        found |= {others} if others else set()
    if not own and not ends:
        found |= {frozenset({(to, still[1], (), False)}) for to in machine.states if to != state}
    return found - {own}


def _every(machine: Machine, event: str, state: str) -> set[naive.Way]:
    return {*(naive.ways(machine, state, event) or ()), *naive.ends(machine, state, event)}


def one_changed(
    machine: Machine, event: str, way: naive.Way, outputs: set[str]
) -> Iterator[tuple[str, frozenset[str], tuple[str, ...], bool]]:
    to, replies, emits, begins, _ = way
    for state in machine.events[event].ends if begins else machine.states:
        yield state, replies, emits, begins
    if begins:
        return
    if replies:
        several = replies - {"ok", "error"} if len(replies) > 1 else frozenset()
        yield from ((to, frozenset({reply}), emits, False) for reply in {"ok", "error", *several})
    for index in range(len(emits)):
        yield to, replies, emits[:index] + emits[index + 1 :], False
        if index:
            swapped = (*emits[: index - 1], emits[index], emits[index - 1], *emits[index + 1 :])
            yield to, replies, swapped, False
    yield from ((to, replies, (*emits, output), False) for output in outputs)


def lists_all(machine: Machine) -> None:
    made: dict[tuple[str, str, bool], set[Ways | None]] = {}
    for each in mutants(machine):
        place = (each.event, each.state, each.ends)
        made.setdefault(place, set()).add(ways_of(each.machine, each.event, each.state, ends=each.ends))
    for name, event in machine.events.items():
        for ends, row in ((False, event.cells), (True, event.ends)):
            for state in row:
                expected = mistakes(machine, name, state, ends=ends)
                found = made.get((name, state, ends), set())

                assert found <= expected, (name, state)
                assert all(never_ends(machine, name, state, each) for each in expected - found), (name, state)


def never_ends(machine: Machine, event: str, state: str, ways: Ways | None) -> bool:
    after = {at: {(way.to, way.begins) for way in naive.ends(machine, at, event)} for at in machine.events[event].ends}
    after[state] = {(to, begins) for to, _, _, begins in ways or ()}
    ending: set[str] = set()
    for _ in after:
        ending |= {at for at, found in after.items() if any(not begins or to in ending for to, begins in found)}
    return state in machine.events[event].ends and ending != {*after}


MACHINES = {"door": DOOR, "job": JOB, "loud": edited(DOOR, 'emits = ["Bang"]', 'emits = ["Bang", "Creak", "Creak"]')}


@pytest.mark.parametrize("name", MACHINES)
def test_lists_every_mistake(name: str) -> None:
    lists_all(machine_of(MACHINES[name]))


@settings(max_examples=amount(40, night=2_000))
@given(st.randoms(use_true_random=False))
def test_lists_every_mistake_in_any_machine(chance: random.Random) -> None:
    """Each mutant has a unique name, differs in its cell only, and is well formed."""
    machine = random_machine(chance)
    lists_all(machine)
    table = tabulate(machine)
    found = list(mutants(machine))

    assert len(found) == len({each.name for each in found})
    assert all(tabulate(each.machine) == tabulate(each.machine, like=table) for each in found[::9])
    for each in found:
        for event in machine.events.values():
            for state in machine.states:
                same = event.cells[state] == each.machine.events[event.name].cells[state]
                assert same or (event.name, state, False) == (each.event, each.state, each.ends)
        well_formed(each.machine)


def well_formed(machine: Machine) -> None:
    for event in machine.events.values():
        assert event.cells.keys() == machine.states.keys()
        for state in machine.states:
            for way in _every(machine, event.name, state):
                assert bool(way.replies) == (event.kind == "call" and not way.begins)
                assert not way.begins or way.to in event.ends
            if state in event.ends:
                assert not never_ends(machine, event.name, state, ways_of(machine, event.name, state, ends=True))


NAMES = [
    # A mutant of a door or a job, and the outcomes of the cell that it changes.
    ("push in open: refused", {("open", "error", ())}),
    ("push/opened in shut: to gone", {("gone", "ok", ("Creak",)), ("shut", "STUCK", ())}),
    ("push/stuck in shut: dropped", {("open", "ok", ("Creak",))}),
    ("push/stuck in ajar: replies ok", {("open", "ok", ("Creak",)), ("shut", "ok", ())}),
    ("push/opened in ajar: drops Creak", {("open", "ok", ()), ("shut", "STUCK", ())}),
    ("slam in ajar: ignored", {("ajar", "", ())}),
    ("slam in open: adds Creak", {("shut", "", ("Bang", "Creak"))}),
    ("slam in open: repeats Bang", {("shut", "", ("Bang", "Bang"))}),
    ("warp in gone: to shut", {("shut", "", ())}),
    ("knock in shut: ignored", {("shut", "ok", ())}),
    ("start/failed ends in starting: to ended", {("checking", "", ()), ("ended", "error", ())}),
    ("start ends in checking: replies error", {("running", "error", ("started",))}),
    ("make in ended: replies BUSY", {("ended", "BUSY", ())}),
]


@pytest.mark.parametrize(("name", "ways"), NAMES, ids=[each[0] for each in NAMES])
def test_says_in_its_name_what_it_does(name: str, ways: set[tuple[str, str, tuple[str, ...]]]) -> None:
    """The name of a mutant, by which property files refer to the mutant, describes the change to the cell."""
    (found,) = [each for machine in (door(), job()) for each in mutants(machine) if each.name == name]
    allowed = ways_of(found.machine, found.event, found.state, ends=found.ends)

    assert ways == {(to, " ".join(replies), emits) for to, replies, emits, _ in allowed or ()}
    assert found.line > 0


def test_ends_go_with_what_leads_to_them() -> None:
    found = {each.name: each for each in mutants(job())}

    assert {} == found["start in waiting: refused"].machine.events["start"].ends
    assert {"starting"} == {*found["start/checks ends in starting: dropped"].machine.events["start"].ends}


# -- outcomes of mutants -------------------------------------------------------

CLAIMS = ('never = "ended then running"\nuntil = "absent"', 'always = "stays"\nwhen = "make and not was absent"', 'reachable = ["emits started", "start replies error and waiting"]', 'leads-to = "running or waiting or ended"\nfrom = "starting"\nfair = ["start.ends"]', 'leads-to = "running or checking"\nfrom = "waiting"\nfair = ["start", "start.ends"]\nfails = { under = "*", about = "It may fail.", length = 3 }', 'idempotent = "make"\nfails = { under = "*", about = "It is made once.", length = 2 }')  # fmt: skip


def became(machine: Machine, claims: tuple[str, ...], *, whole: bool = True) -> list[MutationOutcome[Mutant]]:
    properties = [stated(machine, claim) for claim in claims]
    return list(mutation_outcomes(machine, properties, whole=whole))


@pytest.mark.parametrize("claim", CLAIMS, ids=[each.split()[0] for each in CLAIMS])
def test_is_killed_by_what_no_longer_comes_out_as_stated(claim: str) -> None:
    machine = job()
    kind = stated(machine, claim)
    found = became(machine, (claim,))

    assert {True, False} == {bool(each.killers) for each in found}
    for each in found:
        checked = decide(kind, tabulate(each.mutant.machine))
        held = isinstance(checked.verdict, Proved) and not kind.fails
        known = isinstance(checked.verdict, Refuted) and bool(kind.fails) and not checked.unexpected
        assert (not each.killers) == (held or known), each.mutant.name


@settings(max_examples=30 * TIMES)
@given(st.randoms(use_true_random=False))
def test_what_mutants_share_decides_nothing(chance: random.Random) -> None:
    """Steps, tests and witnesses are computed once for all mutants of a machine; computing them separately changes nothing."""
    machine = random_machine(chance)
    kind = random_property(chance, machine, ("always", "never", "reachable"))
    sound = as_stated(decide(kind, tabulate(machine)))
    for each in islice(mutation_outcomes(machine, [kind]), 40):
        broken = not as_stated(decide(kind, tabulate(each.mutant.machine)))
        assert bool(each.killers) == (sound and broken), each.mutant.name


def test_is_equivalent_if_nobody_can_tell_it_from_the_machine() -> None:
    machine = machine_of(edited(DOOR, 'shut = "ajar"', 'shut = "ajar", gone = "gone"'))
    found = became(machine, ())

    assert {True, False} == {each.equivalent for each in found}
    for each in found:
        other = each.mutant.machine
        assert each.equivalent == alike(Watched(machine, other), Watched(other, machine)), each.mutant.name
        assert each.survives != each.equivalent


def test_one_killer_is_enough() -> None:
    all_, one = became(job(), CLAIMS), became(job(), CLAIMS, whole=False)

    assert [bool(each.killers) for each in all_] == [bool(each.killers) for each in one]
    assert {1} == {len(each.killers) for each in one if each.killers}


def test_what_fails_without_a_mutation_kills_nothing() -> None:
    machine = job()
    wrong = replace(stated(machine, 'never = "waiting"'), name="wrong")
    right = [replace(stated(machine, claim), name=f"right-{number}") for number, claim in enumerate(CLAIMS)]
    told: list[str] = []
    found = list(mutation_outcomes(machine, [wrong, *right], unsound=told.extend))

    assert told == ["wrong"]
    assert found == list(mutation_outcomes(machine, right))
    assert {name for each in found for name in each.asked} == {each.name for each in right}


def test_mutants_of_a_profile() -> None:
    found = {each.mutant.name for each in mutation_outcomes(door(), (), profile="old")}

    assert "push/lock-jams in shut: dropped" in found
    assert "push/lock-jams in shut: dropped" not in {each.name for each in mutants(door())}
