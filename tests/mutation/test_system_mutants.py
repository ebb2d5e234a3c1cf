"""The mutants of systems cover the possible errors in a joint event, and have the expected results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from brute_force.steps import Runs, SystemModel
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from machines import door, job
from naive_equivalence import Watched
from naive_equivalence import bisimilar as alike
from random_systems import random_text, system_of
from thorough import TIMES
from toy_systems import OFFICE, stated_of

from fsm.checker import decide
from fsm.checker.cones import Cones
from fsm.language.read import parse
from fsm.language.vocabularies import WrittenSystem
from fsm.machine.claims import Specification
from fsm.machine.evidence import Proved
from fsm.machine.product.flatten import flatten
from fsm.mutation import joint_mutants
from fsm.mutation.outcomes import joint_mutation_outcomes

if TYPE_CHECKING:
    import random

    from fsm.machine import Machine
    from fsm.machine.product.system import JointEvent, System
    from fsm.mutation import JointMutant
    from fsm.mutation.outcomes import MutationOutcome

WORK = """
[event.work]
kind  = "call"
of    = "job"
about = "Start it, while the door is open."
when  = "door is open"
ways.started = { when = "job is waiting", steps = ["job.start/begins", "job.start.ends/checks", "job.start.ends"] }
ways.failed  = { steps = ["job.start/begins", "job.start.ends/failed"] }
[event.close]
kind  = "call"
about = "Shut the door, and have the jobs that run end."
steps = [
  { do = "door.push", goes-on = true },
  "door.slam",
  { each = "job", steps = [{ do = "job.exit", when = "job is running" }] },
]
[event.burn]
kind  = "signal"
about = "The door is gone, and so are the jobs."
steps = ["door.remove", "reset every job"]
"""
TEXT = OFFICE + WORK
MACHINES = {"door": door(), "job": job()}


def office(text: str = TEXT) -> System:
    return system_of(text, MACHINES)


def made(text: str = TEXT, machines: dict[str, Machine] = MACHINES) -> dict[str, JointMutant]:
    found = list(joint_mutants(system_of(text, machines), parse(text.encode(), WrittenSystem, path="system.toml")))
    assert len(found) == len({each.name for each in found})
    return {each.name: each for each in found}


MUTANTS = """\
make: replies error
make: drops job.make
make: repeats job.make
make: job.make: goes on
make: job.make: without done
make: job.make: without refused
open: replies error
open: drops door.push
open: repeats door.push
open: door.push: with stuck
open: door.push: with ignored
open: door.push: with refused
work: when dropped
work: when turned round
work/started: dropped
work/started: when dropped
work/started: when turned round
work/started: replies error
work/started: drops job.start
work/started: repeats job.start
work/started: job.start: with refused
work/started: job.start: with too-early
work/started: swaps job.start and job.start.ends
work/started: drops job.start.ends
work/started: repeats job.start.ends
work/started: job.start.ends: with failed
work/started: job.start.ends: with done
work/started: swaps job.start.ends and job.start.ends (2)
work/started: drops job.start.ends (2)
work/started: repeats job.start.ends (2)
work/started: job.start.ends (2): goes on
work/started: job.start.ends (2): without checks
work/started: job.start.ends (2): without failed
work/started: job.start.ends (2): without done
work/failed: dropped
work/failed: replies error
work/failed: drops job.start
work/failed: repeats job.start
work/failed: job.start: with refused
work/failed: job.start: with too-early
work/failed: swaps job.start and job.start.ends
work/failed: drops job.start.ends
work/failed: repeats job.start.ends
work/failed: job.start.ends: goes on
work/failed: job.start.ends: with checks
work/failed: job.start.ends: with done
close: replies error
close: drops door.push
close: repeats door.push
close: door.push: does not go on
close: door.push: without opened
close: door.push: without stuck
close: door.push: without ignored
close: door.push: without refused
close: swaps door.push and door.slam
close: drops door.slam
close: repeats door.slam
close: door.slam: without ignored
close: door.slam: without done
close: swaps door.slam and each job
close: drops job.exit
close: repeats job.exit
close: job.exit: when dropped
close: job.exit: when turned round
burn: drops door.remove
burn: repeats door.remove
burn: door.remove: without done
burn: door.remove: without ignored
burn: swaps door.remove and reset every job
burn: drops reset every job
job: heard dropped
job: heard turned round
"""


def test_lists_every_mistake() -> None:
    assert MUTANTS.splitlines() == list(made())


def ways(joint: JointEvent) -> list[str]:
    found = []
    for way in joint.ways:
        steps = [
            f"{each.copy.name}.{each.event or 'reset'}{'.ends' * each.ends}/{'+'.join(sorted(each.outcomes))}"
            f"{' if' * (each.when is not None)}{' on' * each.goes_on}"
            for each in way.steps
        ]
        found.append(f"{way.name}{' if' * (way.when is not None)}: {', '.join(steps)} {' '.join(way.reply)}".strip())
    return found


BEGIN = "job.2.start/begins"
DOES = [
    # A mutant, and the behaviour of its joint event for the last copy.
    ("make: replies error", ["done: job.2.make/ error"]),
    ("make: repeats job.make", ["done: job.2.make/, job.2.make/"]),
    ("make: job.make: goes on", ["done: job.2.make/ on"]),
    ("make: job.make: without refused", ["done: job.2.make/done"]),
    ("open: door.push: with stuck", ["done: door.push/opened+stuck"]),
    ("work/started: dropped", [f"failed: {BEGIN}, job.2.start.ends/failed"]),
    ("work/started: when dropped", [f"started: {BEGIN}, job.2.start.ends/checks, job.2.start.ends/", "failed: …"]),
    ("work/failed: swaps job.start and job.start.ends", ["started if: …", f"failed: job.2.start.ends/failed, {BEGIN}"]),
    ("work/failed: drops job.start.ends", ["started if: …", f"failed: {BEGIN}"]),
    ("close: door.push: does not go on", ["done: door.push/, door.slam/, job.1.exit/ if, job.2.exit/ if"]),
    ("close: swaps door.slam and each job", ["done: door.push/ on, job.1.exit/ if, job.2.exit/ if, door.slam/"]),
    ("close: drops job.exit", ["done: door.push/ on, door.slam/"]),
    (
        "close: repeats job.exit",
        ["done: door.push/ on, door.slam/, job.1.exit/ if, job.1.exit/ if, job.2.exit/ if, job.2.exit/ if"],
    ),
    ("close: job.exit: when dropped", ["done: door.push/ on, door.slam/, job.1.exit/, job.2.exit/"]),
    ("burn: drops reset every job", ["done: door.remove/"]),
]


@pytest.mark.parametrize(("name", "does"), DOES, ids=[each[0] for each in DOES])
def test_says_in_its_name_what_it_does(name: str, does: list[str]) -> None:
    system, mutant = office(), made()[name]
    family = [each for each in mutant.change(system).events.values() if each.family == mutant.event]
    found = ways(family[-1])

    assert len(found) == len(does)
    assert all(
        each == said or (said.endswith("…") and each.startswith(said[:-1]))
        for each, said in zip(found, does, strict=True)
    )
    assert {tuple(each.replace(".2.", ".1.") for each in ways(one)) for one in family[:-1]} <= {
        tuple(each.replace(".2.", ".1.") for each in found)
    }
    for each in system.events.values():
        assert (each == mutant.change(system).events[each.name]) == (each.family != mutant.event)
    assert system.parts == mutant.change(system).parts


def test_conditions_are_dropped_and_turned_round() -> None:
    found = made()

    assert found["work: when dropped"].change(office()).events["work.1"].when is None
    assert found["work/started: when turned round"].change(office()).events["work.1"].ways[0].when is not None
    for name, heard in (("dropped", True), ("turned round", False)):
        system = found[f"job: heard {name}"].change(office())
        steps = [step for after in Runs(SystemModel(system)).steps.values() for step in after]
        assert any(step.event == "work.1" and step.emits for step in steps) == heard


def test_lines_are_those_of_what_is_changed() -> None:
    lines = TEXT.splitlines()
    found = made()

    assert lines[found["work/failed: drops job.start"].line - 1].startswith("ways.failed")
    assert "job.exit" in lines[found["close: job.exit: when dropped"].line - 1]
    assert lines[found["job: heard dropped"].line - 1].startswith("heard")
    text = TEXT + '[profile.quiet]\nabout = "Q."\n[profile.quiet.event.burn]\nsteps = ["door.slam"]\n'
    system = office(text).under("quiet")
    (drops,) = [
        each
        for each in joint_mutants(system, parse(text.encode(), WrittenSystem, path="system.toml"), "quiet")
        if each.name == "burn: drops door.slam"
    ]
    assert text.splitlines()[drops.line - 1] == 'steps = ["door.slam"]'


def test_a_way_that_a_profile_changes_has_its_line_there() -> None:
    text = f'{TEXT}[profile.late]\nabout = "L."\n[profile.late.event.work]\nways.failed.steps = ["door.slam"]\n'
    text += '[profile.early]\nabout = "E."\nevent.work.without = ["failed"]\n'
    lines, file = text.splitlines(), parse(text.encode(), WrittenSystem, path="system.toml")
    late, early = (
        {each.name: each for each in joint_mutants(office(text).under(name), file, name)} for name in ("late", "early")
    )

    assert lines[late["work/failed: drops door.slam"].line - 1] == 'ways.failed.steps = ["door.slam"]'
    assert lines[late["work/started: drops job.start"].line - 1].startswith("ways.started = {")
    assert not [name for name in early if name.startswith("work/failed")]


# -- outcomes of mutants ------------------------------------------------------------


def became(claims: dict[str, str], text: str = TEXT, *, whole: bool = True) -> dict[str, MutationOutcome[JointMutant]]:
    system = office(text)
    stated = tuple(replace(stated_of(system, claim), name=name) for name, claim in claims.items())
    mutants = joint_mutants(system, parse(text.encode(), WrittenSystem, path="system.toml"))
    found = joint_mutation_outcomes(Specification(machine=system, properties=stated), mutants, whole=whole)
    return {each.mutant.name: each for each in found}


CLAIMS = {
    "works": 'for = "job"\nreachable = ["make replies ok", "work replies ok and emits only started", "work replies error and job is waiting"]',
    "waits": 'for = "job"\nalways = "job was waiting and door is open and (job is running or work replies error)"\nwhen = "work"',
    "ends": 'always = "no job is running and door is not open and close replies ok"\nwhen = "close"',
    "open": 'always = "open replies ok and door is open"\nwhen = "open"',
    "burns": 'for = "job"\nalways = "job is absent and door is gone"\nwhen = "burn"',
}
FATES = [
    # A mutant of each kind, and the properties that kill it.
    ("make: replies error", ("works",)),
    ("make: drops job.make", ("works", "waits")),  # the second claim is vacuous
    ("make: repeats job.make", ("works",)),
    ("open: door.push: with stuck", ("open",)),
    ("work: when turned round", ("works", "waits")),
    ("work: when dropped", ("waits",)),
    ("work/started: dropped", ("works",)),
    ("work/started: replies error", ("works",)),
    ("work/failed: dropped", ("works",)),
    ("work/started: swaps job.start and job.start.ends", ("works",)),
    ("work/failed: job.start.ends: goes on", ("works", "waits")),
    ("close: door.push: does not go on", ("ends",)),
    ("close: drops job.exit", ("ends",)),
    ("close: job.exit: when turned round", ("ends",)),
    ("burn: drops reset every job", ("burns",)),
    ("job: heard dropped", ()),
    ("job: heard turned round", ("works",)),
]


@pytest.fixture(scope="module")
def found() -> dict[str, MutationOutcome[JointMutant]]:
    return became(CLAIMS)


@pytest.mark.parametrize(("name", "killers"), FATES, ids=[each[0] for each in FATES])
def test_is_killed_by_what_no_longer_comes_out_as_stated(
    name: str, killers: tuple[str, ...], found: dict[str, MutationOutcome[JointMutant]]
) -> None:
    assert killers == found[name].killers


SPARED = [
    # Each row has a mutant that no property kills, and whether the mutant is equivalent to the original `office()`.
    ("work/started: when dropped", True),  # a part cannot begin unless it is waiting
    ("burn: swaps door.remove and reset every job", True),
    ("burn: repeats door.remove", True),
    ("job: heard dropped", True),  # the output is received whenever the part is working
    ("make: job.make: without refused", False),
    ("close: door.push: without stuck", False),  # the output is a creak
    ("burn: door.remove: without ignored", False),
]


@pytest.mark.parametrize(("name", "equivalent"), SPARED, ids=[each[0] for each in SPARED])
def test_is_equivalent_or_survives(name: str, equivalent: bool, found: dict[str, MutationOutcome[JointMutant]]) -> None:  # noqa: FBT001  (a column of the table)
    assert not found[name].killers
    assert (equivalent, not equivalent) == (found[name].equivalent, found[name].survives)


@pytest.mark.parametrize("smaller", [False, True])
def test_what_fails_without_a_mutation_kills_nothing(
    found: dict[str, MutationOutcome[JointMutant]], *, smaller: bool
) -> None:
    system = office()
    claims = CLAIMS | {"wrong": 'never = "door is open"'}
    stated = tuple(replace(stated_of(system, claim), name=name) for name, claim in claims.items())
    of = Specification(machine=system, properties=stated)
    told: list[str] = []
    made = [each.mutant for each in found.values()]
    again = joint_mutation_outcomes(of, made, smaller=of if smaller else None, unsound=told.extend)

    assert [each.killers for each in again] == [each.killers for each in found.values()]
    assert told == ["wrong"]


def test_the_same_as_when_each_is_checked_by_itself(found: dict[str, MutationOutcome[JointMutant]]) -> None:
    stated = {name: stated_of(office(), claim) for name, claim in CLAIMS.items()}
    one = became(CLAIMS, whole=False)

    for name, fate in found.items():
        cones = Cones(system=fate.mutant.change(office()))
        killers = [each for each, claim in stated.items() if not isinstance(decide(claim, cones).verdict, Proved)]
        assert tuple(killers) == fate.killers, name
        assert min(1, len(killers)) == len(one[name].killers), name


def test_what_is_known_to_fail_kills_by_its_length() -> None:
    """A property known to fail kills a mutant only if it holds there, or fails after a different number of steps."""
    claim = 'for = "job"\nnever = "job is running"\nfails = { about = "They run.", length = 3 }'
    found = became({"idle": claim})

    assert ("idle",) == found["work/started: dropped"].killers
    assert ("idle",) == found["work: when dropped"].killers  # this takes two steps
    assert () == found["work/failed: dropped"].killers


def test_what_does_not_come_out_as_stated_kills_nothing() -> None:
    """A property that fails on the original system kills no mutant, because it would otherwise kill them all."""
    found = became({"idle": 'for = "job"\nnever = "job is running"'})

    assert not any(each.killers for each in found.values())


@pytest.mark.slow
@settings(max_examples=25 * TIMES, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.randoms(use_true_random=False))
def test_equivalent_is_what_nobody_can_tell_from_the_system(chance: random.Random) -> None:
    """A mutant is equivalent if and only if a second comparison finds no difference from the original.

    The second comparison treats the whole system as one machine. Names are unique, and all mutants are well formed.
    """
    text, machines = random_text(chance)
    system = system_of(text, machines)
    assume(small(system))
    mutants = made(text, machines)
    chosen = [mutants[name] for name in chance.sample(sorted(mutants), k=min(4, len(mutants)))]
    for each in joint_mutation_outcomes(Specification(machine=system, properties=()), chosen):
        other = each.mutant.change(system)
        if small(other):
            first, second = watched(system), watched(other)
            assert each.equivalent == alike(Watched(first, second), Watched(second, first)), each.mutant.name


def small(system: System) -> bool:
    try:
        return bool(Runs(SystemModel(system), most=40).steps)
    except OverflowError:
        return False


def watched(system: System) -> Machine:
    whole = flatten(system)
    shown = {}
    for name, state in whole.states.items():
        now = {copy.name: system.parts[copy.part].initial for copy in system.copies}
        for said in name.split(", "):
            copy, _, where = said.partition(" ")
            if copy in now:
                now[copy] = where
        shows = [system.parts[copy.part].machine.states[now[copy.name]].shows for copy in system.copies]
        shown[name] = replace(state, shows=" ".join(shows))
    return replace(whole, states=shown)
