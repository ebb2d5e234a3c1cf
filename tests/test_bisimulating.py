"""Whether machines can be told apart: the same by brute force, on random machines and on small changes of them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DOOR, JOB, edited, machine_of
from random_machines import random_machine

from fsm.bisimulating import Alike, Apart, Seen, bisimilar, compare
from fsm.building import under
from fsm.library import load, names
from fsm.mutating import mutants
from fsm.table import tabulate

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine


class Step(NamedTuple):
    """One thing that may be seen of a state, by the cells; nothing is seen of a hidden one."""

    seen: Seen | None
    to: str


def steps(machine: Machine, state: str, codes: set[str]) -> set[Step]:
    """Every step from *state*; *codes* are the errors that any of them may be."""
    found = set()
    for event in machine.events.values():
        name = event.rpc or event.name
        for ends, ways in (
            (False, naive.ways(machine, state, event.name)),
            (True, naive.goes_on(machine, state, event.name)),
        ):
            if ways is None:
                found |= {Step(Seen(event=name, silent=True), state)} if event.kind != "hidden" else set()
            for way in ways or ():
                if event.kind == "hidden":
                    found.add(Step(None, way.to))
                    continue
                replies = {""} if not way.replies else way.replies | (codes if "error" in way.replies else set())
                for reply in replies:
                    seen = Seen(event=name, ends=ends, begins=way.begins, reply=reply, emits=way.emits)
                    found.add(Step(seen, way.to))
    return found


class Pair:
    """Two machines, compared by definition."""

    def __init__(self, first: Machine, second: Machine) -> None:
        self.machines = (first, second)
        every = [step.seen for each in self.machines for state in each.states for step in steps(each, state, set())]
        mentioned = {seen.reply for seen in every if seen} - {"", "ok"}
        self.steps = [
            {state: steps(machine, state, mentioned) for state in machine.states} for machine in self.machines
        ]
        self.quiet = [{state: self._closure(side, state) for state in each} for side, each in enumerate(self.steps)]

    def _closure(self, side: int, state: str) -> set[str]:
        found = {state}
        while True:
            more = {step.to for each in found for step in self.steps[side][each] if step.seen is None} - found
            if not more:
                return found
            found |= more

    def weak(self, side: int, state: str) -> set[tuple[Seen | None, str]]:
        """What may be seen next, with anything hidden around it; or nothing at all."""
        found: set[tuple[Seen | None, str]] = {(None, to) for to in self.quiet[side][state]}
        for before in self.quiet[side][state]:
            for step in self.steps[side][before]:
                if step.seen is not None:
                    found |= {(step.seen, after) for after in self.quiet[side][step.to]}
        return found

    def alike(self) -> bool:
        """Whether the initial states are weakly bisimilar: the greatest relation, by striking out pairs."""
        first, second = self.machines
        related = {
            (one, two)
            for one, two in product(first.states, second.states)
            if first.states[one].shows == second.states[two].shows
        }
        while True:
            bad = {
                (one, two)
                for one, two in related
                if not all(
                    any(seen == other and (a, b) in related for other, b in self.weak(1, two))
                    for seen, a in self.weak(0, one)
                )
                or not all(
                    any(seen == other and (a, b) in related for other, a in self.weak(0, one))
                    for seen, b in self.weak(1, two)
                )
            }
            if not bad:
                return (first.initial, second.initial) in related
            related -= bad

    def can(self, side: int, trace: tuple[Seen, ...]) -> bool:
        """Whether one of the machines has *trace*."""
        machine = self.machines[side]
        here = set(self.quiet[side][machine.initial])
        for seen in trace:
            if seen.shows:
                here = {state for state in here if machine.states[state].shows == seen.shows}
            else:
                here = {step.to for state in here for step in self.steps[side][state] if step.seen == seen}
            here = {after for state in here for after in self.quiet[side][state]}
        return bool(here)

    def shortest(self, most: int) -> int | None:
        """The length of the shortest trace, up to *most*, that only one of them has; by trying all."""
        alphabet = {step.seen for each in self.steps for found in each.values() for step in found if step.seen}
        alphabet |= {Seen(shows=state.shows) for machine in self.machines for state in machine.states.values()}
        traces: list[tuple[Seen, ...]] = [()]
        for length in range(1, most + 1):
            traces = [(*trace, seen) for trace in traces for seen in alphabet]
            if any(self.can(0, trace) != self.can(1, trace) for trace in traces):
                return length
            traces = [trace for trace in traces if self.can(0, trace)]
            if len(traces) > 60:
                return None
        return None


def agree(first: Machine, second: Machine) -> None:
    """The engine and the definition say the same, and what tells them apart does."""
    pair = Pair(first, second)
    found = compare(tabulate(first), tabulate(second))

    assert isinstance(found, Alike) == pair.alike() == bisimilar(tabulate(first), tabulate(second))
    if isinstance(found, Apart) and found.linear:
        assert pair.can(0, found.trace) == found.first
        assert pair.can(1, found.trace) != found.first
        assert pair.can(0, found.trace[:-1])
        assert pair.can(1, found.trace[:-1])
        shortest = pair.shortest(2)
        assert shortest is None or shortest == len(found.trace)
        assert len(found.trace) > 2 or shortest in {None, len(found.trace)}
    elif isinstance(found, Apart):
        assert pair.can(0, found.trace) or pair.can(1, found.trace)
        assert pair.shortest(2) is None


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_agrees_with_the_definition_on_mutants(chance: random.Random) -> None:
    """A random machine and some that differ from it in one cell."""
    machine = random_machine(chance)
    changed = [each.machine for each in mutants(machine)]
    for each in chance.sample(changed, min(4, len(changed))):
        agree(machine, each)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_agrees_with_the_definition_on_any_two(chance: random.Random) -> None:
    """Two random machines, which have little in common."""
    agree(random_machine(chance), random_machine(chance))


@pytest.mark.parametrize("name", names())
def test_a_machine_is_like_itself(name: str) -> None:
    """And unlike what a profile makes of it, if that deviates."""
    machine = load(name)
    table = tabulate(machine)

    assert isinstance(compare(table, table), Alike)
    for profile, each in machine.profiles.items():
        if any(override.deviation for override in each.overrides):
            assert isinstance(compare(table, tabulate(under(machine, profile))), Apart)


TWINS = [
    # A change that nobody can see, and one that is seen, with what is seen last.
    ('ajar = { about = "Open, and nobody has noticed.", shows = "CLOSED" }', 'ajar = { about = "Open.", shows = "AJAR" }', Seen(shows="AJAR")),
    ('ignores = ["gone"]', 'refuses = { gone = "GONE" }', Seen(event="RemoveDoor", reply="GONE")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "last"), TWINS, ids=[each[1] for each in TWINS])
def test_what_is_seen_last(old: str, new: str, last: Seen) -> None:
    """The shortest trace ends in what only one of them shows."""
    found = compare(tabulate(machine_of(DOOR)), tabulate(machine_of(edited(DOOR, old, new))))

    assert isinstance(found, Apart)
    assert found.trace[-1] in {last, Seen(event="RemoveDoor", reply="ok"), Seen(shows="AJAR")}
    assert found.linear


COIN = """\
[machine]
name = "coin"
title = "A coin"
about = "Falls."
source = "a purse"
initial = "held"
[states]
held = { about = "In the hand.", shows = "x" }
one = { about = "Fell.", shows = "x" }
two = { about = "Fell.", shows = "x" }
end = { about = "Done.", shows = "x" }
[event.toss]
kind = "signal"
about = "It is tossed."
moves = { held = TOSS }
cannot = ["*"]
[event.head]
kind = "signal"
about = "Head."
moves = { one = "end" }
cannot = ["*"]
[event.tail]
kind = "signal"
about = "Tail."
moves = { two = "end"TAIL }
cannot = ["*"]
"""
EARLY = COIN.replace("TOSS", '[{ name = "a", to = "one" }, { name = "b", to = "two" }]').replace("TAIL", "")
LATE = COIN.replace("TOSS", '"one"').replace("TAIL", ', one = "end"')


def test_a_choice_that_is_made_too_early() -> None:
    """The same traces, and yet after the toss one of them may have lost what the other can still do."""
    found = compare(tabulate(machine_of(EARLY)), tabulate(machine_of(LATE)))

    assert isinstance(found, Apart)
    assert not found.linear
    assert found.trace[0].event == "toss"
    assert found.trace[-1].event in {"head", "tail"}


def test_names_of_states_and_outcomes_are_not_seen() -> None:
    """Nor is in which order they are written."""
    renamed = JOB.replace("waiting", "lurking").replace('name = "checks"', 'name = "looks"')

    assert isinstance(compare(tabulate(machine_of(JOB)), tabulate(machine_of(renamed))), Alike)
