"""Claims about machines with data have the verdicts that were worked out by hand, and planted defects change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from brute_force.claims import Decider
from brute_force.data import DataModel
from brute_force_search import verdict_of
from machines import SAFE, edited, machine_of
from planted_defects import DATA, of_the_last_call
from random_claims import stated

from fsm.checker import decide, stepping_of
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.table import tabulate
from fsm.mutation.outcomes import mutation_outcomes

if TYPE_CHECKING:
    from planted_defects import Plant

HEAD = """\
[machine]
name = "toy"
title = "T"
about = "T"
source = "none"
initial = "on"
[states]
on = { about = "On." }
off = { about = "Off." }
"""
SWAP = f"""{HEAD}
[data]
n = {{ from = 0, to = 2 }}
m = {{ from = 0, to = 2, initial = 1 }}
[event.swap]
about = "Both are read before either changes."
moves = {{ on = {{ stays = true, set = {{ n = "m", m = "n" }} }} }}
cannot = ["off"]
"""
TAKEN = f"""{HEAD}
[data]
n = {{ from = 0, to = 2 }}
[event.put]
kind = "call"
about = "Keeps what it was given when it began."
arguments = {{ x = {{ from = 0, to = 2 }} }}
moves = {{ on = {{ begins = "on" }} }}
refuses = {{ off = "OFF" }}
ends.on = [
  {{ name = "two", to = "off", when = "x == 2 and n == 1", set = {{ n = "x" }} }},
  {{ name = "other", to = "on", when = "otherwise", set = {{ n = "x" }} }},
]
ends.off = {{ stays = true, set = {{ n = "x" }} }}
"""
COUNT = f"""{HEAD}
[data]
n = {{ from = 0, to = 2, scope = true }}
[event.tick]
about = "Counts."
moves = {{ on = [
  {{ name = "last", to = "off", when = "n > 4" }},
  {{ name = "more", stays = true, when = "otherwise", set = {{ n = "n + 1" }} }},
] }}
ignores = ["off"]
"""
FULL = edited(edited(COUNT, "scope", "saturates"), "n > 4", "n == 2")
TWICE = f"""{HEAD}
[data]
n = {{ from = 0, to = 2 }}
m = {{ from = 0, to = 2, saturates = true, about = "How many calls have begun with 2." }}
[event.put]
kind = "call"
about = "Keeps what it was given when it began."
arguments = {{ x = {{ from = 1, to = 2 }} }}
moves.on = [
  {{ name = "two", begins = "on", when = "x == 2", set = {{ m = "m + 1" }} }},
  {{ name = "other", begins = "on", when = "otherwise" }},
]
refuses = {{ off = "OFF" }}
ends.on = {{ stays = true, set = {{ n = "x" }} }}
ends.off = {{ stays = true, set = {{ n = "x" }} }}
[event.shut]
about = "No more calls."
moves = {{ on = "off" }}
ignores = ["off"]
"""
KEEP = f"""{HEAD}
[data]
n = {{ from = 0, to = 2 }}
[event.keep]
kind = "call"
about = "Keeps a number."
arguments = {{ x = {{ from = 0, to = 2 }} }}
moves = {{ on = {{ stays = true, set = {{ n = "x" }} }} }}
refuses = {{ off = "OFF" }}
"""

BY_HAND = [
    # The machine, the maximum number of calls in progress, a claim, its verdict, the length of the shortest run.
    (SWAP, 1, 'always = "n + m == 1"', "holds", None),
    (SWAP, 1, 'never = "n == 1 and m == 0 then n == 0"', "fails", 2),
    (SWAP, 1, 'always = "n != m"', "holds", None),
    (TAKEN, 1, 'never = "off"', "fails", 4),
    (TAKEN, 2, 'never = "n == 2 then put happens then n == 0"', "fails", 4),
    (TAKEN, 2, 'never = "n == 1 and not put happens then n == 2 and not put happens"', "fails", 4),
    (TWICE, 2, 'never = "off and put replies ok and m == 1 and n == 2 then put replies ok and n == 2"', "holds", None),
    (TWICE, 2, 'never = "off and put replies ok and n == 2 then put replies ok and n == 2"', "fails", 5),
    (COUNT, 1, 'never = "n > 2"', "holds", None),
    (COUNT, 1, 'never = "off"', "holds", None),
    (COUNT, 1, 'from = "is on"\nleads-to = "off"\nfair = ["tick"]', "holds", None),
    (FULL, 1, 'always = "n <= 2"', "holds", None),
    (FULL, 1, 'from = "is on"\nleads-to = "off"\nfair = ["tick"]', "holds", None),
    (FULL, 1, 'never = "off"', "fails", 3),
    (edited(COUNT, "scope", "saturates"), 1, 'never = "n == 2 then tick happens"', "fails", 3),
    (KEEP, 1, 'idempotent = "keep"', "holds", None),
    (edited(KEEP, '"x"', '"max(0, x - n)"'), 1, 'idempotent = "keep"', "fails", 2),
    (SAFE, 1, 'never = "is locked and failures == 2 then is open"', "fails", 3),
    (SAFE, 1, 'never = "is blocked and failures != 2"', "holds", None),
    (SAFE, 1, 'idempotent = "enter"', "fails", 2),
    (SAFE, 1, 'idempotent = "enter"\nonce = "failures == 2"', "vacuous", None),
]  # fmt: skip


def checked_answer(text: str, overlap: int, claim: str) -> tuple[str, int | None]:
    machine = machine_of(text)
    verdict = decide(stated(machine, claim), stepping_of(machine, overlap=overlap)).verdict
    return verdict_of(verdict), verdict.length if isinstance(verdict, Refuted) else None


@pytest.mark.parametrize(("text", "overlap", "claim", "verdict", "length"), BY_HAND)
def test_finds_what_was_worked_out(text: str, overlap: int, claim: str, verdict: str, length: int | None) -> None:
    machine = machine_of(text)

    answer = Decider(DataModel(machine, overlap)).decide(stated(machine, claim).claim)

    assert (verdict, length) == checked_answer(text, overlap, claim)
    assert verdict == answer.verdict
    assert length == answer.length or "leads-to" in claim


@pytest.mark.parametrize(
    "plant", [pytest.param(plant, id=name) for name, plant in (*DATA.items(), ("of the last call", of_the_last_call))]
)
def test_a_planted_defect_changes_an_answer(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    assert any(checked_answer(text, overlap, claim) != tuple(right) for text, overlap, claim, *right in BY_HAND)


def test_an_error_of_a_machine_with_data_is_noticed() -> None:
    """A mutant changes the steps from a state with any values."""
    machine = machine_of(SAFE)
    asked = stated(machine, 'never = "is blocked and failures < 2"')

    found = [*mutation_outcomes(machine, [asked])]

    assert any(each.killers for each in found)
    for each in found:
        fresh = decide(asked, tabulate(each.mutant.machine)).verdict
        assert bool(each.killers) == (not isinstance(fresh, Proved))
