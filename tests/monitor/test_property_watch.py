"""A watch on the properties of a SUT agrees with the checker, and with an independent monitor on the same run."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import naive_property_monitor
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from machines import DOOR, JOB, edited, machine_of
from naive_property_monitor import BeyondError
from random_claims import random_property, stated
from random_machines import random_machine
from shipped import known_mutants, specification
from thorough import amount

from fsm.checker import decide
from fsm.checker.instants import StepCache
from fsm.conformance.plan import IDLE, Plan, Point, steps
from fsm.language.library import load, specified
from fsm.machine import Silent, outcomes
from fsm.machine.calls import BEGUN, Rules
from fsm.machine.claims import LeadsTo, Property, Reachable, Refines
from fsm.machine.evidence import Refuted, Run, Unexplained, Vacuous
from fsm.machine.table import tabulate
from fsm.monitor.property_watch import Violated, Watch, automata, untestable
from fsm.monitor.property_watch.property_product import PropertyProduct
from fsm.sut import Response, Stimulus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brute_force.claims import Run as NaiveRun
    from brute_force.steps import Step

    from fsm.conformance.plan import Edge
    from fsm.machine import Machine
    from fsm.machine.evidence import RunStep
    from fsm.machine.table import Way
    from fsm.sut import StimulusStage

KINDS = ("idempotent", "always", "never", "never")

Observed: TypeAlias = list[tuple[Stimulus, Response]]


def plain(machine: Machine) -> Machine:
    states = {name: replace(state, shows=name) for name, state in machine.states.items()}
    return replace(machine, states=states, indefinite=())


def told(machine: Machine, run: Iterable[Step]) -> Observed:
    found = []
    for each in run:
        takes_time = bool(machine.events[each.event].ends)
        shows = machine.states[each.target[0][0]].shows
        reply = None if naive_property_monitor.is_open(each) else each.reply
        ends = each.stage in {"ends", "continues"}
        stage: StimulusStage = "end" if ends else "begin" if takes_time else "do"
        found.append((Stimulus(each.event, stage), Response(reply=reply, shows=shows, outputs=each.emits)))
    return found


def watched(watch: Watch, test: Iterable[tuple[Stimulus, Response]]) -> Violated | None:
    watch.reset()
    violated = None
    for step, seen in test:
        violated = watch.step(step, seen)
    return violated or watch.finish()


# -- a second opinion -----------------------------------------------------------


@given(st.randoms(use_true_random=False))
def test_what_is_seen_whole_is_judged_by_definition(chance: random.Random) -> None:
    """If every state is visible, the watch reports a violation if and only if the run breaks the property.

    The watch need not report a violation if another run with the same observations does not break the property.
    """
    machine = random_machine(chance)
    of = random_property(chance, machine, KINDS)
    assume(not untestable(of))
    machine = plain(machine)
    watch = Watch(machine, of, unseen=())
    for _ in range(5):
        run = naive_property_monitor.random_run(chance, machine, 12)

        test = told(machine, run)
        violated = watched(watch, test)

        assert certainly_breaks(machine, of, run, test) == (violated is not None), run
        if violated is not None:
            last = max(violated.steps, default=0)
            assert naive_property_monitor.breaks(machine, of, run[:last])
            assert not last or not certainly_breaks(machine, of, run[: last - 1], test[: last - 1])


def certainly_breaks(machine: Machine, of: Property, run: NaiveRun, test: Observed) -> bool:
    """Check whether *run* breaks the property, and with it all other runs that explain the observations in *test*.

    A call that begins and ends within one observation may pass through states that are not visible, so several runs
    may explain observations of single steps.
    """
    try:
        return naive_property_monitor.breaks(machine, of, run) and all_break(machine, of, test)
    except BeyondError:
        return False


def all_break(machine: Machine, of: Property, test: Observed) -> bool:
    runs = list(naive_property_monitor.consistent(machine, test))
    assert runs
    return all(naive_property_monitor.breaks(machine, of, each) for each in runs)


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_what_is_seen_in_part_is_violated_for_certain_only(chance: random.Random) -> None:
    """If a run is partly hidden, a violation is reported if and only if all consistent runs break the property."""
    machine = replace(random_machine(chance), indefinite=())
    of = random_property(chance, machine, KINDS)
    assume(not untestable(of))
    watch = Watch(machine, of, unseen=())
    for _ in range(5):
        run = naive_property_monitor.random_run(chance, machine, 5)
        test = [_veiled(chance, each) for each in _joined(chance, told(machine, run))]

        try:
            expected = all_break(machine, of, test)
        except BeyondError:
            continue

        assert expected == (watched(watch, test) is not None), test


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_calls_that_are_not_followed_violate_nothing(chance: random.Random) -> None:
    """With more calls in progress than are tracked, some runs that break the property may go unnoticed."""
    machine = plain(random_machine(chance))
    of = random_property(chance, machine, KINDS[:1])
    assume(not untestable(of))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(automata, "MOST_CALLS", 0)
        watch = Watch(machine, of, unseen=())
        for _ in range(10):
            run = naive_property_monitor.random_run(chance, machine, 12)
            if watched(watch, told(machine, run)) is not None:
                assert naive_property_monitor.breaks(machine, of, run)


def _veiled(chance: random.Random, each: tuple[Stimulus, Response]) -> tuple[Stimulus, Response]:
    step, seen = each
    shows = seen.shows if chance.random() < 0.6 else ""
    outputs = seen.outputs if chance.random() < 0.6 else None
    return step, Response(reply=seen.reply, shows=shows, outputs=outputs)


def _joined(chance: random.Random, test: Observed) -> Observed:
    found: Observed = []
    index = 0
    while index < len(test):
        step, seen = test[index]
        last = index
        if step.stage == "begin":
            while (
                test[last][1].reply is None
                and test[last + 1 : last + 2]
                and test[last + 1][0] == Stimulus(step.event, "end")
            ):
                last += 1
        ended = step.stage == "begin" and test[last][1].reply is not None
        if ended and chance.random() < 0.5:
            found.append((Stimulus(step.event), test[last][1]))
            index = last + 1
        else:
            found.append((step, seen))
            index += 1
    return found


# -- the properties that are shipped --------------------------------------------


CASES = [(name, profile) for name in specified() for profile in (None, *load(name).profiles)]


def random_tests(chance: random.Random, plan: Plan, *, count: int, length: int) -> list[Observed]:
    """Yield tests of *plan* with the answers of a conforming SUT.

    In a silent cell, it may enter any state.
    """
    return [[*random_test(chance, plan, length)] for _ in range(count)]


def random_test(chance: random.Random, plan: Plan, length: int) -> Iterator[tuple[Stimulus, Response]]:
    """Yield a random test of *plan*, in which calls may stay in progress.

    Other events may change the state before a call ends.
    """
    table, point = plan.table, plan.start
    for _ in range(length):
        leaving = plan.leaving(point)
        if not leaving:
            return  # no step follows this one
        edge = chance.choice(leaving)
        last: Way | None = edge.ways[-1] if edge.ways else None
        call = table.machine.events[edge.step.event].kind == "call"
        if edge.to is None or last is None:
            row = table.row[edge.step.event]
            left = IDLE if table.rows[row].event.interrupts or edge.step.stage == "end" else point.call
            point = Point(chance.randrange(len(table.states)), left)
            seen = Response(reply=chance.choice(("ok", "UNKNOWN")) if call else "", outputs=())
        else:
            point = edge.to
            reply = chance.choice(last.reply) if last.reply else ""
            seen = Response(reply=None if last.begins else "UNKNOWN" if reply == "error" else reply, outputs=last.emits)
        yield edge.step, replace(seen, shows=table.shows[point.state])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile"), CASES, ids=str)
def test_what_is_proved_is_never_violated(name: str, profile: str | None) -> None:
    of = specification(name)
    table = tabulate(of.machine.under(profile))
    tests = random_tests(random.Random(name), Plan(table=table), count=amount(8, night=1_000), length=30)
    stated = [each for each in of.properties if not untestable(each) and not each.expected(profile)]
    for each in stated:
        for unseen, several in ((None, tests[:2]), ((), tests)):
            watch = Watch(of.machine, each, profile=profile, unseen=unseen)
            for test in several:
                assert watched(watch, test) is None, each.name


# -- what mutants do -------------------------------------------------------------


def shown(machine: Machine, taken: tuple[RunStep, ...]) -> Observed:
    """Return what a test observes if it takes the steps of a counterexample.

    If calls overlap, the test makes each call at the moment when the call takes effect.
    """
    found = []
    for index, each in enumerate(taken):
        event = machine.events.get(each.event)
        if event is None or each.phase:  # somebody reads the state, makes a call or receives a reply
            continue
        cell = (event.ends if each.ends else event.cells)[each.source]
        ways = outcomes(cell, each.source, event.kind) or ()
        way = next(way for way in ways if way.name == each.outcome)
        later = (other.reply for other in taken[index:] if other.event == each.event and other.reply)
        reply = None if way.begins else next(later, way.reply[0]) if way.reply else ""
        stage: StimulusStage = "end" if each.ends else "begin" if event.ends else "do"
        seen = Response(reply=reply, shows=machine.states[each.target].shows, outputs=each.emits)
        found.append((Stimulus(each.event, stage), seen))
    return found


CAUGHT = [
    (name, each.name, mutant)
    for name in specified()
    for each in specification(name).properties
    if not untestable(each) and not isinstance(each.claim, Reachable | LeadsTo) and not each.expected(None)
    for mutant in each.catches
    # Silence is a property of a specification, and an implementation cannot perform it.
    if not mutant.endswith(": silent")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stated", "mutant"), CAUGHT)
def test_counterexamples_of_mutants_are_violations(name: str, stated: str, mutant: str) -> None:
    """An implementation that follows the checker's counterexample for a mutant violates the property.

    The watch finds nothing if states look alike and the original machine may have behaved in the same way.
    """
    of = specification(name)
    found = next(each for each in of.properties if each.name == stated)
    changed = known_mutants(name)[mutant].machine
    conclusion = decide(found, tabulate(changed)).verdict
    if isinstance(conclusion, Vacuous):
        return  # the mutant is detected because the property is vacuous, so there is no counterexample
    assert isinstance(conclusion, Refuted)
    run = conclusion.evidence.run if isinstance(conclusion.evidence, Unexplained) else conclusion.evidence
    assert isinstance(run, Run)
    test = shown(changed, run.steps)

    event = next(each for each in of.machine.events if mutant.startswith((f"{each} ", f"{each}/")))
    if isinstance(of.machine.events[event].cells[run.steps[-1].source], Silent):
        return  # where the machine is silent, its properties require nothing
    if watched(Watch(of.machine, found, unseen=()), test) is None:
        shows = [each.shows for each in changed.states.values()]
        assert any(shows.count(seen.shows) > 1 for _, seen in test[-2:])
        assert not isinstance(found.claim, Refines)
    if not isinstance(found.claim, Refines):
        violated = watched(Watch(plain(of.machine), found, unseen=()), shown(plain(changed), run.steps))
        assert violated is not None
        assert violated.steps[-1] == len(run.steps)


# -- claims that a single run cannot decide --------------------------------------


def at_once(watch: Watch, *words: str) -> Violated | None:
    """Let *watch* follow a test whose steps are written like ``make=ok:waiting``: call, reply and shown state."""
    test = []
    for word in words:
        what, _, seen = word.partition("=")
        stage, _, event = what.rpartition("/")
        [step] = steps(f"{stage} {event}")
        reply, _, shows = seen.partition(":")
        test.append((step, Response(reply=None if reply == "-" else reply, shows=shows, outputs=())))
    watch.reset()
    violated = None
    for step, each in test:
        violated = watch.step(step, each)
    return violated


STARTS = 'from = "starting"\nleads-to = "not starting"\nfair = ["start.ends"]'


def test_what_never_comes_is_a_violation() -> None:
    """A call that repeats its stages for ever is a violation, because the target is never reached.

    Fair events are requested repeatedly, but not without limit.
    """
    machine = plain(machine_of(JOB))
    watch = Watch(machine, stated(machine, STARTS))

    assert at_once(watch, "make=ok:waiting", "begin/start=-:starting") is None
    assert watch.due() == Stimulus("start", "end")
    for _ in range(watch.patience):
        assert watch.finish() is None
        assert watch.step(Stimulus("start", "end"), Response(reply=None, shows="starting", outputs=())) is None
    violated = watch.finish()
    assert violated is not None
    assert violated.left
    assert violated.steps == (2,)


def test_what_comes_is_none() -> None:
    machine = plain(machine_of(JOB))
    watch = Watch(machine, stated(machine, STARTS))

    assert at_once(watch, "make=ok:waiting", "begin/start=-:starting", "end/start=ok:running") is None
    assert watch.due() is None
    assert watch.finish() is None
    assert watch.tried


def test_what_need_not_come_is_a_violation() -> None:
    """If no fair event can happen, a target that has not been reached is a violation."""
    machine = plain(machine_of(JOB))
    watch = Watch(machine, stated(machine, 'from = "waiting"\nleads-to = "running"\nfair = ["start.ends"]'))

    assert at_once(watch, "make=ok:waiting") is None
    assert watch.due() is None
    violated = watch.finish()
    assert violated is not None
    assert violated.stopped


@pytest.mark.parametrize("name", specified())
def test_fair_systems_keep_what_is_proved(name: str) -> None:
    of = specification(name)
    plan = Plan(table=tabulate(plain(of.machine)))
    chance = random.Random(name)
    for each in of.properties:
        if not isinstance(each.claim, LeadsTo) or each.expected(None):
            continue
        watch = Watch(plain(of.machine), each, unseen=())
        for aim in watch.aims():
            watch.reset()
            point = plan.start
            try:
                for taken in aim.steps:
                    point = _take(watch, plan, next(e for e in plan.leaving(point) if _does(e, taken)))
            except StopIteration:
                continue  # the call overlaps another, which does not happen in a test
            while (due := watch.due()) is not None:
                able = [e for e in plan.leaving(point) if e.to and _is(e, due)]
                if not able:
                    break  # a call that is not in progress cannot end
                point = _take(watch, plan, chance.choice(able))
                assert watch.finish() is None, each.name
        assert watch.tried, each.name


def _does(edge: Edge, taken: RunStep) -> bool:
    return (
        edge.step.event == taken.event
        and (edge.step.stage == "end") == taken.ends
        and [way.name for way in edge.ways] == [taken.outcome]
    )


def _is(edge: Edge, due: Stimulus) -> bool:
    return edge.step[:2] == due[:2] and due.expected in {(), (edge.ways[-1].name,)}


def _take(watch: Watch, plan: Plan, edge: Edge) -> Point:
    assert edge.to is not None
    last = edge.ways[-1]
    call = plan.table.machine.events[edge.step.event].kind == "call"
    reply = None if last.begins else last.reply[0] if call else ""
    shows = plan.table.shows[edge.to.state]
    assert watch.step(edge.step, Response(reply=reply, shows=shows, outputs=last.emits)) is None
    return edge.to


def test_witnesses_are_remembered_from_test_to_test() -> None:
    machine = plain(machine_of(JOB))
    watch = Watch(machine, stated(machine, 'reachable = ["make then running", "start replies error and waiting"]'))

    assert at_once(watch, "make=ok:waiting", "begin/start=-:starting", "end/start=ok:running") is None
    assert [*watch.unmet] == ["start replies error and waiting"]
    assert at_once(watch, "make=ok:waiting", "begin/start=-:starting", "end/start=BUSY:waiting") is None
    assert not watch.unmet


def test_drawings_and_silence_cannot_be_tested() -> None:
    """Properties about drawings and silence cannot be tested, because they are about the text of the model."""
    machine = machine_of(DOOR)
    silent = stated(machine, 'never = "silent on push or silent on slam"')

    assert untestable(silent)
    with pytest.raises(ValueError, match="cannot be tested: the property is about the text of the model"):
        Watch(machine, silent)


def test_garbage_breaks_nothing_by_itself() -> None:
    """An unknown word only makes the state unknown. Earlier observations still count."""
    machine = plain(machine_of(DOOR))
    watch = Watch(machine, stated(machine, 'never = "open then push replies STUCK"'))

    assert at_once(watch, "push=ok:open", "push=ok:nonsense") is None
    violated = at_once(watch, "push=ok:open", "push=ok:nonsense", "push=STUCK:open")
    assert violated is not None
    assert violated.left
    assert violated.steps == (1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", specified())
def test_aims_put_properties_to_the_test(name: str) -> None:
    of = specification(name)
    machine = plain(of.machine)
    for each in of.properties:
        if untestable(each) or each.expected(None) or isinstance(each.claim, Refines):
            continue
        watch = Watch(machine, each, unseen=())
        aims = watch.aims()
        assert aims, each.name
        for aim in aims[:: max(1, len(aims) // 3)]:
            test = shown(machine, aim.steps)
            watched(watch, test[:-1])
            watch.tried = False
            watch.step(*test[-1])
            assert watch.tried, (each.name, aim)


def test_what_nobody_saw_may_explain_what_was_seen() -> None:
    """If nothing else explains a step, a hidden event is assumed, which excuses the violation."""
    door = machine_of(edited(DOOR, 'moves  = { shut = "ajar" }', 'moves  = { open = "ajar" }'))
    of = stated(door, 'never = "emits Creak then emits Creak"\nuntil = "ajar"')
    test = [(Stimulus("push"), Response(reply="ok", shows="OPEN", outputs=("Creak",)))] * 2

    assert watched(Watch(door, of), test) is None
    violated = watched(Watch(door, of, unseen=()), test)
    assert violated is not None
    assert violated.steps == (1, 2)


def test_outputs_that_nobody_asked_for_are_not_counted() -> None:
    """The outputs of a hidden event are not tracked, because it may happen any number of times."""
    loud = edited(DOOR, 'moves  = { shut = "ajar" }', 'moves  = { shut = { to = "shut", emits = ["Creak"] } }')
    machine = machine_of(loud)
    watch = Watch(machine, stated(machine, 'never = "gone then open"'))

    assert watch.step(Stimulus("push"), Response(reply="NOT_FOUND", shows="CLOSED")) is None


def test_a_product_goes_as_far_as_its_machine() -> None:
    silent = 0
    for number in range(120):
        chance = random.Random(number)
        table = tabulate(random_machine(chance))
        claim = random_property(chance, table.machine, ("never",)).claim
        product, rules = PropertyProduct(StepCache(table), claim, None), Rules(table)
        calls = [row.index for row in table.rows if row.event.kind == "call" and not row.ends]

        for at, row in itertools.product(range(len(product.places)), calls):
            alone = rules.instants(product.places[at].state, row)
            silent += any(each.way is None and each.stage == BEGUN for each in alone)
            assert {each.stage for each in alone if each.way is None} == {
                each.stage for each in product.rules.instants(at, row) if each.way is None
            }
    assert silent > 5
