"""SPIN finds the same sizes, verdicts and lengths as the checker."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import spin
from machines import JOB, counter, door, edited, job, machine_of
from random_claims import random_property, stated
from random_machines import random_machine
from shipped import specification

from fsm.checker import decide
from fsm.interop.promela import promela
from fsm.language.library import load, names, specified
from fsm.machine.claims import (
    Always,
    Counts,
    Follows,
    LeadsTo,
    MatchesDiagram,
    Never,
    Reachable,
    Refines,
    Requires,
)
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.graph import Transition, steps
from fsm.machine.in_progress import in_progress
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from fsm.machine import Machine
    from fsm.machine.claims import Claim, Property

BATCH = 50
RANDOM = range(0, 200, BATCH)
FOLLOWING = range(0, 100, BATCH)
"""The first seed of each batch."""
FEW = 2
"""The maximum number of parts for which a claim is compared completely."""


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Iterator[spin.Kept]:
    """Yield SPIN's stored answers, and assert that the test has used all of them."""
    found = spin.Kept(_file(request.node.name))
    yield found
    found.up_to_date()


def _file(test: str) -> str:
    return re.sub(r"\W+", "-", test.removeprefix("test_").replace("_", "-")).strip("-")


def test_every_answer_that_is_kept_is_of_a_test() -> None:
    batched: dict[Callable[..., None], Iterable[object]] = {
        test_shipped_properties_have_the_same_verdict: specified(),
        test_random_machines_have_the_same_size: RANDOM,
        test_random_properties_have_the_same_verdict: RANDOM,
        test_random_machines_follow_alike: FOLLOWING,
    }
    tests = [f"{test.__name__}[{first}]" for test, batches in batched.items() for first in batches]
    tests.append(test_shipped_machines_have_the_same_size.__name__)

    assert {f"{_file(test)}.json" for test in tests} == {path.name for path in spin.ANSWERS.iterdir()}


@pytest.mark.parametrize(
    ("mode", "before", "says"),
    [
        ("", {}, "lacks 1 texts and has 0 that no test exports: FSM_SPIN=store "),
        ("", {"now": [0, -1, 4, 18, 1], "old": [0, -1, 3, 4, 1]}, "lacks 0 texts and has 1 "),
        ("", {"now": [0, -1, 4, 18, 1]}, None),
        ("", {"now": [0, -1, 5, 18, 1]}, None),  # SPIN does not run, so the wrong stored answer is used
        ("again", {"now": [0, -1, 4, 18, 1]}, None),
        ("again", {"now": [0, -1, 5, 18, 1]}, "SPIN answers otherwise than "),
        ("store", {"old": [0, -1, 3, 4, 1]}, None),
    ],
)
def test_stored_answers_are_what_spin_answers(
    mode: str, before: dict[str, list[int]], says: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPIN runs only on request, to store its answers or to compare them."""
    part, answered = spin.Part(promela(door())), spin.Answer(error=False, at=-1, states=4, transitions=18, depth=1)
    monkeypatch.setattr(spin, "ANSWERS", tmp_path)
    monkeypatch.setattr(spin, "MODE", mode)
    monkeypatch.setattr(spin, "answers", lambda parts, _, **how: [answered for _ in parts] if how["safety"] else [])
    keys = {"now": spin.key(part, safety=True), "old": spin.key(part, safety=False)}
    (tmp_path / "it.json").write_text(json.dumps({keys[each]: answer for each, answer in before.items()}))
    kept = spin.Kept("it")
    (answer,) = kept.answers([part], tmp_path, safety=True)

    with pytest.raises(AssertionError, match=says) if says else contextlib.nullcontext():
        kept.up_to_date()
    assert (answer == answered) == (mode != "" or before.get("now", [0, 0, 4])[2] == 4)
    assert mode != "store" or [answered] == spin.Kept("it").answers([part], tmp_path, safety=True)
    assert mode != "store" or keys["old"] not in (tmp_path / "it.json").read_text(encoding="utf-8")


def of_random_machine(seed: int) -> tuple[Machine, Property]:
    chance = random.Random(seed)
    machine = random_machine(chance)
    return machine, random_property(chance, machine)


# -- sizes ---------------------------------------------------------------------


def sizes(machines: Sequence[Machine], folder: Path, kept: spin.Kept | None = None) -> None:
    """Assert that SPIN finds as many states and transitions as fsm, and the same depth."""
    ask = kept.answers if kept else spin.answers
    answers = ask([spin.Part(promela(machine)) for machine in machines], folder, safety=True)
    for machine, answer in zip(machines, answers, strict=True):
        assert not answer.error
        assert_same(of_configurations(machine), answer)


def of_configurations(machine: Machine) -> Counts:
    table = in_progress(tabulate(machine))
    walk: BreadthFirst[int, Transition] = BreadthFirst([table.initial], partial(steps, table))
    transitions = sum(1 for _ in walk)
    return Counts(states=len(walk.depth), transitions=transitions, depth=max(walk.depth.values()))


def assert_same(ours: Counts, theirs: spin.Answer, *, transitions: bool = True) -> None:
    """Assert that both searches have the same size.

    SPIN counts one more transition, for the start.
    """
    assert (ours.states, ours.depth) == (theirs.states, theirs.depth)
    assert not transitions or ours.transitions == theirs.transitions - 1


def test_shipped_machines_have_the_same_size(tmp_path: Path, kept: spin.Kept) -> None:
    machines = [load(name) for name in names()]
    sizes([*machines, *(each.under(profile) for each in machines for profile in each.profiles)], tmp_path, kept)


AWKWARD = """\
[machine]
name = "init"
title = "*/ of words that mean something in Promela"
about = "d_step"
source = "od"
initial = "none"
[states]
none = { about = "No state, by its name." }
a-b = { about = "Like the next." }
"a.b" = { about = "Like the last." }
run = { about = "A word of Promela." }
[event.do]
kind = "call"
about = "A word of Promela."
moves = { none = { to = "a-b", emits = ["x y", "x*y", "none"] }, a-b = { to = "a.b", emits = ["%s\\"\\n"] }, "a.b" = "run" }
refuses = { run = "BUSY" }
[event.none]
kind = "hidden"
about = "No event, by its name."
moves = { run = "none" }
cannot = ["*"]
"""


def test_toys_have_the_same_size(tmp_path: Path) -> None:
    sizes(
        [door(), door().under("old"), job(), counter(to=3), counter(to=300), machine_of(AWKWARD)],
        tmp_path,
    )


@pytest.mark.parametrize("first", RANDOM)
def test_random_machines_have_the_same_size(tmp_path: Path, kept: spin.Kept, first: int) -> None:
    sizes([of_random_machine(seed)[0] for seed in range(first, first + BATCH)], tmp_path, kept)


def test_a_machine_that_differs_has_another_size(tmp_path: Path) -> None:
    changed = machine_of(edited(JOB, '{ running = "ended", checking = "ended" }', '{ running = "ended" }'))
    [answer] = spin.answers([spin.Part(promela(changed))], tmp_path, safety=True)

    assert_same(of_configurations(changed), answer)
    assert of_configurations(job()).transitions > answer.transitions - 1


def test_machines_with_data_and_timers_have_the_same_size(tmp_path: Path) -> None:
    """SPIN stores as many states as there are states with values and clocks."""
    safe, lease = load("examples/models/safe.toml"), load("examples/models/lease.toml")
    machines = [safe, lease, replace(lease, timers={})]

    answers = spin.answers([spin.Part(promela(machine)) for machine in machines], tmp_path, safety=True)

    assert (
        [of_configurations(machine).states for machine in machines] == [each.states for each in answers] == [5, 34, 3]
    )


# -- verdicts ------------------------------------------------------------------


class Question(NamedTuple):
    """A part of a claim about a machine, with the text for SPIN."""

    machine: Machine
    stated: Property
    part: spin.Part
    alone: bool


def questions(machine: Machine, asked: Property) -> Iterator[Question]:
    text = promela(machine, asked)
    parts = list(_parts(asked.claim))
    for number, claim in enumerate(parts, 1):
        yield Question(machine, stated_as(asked, claim), spin.Part(text, number), alone=len(parts) == 1)


def _parts(claim: Claim) -> list[Claim]:
    match claim:
        case Always(conditions=conditions, when=when):
            return [Always(conditions=(each,), when=when) for each in conditions]
        case Never(sequences=sequences, until=until):
            return [Never(sequences=(each,), until=until) for each in sequences]
        case Reachable(sequences=sequences):
            return [Reachable(sequences=(each,)) for each in sequences]
        case _:
            return [claim]


def stated_as(asked: Property, claim: Claim) -> Property:
    return replace(asked, claim=claim)


def agree(asked: Sequence[Question], folder: Path, kept: spin.Kept) -> None:
    answers = kept.answers([each.part for each in asked], folder / "safety", safety=True)
    for each, answer in zip(asked, answers, strict=True):
        agree_on(each, answer)
    lasting = [each for each in asked if isinstance(each.stated.claim, LeadsTo)]
    answers = kept.answers([each.part for each in lasting], folder / "liveness", safety=False) if lasting else []
    for each, answer in zip(lasting, answers, strict=True):
        ours = decide(each.stated, tabulate(each.machine)).verdict
        assert answer.error == isinstance(ours, Refuted), each.stated


def agree_on(each: Question, answer: spin.Answer) -> None:
    ours = decide(each.stated, tabulate(each.machine))
    match ours.verdict:
        case _ if isinstance(each.stated.claim, LeadsTo):
            assert not answer.error  # finite runs cannot decide this claim
        case Proved(witnesses=[witness]):
            assert answer.error, each.stated
            assert witness.length == answer.at - 1
            return
        case Refuted() as refuted if not isinstance(each.stated.claim, Reachable):
            assert answer.error, each.stated
            assert refuted.length == answer.at - 1
            return
        case _:
            assert not answer.error, each.stated
    # SPIN uses the same error code for all parts of a claim.
    assert_same(ours.searched, answer, transitions=each.alone)


def profiled(machine: Machine, asked: Property, profile: str | None) -> tuple[Machine, Property]:
    """Apply *profile* to *machine*, and to the machine that *asked* compares with if that machine has the profile."""
    if profile is None:
        return machine, asked
    if isinstance(asked.claim, Follows) and profile in asked.claim.other.profiles:
        asked = replace(asked, claim=Follows(other=asked.claim.other.under(profile)))
    return machine.under(profile), asked


@pytest.mark.slow
@pytest.mark.parametrize("name", specified())
def test_shipped_properties_have_the_same_verdict(tmp_path: Path, kept: spin.Kept, name: str) -> None:
    """Shipped properties are compared without a profile, and under the profiles with a known failure.

    Only the first and the last part of a large claim are compared, because all of them would take minutes. Claims
    that Promela cannot express are compared with other second opinions.
    """
    asked: list[Question] = []
    found = specification(name)
    for each in found.properties:
        if not isinstance(each.claim, Refines | MatchesDiagram | Requires):
            profiles = [None, *(profile for profile in found.machine.profiles if each.expected(profile))]
            for profile in profiles:
                parts = [*questions(*profiled(found.machine, each, profile))]
                asked += parts if len(parts) <= FEW else [parts[0], parts[-1]]
    agree(asked, tmp_path, kept)


@pytest.mark.parametrize("first", RANDOM)
def test_random_properties_have_the_same_verdict(tmp_path: Path, kept: spin.Kept, first: int) -> None:
    asked = [each for seed in range(first, first + BATCH) for each in questions(*of_random_machine(seed))]
    agree(asked, tmp_path, kept)


def test_random_properties_are_of_every_kind() -> None:
    found: dict[tuple[str, str], int] = {}
    for seed in range(RANDOM.stop):
        machine, asked = of_random_machine(seed)
        verdict = type(decide(asked, tabulate(machine)).verdict).__name__
        kind = type(asked.claim).__name__, "fails" if verdict == "Refuted" else "holds"
        found[kind] = found.get(kind, 0) + 1

    assert len(found) == 10
    assert min(found.values()) >= 3, found


def random_listener(chance: random.Random) -> Machine:
    """Return a random machine with the events *x* and *y*, which other random machines emit."""
    machine = random_machine(chance, time=False)
    names = chance.sample([*machine.events], min(2, len(machine.events)))
    renamed = dict(zip(names, "xy", strict=False))
    events = [replace(event, name=renamed.get(event.name, event.name)) for event in machine.events.values()]
    return replace(machine, events={event.name: event for event in events})


def following(seed: int) -> Question:
    chance = random.Random(seed)
    machine, asked = of_random_machine(seed)
    asked = replace(asked, claim=Follows(other=random_listener(chance)))
    return Question(machine, asked, spin.Part(promela(machine, asked)), alone=True)


@pytest.mark.parametrize("first", FOLLOWING)
def test_random_machines_follow_alike(tmp_path: Path, kept: spin.Kept, first: int) -> None:
    asked = [following(seed) for seed in range(first, first + BATCH)]
    verdicts = [type(decide(each.stated, tabulate(each.machine)).verdict) for each in asked]

    agree(asked, tmp_path, kept)
    assert min(verdicts.count(Refuted), verdicts.count(Proved)) >= 4


# -- the commands in the head ---------------------------------------------------


def followed(text: str, folder: Path) -> str:
    spin.needed()
    (folder / "model.pml").write_text(text, encoding="utf-8")
    commands = [line.removeprefix(" *   ").partition("   (")[0] for line in text.splitlines() if line[:5] == " *   "]
    ran = subprocess.run(
        ["/bin/sh", "-c", "\n".join(commands)], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.stdout


def test_the_head_has_the_commands_and_the_result(tmp_path: Path) -> None:
    text = promela(job(), file="model.pml")
    answered = followed(text, tmp_path)
    graph = of_configurations(job())

    assert f"Expect {graph.states} states, stored; {graph.transitions + 1} transitions" in text
    assert f"{graph.states} states, stored" in answered
    assert f"{graph.transitions + 1} transitions" in answered


def test_a_counterexample_prints_its_steps(tmp_path: Path) -> None:
    asked = stated(job(), 'never = ["is absent then is waiting and was ended", "is starting then is running"]')
    text = promela(job(), asked, file="model.pml").replace("-DCASE=1", "-DCASE=2")
    answered = followed(text, tmp_path)

    assert "errors: 1" in answered
    printed = [line.strip() for line in answered.splitlines() if " to " in line]
    assert printed == [
        "make/done replies ok: absent to waiting",
        "start/begins: waiting to starting",
        "start ends/checks: starting to checking",
        "start ends/done replies ok emits started: checking to running",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("fair", "errors"), [('["start.ends", "crash"]', 0), ('["exit"]', 1)])
def test_an_endless_run_is_an_acceptance_cycle(tmp_path: Path, fair: str, errors: int) -> None:
    asked = stated(job(), f'from = "is starting"\nleads-to = "not is starting"\nfair = {fair}')
    answered = followed(promela(job(), asked, file="model.pml"), tmp_path)

    assert f"errors: {errors}" in answered
