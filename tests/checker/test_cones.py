"""Each claim is checked only on its cone, the parts of the system that it depends on.

The result holds for the whole system. Steps outside the cone still count as instants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from brute_force.claims import Decider
from brute_force.steps import SystemModel
from brute_force_search import verdict_of
from machines import machine_of
from random_systems import system_of
from toy_systems import specification_of, stated_of

from fsm.checker import decide, stepping_of
from fsm.checker.any_number import examine_any
from fsm.checker.cones import Cones
from fsm.checker.instants import system_table
from fsm.machine.evidence import Proved, Refuted

if TYPE_CHECKING:
    from fsm.machine.claims import Specification
    from fsm.machine.product.system import System

HEAD = '[machine]\nname = "toy"\ntitle = "T"\nabout = "T"\nsource = "none"\ninitial = "off"\n'
LAMP = (
    HEAD
    + """\
[states]
off = { about = "Off" }
on = { about = "On" }
[event.light]
kind = "call"
about = "Light it."
moves = { off = "on" }
refuses = { on = "LIT" }
[event.dim]
about = "Dim it."
moves = { on = "off" }
cannot = ["off"]
"""
)
BELL = (
    HEAD
    + """\
[states]
off = { about = "Off" }
[event.ring]
kind = "call"
about = "It rings twice, for whoever is busy."
moves = { off = { to = "off", reply = "BUSY", emits = ["ding", "dong"] } }
"""
)
MACHINES = {"lamp": machine_of(LAMP), "bell": machine_of(BELL)}


def house(copies: int = 2) -> str:
    return f"""\
[system]
name = "house"
title = "H"
about = "H"
source = "none"
[part.lamp]
machine = "lamp"
[part.garden]
machine = "lamp"
count = {copies}
[part.bell]
machine = "bell"
[event.light]
kind = "call"
about = "Light the lamp; the bell rings, and it does not matter what comes of that."
steps = [{{ do = "bell.ring", goes-on = true }}, "lamp.light"]
[event.dim]
about = "Dim the lamp."
steps = ["lamp.dim"]
[event.light-garden]
kind = "signal"
of = "garden"
about = "Light one in the garden."
when = "garden is off"
steps = ["garden.light"]
[event.ask]
kind = "call"
about = "Light the lamp, and ring."
steps = ["lamp.light", "bell.ring"]
"""


SYSTEM = system_of(house(), MACHINES)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ('never = "lamp is off then lamp is off"', ("fails", 1)),  # lighting a garden lamp is an instant, too
        ('never = "lamp is off then lamp is off then lamp is off then lamp is off"', ("fails", 4)),
        ('reachable = "lamp was off then lamp was off"', ("holds", 1)),  # one step, two instants: the bell rings twice
        ('never = "light and lamp is on then light"', ("fails", 1)),  # the bell rings twice here, too
        ('always = "light"\nwhen = "lamp was off"', ("fails", 1)),
        ('always = "lamp is on"\nwhen = "lamp was on and not (light or dim or ask)"', ("holds", 0)),  # not vacuously
        ('never = "lamp is on then lamp is off"\nuntil = "not (light or dim or ask)"', ("fails", 2)),
        ('always = "not (emits nothing)"\nwhen = "light"', ("holds", 0)),
        ('always = "emits ding"\nwhen = "light"', ("fails", 1)),
    ],
)
def test_all_instants_of_the_whole_count(claim: str, expected: tuple[str, int]) -> None:
    stated = stated_of(SYSTEM, claim)
    verdict = decide(stated, stepping_of(SYSTEM)).verdict
    answer = Decider(SystemModel(SYSTEM)).decide(stated.claim)
    witnesses = verdict.witnesses if isinstance(verdict, Proved) else ()
    length = verdict.length if isinstance(verdict, Refuted) else sum(run.length for run in witnesses)

    assert (verdict_of(verdict), length) == expected
    assert (answer.verdict, answer.length or sum(answer.witnesses)) == expected


def test_a_run_has_replies_that_the_whole_gives() -> None:
    """A run shows the replies of the whole system, even an error from a part outside the cone."""
    stated = stated_of(SYSTEM, 'never = "lamp is on and not light"')
    cones = Cones(system=SYSTEM)
    verdict = decide(stated, cones).verdict

    assert system_table(cones.stepping(stated.claim).table).cone == {0}
    assert isinstance(verdict, Refuted)
    assert verdict.run is not None
    assert [(step.event, step.reply) for step in verdict.run.steps] == [("ask", "BUSY")]


def test_any_number_of_copies_take_any_number_of_steps() -> None:
    """With two garden lamps, the lamp is off for at most three instants. Only with a third does the claim fail."""
    claim = 'never = "lamp is off then lamp is off then lamp is off then lamp is off"\nuntil = "light or ask or dim"'

    def numbered(copies: int) -> Specification[System]:
        return specification_of(system_of(house(copies), MACHINES), claim)

    [checked] = examine_any(numbered, "garden").checked

    assert not isinstance(checked.verdict, Proved)
    assert isinstance(decide(numbered(3).properties[0], stepping_of(numbered(3).machine)).verdict, Refuted)
