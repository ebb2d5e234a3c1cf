"""Timers are searched as integer clocks, and the search agrees with runs that are worked out second by second."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import random_timers
from machines import machine_of
from random_timers import TimedMachine

from fsm.checker import decide
from fsm.checker.instants import StepCache
from fsm.language.build.grammar import MachineGrammar
from fsm.machine import claims
from fsm.machine.claims import LeadsTo, Property
from fsm.machine.conditions import WrittenCondition
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.graph import explore
from fsm.machine.in_progress import in_progress
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.machine import Machine


def possible(of: TimedMachine) -> set[tuple[str, str, str]]:
    """Return every step (source, event, target) that some run has, in time steps of a second."""
    timers = {"fire": (of.after - of.tolerance, of.after + of.tolerance)}
    timers |= {"late": (of.second, of.second)} if of.second else {}
    stopped = dict.fromkeys(timers)
    start = ("s0", tuple(dict.fromkeys(timers, 0).items()) if "s0" in of.inside else tuple(stopped.items()))
    todo, known, found = [start], {start}, set()

    def to(state: str, clocks: Mapping[str, int | None]) -> None:
        node = (state, tuple(clocks.items()))
        if node not in known:
            known.add(node)
            todo.append(node)

    while todo:
        state, listed = todo.pop()
        clocks, running = dict(listed), state in of.inside
        waited = {event: clock + 1 for event, clock in clocks.items() if clock is not None}
        if running and all(waited[event] <= latest for event, (_, latest) in timers.items()):
            to(state, waited)
        steps = [(event, moves[state]) for event, moves in of.moves.items() if state in moves]
        steps += [(event, state) for event in of.calls if state not in of.moves[event]]  # refused
        steps += [
            (event, of.fires[state])
            for event, (soonest, _) in timers.items()
            if running and (clocks[event] or 0) >= soonest
        ]
        for event, target in steps:
            found.add((state, event, target))
            refused = event in of.calls and state not in of.moves[event]
            anew = not running or (event == of.restarts and not refused)
            after = {each: 0 if anew or each == event else clock for each, clock in clocks.items()}
            to(target, after if target in of.inside else stopped)
    return found


def taken(machine: Machine) -> set[tuple[str, str, str]]:
    graph = explore(tabulate(machine))
    table = graph.table
    return {
        (table.states[each.source], table.rows[each.row].event.name, table.states[each.to])
        for each in graph.transitions
    }


@pytest.mark.parametrize("part", range(4))
def test_the_same_steps_are_possible_as_second_by_second(part: int) -> None:
    chance = random.Random(part)
    for _ in range(100):
        of = random_timers.machine(chance)
        of.second = chance.choice([0, chance.randint(1, 20)])

        assert taken(machine_of(of.model())) == possible(of), of


def test_a_timer_that_fires_at_any_time_would_be_noticed() -> None:
    """For some machine, ignoring the time allows more steps."""
    chance = random.Random(0)
    untimed = []
    for _ in range(100):
        of = random_timers.machine(chance)
        of.second = chance.randint(1, 20)
        model = of.model().partition("[timer.clock]")[0]
        untimed.append(taken(machine_of(model)) == possible(of))

    assert not all(untimed)


RACE = """\
[machine]
name    = "race"
title   = "Two timers"
about   = "The shorter one always wins."
source  = "a test"
initial = "waiting"

[states]
waiting = {{ about = "" }}
first   = {{ about = "" }}
second  = {{ about = "" }}

[event.one]
about  = "The first timer."
moves  = {{ waiting = "first" }}
cannot = ["first", "second"]

[event.two]
about  = "The second timer."
moves  = {{ waiting = "second" }}
cannot = ["first", "second"]

[timer.shorter]
in        = ["waiting"]
event     = "one"
after     = "{one}"
tolerance = "{tolerance}"

[timer.longer]
in        = ["waiting"]
event     = "two"
after     = "{two}"
tolerance = "{tolerance}"
"""


def claimed(machine: Machine, text: str, target: str = "") -> Property:
    def condition(words: str) -> WrittenCondition:
        return MachineGrammar(text=words, machine=machine).condition()

    claim: claims.Claim = claims.Never(sequences=((condition(text),),))
    if target:
        claim = LeadsTo(source=condition(text), target=condition(target))
    return Property(name="p", says="", level="MUST", source="", claim=claim)


@pytest.mark.parametrize(
    ("one", "two", "tolerance", "wins"),
    [
        ("10 s", "20 s", "1 s", True),
        ("10 s", "12 s", "1 s", False),  # both may fire after 11 s
        ("PT10M", "11 min", "29 s", True),
        ("1500 ms", "1.6 s", "40 ms", True),
    ],
)
def test_the_order_of_timers_is_exact(one: str, two: str, tolerance: str, wins: bool) -> None:  # noqa: FBT001
    machine = machine_of(RACE.format(one=one, two=two, tolerance=tolerance))
    stepping = StepCache(in_progress(tabulate(machine)))

    never = decide(claimed(machine, "is second"), stepping).verdict
    ends = decide(claimed(machine, "is waiting", "not waiting"), stepping).verdict

    assert isinstance(never, Refuted) is not wins
    assert isinstance(ends, Proved)  # time passes, and a timer fires


def test_thresholds_are_divided_by_their_greatest_common_divisor() -> None:
    minutes = machine_of(RACE.format(one="10 min", two="20 min", tolerance="5 min"))
    seconds = machine_of(RACE.format(one="10 s", two="20 s", tolerance="5 s"))

    assert len(explored(minutes)) == len(explored(seconds)) < 20


def explored(machine: Machine) -> tuple[int, ...]:
    return StepCache(in_progress(tabulate(machine))).reached
