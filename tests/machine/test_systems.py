"""Systems behave like a brute-force model, cones decide like the whole system, and errors in files are reported."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from brute_force.steps import Configuration, Runs, Step, SystemModel
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from machines import DOOR, LEASE, SAFE, door, edited, job, machine_of
from random_systems import random_system, system_of
from thorough import amount
from toy_systems import OFFICE, stated_of

from fsm.checker import decide
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache
from fsm.errors import InputError
from fsm.language.codes import RULES
from fsm.language.library import claims, load_system
from fsm.language.read import parse
from fsm.language.vocabularies import WrittenSystem
from fsm.machine import Moves, outcomes
from fsm.machine.claims import Always, LeadsTo
from fsm.machine.conditions import At, Not, Some
from fsm.machine.evidence import Proved, Refuted, Run, Unexplained, Vacuous
from fsm.machine.graph import explore
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable
from fsm.machine.product.flatten import flatten
from fsm.machine.product.reduction import Influence

if TYPE_CHECKING:
    from fsm.machine.claims import Property
    from fsm.machine.evidence import Conclusion
    from fsm.machine.product.system import System

LARGEST = 400
"""The maximum number of states of a random system."""

CHANCES = st.integers(0, 1 << 32).map(random.Random)
"""A strategy for seeded random generators.

Systems that Hypothesis builds itself are mostly too small.
"""


def small(system: System) -> dict[Configuration, list[Step]]:
    """Return the steps of *system*, or make Hypothesis reject it if it has too many states."""
    runs = Runs(SystemModel(system), most=LARGEST)
    try:
        return runs.steps
    except OverflowError:
        reject()


def located(table: SystemTable, state: int) -> Configuration:
    found = []
    for copy, local in zip(table.system.copies, table.locals(state), strict=True):
        part = table.table_of(copy.part)
        calls = part.calls(local) if isinstance(part, InProgress) else ()
        found.append((part.states[local], tuple(sorted(part.rows[call].event.name for call in calls))))
    return tuple(found)


# -- behaviour -------------------------------------------------------------------


@given(CHANCES)
def test_a_system_does_what_its_steps_define(chance: random.Random) -> None:
    """A second opinion finds the same states, steps, replies and outputs."""
    system = random_system(chance)
    expected = small(system)

    table = SystemTable(system).beyond()
    graph = explore(table)

    found: dict[Configuration, set[object]] = {located(table, state): set() for state in graph.depth}
    for each in graph.transitions:
        way = each.way
        step = table.rows[each.row].name, way.name, frozenset(way.reply), way.emits, located(table, way.to)
        found[located(table, each.source)].add(step)
    assert found == {
        state: {(step.event, step.outcome, frozenset(step.among), step.emits, step.target) for step in steps}
        for state, steps in expected.items()
    }


@pytest.mark.slow
@given(CHANCES)
def test_a_cone_leaves_out_nothing_that_matters(chance: random.Random) -> None:
    """The copies in a cone can reach the same states as in the whole system."""
    system = random_system(chance)
    whole = small(system)
    wanted = {copy.digit for copy in system.copies if chance.random() < 0.4}

    table = SystemTable(system, cone=Influence(system).cone(wanted)).beyond()
    graph = explore(table)

    assert {tuple(located(table, state)[digit] for digit in wanted) for state in graph.depth} == {
        tuple(state[digit] for digit in wanted) for state in whole
    }


@pytest.mark.slow
@given(CHANCES)
def test_a_cone_decides_as_the_whole_does(chance: random.Random) -> None:
    """The conclusions and the lengths of counterexamples agree for random claims."""
    system = random_system(chance)
    whole = small(system)
    stated = _claim(system, chance)
    # In the whole system, each output of a step is an instant. The cone lacks the outputs of the other copies. So if
    # a step emits several outputs, a sequence may have more instants in the whole system than in the cone.
    assume(
        isinstance(stated.claim, Always | LeadsTo)
        or all(len(step.emits) < 2 for each in whole.values() for step in each)
    )

    conclusion = decide(stated, Cones(system=system)).verdict
    other = decide(stated, StepCache(SystemTable(system))).verdict

    assert type(conclusion) is type(other)
    if isinstance(conclusion, Refuted) and isinstance(other, Refuted):
        assert conclusion.length == other.length


TOLD = """\
[machine]
name = "told"
title = "T"
about = "T"
source = "none"
initial = "before"
[states]
before = { about = "B" }
after = { about = "A" }
[event.go]
about = "G"
moves = { before = { to = "after", emits = ["one", "two"] } }
cannot = ["*"]
"""
HEARD = """\
[system]
name = "heard"
title = "H"
about = "H"
source = "none"
[part.door]
machine = "door"
[part.told]
machine = "told"
heard = "door is open"
[event.go]
kind = "signal"
about = "G"
steps = ["told.go"]
"""
OPENING = '[event.open]\nkind = "call"\nabout = "O"\nsteps = ["door.push/opened"]\n'


@pytest.mark.parametrize(("more", "reached"), [("", False), (OPENING, True)])
def test_outputs_that_are_not_heard_are_no_instants(more: str, *, reached: bool) -> None:
    """The outputs are instants only if the door can open, although the claim does not mention the door."""
    system = system_of(HEARD + more, {"door": door(), "told": machine_of(TOLD)})
    twice = stated_of(system, 'never = "told was before then told was before"')
    conclusion = decide(twice, Cones(system=system)).verdict

    assert conclusion == decide(twice, StepCache(SystemTable(system))).verdict
    assert isinstance(conclusion, Refuted) == reached


def _claim(system: System, chance: random.Random) -> Property:
    """Return a random claim that ends with an event.

    The shortest runs of such a claim contain no steps outside its cone.
    """
    event = chance.choice(list(system.events.values()))
    first, other = (_at(system, chance) for _ in range(2))
    last = f"{event.family} replies {chance.choice(('ok', 'error'))}" if event.kind == "call" else event.family
    claim = chance.choice(
        (
            f'never = "{first} then {last}"',
            f'never = "{first} then {last}"\nuntil = "{other}"',
            f'always = "{other}"\nwhen = "{last}"',
            f'always = "{_emitted(system, chance)}"\nwhen = "{last}"',
            f'never = "{_emitted(system, chance)} and {last}"',
            f'reachable = "{first} then {last}"',
            f'from = "{first}"\nleads-to = "{last}"',
        )
    )
    which = f'for = "{chance.choice(list(system.parts))}"\n' if chance.random() < 0.3 else ""
    try:
        return stated_of(system, which + claim)
    except InputError:  # several copies have this output, so the claim must name one
        reject()


def _emitted(system: System, chance: random.Random) -> str:
    part = chance.choice(list(system.parts.values()))
    output = chance.choice((*part.machine.outputs(), "nothing"))
    if output == "nothing":
        return "emits nothing"
    return f"{chance.choice(('emits', 'emits only', 'tells'))} {output}"


def _at(system: System, chance: random.Random) -> str:
    part = chance.choice(list(system.parts.values()))
    word = chance.choice(("every", "some", "no"))
    return f"{word} {part.name} is {chance.choice(list(part.machine.states))}"


# -- a toy -------------------------------------------------------------------------

WORK = """
[event.work]
kind  = "call"
of    = "job"
about = "Start it, from beginning to end."
ways.started = { steps = ["job.start/begins", "job.start.ends/checks", "job.start.ends"] }
ways.failed  = { steps = ["job.start/begins", "job.start.ends/failed", "door.slam"] }
[event.try]
kind  = "call"
of    = "job"
about = "Try to start it, and shut the door whatever comes of it."
steps = [{ do = "job.start/too-early", goes-on = true }, "door.slam"]
[event.crash]
kind  = "signal"
about = "All jobs are lost."
steps = ["reset every job", "door.slam"]
"""


def office(more: str = WORK, *, instead: tuple[str, str] = ("", "")) -> System:
    wide = machine_of(edited(SAFE, "to = 3, scope", "to = 9, scope"))
    machines = {"door": door(), "job": job(), "safe": machine_of(SAFE), "wide": wide, "lease": machine_of(LEASE)}
    return system_of((OFFICE + more).replace(*instead), machines | {"slow": machine_of(SLOW)})


def came(system: System, claim: str) -> Conclusion:
    return decide(stated_of(system, claim), Cones(system=system)).verdict


def way(system: System, claim: str) -> list[tuple[str, str, tuple[str, ...]]]:
    conclusion = came(system, claim)
    assert isinstance(conclusion, Refuted), conclusion
    evidence = conclusion.evidence
    run = evidence.run if isinstance(evidence, Unexplained) else evidence
    assert isinstance(run, Run)
    return [(step.event, step.reply, step.emits) for step in run.steps]


def test_undelivered_outputs_are_not_emitted() -> None:
    claim = 'for = "job"\nnever = "job is running and not emits started"\n'
    assert way(office(), claim) == [("make.1", "ok", ()), ("work.1", "ok", ())]
    assert way(office(), 'for = "job"\nnever = "emits started"\n')[-1] == ("work.1", "ok", ("started.1",))


def test_an_error_ends_a_joint_event() -> None:
    failed = 'for = "job"\nnever = "door was open and work replies error and door is shut"\n'
    assert isinstance(came(office(), failed), Proved | Vacuous)
    assert way(office(), 'for = "job"\nnever = "door was open and try replies ok and door is shut"\n')[-1][0] == "try.1"


LISTED = """\
[system]
name   = "listed"
title  = "Two jobs, one after the other"
about  = "A step may reply ok, or an error."
source = "none"
[part.first]
machine = "door"
[part.second]
machine = "door"
[event.both]
kind  = "KIND"
about = "Push both."
steps = [STEP, "second.push"]
"""


def in_order(*, kind: str = "call", step: str = '"first.push"') -> System:
    machine = machine_of(edited(DOOR, 'name = "opened",', 'name = "opened", reply = ["ok", "STUCK", "LATE"],'))
    return system_of(LISTED.replace("KIND", kind).replace("STEP", step), {"door": machine})


@pytest.mark.parametrize("packed", [False, True])
def test_each_reply_of_a_list_is_possible(monkeypatch: pytest.MonkeyPatch, *, packed: bool) -> None:
    if packed:
        pytest.importorskip("numba")
        monkeypatch.setattr("fsm.checker.packing.SMALL", 0)
        monkeypatch.setattr("fsm.checker.packing.FEW_STEPS", 0)
        monkeypatch.setattr("fsm.checker.packing._is_small", lambda _: False)
    one_alone, both = "first is open and second is shut", "first is open and second is open"
    assert way(in_order(), f'never = "{one_alone}"\n') == [("both", "STUCK", ("Creak",))]
    assert way(in_order(), f'never = "both replies LATE and {one_alone}"\n') == [("both", "LATE", ("Creak",))]
    assert way(in_order(), f'never = "{both} and both replies ok"\n') == [("both", "ok", ("Creak", "Creak"))]
    goes_on, late = (
        in_order(step='{ do = "first.push", goes-on = true }'),
        'never = "both replies LATE and second is shut"\n',
    )
    assert isinstance(came(goes_on, late), Proved | Vacuous)
    assert way(in_order(), late) == [("both", "LATE", ("Creak",))]
    second_alone = 'never = "first is shut and second is open"\n'
    assert isinstance(came(in_order(), second_alone), Proved | Vacuous)
    assert way(in_order(kind="signal"), second_alone) == [("both", "", ("Creak",))]


def test_reset_copies_are_in_their_initial_state() -> None:
    assert isinstance(came(office(), 'always = "every job is absent"\nwhen = "crash"\n'), Proved)
    assert isinstance(came(office(), 'always = "door is shut"\nwhen = "crash"\n'), Proved)
    assert way(office(), 'always = "every job is absent"\nwhen = "open"\n')[-1][0] == "open"


def test_a_way_is_enabled_only_if_all_its_steps_are() -> None:
    system = office(WORK + '[event.take]\nkind = "call"\nabout = "Take the door."\nsteps = ["door.remove"]\n')
    assert isinstance(came(system, 'never = "door is gone then crash"\n'), Proved)
    assert isinstance(came(system, 'reachable = "crash then door is gone"\n'), Proved)


def test_calls_are_repeated() -> None:
    assert way(office(), 'for = "job"\nidempotent = "make"\n') == [("make.1", "ok", ()), ("make.1", "EXISTS", ())]


def test_fair_events_happen() -> None:
    claim = 'for = "job"\nfrom = "job is waiting"\nleads-to = "job is running"\n'
    quiet = (WORK[WORK.index("[event.try]") :], "")
    assert isinstance(came(office(instead=quiet), claim), Refuted)
    assert isinstance(came(office(instead=quiet), f'{claim}fair = ["work/started"]\n'), Proved)
    assert isinstance(came(office(), f'{claim}fair = ["work/started"]\n'), Refuted)  # a crash may come first


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "unknown event ''"), ("/started", "unknown event ''"), ("work/begun", "unknown way 'begun'")],
)
def test_fair_events_have_names(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        stated_of(office(), f'for = "job"\nfrom = "job is waiting"\nleads-to = "job is running"\nfair = ["{text}"]\n')


def test_what_holds_of_nothing_is_vacuous() -> None:
    assert isinstance(came(office(), 'for = "job"\nnever = "job is ended then work"\n'), Vacuous)
    assert isinstance(came(office(), 'for = "job"\nnever = "work then (crash and not door is shut)"\n'), Proved)


# -- copies ------------------------------------------------------------------------

CLEAR = """
[event.clear]
kind  = "call"
about = "Make all jobs."
steps = ["every job.make"]
"""


def test_emits_only_these_outputs() -> None:
    claim = 'for = "job"\nalways = "emits only started"\nwhen = "work replies ok and door is open"\n'
    push = ('{ name = "failed"', '{ name = "creaks", steps = ["door.push/opened", "job.start/begins", "job.start.ends/checks", "job.start.ends"] },\n  { name = "failed"')  # fmt: skip
    assert isinstance(came(office(), claim), Proved)
    assert isinstance(came(office(instead=push), claim), Proved)
    assert isinstance(came(office(), claim.replace("only started", "only Creak")), Refuted)
    with pytest.raises(InputError, match="2 copies emit 'started'"):
        came(office(), 'never = "emits only started"\n')


GATE = """
[part.gate]
machine = "door"
[event.take]
kind  = "call"
about = "Take the gate away."
steps = ["gate.remove"]
"""


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ('always = "emits nothing"\nwhen = "gate is gone"', Refuted),
        ('never = "gate is gone and not emits nothing"', Refuted),
        ('always = "emits nothing or not gate is gone"', Refuted),
        ('always = "emits nothing"\nwhen = "take"', Proved),
        ('from = "gate is gone"\nleads-to = "take"', Refuted),
        ('from = "gate is shut"\nleads-to = "gate is gone"\nfair = ["take"]', Proved),
    ],
)
def test_what_does_not_affect_a_copy_goes_on_meanwhile(claim: str, found: type[Conclusion]) -> None:
    assert isinstance(came(office(GATE), claim), found)


def test_what_holds_of_the_first_copy_may_not_hold_of_the_second() -> None:
    system = office(CLEAR)
    claim = 'for = "job"\nnever = "clear and job is absent"\n'
    first, second = (decide(stated_of(system, claim, copy=copy), Cones(system=system)).verdict for copy in (0, 1))

    assert isinstance(first, Proved)
    assert isinstance(second, Refuted)


@settings(max_examples=amount(20, night=2_000), suppress_health_check=[HealthCheck.filter_too_much])
@given(CHANCES)
def test_copies_are_alike(chance: random.Random) -> None:
    """If no joint event involves several copies of a part, a claim about one copy holds for the others."""
    system = random_system(chance)
    small(system)
    for joint in system.events.values():
        for each in joint.ways:
            parts = [step.copy for step in each.steps]
            assume(len({copy.part for copy in parts}) == len(set(parts)))
    several = [each for each in system.parts.values() if len(each.copies) > 1]
    assume(several)
    part = chance.choice(several)
    event = chance.choice(list(system.events.values()))
    claim = f'for = "{part.name}"\nnever = "{_at(system, chance)} then ({event.family} and {_at(system, chance)})"'
    found = [decide(stated_of(system, claim, copy=copy), Cones(system=system)).verdict for copy in (0, -1)]

    assert type(found[0]) is type(found[1])


# -- errors --------------------------------------------------------------------------

SLOW = """
[machine]
name = "slow"
title = "A tank"
about = "Is filled slowly."
source = "none"
initial = "idle"
[states]
idle = { about = "Idle." }
filling = { about = "Filling." }
[data]
level = { from = 0, to = 2 }
[event.fill]
kind = "call"
about = "Fill it."
arguments = { to = { from = 0, to = 2 } }
refuses.filling = "BUSY"
moves.idle = { begins = "filling" }
ends.filling = { to = "idle", set = { level = "to" } }
"""
SAFES = """
[part.one]
machine = "safe"
[part.two]
machine = "wide"
count = 2
[event.both]
kind = "call"
about = "Enter a code into all safes."
steps = ["one.enter", "every two.enter"]
"""

PROFILE = '[profile.p]\nabout = "P."\n'
WRONG = [
    ("FSM701", ('machine = "door"', 'machine = "dor"'), "machine 'dor'"),
    ("FSM701", ('steps = ["job.make"]', 'steps = ["jb.make"]'), "unknown part 'jb'"),
    ("FSM701", ('steps = ["job.make"]', 'steps = ["job.mak"]'), "unknown event 'mak'"),
    ("FSM701", ("door.push/opened", "door.push/opend"), "unknown outcome 'opend'"),
    ("FSM701", ("count   = 2", 'count   = 2\nper = "dor"'), "unknown part 'dor'"),
    ("FSM701", ("count   = 2", 'count   = 2\nwithout = ["los"]'), "unknown outcome 'los'"),
    ("FSM101", ("count   = 2", 'count   = 2\ninitial = "los"'), "unknown initial state 'los'"),
    ("FSM711", ('machine = "door"', 'machine = "lease"'), "machine 'lease' has timers"),
    ("FSM711", ('machine = "door"', 'machine = "slow"'), "has a call 'fill' whose end reads an argument"),
    ("FSM712", ("[event.open]", f"{SAFES}[event.open]"), "steps of 'both' have different arguments 'code'"),
    ("FSM704", ("[event.open]", f'{SAFES}[event.open]\nwhen = "one.failure < 1"'), "unknown name 'one.failure'"),
    ("FSM704", ("[event.open]", f'{SAFES}[event.open]\nwhen = "two.failures < 1"'), "could mean any of 2 copies"),
    ("FSM704", ("[event.open]", f'{SAFES}[event.open]\nwhen = "one.failures < open"'), "unknown name or value 'open'"),
    ("FSM702", ("[event.open]", "[event.every]"), "cannot be called 'every'"),
    ("FSM702", ("[event.open]", "[event.door]"), "cannot be called 'door'"),
    (
        "FSM703",
        ("count   = 2", "count   = 20\n[part.j2]\nmachine = 'job'\ncount = 20\nper = 'job'"),
        "more than the maximum of 400",
    ),
    ("FSM704", ("door is open", "door is opne"), "unknown state 'opne'"),
    ("FSM704", ("door is open", "job is ended"), "could mean any of 2 copies"),
    ("FSM704", ("door is open", "door open"), "has 'open' after 'door'"),
    ("FSM705", ('steps = ["job.make"]', ""), "neither steps nor ways"),
    ("FSM705", ('steps = ["job.make"]', 'steps = ["job.make"]\nways.a = {}'), "both steps and ways"),
    ("FSM706", ('steps = ["reset every job", "door.slam"]', 'ways.a = { reply = "ok" }'), "has a reply"),
    ("FSM707", ('steps = ["job.make"]', 'steps = ["job make"]'), "cannot be read as a step"),
    ("FSM707", ('"reset every job"', '"reset job"'), "could mean any of 2 copies"),
    ("FSM707", ('"reset every job"', '"every job.make.ends"'), "has no ends"),
    ("FSM707", ('"reset every job"', '{ each = "job" }'), "a step with 'each' must have 'steps'"),
    ("FSM707", ('"reset every job"', "{ goes-on = true }"), "neither 'do' nor 'each'"),
    (
        "FSM709",
        ("[event.crash]", f"{PROFILE}event.make = {{}}\n[event.crash]"),
        "the profile changes nothing about event 'make'",
    ),
    ("FSM701", ("[event.crash]", f'{PROFILE}event.mak.about = "M."\n[event.crash]'), "unknown event 'mak'"),
    ("FSM701", ("[event.crash]", f'{PROFILE}event.work.without = ["fail"]\n[event.crash]'), "unknown way 'fail'"),
    (
        "FSM705",
        ("[event.crash]", f'{PROFILE}event.work = {{ steps = ["door.slam"], ways.a = {{}} }}\n[event.crash]'),
        "both",
    ),
    ("FSM704", ("[event.crash]", f'{PROFILE}event.work.when = "job is opne"\n[event.crash]'), "unknown state 'opne'"),
    (
        "FSM102",
        ("[event.open]", '[define]\noff = ["opne"]\n[event.open]\nwhen = "door is off"'),
        "unknown state 'opne'",
    ),
    (
        "FSM704",
        ("[event.open]", '[define]\noff = ["ended"]\n[event.open]\nwhen = "door is off"'),
        "unknown state 'ended' of 'door'",
    ),
    ("FSM704", ("[event.open]", '[define]\noff = "door is opne"\n[event.open]\nwhen = "off"'), "unknown state 'opne'"),
    (
        "FSM128",
        ("[event.open]", '[define]\nwork = ["open"]\n[event.open]\nwhen = "door is work"'),
        "the name of a joint event",
    ),
    ("FSM128", ("[event.open]", '[define]\njob = ["open"]\n[event.open]\nwhen = "door is job"'), "the name of a part"),
    ("FSM128", ("[event.open]", '[define]\nopen = "door is open"\n[event.open]\nwhen = "open"'), "the name of a state"),
    ("FSM129", ("[event.open]", '[define]\noff = ["shut"]\n[event.open]'), "nothing uses the definition 'off'"),
    (
        "FSM130",
        ("[event.open]", '[define]\na = "b"\nb = "not a"\n[event.open]\nwhen = "a"'),
        "'a' and 'b' refer to each other in a circle",
    ),
    (
        "FSM119",
        ("[event.crash]", '[clause.c]\nsays = "C."\nMUST  = "C"\n[event.crash]'),
        "no joint event refers to clause 'c'",
    ),
]


@pytest.mark.parametrize(("code", "instead", "says"), WRONG)
def test_mistakes_are_reported(code: str, instead: tuple[str, str], says: str) -> None:
    assert instead[0] in OFFICE + WORK

    with pytest.raises(InputError) as caught:
        office(instead=instead)

    problems = [each for each in caught.value.problems if each.code == code]
    assert any(says in each.what for each in problems), caught.value
    assert all(each.line and each.hint for each in problems)


def test_a_mistake_in_a_definition_is_reported_once_and_at_the_definition() -> None:
    define = '[define]\noff = "door is opne"\n[event.open]\nwhen = "off"'

    with pytest.raises(InputError) as caught:
        office(instead=("[event.open]", define))

    [problem] = caught.value.problems
    assert "unknown state 'opne'" in problem.what
    assert problem.line == OFFICE[: OFFICE.index("[event.open]")].count("\n") + 2


def test_every_rule_is_tried() -> None:
    elsewhere = {"FSM720", "FSM721"}  # not about files of systems, and tried in test_systems_as_machines
    tried = {code for code, _, _ in WRONG if "FSM7" < code} | elsewhere
    assert {code for code in RULES if "FSM7" < code < "FSM8"} == tried


def test_values_of_a_wrong_type_are_reported() -> None:
    with pytest.raises(InputError, match="FSM010"):
        parse((OFFICE + 'colour = "red"\n').encode(), WrittenSystem, path="system.toml")


LATE = """
[define]
busy     = ["starting", "checking", "running"]
no-haste = "door is not open or every job is busy"
[event.late]
kind  = "signal"
about = "It is late."
when  = "no-haste"
ways.idle = { when = "no job is busy", steps = ["door.slam"] }
ways.done = { steps = ["door.slam", { do = "every job.exit", when = "job is busy" }] }
[profile.holiday]
about = "Nobody comes."
[profile.holiday.event.late]
ways.done    = { when = "some job is not busy", steps = ["door.slam"] }
ways.nothing = {}
[profile.workday]
about = "There is always something."
[profile.workday.event.late]
about   = "It is never late."
without = ["idle"]
[profile.night]
about = "Nothing is left."
[profile.night.event.late]
steps = ["reset every job"]
[profile.noon]
about = "There is time."
[profile.noon.event.late]
when = "door is open"
"""


def test_a_profile_changes_single_ways() -> None:
    system = office(LATE)
    late = {name: system.under(name).events["late"] for name in (None, *system.profiles)}
    ways = {name: [way.name for way in joint.ways] for name, joint in late.items()}

    assert {
        None: ["idle", "done"],
        "holiday": ["idle", "done", "nothing"],
        "workday": ["done"],
        "night": ["done"],
        "noon": ["idle", "done"],
    } == ways
    assert ["door.slam"] == [f"{step.copy.name}.{step.event}" for step in late["holiday"].ways[1].steps]
    assert late[None].ways == late["noon"].ways
    assert {"signal"} == {joint.kind for joint in late.values()}
    assert ["It is late.", "It is never late."] == [late["holiday"].about, late["workday"].about]


def test_the_only_way_of_a_profile_can_always_be_gone() -> None:
    system = office(LATE)
    when = {name: system.under(name).events["late"].when for name in (None, *system.profiles)}

    assert when["night"] is None
    assert when[None] == when["holiday"] == when["workday"] != when["noon"] is not None


def test_what_is_defined_stands_for_what_it_is() -> None:
    joint = office(LATE).events["late"]
    busy = frozenset({"starting", "checking", "running"})
    every_job = At(part="job", copies=(1, 2), states=busy)
    not_open = At(part="door", copies=(0,), states=frozenset(door().states) - {"open"})

    assert Some(of=(not_open, every_job)) == joint.when
    assert Not(of=replace(every_job, every=False)) == joint.ways[0].when
    assert [busy, busy] == [step.when.states for step in joint.ways[1].steps if isinstance(step.when, At)]


@pytest.mark.parametrize("name", ["cri-service", "plugin-sync"])
def test_one_machine_does_what_the_parts_do(name: str) -> None:
    system = load_system(name)
    flat, whole = flatten(system), explore(SystemTable(system))

    assert len(flat.states) == len(whole.depth)
    ways = Counter(
        (whole.table.states[each.source], whole.table.rows[each.row].name, whole.table.states[each.to])
        for each in whole.transitions
    )
    assert ways == Counter(
        (state, event.name, way.to)
        for event in flat.events.values()
        for state, cell in event.cells.items()
        for way in outcomes(cell, state, event.kind) or ()
    )
    for event in flat.events.values():
        for cell in event.cells.values():
            if isinstance(cell, Moves):
                assert len({way.name for way in cell.outcomes}) == len(cell.outcomes), cell


def test_one_machine_shows_where_the_parts_are() -> None:
    system = load_system("cri-service")

    assert system.shows({"service": "idle"}) == flatten(system).initial
    assert system.shows({"service": "recovering", "flag": "no"}) in flatten(system).states


def test_too_large_a_system_is_no_machine() -> None:
    with pytest.raises(InputError, match="more than 10 states"):
        flatten(load_system("node"), most=10)


# -- the node --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        (
            "no-start-after-stop",
            ["CreateContainer", "PostCreateContainer", "StopContainer", "StartContainer", "PostStartContainer"],
        ),
        ("removal-of-a-pod-is-relayed", ["RunPodSandbox"]),
        ("removal-of-an-exited-container-is-relayed", ["CreateContainer", "PostCreateContainer"]),
        (
            "removal-of-an-unreadable-container-is-relayed",
            ["CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"],
        ),
    ],
)
def test_a_plugin_receives_wrong_events(name: str, outputs: list[str]) -> None:
    specification = claims("node")
    system = load_system("node")
    (stated,) = (each for each in specification.properties if each.name == name)

    broken = decide(stated, Cones(system=system)).verdict
    mended = decide(stated, Cones(system=system.under("mended")), profile="mended").verdict

    assert isinstance(broken, Refuted)
    assert isinstance(broken.evidence, Run)
    assert [each.split(".")[0] for step in broken.evidence.steps for each in step.emits] == outputs
    assert isinstance(mended, Proved)
