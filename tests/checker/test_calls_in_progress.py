"""A call in progress ends only in the copy that began it, even if the copy has changed its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from brute_force.claims import Decider
from brute_force.steps import SystemModel
from machines import machine_of
from random_claims import stated
from random_systems import system_of
from shipped import claims
from toy_systems import stated_of

from fsm.checker import decide, examine, stepping_of
from fsm.checker.breadth_first import WITHIN
from fsm.checker.instants import StepCache
from fsm.language import library
from fsm.machine.evidence import Proved, Refuted, Unwritten
from fsm.machine.in_progress import in_progress
from fsm.machine.product import SystemTable
from fsm.machine.table import tabulate
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from fsm.machine.evidence import Checked

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
        (pushed(OPEN, "b", "c"), 'always = "not y"\nwhen = "c and z replies ok"', Unwritten, 0),
        (pushed(OPEN, "b", "c"), 'never = "c and z replies ok then a"', Unwritten, 0),
        (pushed(OPEN, "b", "c"), 'from = "c and z replies ok"\nleads-to = "c"', Unwritten, 0),
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
    checked = decide(stated(machine, 'never = "d"'), StepCache(in_progress(tabulate(machine), overlap)))

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


ALL_AT_ONCE = """\
[event.all]
kind = "call"
of = "p"
about = "A"
steps = ["p.z/begins-b", "p.z", "p.z.ends"]
"""


def test_an_end_that_is_not_written_is_found_within_a_joint_event() -> None:
    system = system_of(WITHIN_ONE_EVENT, {"p": machine_of(ENDS_IN_C)})
    verdict = decide(stated_of(system, 'never = "p is c"'), stepping_of(system)).verdict

    assert isinstance(verdict, Unwritten), verdict
    assert (verdict.event, verdict.state) == ("z", "c")


def test_sizes_count_what_such_an_end_leads_to() -> None:
    system = system_of(WITHIN_ONE_EVENT.partition("[event")[0] + ALL_AT_ONCE, {"p": machine_of(ENDS_IN_C)})
    counts = StepCache(SystemTable(system)).size(WITHIN)

    assert (counts.states, counts.transitions, counts.depth) == Decider(SystemModel(system)).size() == (2, 0, 1)


@pytest.mark.parametrize("name", [*library.specified(), *library.systems()])
def test_a_second_call_in_progress_changes_no_shipped_verdict(name: str) -> None:
    one, two = (examine(claims(name), overlap=overlap) for overlap in (1, 2))

    assert [(type(each.verdict), shown(each)) for each in two.checked] == [
        (type(each.verdict), shown(each)) for each in one.checked
    ]


def shown(checked: Checked) -> int:
    return checked.verdict.length if isinstance(checked.verdict, Refuted) else 0
