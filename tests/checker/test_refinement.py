"""Refinement checks agree with a second opinion that tries all runs of shipped and changed machines."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import naive
import pytest
from machines import DOOR, edited, machine_of
from naive_refinement import Refining
from random_machines import random_machine
from related_machines import narrowings
from shipped import specification
from thorough import TIMES

from fsm.checker.breadth_first import Limit
from fsm.checker.refinement import check_refines
from fsm.language.library import load, specified
from fsm.machine.claims import Refines
from fsm.machine.evidence import Proved, Refuted, Unexplained
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.machine.traversal import LimitError
from fsm.mutation import mutants
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fsm.machine import Machine
    from fsm.machine.evidence import Run

LIMIT = Limit(states=20_000)


class Pair(NamedTuple):
    """Two machines, the first of which may refine the second, and the maximum number of concurrent calls."""

    machine: Machine
    other: Machine
    overlap: int


def agreed(pair: Pair, *, most: int) -> bool:
    """Return whether the first machine refines the second. Fail if an independent search disagrees.

    Counterexamples must also have the same length, unless the independent search stopped at its limit.
    """
    conclusion, _ = check_refines(tabulate(pair.machine), tabulate(pair.other), pair.overlap, LIMIT)
    length, far = Refining(pair.machine, pair.other, pair.overlap).shortest(most=most)
    if not isinstance(conclusion, Refuted):
        assert length is None
        return True
    assert length == conclusion.length or (length is None and far < conclusion.length)
    return False


def shipped() -> list[Pair]:
    """Return the pairs of machines that shipped properties compare, with and without profiles.

    Except in the nightly tests, only the last two profiles of each machine are used. A profile that both machines have
    is also applied to both of them.
    """
    pairs = []
    for name in specified():
        machine = load(name)
        for each in specification(name).properties:
            if isinstance(each.claim, Refines):
                other = each.claim.other
                pairs.append(Pair(machine, other, each.claim.overlap))
                for profile in [*machine.profiles][0 if TIMES > 1 else -2 :]:
                    pairs.append(Pair(machine.under(profile), other, 0))
                    if profile in other.profiles:
                        pairs.append(Pair(machine.under(profile), other.under(profile), 0))
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("pair", shipped(), ids=lambda pair: f"{pair.machine.name}-{pair.overlap}")
def test_shipped_machines_refine_alike(pair: Pair) -> None:
    """The second opinion searches single calls completely, and overlapping calls only for a few seconds."""
    agreed(pair, most=(100_000 if not pair.overlap else 500 if TIMES == 1 else 1_500))


def random_pair(seed: int) -> Pair:
    chance = random.Random(seed)
    machine = random_machine(chance)
    changed = [each.machine for each in mutants(machine)]
    other = chance.choice([machine, random_machine(chance), *[chance.choice(changed or [machine]) for _ in range(8)]])
    return Pair(machine, other, chance.choice((0, 1, 1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_machines_refine_alike(first: int) -> None:
    found, undecided = set[bool](), 0
    for seed in range(first * TIMES, (first + 10) * TIMES):
        try:
            found.add(agreed(random_pair(seed), most=150))
        except LimitError:  # a pair with too many states
            undecided += 1

    assert found == {True, False}
    assert undecided < TIMES  # none by default


def observed(pair: Pair, trace: Iterable[Observation]) -> list[Observation]:
    names = {name for event in pair.other.events.values() for name in (event.name, event.rpc) if name}
    rpc = {event.name: event.rpc for event in pair.machine.events.values()}
    return [
        msgspec.structs.replace(
            each, entity="e", event=rpc[each.event] if rpc.get(each.event) in names else each.event, emits=None
        )
        for each in trace
    ]


def explains(pair: Pair, trace: list[Observation]) -> int | None:
    known = {name for event in pair.machine.events.values() for name in (event.name, event.rpc)} - {""}
    signals = (event for event in pair.other.events.values() if event.kind == "signal")
    seen = frozenset(event.name for event in signals if known & {event.name, event.rpc})
    return naive.first_unexplained(pair.other, observed(pair, trace), fresh=True, seen=seen)


def traces(chance: random.Random, pair: Pair) -> Iterator[list[Observation]]:
    for _ in range(4):
        yield [*simulate(pair.machine, seed=chance.randrange(1 << 30), length=4, overlap=max(1, pair.overlap))]


def counterexample(machine: Machine, run: Run) -> list[Observation] | None:
    """Return the observations of *run*, or ``None`` if it interrupts calls, which cannot be observed."""
    found = []
    for each in run.steps:
        event = machine.events.get(each.event)
        if event is None:
            found.append(Observation(entity="e", shows=machine.states[each.target].shows))
        elif event.interrupts:
            return None
        elif each.phase or event.kind == "signal":
            found.append(Observation(entity="e", event=event.name, phase=each.phase, reply=each.reply))
    return found


@pytest.mark.slow
def test_traces_of_what_refines_are_legal(record_property: Callable[[str, object], None]) -> None:
    found: Counter[str] = Counter()
    for number in range(40 * TIMES):
        chance = random.Random(number)
        machine = random_machine(chance)
        narrower = [machine, *narrowings(machine)[:10]]
        mutant = [each.machine for each in mutants(machine)]
        narrows = chance.random() < 0.4 or not mutant
        pair = Pair(chance.choice(narrower if narrows else mutant), machine, chance.choice((1, 1, 2)))
        try:
            conclusion, _ = check_refines(
                tabulate(pair.machine), tabulate(machine), pair.overlap, Limit(states=LIMIT.states // 20)
            )
        except LimitError:
            continue
        match conclusion:
            case Refuted(evidence=Unexplained(run=run)):
                assert not narrows
                trace = counterexample(pair.machine, run)
                if trace is not None:
                    found["refuted"] += 1
                    assert naive.first_unexplained(pair.machine, trace, fresh=True) is None
                    assert explains(pair, trace) == len(trace) - 1
            case Proved():
                found["legal"] += 4
                assert [explains(pair, each) for each in traces(chance, pair)] == [None] * 4
            case _:
                pass
    record_property("random examples", found["legal"] + found["refuted"])

    assert min(found.values()) > 4 * TIMES


def test_a_signal_that_only_the_other_has_is_hidden() -> None:
    opens = edited(DOOR, 'moves  = { shut = "ajar" }', 'moves  = { shut = "open" }')
    bare = edited(opens, '[event.warp]\nkind   = "hidden"', '[event.warp]\nkind   = "signal"')
    text = edited(opens, "[event.warp]", "[event.shrink]")

    assert agreed(Pair(machine_of(text), machine_of(bare), 1), most=150)


BELL = """\
[machine]
name = "bell"
title = "A bell"
about = "It rings once."
source = "none"
initial = "still"
[states]
still = { about = "S.", shows = "BELL" }
rung = { about = "R.", shows = "BELL" }
[event.ring]
kind = "KIND"
about = "Ring."
MAY = "x"
moves = { still = "rung" }
cannot = ["rung"]
[event.ask]
kind = "call"
about = "Ask whether it has rung."
MAY = "x"
ignores = ["rung"]
refuses = { still = "NO" }
"""


@pytest.mark.parametrize("kind", ["signal", "hidden"])
@pytest.mark.parametrize("its", ["signal", "hidden"])
def test_a_signal_is_compared_only_where_it_is_one_in_both(kind: str, its: str) -> None:
    """An event is compared as a signal only if it is a signal in both machines."""
    once, other = BELL.replace("KIND", kind), machine_of(BELL.replace("KIND", its))
    often = edited(once, 'cannot = ["rung"]', 'ignores = ["rung"]')

    assert agreed(Pair(machine_of(once), other, 1), most=1_000)
    assert agreed(Pair(machine_of(often), other, 1), most=1_000) == ("hidden" in {kind, its})
