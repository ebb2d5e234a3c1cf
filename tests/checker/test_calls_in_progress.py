"""Calls in progress: a call ends only where it has begun, and wherever other events have moved the entity meanwhile."""

from __future__ import annotations

import pytest
from machines import machine_of
from random_claims import stated
from random_systems import system_of
from toy_systems import stated_of

from fsm.checker import decide, stepping_of
from fsm.checker.instants import StepCache
from fsm.machine.table import tabulate
from fsm.property.evidence import Proved, Refuted, Unwritten
from fsm.verdict import Unknown

HEAD = '[machine]\nname = "toy"\ntitle = "T"\nabout = "T"\nsource = "none"\ninitial = "a"\n[states]\n' + "".join(
    f'{state} = {{ about = "A state." }}\n' for state in "abcd"
)
SLOW = '[event.z]\nkind = "call"\nabout = "Z"\nrefuses = { "*" = "E1" }\n'
MOVED = HEAD + SLOW + 'moves = { a = { begins = "b" } }\nends = { b = "a", c = "d" }\n'
UNBEGUN = HEAD + SLOW + 'moves = { c = { begins = "b" } }\nends = { b = "c" }\n'
OPEN = HEAD + SLOW + 'moves = { a = { begins = "b" } }\nends = { b = "a" }\n'
PUSHED = '[event.y]\nabout = "Y"\nmoves = { FROM = "TO" }\ncannot = ["*"]\n'
TWICE = '[event.e]\nkind = "call"\nabout = "E"\nmoves = { b = "a" }\nrefuses = { a = "E1" }\nignores = ["*"]\n'


def pushed(text: str, source: str, target: str) -> str:
    return text + PUSHED.replace("FROM", source).replace("TO", target)


@pytest.mark.parametrize(
    ("text", "claim", "found", "length"),
    [
        (pushed(MOVED, "b", "c"), 'never = "d"', Refuted, 3),
        (pushed(MOVED, "b", "c"), 'never = "y then z replies ok"', Refuted, 3),
        (pushed(UNBEGUN, "a", "b"), 'never = "c"', Proved, 0),
        (pushed(UNBEGUN, "a", "b") + TWICE, 'idempotent = "e"', Refuted, 3),
        (pushed(OPEN, "b", "c"), 'never = "c and z replies ok"', Unwritten, 0),
        (pushed(OPEN, "b", "c"), 'never = "z replies ok"', Refuted, 2),
        (pushed(OPEN, "b", "c"), 'reachable = "c and z replies E7"', Unwritten, 0),
    ],
)
def test_a_call_ends_where_it_has_begun(
    text: str, claim: str, found: type[Refuted | Proved | Unknown], length: int
) -> None:
    machine = machine_of(text)
    verdict = decide(stated(machine, claim), tabulate(machine)).verdict

    assert isinstance(verdict, found), verdict
    assert not isinstance(verdict, Refuted) or verdict.length == length
    assert not isinstance(verdict, Unwritten) or (verdict.event, verdict.state) == ("z", "c")


@pytest.mark.parametrize(("overlap", "told"), [(1, 1), (2, 2)])
def test_a_begin_that_was_cut_off_is_told(overlap: int, told: int) -> None:
    machine = machine_of(pushed(OPEN, "b", "a"))
    checked = decide(stated(machine, 'never = "d"'), StepCache(tabulate(machine), overlap=overlap))

    assert (checked.overlap, type(checked.verdict)) == (told, Proved)


ENDS_IN_C = (
    HEAD
    + SLOW.replace('refuses = { "*" = "E1" }', 'refuses = { c = "E1", d = "E1" }')
    + ('moves = { a = { begins = "b" }, b = "c" }\nends = { b = "a" }\n')
)
WITHIN_ONE_EVENT = """\
[system]
name = "s"
title = "S"
about = "S"
source = "none"
[part.p]
machine = "p"
[event.start]
kind = "call"
of = "p"
about = "S"
steps = ["p.z/begins-b"]
[event.end]
kind = "call"
of = "p"
about = "E"
steps = ["p.z", "p.z.ends"]
"""


def test_an_end_that_is_not_written_is_found_within_a_joint_event() -> None:
    """Its state is passed in the middle, and the copy rests in it only after such an end."""
    system = system_of(WITHIN_ONE_EVENT, {"p": machine_of(ENDS_IN_C)})
    verdict = decide(stated_of(system, 'never = "p is c"'), stepping_of(system)).verdict

    assert isinstance(verdict, Unwritten), verdict
    assert (verdict.event, verdict.state) == ("z", "c")
