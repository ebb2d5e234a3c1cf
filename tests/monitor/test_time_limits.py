"""An outcome that has ``within`` leads to a state that is left by then: after that, the monitor does not expect it."""

from __future__ import annotations

import pytest
from machines import machine_of, problems_of

from fsm.machine.calls.configuration import Configuration
from fsm.machine.calls.covering import Covering
from fsm.machine.calls.rules import Rules
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.trace import Observation
from fsm.verdict import Cause, Violation

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
    """What is found in observations in short: second, event, ``?`` for a request and ``=`` for a reply, ``@`` what is met."""
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


FOUND = [("dims", "MUST", Cause.STATE.value)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0:light 1:dim 5:look@BRIGHT 11:look@BRIGHT", []),
        ("0:light 1:dim 12:look@BRIGHT", FOUND),
        # However often it is looked at, or switched off again.
        ("0:light 1:dim 4:look@BRIGHT 7:dim 10:look@BRIGHT 12:look@BRIGHT", FOUND),
        # The same once more is no second violation.
        ("0:light 1:dim 12:look@BRIGHT 13:look@BRIGHT", FOUND),
        # What failed, or is not known to have succeeded, sets no limit.
        ("0:light 1:dim=JAMMED 12:look@BRIGHT", []),
        ("0:light 1:dim? 2:dim=lost 13:look@BRIGHT", []),
        # The look may have been before the limit.
        ("0:light 1:dim 10:look? 13:look=ok@BRIGHT", []),
        ("0:light 1:dim 12:look? 13:look=ok@BRIGHT", FOUND),
        # One that overlaps may have switched it on afterwards.
        ("0:light? 1:dim 2:light=ok 20:look@BRIGHT", []),
        ("0:dim 1:light 20:look@BRIGHT", []),
        # Of two that overlap, the last one to end sets it.
        ("0:light 1:dim? 2:dim? 3:dim=ok 4:dim=ok 15:look@BRIGHT", FOUND),
        # Without times there is none.
        ("0:light :dim 12:look@BRIGHT", []),
        ("0:light 1:dim :look@BRIGHT", []),
    ],
)
def test_a_state_is_left_in_time(text: str, found: list[tuple[str, str, str]]) -> None:
    """The clause is that of the cell which has the limit."""
    assert found == judged(text)


@pytest.mark.parametrize(("at", "found"), [(10, []), (12, FOUND)])
def test_what_comes_back_does_not_begin_anew(at: int, found: list[tuple[str, str, str]]) -> None:
    """A way through other states is no excuse."""
    assert found == judged(f"0:light 1:dim 2:sweep 3:sweep {at}:look@BRIGHT")


def test_where_everything_is_shown_nothing_is_assumed() -> None:
    """What was to happen and is not in the trace has not happened."""
    monitor = Monitor(machine_of(LAMP), fresh=True)
    for at, event in enumerate(("light", "dim", "look")):
        assert () == monitor.observe(Observation(entity="l", event=event, reply="ok", at=at * 20 * SECOND))
    assert {"on"} <= monitor.states("l")


def test_a_limit_is_one_second_at_least() -> None:
    """No limit is written by leaving it out."""
    (problem,) = problems_of(LAMP.replace("within = 10", "within = 0"))

    assert ("FSM012", LAMP.split("\n").index('  { name = "glows", stays = true, within = 10 },') + 1) == (
        problem.code,
        problem.line,
    )


def test_what_has_no_limit_covers_what_has_one() -> None:
    """And not the other way round."""
    within = Covering(Rules(tabulate(machine_of(LAMP)))).within
    free, due = (frozenset({Configuration(1, due=way)}) for way in (-1, 3))

    assert within(due, free)
    assert not within(free, due)
    assert not within(due, frozenset({Configuration(1, due=4)}))
