"""The brute-force search finds the answers that were worked out by hand from the reference pages."""

from __future__ import annotations

import pytest
from brute_force.claims import Answer, Decider
from brute_force.steps import MachineModel, SystemModel
from machines import JOB, edited, machine_of
from random_claims import stated
from random_systems import system_of
from toy_systems import stated_of

from fsm.machine import Machine
from fsm.machine.claims import Follows

HEAD = """\
[machine]
name = "toy"
title = "T"
about = "T"
source = "none"
initial = "a"
[states]
a = { about = "A" }
b = { about = "B" }
c = { about = "C" }
d = { about = "D" }
"""

MOVED = """\
[event.z]
kind = "call"
about = "Begins in a, and is moved on by y."
moves = { a = { begins = "b" } }
refuses = { "*" = "E1" }
ends = { b = "a", c = "d" }
[event.y]
about = "Y"
moves = { b = "c" }
cannot = ["*"]
"""

UNBEGUN = """\
[event.z]
kind = "call"
about = "Begins in c, which is not reached."
moves = { c = { begins = "b" } }
refuses = { "*" = "E1" }
ends = { b = "c" }
[event.y]
about = "Y"
moves = { a = "b" }
cannot = ["*"]
"""

# The model does not specify an end of the call in state c.
UNWRITTEN = edited(MOVED, 'ends = { b = "a", c = "d" }', 'ends = { b = { to = "a", reply = "E2" } }')

INTERRUPTED = """\
[event.z]
kind = "call"
about = "Begins in a."
moves = { a = { begins = "b" } }
refuses = { "*" = "E1" }
ends = { b = "d" }
[event.y]
about = "It interrupts where it changes nothing, too."
interrupts = true
ignores = ["*"]
"""

TWICE = """\
[event.z]
kind = "call"
about = "Begins in a and in b, and may be refused there."
moves = { a = { begins = "b" }, b = [{ name = "more", begins = "c" }, { name = "no", stays = true, reply = "E1" }] }
refuses = { "*" = "E2" }
ends = { b = "a", c = "b", d = "d" }
[event.y]
about = "Y"
moves = { c = "d" }
cannot = ["*"]
"""

SLOW = """\
[event.z]
kind = "call"
about = "Takes time, and leaves all as it was the second time."
moves = { a = { begins = "b" }, c = { begins = "d" } }
refuses = { b = "E1", d = "E1" }
ends = { b = "c", d = "c" }
"""

FOUR = """\
[event.e]
about = "From one state to the next."
moves = { a = "b", b = "c", c = "d", d = "a" }
"""

ASKED = """\
[event.e]
kind = "call"
about = "It may be done once."
moves = { a = { to = "b", emits = ["x", "y"] } }
silent = ["b"]
ignores = ["c", "d"]
"""

BY_HAND = [
    # The machine, the maximum number of calls in progress, a claim, its verdict, and the length of the shortest run.
    (MOVED, 1, 'never = "d"', "fails", 3),
    (MOVED, 1, 'never = "y then z replies ok"', "fails", 3),
    (MOVED, 1, 'never = "y then is a"', "holds", None),
    (MOVED, 1, 'never = "z then z then d"', "fails", 4),
    (UNBEGUN, 1, 'never = "c"', "holds", None),
    (UNBEGUN, 1, 'reachable = "c"', "fails", 0),
    (UNWRITTEN, 1, 'never = "c and z replies ok"', "unknown", None),
    (UNWRITTEN, 1, 'never = "z replies E3"', "unknown", None),
    (UNWRITTEN, 1, 'never = "a and z replies E2"', "fails", 2),
    (UNWRITTEN, 1, 'never = "d and y"', "vacuous", None),
    (UNWRITTEN, 1, 'reachable = "c and z replies ok"', "unknown", None),
    (UNWRITTEN, 1, 'reachable = ["c and z replies ok", "d"]', "fails", 0),
    (UNWRITTEN, 1, 'idempotent = "z"', "unknown", None),
    (UNWRITTEN, 1, 'from = "y"\nleads-to = "z replies error"\nfair = ["z.ends"]', "unknown", None),
    (UNWRITTEN, 1, 'from = "y"\nleads-to = "z replies error"', "fails", None),
    (INTERRUPTED, 1, 'never = "b then y then z replies ok"', "holds", None),
    (INTERRUPTED, 1, 'never = "d"', "fails", 2),
    (INTERRUPTED, 1, 'from = "b"\nleads-to = "d"\nfair = ["z.ends"]', "fails", None),
    (TWICE, 1, 'never = "is c"', "holds", None),
    (TWICE, 2, 'never = "is c"', "fails", 2),
    (TWICE, 1, 'never = "d"', "holds", None),
    (TWICE, 2, 'never = "d"', "fails", 3),
    (TWICE, 1, 'never = "z replies E1"', "fails", 2),
    (SLOW, 1, 'idempotent = "z"', "holds", None),
    (edited(SLOW, 'd = "c" }', 'd = "a" }'), 1, 'idempotent = "z"', "fails", 4),
    (edited(SLOW, 'd = "c" }', 'd = { to = "c", reply = "E1" } }'), 1, 'idempotent = "z"', "fails", 4),
    (ASKED, 1, 'idempotent = "e"', "fails", 2),
    (ASKED, 1, 'always = "emits only x, y"\nwhen = "emits y"', "holds", None),
    (ASKED, 1, 'never = "emits x then emits y"', "fails", 1),
    (ASKED, 1, 'never = "emits y then emits x"', "holds", None),
    (ASKED, 1, 'always = "stays"', "fails", 1),
    (ASKED, 1, 'always = "not moves"\nwhen = "emits nothing"', "holds", None),
    (ASKED, 1, 'always = "silent on e"\nwhen = "is b"', "holds", None),
    (FOUR, 1, 'always = ["not c", "not b"]', "fails", 1),
    (FOUR, 1, 'always = "emits nothing"', "holds", None),
    (FOUR, 1, 'never = "emits nothing"', "fails", 0),
    (FOUR, 1, 'never = "was a then is a"', "fails", 4),
    (FOUR, 1, 'never = "was a then is a"\nuntil = "c"', "holds", None),
    (FOUR, 1, 'never = "is a then is b then is c"\nuntil = "is b"', "holds", None),
    (FOUR, 1, 'never = "is a then is b then is c"\nuntil = "is c"', "fails", 2),
    (FOUR, 1, 'never = "is a then is b then is c"\nuntil = "is a"', "fails", 2),
    (FOUR, 1, 'never = "is a then is a"\nuntil = "is a"', "fails", 4),
    (FOUR, 1, 'from = "is a"\nleads-to = "is d"\nfair = ["e"]', "holds", None),
    (FOUR, 1, 'reachable = "is a then is d"\nfrom-each = ["d"]', "holds", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "overlap", "claim", "verdict", "length"), BY_HAND)
def test_answers_worked_out_by_hand(text: str, overlap: int, claim: str, verdict: str, length: int | None) -> None:
    machine = machine_of(HEAD + text)
    answer = Decider(MachineModel(machine, overlap)).decide(stated(machine, claim).claim)

    assert (verdict, length) == (answer.verdict, answer.length)


def test_a_begin_that_is_not_followed_is_told() -> None:
    """The answer is marked as incomplete if a second call could have begun but was not explored."""
    machine = machine_of(HEAD + TWICE)
    claim = stated(machine, 'never = "d"').claim

    assert Answer(verdict="holds", cut=True) == Decider(MachineModel(machine, 1)).decide(claim)
    assert not Decider(MachineModel(machine_of(HEAD + FOUR), 1)).decide(claim).cut


def test_sizes_of_the_toy_job() -> None:
    """The transitions are those of ``make``, ``start``, ``exit``, ``crash`` and the ends of ``start``."""
    assert (6, 6 + 7 + 2 + 6 + 3, 4) == Decider(MachineModel(machine_of(JOB))).size()


PART = edited(
    HEAD
    + '[event.e]\nkind = "call"\nabout = "E"\nmoves = { a = { to = "b", reply = ["ok", "E1"], emits = ["x"] } }\nignores = ["*"]\n',
    'name = "toy"',
    'name = "p"',
)
SLOW_PART = HEAD + MOVED

SYSTEM = """\
[system]
name = "pair"
title = "P"
about = "P"
source = "none"
[part.p]
machine = "p"
[part.q]
machine = "p"
heard = "p is b"
[event.v]
kind = "call"
about = "V"
steps = ["p.e", "q.e"]
"""

SIGNAL = SYSTEM.replace('kind = "call"', 'kind = "signal"')
GOES_ON = SYSTEM.replace('"p.e",', '{ do = "p.e", goes-on = true },')
BUSY = SYSTEM.replace('steps = ["p.e", "q.e"]', 'ways.w = { steps = ["p.e", "q.e"], reply = ["E7", "E8"] }')
WHEN = SYSTEM.replace('"q.e"]', '{ do = "q.e", when = "p is b" }, { do = "reset p", when = "q is b" }]')

SYSTEMS_BY_HAND = [
    (SYSTEM, 'never = "v replies error"', "fails", 1),
    (SYSTEM, 'never = "p is b and q is a"', "fails", 1),
    (SYSTEM, 'always = "emits x"\nwhen = "p was a and v"', "holds", None),
    (SYSTEM, 'never = "tells x and q is b"', "fails", 1),
    (SIGNAL, 'never = "p is b and q is a"', "holds", None),
    (GOES_ON, 'never = "p is b and q is a"', "holds", None),
    (GOES_ON, 'never = "v replies ok"', "fails", 1),
    (BUSY, 'never = "v replies ok"', "holds", None),
    (BUSY, 'never = "v replies E8"', "fails", 1),
    (WHEN, 'never = "p is a and q is b"', "fails", 1),
    (WHEN, 'never = "v then q is a"', "holds", None),
    (SYSTEM, 'idempotent = "v"', "holds", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "claim", "verdict", "length"), SYSTEMS_BY_HAND)
def test_answers_about_systems(text: str, claim: str, verdict: str, length: int | None) -> None:
    system = system_of(text, {"p": machine_of(PART)})
    answer = Decider(SystemModel(system)).decide(stated_of(system, claim).claim)

    assert (verdict, length) == (answer.verdict, answer.length)


SLOW_SYSTEM = """\
[system]
name = "slow"
title = "S"
about = "S"
source = "none"
[part.p]
machine = "p"
count = 2
[event.start]
kind = "call"
of = "p"
about = "S"
steps = ["p.z"]
[event.end]
of = "p"
about = "E"
steps = ["p.z.ends"]
[event.y]
of = "p"
about = "Y"
steps = ["p.y"]
[event.crash]
about = "C"
steps = ["reset every p"]
"""


@pytest.mark.parametrize(
    ("claim", "verdict", "length"),
    [
        ('for = "p"\nnever = "p is d"', "fails", 3),
        ('for = "p"\nnever = "crash then p is d"\nuntil = "start replies ok"', "holds", None),
        ('never = "every p is d"', "fails", 6),
        ('for = "p"\nalways = "p was b or p was c"\nwhen = "end"', "holds", None),
        ('for = "p"\nnever = "p was a and end"', "holds", None),
    ],
)
def test_each_copy_has_its_calls(claim: str, verdict: str, length: int | None) -> None:
    machine: Machine = machine_of(SLOW_PART)
    system = system_of(SLOW_SYSTEM, {"p": machine})
    answer = Decider(SystemModel(system)).decide(stated_of(system, claim).claim)

    assert (verdict, length) == (answer.verdict, answer.length)


@pytest.mark.parametrize(
    ("steps", "claim", "verdict"),
    [
        ('"p.z/begins-b", "p.y", "p.z.ends"', 'never = "p is d"', "fails"),
        ('"p.z/begins-b", "p.y", "p.z.ends"', 'never = "p is c"', "holds"),
        ('"p.z.ends"', 'never = "end"', "holds"),
    ],
)
def test_a_call_may_end_in_the_step_in_which_it_begins(steps: str, claim: str, verdict: str) -> None:
    text = SLOW_SYSTEM.replace('steps = ["p.z.ends"]', f"steps = [{steps}]").replace(
        'steps = ["p.z"]', 'steps = ["p.y"]'
    )
    system = system_of(text.replace("count = 2\n", ""), {"p": machine_of(SLOW_PART)})

    assert verdict == Decider(SystemModel(system)).decide(stated_of(system, claim).claim).verdict


def test_an_end_that_is_not_written_is_possible_in_a_system_too() -> None:
    text = SLOW_SYSTEM.replace('of = "p"\nabout = "E"', 'kind = "call"\nof = "p"\nabout = "E"')
    system = system_of(text, {"p": machine_of(HEAD + UNWRITTEN)})
    decider = Decider(SystemModel(system))
    claims = (
        'for = "p"\nnever = "end replies E7"',
        'for = "p"\nnever = "p is c and end"',
        'for = "p"\nnever = "p is d"',
    )

    assert ["unknown", "unknown", "holds"] == [decider.decide(stated_of(system, each).claim).verdict for each in claims]


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        ('[event.x]\nabout = "X"\nmoves = { a = "b" }\ncannot = ["*"]\n[event.y]\nabout = "Y"\nignores = ["b"]\ncannot = ["*"]\n', "holds"),
        ('[event.x]\nabout = "X"\nmoves = { a = "b" }\ncannot = ["*"]\n[event.y]\nabout = "Y"\nignores = ["a"]\ncannot = ["*"]\n', "fails"),
        ('[event.x]\nabout = "X"\nsilent = ["a"]\ncannot = ["*"]\n[event.y]\nabout = "Y"\nignores = ["d"]\ncannot = ["*"]\n', "holds"),
        ('[event.w]\nabout = "W"\nignores = ["*"]\n', "vacuous"),
    ],
)  # fmt: skip
def test_outputs_follow_another_machine(cells: str, verdict: str) -> None:
    claim = Follows(other=machine_of(HEAD + cells))

    assert verdict == Decider(MachineModel(machine_of(HEAD + ASKED))).decide(claim).verdict
