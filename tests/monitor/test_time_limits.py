"""An outcome with ``within`` limits the time until the next state must be left."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias
from unittest.mock import patch

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import machine_of, problems_of
from random_machines import random_machine
from thorough import amount

from fsm.machine import Moves, fits
from fsm.machine.calls import Rules
from fsm.machine.calls.clocks import RunningClock, RunningTimers
from fsm.machine.calls.configuration import Configuration, Covering
from fsm.machine.findings import Cause, Illegal, Judgement, Violation
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.machine.traversal import closure
from fsm.monitor import Monitor
from fsm.report import words
from fsm.trace import Line, Observation
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fsm.machine import Machine, Outcome

LAMP = """
[machine]
name       = "lamp"
title      = "A lamp"
about      = "It may glow for a while when it is switched off."
source     = "none"
initial    = "off"
entity     = "lamp"
level      = "observed"
indefinite = ["CANCELED"]

[states]
off   = { about = "Dark.", shows = "DARK" }
on    = { about = "Bright.", shows = "BRIGHT" }
dusty = { about = "It cannot be seen.", shows = "?" }

[event.light]
rpc     = "Light"
about   = "Switch it on."
clause  = "lit-once"
says    = "It is switched on once."
MUST    = "none"
refuses = { "*" = "LIT" }
moves   = { off = "on" }

[event.dim]
rpc      = "Dim"
about    = "Switch it off."
clause   = "dims"
says     = "It is dark ten seconds after it was switched off."
MUST     = "none"
ignores  = ["off"]
refuses  = { dusty = "JAMMED" }
moves.on = [
  { name = "dark", to = "off" },
  { name = "glows", stays = true, within = 10 },
  { name = "failed", stays = true, reply = "JAMMED" },
]

[event.look]
rpc     = "Look"
about   = "Look at it."
ignores = ["*"]

[event.fade]
kind    = "signal"
about   = "It does not glow any more."
ignores = ["off", "dusty"]
moves   = { on = "off" }

[event.sweep]
kind       = "hidden"
about      = "Dust comes or goes."
interrupts = true
ignores    = ["off"]
moves      = { on = [{ name = "kept", stays = true }, { name = "dust", to = "dusty" }], dusty = "on" }
"""

SECOND = 1_000_000_000


def judged(text: str) -> list[tuple[str, str, str]]:
    """Judge observations in a short notation.

    An observation has a time in seconds and an event. ``?`` marks a request, ``=`` a reply, and ``@`` the shown
    state.
    """
    monitor = Monitor(machine_of(LAMP), fresh=True, seen=frozenset({"sweep"}))
    found: list[Violation] = []
    for word in text.split():
        at, _, rest = word.partition(":")
        rest, _, met = rest.partition("@")
        phase = "request" if "?" in rest else "reply" if "=" in rest else ""
        event, _, reply = rest.replace("?", "=").partition("=")
        reply = "" if phase == "request" or event in {"fade", "sweep"} else reply or "ok"
        seen = Observation(
            entity="l",
            event=event,
            phase="lost" if reply == "lost" else phase,  # type: ignore[arg-type]  # one of these
            reply="" if reply == "lost" else reply,
            met=met,
            at=int(at) * SECOND if at else None,
        )
        found += monitor.observe(seen)
    return [(each.clause.name, each.clause.level, each.cause.value) for each in found]


FOUND = [("dims", "MUST", Cause.TIME.value)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0:light 1:dim 5:look@BRIGHT 11:look@BRIGHT", []),
        ("0:light 1:dim 12:look@BRIGHT", FOUND),
        # Neither a later look nor switching the lamp off again changes the limit.
        ("0:light 1:dim 4:look@BRIGHT 7:dim 10:look@BRIGHT 12:look@BRIGHT", FOUND),
        # A second look that shows the same state is not another violation.
        ("0:light 1:dim 12:look@BRIGHT 13:look@BRIGHT", FOUND),
        # A call that failed, or that is not known to have succeeded, starts no time limit for the lamp.
        ("0:light 1:dim=JAMMED 12:look@BRIGHT", []),
        ("0:light 1:dim? 2:dim=lost 13:look@BRIGHT", []),
        # The lamp may have been looked at before the limit.
        ("0:light 1:dim 10:look? 13:look=ok@BRIGHT", []),
        ("0:light 1:dim 12:look? 13:look=ok@BRIGHT", FOUND),
        # An overlapping call may have switched the lamp on afterwards.
        ("0:light? 1:dim 2:light=ok 20:look@BRIGHT", []),
        ("0:dim 1:light 20:look@BRIGHT", []),
        # If two calls overlap, the call that ends last sets the limit.
        ("0:light 1:dim? 2:dim? 3:dim=ok 4:dim=ok 15:look@BRIGHT", FOUND),
        # Without times there is no limit.
        ("0:light :dim 12:look@BRIGHT", []),
        ("0:light 1:dim :look@BRIGHT", []),
    ],
)
def test_a_state_is_left_in_time(text: str, found: list[tuple[str, str, str]]) -> None:
    assert found == judged(text)


@pytest.mark.parametrize("at", [10, 12])
def test_a_state_that_was_left_is_not_to_be_left_once_more(at: int) -> None:
    """When dust covers the lamp, the state and its time limit end. No new limit begins when the dust is gone."""
    assert [] == judged(f"0:light 1:dim 2:sweep 3:sweep {at}:look@BRIGHT")


def test_where_everything_is_shown_nothing_is_assumed() -> None:
    monitor = Monitor(machine_of(LAMP), fresh=True)
    for at, event in enumerate(("light", "dim", "look")):
        assert () == monitor.observe(Observation(entity="l", event=event, reply="ok", at=at * 20 * SECOND))
    assert {"on"} <= monitor.states("l")


def test_a_limit_is_one_second_at_least() -> None:
    (problem,) = problems_of(LAMP.replace("within = 10", "within = 0"))

    assert ("FSM012", LAMP.split("\n").index('  { name = "glows", stays = true, within = 10 },') + 1) == (
        problem.code,
        problem.line,
    )


ORDER = """
[machine]
name    = "order"
title   = "An order"
about   = "It is to be paid within an hour."
source  = "none"
initial = "draft"
level   = "MUST"

[states]
draft   = { about = "It can be edited." }
placed  = { about = "It waits for the payment." }
paid    = { about = "It is paid." }
expired = { about = "Nobody has paid." }

[event.place]
kind    = "call"
about   = "Place it."
moves   = { draft = { to = "placed", within = 3_600 } }
refuses = { "*" = "TOO_LATE" }

[event.edit]
kind    = "call"
about   = "Edit it once more."
moves   = { placed = "draft" }
ignores = ["draft"]
refuses = { "*" = "TOO_LATE" }

[event.pay]
kind    = "call"
about   = "Pay it."
moves   = { placed = "paid" }
ignores = ["paid"]
refuses = { "*" = "TOO_LATE" }

[event.expire]
kind    = "hidden"
about   = "It was not paid."
moves   = { placed = "expired" }
cannot  = ["*"]
"""


def ordered(text: str, *, expires: bool = True) -> tuple[Judgement, list[Violation]]:
    """Judge observations in a short notation, with a time, an event, and the shown state after ``@``."""
    monitor = Monitor(
        machine_of(ORDER if expires else ORDER.replace('moves   = { placed = "expired" }\ncannot', "cannot")),
        fresh=True,
        file="order.jsonl",
    )
    found: list[Violation] = []
    for word in text.split():
        at, event = word[:5], word[5:]
        event, _, shows = event.partition("@")
        when = f"2026-11-20T{at}:00Z" if ":" in at else None
        found += monitor.observe(
            Observation(entity="o", event=event, reply="ok" if event else "", shows=shows, at=when)
        )
    return monitor.judgement(), found


@pytest.mark.parametrize("expires", [True, False])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("09:00place 09:59pay", 0),
        ("09:00place 10:01pay", 2),
        # The state is left and entered again.
        ("09:00place 09:01edit 10:02place 10:03pay", 0),
        ("09:00place 09:01edit 10:02place 11:01pay", 0),
        ("09:00place 09:01edit 10:02place 11:03pay", 4),
        ("09:00place 09:30edit 09:31place 10:15pay", 0),
        ("09:00place 10:01edit", 2),
        # The limit does not restart when the same state is seen again.
        ("09:00place 09:30@placed 10:01@placed", 3),
        ("09:00place 09:30@placed 10:01pay", 3),
        # Without times, nothing can be decided.
        ("....-place 10:01pay 23:00@paid", 0),
        ("09:00place ....-pay", 0),
    ],
)
def test_time_runs_since_the_state_was_entered(text: str, line: int, *, expires: bool) -> None:
    judgement, found = ordered(text, expires=expires)

    assert [line] * bool(line) == [each.line for each in found]
    assert isinstance(judgement.verdict, Illegal if line else Holds)


def test_the_start_is_named() -> None:
    _, (violation,) = ordered("09:00place 09:01edit 10:02place 11:03pay")

    assert (("placed",), "placed", "place") == (violation.before, violation.illegal, violation.clause.name)
    assert (Line("order.jsonl", 3), Line("order.jsonl", 4)) == violation.lines
    assert "placed was not left in time: 3600 s after place" == words.what(violation)
    assert "placed, since 2026-11-20T10:02:00.000000000Z" == words.before(violation)
    assert "left by 2026-11-20T11:02:00.000000000Z" == words.allowed(violation)
    assert ":3, :4" == words.places(violation)


@pytest.mark.parametrize(("text", "count"), [("09:00place 09:59@expired", 0), ("09:00place 10:01@expired", 1)])
def test_what_may_have_been_in_time_is_counted(text: str, count: int) -> None:
    """If the state may have been left in time, the case is counted, but it is not a violation."""
    judgement, found = ordered(text)

    assert ([], Holds()) == (found, judgement.verdict)
    assert count == sum(judgement.notes.values())


# -- a second opinion, straight from the cells -------------------------------------

Timed: TypeAlias = "tuple[str, int | None]"
"""A state, with the second before which it must be left, if any."""


def went(machine: Machine, here: Timed, event: str, now: int, reply: str = "") -> Iterator[Timed]:
    state, end = here
    cell, ways = machine.events[event].cells[state], naive.ways(machine, state, event)
    if ways is None:
        yield from ((each, None) for each in machine.states)
    for way in ways or ():
        if reply and not fits(reply, tuple(way.replies)):
            continue
        those = cell.outcomes if isinstance(cell, Moves) else ()
        within = sum(each.within for each in those if each.name == way.outcome)
        ends = [end] * (end is not None and way.to == state) + [now + within] * bool(within)
        yield way.to, min(filter(None, ends), default=None)


def quietly(machine: Machine, now: set[Timed], at: int) -> set[Timed]:
    hidden = [each.name for each in machine.events.values() if each.kind == "hidden"]
    return {*closure(now, lambda here: (to for event in hidden for to in went(machine, here, event, at)))}


def first_late(machine: Machine, trace: Sequence[Observation]) -> int | None:
    """Return the index of the first observation that no run explains without exceeding a time limit.

    Hidden events may occur every second.
    """
    clock = 0
    now = quietly(machine, {(machine.initial, None)}, clock)
    for index, seen in enumerate(trace):
        while clock < int(seen.at or 0) // SECOND:
            clock += 1
            now = quietly(machine, {each for each in now if each[1] is None or clock <= each[1]}, clock)
        vague = seen.reply in machine.indefinite
        after = {to for here in now for to in went(machine, here, seen.event, clock, "" if vague else seen.reply)}
        now = quietly(machine, after | now if vague else after, clock)
        now = {each for each in now if not seen.shows or machine.states[each[0]].shows == seen.shows}
        if not now:
            return index
    return None


def vague(machine: Machine) -> bool:
    """Return whether limits may start unobserved or overlap, so that the monitor may miss violations."""
    every = [(event, state) for event in machine.events for state in machine.states]
    limited = [
        (event, state, way) for event, state in every for way in outcomes_of(machine, event, state) if way.within
    ]
    return any(machine.events[event].kind == "hidden" or way.to == state for event, state, way in limited)


def outcomes_of(machine: Machine, event: str, state: str) -> Sequence[Outcome]:
    cell = machine.events[event].cells[state]
    return cell.outcomes if isinstance(cell, Moves) else ()


def timed_trace(chance: random.Random, machine: Machine) -> list[Observation]:
    found: list[Observation] = []
    at = 0
    for seen in simulate(machine, seed=chance.getrandbits(30), length=chance.randint(2, 12)):
        at += chance.choice([0, 1, 1, 2, 3, 4])
        if seen.phase == "" and seen.event:
            shows = seen.shows if chance.random() < 0.3 else ""
            found.append(Observation(entity="e", event=seen.event, reply=seen.reply, shows=shows, at=at * SECOND))
    return found


def agrees(seed: int) -> bool:
    chance = random.Random(seed)
    machine = random_machine(chance, time=False, limits=True)
    trace = timed_trace(chance, machine)
    monitor = Monitor(machine, fresh=True)
    found = next((index for index, seen in enumerate(trace) if monitor.observe(seen)), None)
    late = first_late(machine, trace)
    return late == found or (vague(machine) and late is not None and (found is None or late < found))


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=amount(150, night=20_000), deadline=None)
def test_random_machines(seed: int) -> None:
    """The monitor and a search through all runs, with hidden events at any time, find the same first violation."""
    assert agrees(seed)


def keeps_running(moved: Callable[..., tuple[RunningClock, ...]]) -> Callable[..., tuple[RunningClock, ...]]:
    return lambda self, clocks, *rest, **how: clocks or moved(self, clocks, *rest, **how)


PLANTED = {
    "time goes on when the state is left": (
        "fsm.machine.calls.clocks.RunningTimers.moved",
        keeps_running(RunningTimers.moved),
    ),
    "time never begins": ("fsm.machine.calls.clocks.RunningTimers.moved", lambda *_, **__: ()),
    "nothing is late": ("fsm.monitor.life.Life.passes", lambda life, *_: life.belief.configurations),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_noticed(mistake: str) -> None:
    with patch(*PLANTED[mistake]):
        _, found = ordered("09:00place 09:01edit 10:02place 10:03pay")  # this trace is legal

        assert found or not all(map(agrees, range(400)))


def test_what_has_no_limit_covers_what_has_one() -> None:
    within = Covering(Rules(tabulate(machine_of(LAMP)))).within
    free, due, other, later = (
        frozenset({Configuration(1, clocks=clocks)})
        for clocks in ((), (RunningClock(3, 0, 1),), (RunningClock(4, 0, 1),), (RunningClock(3, 0, 2),))
    )

    assert within(due, free)
    assert not within(free, due)
    assert not within(due, other)
    assert within(due, later)
    assert not within(later, due)
