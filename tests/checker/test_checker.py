"""Verdicts on properties agree with a second opinion on random machines.

For each kind of claim that holds, a similar claim fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from brute_force.claims import Decider
from brute_force.steps import MachineModel
from hypothesis import given
from hypothesis import strategies as st
from machines import DOOR, JOB, counter, counter_text, edited, machine_of
from random_claims import random_property, stated
from random_machines import random_machine

from fsm.checker import decide
from fsm.checker.breadth_first import reachable_size
from fsm.checker.instants import StepCache, holds
from fsm.language.build.specification import specify
from fsm.language.read import parse
from fsm.language.vocabularies import Stated
from fsm.machine.claims import Reachable
from fsm.machine.conditions import At
from fsm.machine.evidence import Proved, Refuted, Run, Unexplained, Unreached, Unwritten, Vacuous
from fsm.machine.in_progress import in_progress
from fsm.machine.table import tabulate
from fsm.verdict import Unknown

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from fsm.machine import Machine
    from fsm.machine.claims import Property
    from fsm.machine.evidence import Conclusion

STUBBORN = edited(DOOR, 'ignores = ["gone"]', 'refuses = { gone = "NOT_FOUND" }')
RESTLESS = edited(
    edited(DOOR, 'ignores = ["open"]\nclauses', "clauses"),
    'moves   = { "*" = [',
    'moves   = { open = { to = "shut" }, "*" = [',
)
MODELS = {"door": DOOR, "job": JOB, "stubborn": STUBBORN, "restless": RESTLESS}


def concluded(machine: Machine, claim: str, *, limit: int = 100_000) -> Conclusion:
    return decide(stated(machine, claim), tabulate(machine), limit=limit).verdict


def run_of(conclusion: Conclusion) -> Run:
    assert isinstance(conclusion, Refuted), conclusion
    assert isinstance(conclusion.evidence, Run)
    return conclusion.evidence


def events_of(run: Run) -> str:
    """Return the events of *run* with their replies.

    The cycle of the run, or the word ``stopped``, follows a ``|``.
    """
    steps, cycle = (
        " ".join(f"{each.event}:{each.reply or each.outcome}" for each in part) for part in (run.steps, run.cycle)
    )
    return f"{steps} | {'stopped' if run.stopped else cycle}" if run.stopped or cycle else steps


TWINS = [
    # A claim that holds, a similar claim that fails, and the counterexample.
    ("stubborn", 'idempotent = "push"', 'idempotent = "remove"', "remove:ok remove:NOT_FOUND"),
    ("restless", 'idempotent = "remove"', 'idempotent = "push"', "push:ok push:ok"),
    ("door", 'never = "gone then open"', 'never = "open then shut"', "push:ok slam:done"),
    ("door", 'never = "emits Bang then emits Bang"\nuntil = "push replies ok"', 'never = "push then push"\nuntil = "slam"', "push:ok push:ok"),
    ("door", 'always = "emits Bang"\nwhen = "slam and moves"', 'always = "emits Bang"\nwhen = "slam"', "slam:ignored"),
    ("door", 'always = "not emits Bang"\nwhen = "push"', 'always = "not emits Creak"\nwhen = "push"', "push:ok"),
    ("door", 'always = "stays"\nwhen = "was gone"', 'always = "stays"\nwhen = "was open"', "push:ok remove:ok"),
    ("door", 'never = "gone and push replies ok"', 'never = "gone and push replies NOT_FOUND"', "remove:ok push:NOT_FOUND"),
    ("door", 'never = "gone and push replies STUCK"', 'never = "gone and push replies error"', "remove:ok push:NOT_FOUND"),
    ("door", 'always = "showed CLOSED"\nwhen = "was ajar"', 'always = "shows CLOSED"\nwhen = "was ajar"', "warp:done push:ok"),
    ("job", 'always = "running"\nwhen = "start replies ok and not was ended"', 'always = "waiting"\nwhen = "start replies BUSY"', "make:ok start:begins start:BUSY"),
    ("job", 'never = "start replies ok then start replies ok"', 'never = "start then start"', "start:NOT_FOUND start:NOT_FOUND"),
    ("job", 'from = "starting"\nleads-to = "not starting"\nfair = ["start.ends"]', 'from = "starting"\nleads-to = "not starting"\nfair = ["exit"]', "make:ok start:begins | stopped"),
    ("job", 'from = "checking"\nleads-to = "ended or running"\nfair = ["crash"]', 'from = "waiting"\nleads-to = "ended or running"\nfair = ["start", "start.ends"]', "make:ok | start:begins start:error"),
    ("job", 'from = "waiting"\nleads-to = "ended or running"\nfair = ["start"]\nstrongly-fair = ["start.ends/checks", "start.ends/done", "start/begins"]', 'from = "waiting"\nleads-to = "ended or running"\nfair = ["start", "start.ends/checks", "start.ends/done"]', None),
]  # fmt: skip


@pytest.mark.parametrize(("model", "holds", "fails", "shown"), TWINS, ids=[twin[2] for twin in TWINS])
def test_holds_and_fails(model: str, holds: str, fails: str, shown: str | None) -> None:
    machine = machine_of(MODELS[model])

    assert isinstance(concluded(machine, holds), Proved)
    run = run_of(concluded(machine, fails))
    if shown is not None:
        assert shown == events_of(run)


@pytest.mark.parametrize(("fair", "verdict"), [('["add"]', Proved), ("[]", Refuted)])
def test_a_step_may_bring_the_target_and_the_source_again(fair: str, verdict: type[Conclusion]) -> None:
    """If the step is fair, a *tock* follows every *tick*, even though one step emits both."""
    text = edited(counter_text(to=1), 'to = "n1", emits = ["tick"]', 'to = "n0", emits = ["tock", "tick"]')
    claim = f'from = "emits tick"\nleads-to = "emits tock"\nfair = {fair}'

    assert isinstance(concluded(machine_of(text), claim), verdict)


def test_an_end_that_no_call_has_come_to_is_not_fair() -> None:
    """Listing ``start.ends`` as fair has no effect while no ``start`` is in progress."""
    checking = 'checking = { to = "running", emits = ["started"] }'
    text = edited(JOB, checking, f'{checking}\nended = {{ to = "ended", reply = "error" }}')
    claim = 'from = "is ended"\nleads-to = "is waiting"\nfair = ["start.ends"]'

    assert isinstance(concluded(machine_of(text), claim), Refuted)


@pytest.mark.parametrize("states", [2, 5, 30])
def test_counterexamples_are_shortest(states: int) -> None:
    machine = counter(to=states)
    last = list(machine.states)[-1]

    run = run_of(concluded(machine, f'never = "{last}"'))

    assert len(run.steps) == states == reachable_size(tabulate(machine)).depth
    assert [each.source for each in run.steps] == [machine.initial, *(each.target for each in run.steps[:-1])]
    assert run.steps[-1].target == last


@pytest.mark.parametrize("claim", ['["not n2", "not n1"]', '["not n1", "not n2"]'])
def test_of_several_conditions_the_one_that_fails_soonest_is_shown(claim: str) -> None:
    machine = counter(to=5)
    checked = decide(stated(machine, f"always = {claim}"), tabulate(machine))

    assert len(run_of(checked.verdict).steps) == 1
    alone = [decide(stated(machine, f'always = "not n{number}"'), tabulate(machine)).searched for number in (1, 2)]
    assert checked.searched.states == sum(each.states for each in alone)


def test_what_is_reachable_has_witnesses() -> None:
    machine = machine_of(DOOR)

    conclusion = concluded(machine, 'reachable = ["gone", "ajar then open then shut"]')
    assert isinstance(conclusion, Proved)
    assert [events_of(run) for run in conclusion.witnesses] == ["remove:ok", "warp:done push:ok slam:done"]
    assert concluded(machine, 'reachable = ["gone", "gone then open"]') == Refuted(
        evidence=Unreached(text="gone then open")
    )


def test_from_each_requires_a_step_from_each() -> None:
    """A ``from-each`` claim fails if even one of its states lacks the required step."""
    machine = machine_of(DOOR)

    assert isinstance(concluded(machine, 'reachable = "push replies STUCK"\nfrom-each = ["shut", "ajar"]'), Proved)
    assert isinstance(concluded(machine, 'reachable = "remove"\nfrom-each = ["*"]'), Proved)
    assert concluded(machine, 'reachable = "push replies STUCK"\nfrom-each = ["*"]') == Refuted(
        evidence=Unreached(text="was open and push replies STUCK")
    )


VACUOUS = [
    # Claims that hold only vacuously.
    ('never = "gone then exit then absent"', "gone", edited(JOB, "ended    = {", 'gone = { about = "" }\nended    = {')),
    ('always = "gone"\nwhen = "knock replies ok"', "knock replies ok", DOOR),
    ('never = "knock and gone"', "a part of 'knock and gone'", DOOR),
    ('idempotent = "knock"', "knock replies ok", DOOR),
    ('idempotent = "remove"\nonce = "open"', "remove replies ok and open", DOOR),
    ('from = "knock"\nleads-to = "gone"', "knock", DOOR),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "unmet", "model"), VACUOUS, ids=[each[0] for each in VACUOUS])
def test_an_empty_pass_is_no_pass(claim: str, unmet: str, model: str) -> None:
    assert concluded(machine_of(model), claim) == Vacuous(unmet=unmet)


LIMITED = ['never = "s9"', 'idempotent = "up"', 'from = "s0"\nleads-to = "s9"', 'reachable = "s9"']


@pytest.mark.parametrize("claim", LIMITED)
def test_a_search_that_stops_early_is_no_pass(claim: str) -> None:
    machine = counter(to=9)
    first, last = next(iter(machine.states)), list(machine.states)[-1]
    event = next(iter(machine.events))
    claim = claim.replace("s0", first).replace("s9", last).replace('"up"', f'"{event}"')

    assert isinstance(concluded(machine, claim, limit=3), Unknown)
    assert not isinstance(concluded(machine, claim, limit=1_000), Unknown)


# -- one machine and another ----------------------------------------------------


def beside(machine: Machine, claim: str, other: Machine) -> Conclusion:
    text = f'machine = "it"\n[property.it]\nsays = ""\nMUST  = ""\n{claim}\n'
    found: Callable[[str], Machine] = {"it": machine, "other": other}.__getitem__
    specification = specify(parse(text.encode(), Stated, path="it.toml"), found)
    return decide(specification.properties[0], tabulate(machine)).verdict


REFINED = [
    # Another door, and the event that distinguishes it; the event is empty if only a state distinguishes it.
    (RESTLESS, ""),
    (STUBBORN, "remove"),
    (edited(DOOR, 'moves   = { "*" = "gone" }', 'moves = { "*" = "open" }'), ""),
    (edited(DOOR, 'refuses = { gone = "NOT_FOUND" }', 'refuses = { gone = "GONE" }'), "push"),

]  # fmt: skip


@pytest.mark.parametrize("overlap", [0, 1, 2])
def test_a_machine_refines_itself(overlap: int) -> None:
    for text in (DOOR, JOB) if overlap < 2 else (JOB,):
        machine = machine_of(text)
        assert isinstance(beside(machine, f'refines = "other"\noverlap = {overlap}', machine), Proved)


@pytest.mark.parametrize(("text", "event"), REFINED, ids=range(len(REFINED)))
def test_what_is_observed_and_not_allowed(text: str, event: str) -> None:
    conclusion = beside(machine_of(text), 'refines = "other"', machine_of(DOOR))

    assert isinstance(conclusion, Refuted)
    assert isinstance(conclusion.evidence, Unexplained)
    assert conclusion.evidence.run.steps[-1].event == event


def test_a_deviation_is_allowed_under_its_profile_only() -> None:
    machine = machine_of(DOOR)
    old = machine.under("old")

    assert isinstance(beside(old, 'refines = "other"', old), Proved)
    assert isinstance(beside(old, 'refines = "other"', machine), Refuted)


LISTENER = """\
[machine]
name = "listener"
title = "What is heard of a door"
about = "A creak, then a bang, and so on."
source = "ears"
initial = "quiet"
[states]
quiet = { about = "Nothing was heard, or a bang." }
open = { about = "A creak was heard." }
[event.Creak]
kind = "signal"
about = "It creaks."
moves = { quiet = "open" }
cannot = ["open"]
[event.Bang]
kind = "signal"
about = "It bangs."
moves = { open = "quiet" }
cannot = ["quiet"]
"""


def test_outputs_follow_another_machine() -> None:
    door = machine_of(DOOR)
    firm = machine_of(
        edited(
            DOOR,
            '{ name = "stuck", to = "shut", reply = "STUCK" }',
            '{ name = "stuck", stays = true, reply = "STUCK" }',
        )
    )
    refused = beside(door, 'follows = "other"', machine_of(LISTENER))

    assert isinstance(refused, Refuted) == (run_of_follows(door) is not None)
    assert isinstance(beside(firm, 'follows = "other"', machine_of(LISTENER)), Proved)


def run_of_follows(door: Machine) -> Run | None:
    conclusion = concluded(door, 'never = "emits Creak then emits Creak"\nuntil = "emits Bang"')
    return conclusion.evidence if isinstance(conclusion, Refuted) and isinstance(conclusion.evidence, Run) else None


# -- a second opinion ------------------------------------------------------------


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_agrees_with_the_definition(chance: random.Random) -> None:
    """The checker agrees with the definition on random claims about random machines.

    The shortest counterexamples of both have the same length.
    """
    machine = random_machine(chance)
    for overlap in (1, 2, 1, 2):
        agree(machine, random_property(chance, machine), overlap)


WORDS = {Proved: "holds", Refuted: "fails", Vacuous: "vacuous", Unwritten: "unknown"}


def agree(machine: Machine, claimed: Property, overlap: int) -> None:
    try:
        expected = Decider(MachineModel(machine, overlap)).decide(claimed.claim)
    except OverflowError:
        return
    checked = decide(claimed, StepCache(in_progress(tabulate(machine), overlap)))

    assert WORDS[type(checked.verdict)] == expected.verdict, (claimed.claim, checked.verdict)
    if isinstance(checked.verdict, Refuted) and expected.length is not None:
        assert checked.verdict.length == expected.length
    if isinstance(checked.verdict, Proved | Vacuous) and not isinstance(claimed.claim, Reachable):
        assert checked.overlap == (overlap if expected.cut else 0)


def test_what_is_about_a_system_is_not_asked_of_a_machine() -> None:
    with pytest.raises(TypeError, match="for a system"):
        holds(At(part="door", copies=(0,), states=frozenset({"open"})), tabulate(machine_of(DOOR)))
