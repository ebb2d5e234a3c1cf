"""On a recording, a proved property is never reported as broken, and a broken property is reported with its lines."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pytest
from machines import door, job
from msgspec.structs import replace
from random_claims import random_property, stated
from random_machines import random_machine
from thorough import TIMES

from fsm.checker import decide
from fsm.language.library import specification
from fsm.machine import Machine
from fsm.machine.calls.belief import dynamics
from fsm.machine.claims import Property
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.findings import Illegal, Violation
from fsm.machine.simulation import simulate
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.monitor.judgement.properties import PropertyWatch
from fsm.monitor.property_watch import Watch, untestable
from fsm.monitor.property_watch.recording_watch import unwatchable
from fsm.mutation import mutants
from fsm.sut import Response, Stimulus
from fsm.trace import Line, Observation

KINDS = ("idempotent", "always", "never", "never")


class Found(NamedTuple):
    """The result for one property: the number of violations, the first violation, and the status with its reason."""

    times: int
    first: Violation | None
    status: str
    why: str


def watched(
    machine: Machine,
    of: Property,
    trace: Sequence[Observation],
    *,
    profile: str | None = None,
    seen: frozenset[str] | None = None,
    fresh: bool = True,
) -> Found:
    moves = dynamics(tabulate(machine.under(profile)), shown=seen)
    watch = PropertyWatch([of], moves, profile=profile, fresh=fresh, file="trace")
    monitor = Monitor(machine, profile=profile, seen=seen, fresh=fresh, file="trace")
    monitor.violated = watch.violated
    for each in (monitor, watch):
        each.feed(trace, range(1, len(trace) + 1))
    judged = watch.added_to(Monitor(machine).judgement())
    (shown,) = judged.properties
    if judged.tolerated:
        return Found(judged.tolerated[0].count, None, shown.status, shown.why)
    if isinstance(judged.verdict, Illegal):
        (finding,) = judged.verdict.findings
        return Found(finding.count, finding.first[0], shown.status, shown.why)
    return Found(0, None, shown.status, shown.why)


def trace(text: str) -> list[Observation]:
    """Parse observations in the notation ``EVENT[:REPLY][/PHASE][=SHOWS]``.

    An observation is about ``c1`` unless it begins with ``NAME@``.
    """
    found = []
    for each in text.split():
        entity, _, rest = each.rpartition("@")
        rest, _, shows = rest.partition("=")
        rest, _, phase = rest.partition("/")
        event, _, reply = rest.partition(":")
        found.append(
            Observation(entity=entity or "c1", event=event, reply=reply, phase=phase, shows=shows)  # type: ignore[arg-type]  # a phase
        )
    return found


def named(model: str, name: str) -> tuple[Machine, Property]:
    of = specification(model)
    return of.machine, next(each for each in of.properties if each.name == name)


# -- what is proved --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "machines", "length"), [(1, 100, 12), (3, 60, 8)])
def test_what_is_proved_is_never_broken_by_what_the_machine_does(overlap: int, machines: int, length: int) -> None:
    kinds: Counter[str] = Counter()
    for number in range(machines * TIMES):
        chance = random.Random(f"proved {overlap} {number}")
        machine = random_machine(chance)
        of = random_property(chance, machine, KINDS)
        if unwatchable(of):
            continue
        proved = isinstance(decide(of, tabulate(machine)).verdict, Proved)
        for seed in range(2):
            made = list(simulate(machine, seed=seed, length=length, entities=2, overlap=overlap))
            found = watched(machine, of, made, fresh=bool(seed % 2))
            kinds[f"proved {bool(proved)}, broken {bool(found.times)}"] += 1
            assert not (proved and found.times), (overlap, number, seed)

    assert kinds["proved True, broken False"] > machines / 5
    assert kinds["proved False, broken True"] > machines / 30


def test_nothing_is_broken_by_more_than_a_test_that_sees_everything_finds() -> None:
    """A test that reads the state after every call finds at least the violations that the watch finds."""
    both: Counter[tuple[bool, bool]] = Counter()
    for number in range(120 * TIMES):
        chance = random.Random(f"tested {number}")
        machine = random_machine(chance)
        calls = [each.name for each in machine.events.values() if each.kind == "call"]
        of = random_property(chance, machine, KINDS)
        if untestable(of) or unwatchable(of):
            continue
        watch = Watch(machine, of)
        made = []
        violated = False
        for _ in range(6):
            event, reply = chance.choice(calls), chance.choice(("ok", "ok", "BUSY", "GONE"))
            shows = chance.choice([each.shows for each in machine.states.values()])
            made.append(Observation(entity="c1", event=event, reply=reply, shows=shows))
            violated = violated or watch.step(Stimulus(event), Response(reply=reply, shows=shows)) is not None
        found = watched(machine, of, made)
        both[bool(found.times), violated] += 1

    assert both[True, True] > 8
    assert both[True, False] <= both[True, True] // 10


CLAIMS = (
    'idempotent = "remove"',
    'never = "gone then open"',
    'always = "was gone and stays"\nwhen = "was gone and push"',
    'always = "push replies error"\nwhen = "was gone and push"',
)


def test_mistakes_of_an_implementation_are_found() -> None:
    machine, should, found = door(), 0, 0
    for mutant in mutants(machine):
        made = [seen for seed in range(4) for seen in _renamed(simulate(mutant.machine, seed=seed, length=30), seed)]
        for claim in CLAIMS:
            of = stated(machine, claim)
            if isinstance(decide(of, tabulate(mutant.machine)).verdict, Refuted):
                should += 1
                found += bool(watched(machine, of, made).times)

    assert should >= 20
    assert found >= should / 2, (found, should)


def _renamed(made: Iterable[Observation], seed: int) -> Iterator[Observation]:
    return (replace(each, entity=f"{each.entity}-{seed}") for each in made)


# -- what is broken ----------------------------------------------------------------


def test_a_breach_has_its_lines() -> None:
    machine, of = named("container-status", "started-at-most-once")

    found = watched(machine, of, trace("create:ok start:ok status:ok start:ok"))

    assert found.first is not None
    assert (1, "violated") == (found.times, found.status)
    assert (Line("trace", 2), Line("trace", 4)) == found.first.lines
    assert found.first.illegal.startswith("start replies ok and (start happens or was starting) then start replies ok")
    assert 4 == found.first.line


def test_a_trace_that_keeps_to_it_has_put_it_to_the_test() -> None:
    machine, of = named("container-status", "started-at-most-once")

    found = watched(machine, of, trace("create:ok start:ok status:ok start:UNKNOWN"))

    assert (0, "holds") == (found.times, found.status)


def test_what_was_not_put_to_the_test_is_not_exercised() -> None:
    machine, of = named("container-status", "started-at-most-once")

    assert "not exercised" == watched(machine, of, trace("create:ok status:ok")).status


def test_overlapping_calls_may_have_gone_in_either_order() -> None:
    """Two overlapping starts, of which one was refused, may have acted in either order.

    A third start cannot be explained.
    """
    machine, of = named("container-status", "started-at-most-once")
    one = "create:ok start/request start/request start:ok/reply start:UNKNOWN/reply"

    assert 0 == watched(machine, of, trace(one)).times
    assert 1 == watched(machine, of, trace(f"{one} start:ok")).times


@pytest.mark.parametrize(
    ("between", "status"),
    [
        ("/gap", "not exercised"),
        ("remove:ok/answered", "not exercised"),
        ("start:ok/reply", "not exercised"),
        ("stop/request " * 70, "unknown"),
    ],
    ids=["a gap", "a reply without a request", "the same, asked before the trace", "more at once than can be ordered"],
)
def test_after_what_is_not_known_nothing_is_violated(between: str, status: str) -> None:
    """Nothing is violated once the container may have been removed and created again unobserved."""
    machine, of = named("container-status", "started-at-most-once")

    found = watched(machine, of, trace(f"create:ok start:ok {between} start:ok"))

    assert (0, status) == (found.times, found.status)


def test_a_reply_without_a_request_changes_nothing_if_the_event_never_does() -> None:
    machine, of = named("container-status", "started-at-most-once")

    assert 1 == watched(machine, of, trace("create:ok start:ok status:ok/answered start:ok")).times


def test_a_trace_in_mid_life_knows_nothing_of_what_was() -> None:
    machine, of = named("container-status", "only-the-created-start")

    assert 1 == watched(machine, of, trace("start:ok")).times
    assert 0 == watched(machine, of, trace("start:ok"), fresh=False).times


def test_signals_that_are_not_seen_may_have_happened() -> None:
    """A container that is shown as exited may have exited unobserved, so nothing is violated."""
    machine, of = named("container-status", "no-process-no-exit")

    assert 0 == watched(machine, of, trace("create:ok start:ok =CONTAINER_EXITED"), seen=frozenset()).times


def test_a_call_that_was_lost_may_have_acted_and_may_act_yet() -> None:
    machine, of = named("container-status", "started-at-most-once")
    lost = "create:ok start/request start/lost status:ok start:ok"

    assert 0 == watched(machine, of, trace(lost)).times


def test_entities_do_not_meet() -> None:
    machine, of = named("container-status", "started-at-most-once")

    found = watched(machine, of, trace("a@create:ok b@create:ok a@start:ok b@start:ok b@start:ok"))

    assert found.first is not None
    assert (1, "b") == (found.times, found.first.observation.entity)


def test_a_gap_of_every_entity_concerns_those_not_seen_yet() -> None:
    machine, of = named("container-status", "only-the-created-start")
    gap = Observation(phase="gap")

    assert 1 == watched(machine, of, trace("b@start:ok")).times
    assert 0 == watched(machine, of, [gap, *trace("b@start:ok")]).times


def test_what_is_known_to_fail_says_so() -> None:
    machine, of = named("container-status", "stop-of-the-gone-succeeds")

    without = watched(machine, of, trace("stop:NOT_FOUND"))
    with_profile = watched(machine, of, trace("stop:NOT_FOUND"), profile="containerd-1.6")

    assert (1, "violated") == (without.times, without.status)
    assert (1, "known") == (with_profile.times, with_profile.status)


def test_a_reply_that_says_nothing_breaks_nothing() -> None:
    machine, of = named("container-status", "stop-of-the-gone-succeeds")

    assert 0 == watched(machine, of, trace("stop:UNAVAILABLE")).times


def test_a_call_that_takes_time_is_met_in_its_middle() -> None:
    twice = stated(job(), 'never = "waiting then running then waiting"')
    once = stated(job(), 'never = "waiting then running"')
    met = "make:ok start/request =WAITING =RUNNING start:ok/reply"

    assert 0 == watched(job(), twice, trace(met)).times
    assert 1 == watched(job(), once, trace(met)).times


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("start-ends", "a finite recording cannot decide the property"),
        ("stop-may-be-late", "something that is possible"),
        ("refines-the-contract", "--model cri-container"),
        ("as-it-is-drawn", "a drawing"),
        ("nothing-is-left-open", "the text of the model"),
    ],
)
def test_what_cannot_be_watched_says_why(name: str, why: str) -> None:
    machine, of = named("container-status", name)

    found = watched(machine, of, [])

    assert "not watched" == found.status
    assert why in found.why
