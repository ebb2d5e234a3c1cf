"""With ``--unbounded``, claims have the same verdicts as in an exhaustive search, if no range is only a scope."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import random_timers
from machines import edited, machine_of
from naive_data import Unrolled, written
from random_claims import stated
from random_data_machines import random_data_text
from test_data import HEAD, TAKEN
from thorough import TIMES

from fsm.checker import examine
from fsm.errors import InputError
from fsm.machine import outcomes
from fsm.machine.claims import Specification
from fsm.machine.evidence import Proved, Refuted, Unwritten, Vacuous
from fsm.verdict import Unknown

pytest.importorskip("z3")

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.evidence import Conclusion, Run


def verdicts(machine: Machine, claim: str, overlap: int = 1) -> tuple[Conclusion, Conclusion]:
    """Return the verdict of the solver and the one of the exhaustive search."""
    asked = Specification(machine=machine, properties=(stated(machine, claim),))
    found = (examine(asked, overlap=overlap, unbounded=unbounded) for unbounded in (True, False))
    solved, searched = (each.checked[0].verdict for each in found)
    return solved, searched


def replayed(machine: Machine, run: Run) -> None:
    """Take the steps of *run* in the unrolled machine."""
    unrolled = Unrolled(machine)
    values = dict(next(each for name, each in unrolled.values.items() if name == unrolled.plain.initial))
    begun: dict[str, tuple[str, ...]] = {}
    for step in run.steps:
        given = begun.pop(step.event) if step.ends else step.given
        assert given == step.given
        arguments = dict(zip(machine.events[step.event].arguments, map(_value, given), strict=True))
        event, source = unrolled.plain.events[written(step.event, arguments)], written(step.source, values)
        values = {text.split(" = ")[0]: _value(text) for text in step.data}
        cell = event.ends[source] if step.ends else event.cells[source]
        ways = outcomes(cell, source, event.kind) or ()
        [way] = [way for way in ways if (way.name, way.to) == (step.outcome, written(step.target, values))]
        if way.begins:
            begun[step.event] = given


def _value(text: str) -> int | bool | str:
    word = text.split(" = ")[1]
    return int(word) if word.lstrip("-").isdigit() else {"true": True, "false": False}.get(word, word)


def agreed(machine: Machine, claim: str) -> str:
    solved, searched = verdicts(machine, claim)
    if isinstance(solved, Refuted):
        assert isinstance(searched, Refuted)
        assert solved.length == searched.length
        assert solved.run is not None
        replayed(machine, solved.run)
        return "fails"
    assert type(solved) is type(searched) or type(solved) is Unknown
    return type(solved).__name__


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ('never = "off"', "fails"),
        ('never = "n > 2"', "Proved"),
        ('never = "off and n == 1"', "Proved"),
        ('never = "off and n == 2"', "fails"),
    ],
)
def test_the_end_of_a_call_reads_stored_arguments(claim: str, answer: str) -> None:
    assert agreed(machine_of(TAKEN), claim) == answer


def test_arguments_beyond_a_scope_are_stored() -> None:
    machine = machine_of(edited(TAKEN, "x = { from = 0, to = 2 }", "x = { from = 0, to = 2, scope = true }")
        .replace("n = { from = 0, to = 2 }", "n = { from = 0, to = 2, scope = true }"))  # fmt: skip
    solved, searched = verdicts(machine, 'never = "n == 7"')

    assert isinstance(searched, Vacuous | Proved)
    assert isinstance(solved, Refuted)
    assert [step.given for step in solved.run.steps if step.ends] == [("x = 7",)]  # type: ignore[union-attr]


def test_of_several_calls_the_arguments_are_not_stored() -> None:
    solved, _ = verdicts(machine_of(TAKEN), 'never = "n > 2"', overlap=2)

    assert isinstance(solved, Unknown)
    assert "only one call of 'put'" in solved.why


UNWRITTEN = f"""{HEAD}
[data]
n = {{ from = 0, to = 2, scope = true }}
[event.put]
kind = "call"
about = "Ends only while it is on."
arguments = {{ x = {{ from = 0, to = 2 }} }}
moves = {{ on = {{ begins = "on" }} }}
refuses = {{ off = "OFF" }}
ends.on = {{ to = "on", set = {{ n = "x" }} }}
[event.shut]
about = "Turns it off."
moves = {{ on = "off" }}
ignores = ["off"]
"""


def test_an_unspecified_end_of_a_call_is_considered() -> None:
    solved, searched = verdicts(machine_of(UNWRITTEN), 'never = "off and put replies NO"')

    assert isinstance(searched, Unwritten)
    assert type(solved) is Unknown


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_machines_have_the_same_verdicts(first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first * TIMES, (first + 10) * TIMES):
        chance = random.Random(seed)
        try:
            machine = machine_of(re.sub(", scope = true", "", random_data_text(chance)))
        except InputError:  # an update leaves the range
            continue
        for _ in range(3):
            found[agreed(machine, random_claim(chance, machine))] += 1

    assert found["fails"]
    assert found["Proved"]


def random_claim(chance: random.Random, machine: Machine) -> str:
    name, state = chance.choice([*machine.data]), chance.choice([*machine.states])
    variable = machine.data[name]
    value = chance.choice([variable.text(each) for each in range(variable.low, variable.high + 1)])
    event = chance.choice([*machine.events])
    word = chance.choice((f"is {state} and ", f"{event} happens and ", ""))
    return f'never = "{word}{name} {chance.choice(("==", "!="))} {value}"'


@pytest.mark.slow
def test_machines_with_timers_have_the_same_verdicts() -> None:
    found: Counter[type] = Counter()
    for seed in range(4 * TIMES):
        machine = machine_of(random_timers.machine(random.Random(seed)).model())
        for state in machine.states:
            solved, searched = verdicts(machine, f'never = "is {state}"')
            found[type(solved)] += 1

            assert type(solved) is type(searched)
            assert getattr(solved, "length", 0) == getattr(searched, "length", 0)

    assert {*found} == {Proved, Refuted}
