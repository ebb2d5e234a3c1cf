"""Timers are judged on recordings with times."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import random_timers
from machines import edited, machine_of
from msgspec import structs
from random_timers import SECOND, TimedRun

from fsm.machine.findings import Cause, Illegal, Violation
from fsm.monitor import Monitor
from fsm.trace import Observation

if TYPE_CHECKING:
    from fsm.machine import Machine

LEASE = """\
[machine]
name    = "lease"
title   = "A lease"
about   = "A lease that is not renewed expires."
source  = "a test"
initial = "free"

[states]
free = { about = "" }
held = { about = "" }
over = { about = "" }

[event.acquire]
kind    = "call"
about   = "Take it."
moves   = { free = "held", over = "held" }
refuses = { held = "HELD" }

[event.renew]
kind    = "call"
about   = "Keep it."
moves   = { held = { stays = true } }
refuses = { free = "NOT_HELD", over = "NOT_HELD" }

[event.expire]
about  = "The time is over."
moves  = { held = "over" }
cannot = ["free", "over"]

[timer.term]
in        = ["held"]
event     = "expire"
after     = "30 s"
tolerance = "1 s"
restarts  = ["renew"]
"""


def judged(machine: Machine, *seen: Observation) -> tuple[list[Violation], dict[str, int]]:
    monitor = Monitor(machine, fresh=True, every=True)
    monitor.feed(seen, range(1, len(seen) + 1))
    judgement = monitor.judgement()
    verdict = judgement.verdict
    found = [each for finding in verdict.findings for each in finding.first] if isinstance(verdict, Illegal) else []
    return found, {word: count for word, count in judgement.notes.items() if "timer" in word}


def at(seconds: float | None, event: str, reply: str = "", phase: str = "") -> Observation:
    time = None if seconds is None else round(seconds * SECOND)
    return Observation(entity="l", of="lease", event=event, reply=reply, phase=phase, at=time)  # type: ignore[arg-type]


def called(seconds: float, event: str, reply: str = "ok", took: float = 0) -> list[Observation]:
    return [at(seconds, event, phase="request"), at(seconds + took, event, reply, "reply")]


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        pytest.param([*called(0, "acquire"), at(30, "expire")], [], id="in time"),
        pytest.param([*called(0, "acquire"), at(29, "expire")], [], id="as early as the tolerance allows"),
        pytest.param([*called(0, "acquire"), at(28.9, "expire")], [3], id="too early"),
        pytest.param([*called(0, "acquire"), at(31, "expire")], [], id="as late as the tolerance allows"),
        pytest.param([*called(0, "acquire"), at(31.1, "expire")], [3], id="too late"),
        pytest.param([*called(0, "acquire", took=5), at(31.1, "expire")], [], id="it may have started later"),
        pytest.param(
            [at(0, "renew", phase="request"), *called(1, "acquire"), at(20, "renew", "ok", "reply"), at(49, "expire")],
            [],
            id="restarted by a call that was requested before it started",
        ),
        pytest.param(
            [
                at(0, "renew", phase="request"),
                *called(1, "acquire"),
                at(20, "renew", "ok", "reply"),
                at(51.1, "expire"),
            ],
            [5],
            id="late although a call restarted it that was requested before it started",
        ),
        pytest.param(
            [*called(0, "acquire", took=5), at(34.5, "expire")], [], id="late or early, depending on the start"
        ),
        pytest.param([*called(0, "acquire", took=5), at(36.5, "expire")], [3], id="late, whenever it started"),
        pytest.param([*called(0, "acquire"), *called(20, "renew"), at(50, "expire")], [], id="restarted"),
        pytest.param([*called(0, "acquire"), *called(20, "renew"), at(30, "expire")], [5], id="early after a restart"),
        pytest.param([*called(0, "acquire"), *called(20, "renew", "NOT_HELD")], [4], id="an error does not restart it"),
        pytest.param([*called(0, "acquire"), *called(40, "renew")], [3], id="absent"),
        pytest.param([*called(0, "acquire"), at(40, "", phase="gap")], [], id="a gap decides nothing"),
        pytest.param([*called(0, "acquire"), at(None, "expire")], [], id="without a time"),
        pytest.param([at(0, "acquire", "ok"), at(31.1, "expire")], [2], id="whole calls"),
        pytest.param([at(0, "acquire", "ok"), at(10, "expire")], [], id="the start of a whole call is unknown"),
    ],
)
def test_a_timer_fires_in_time(seen: list[Observation], lines: list[int]) -> None:
    found, _ = judged(machine_of(LEASE), *seen)

    assert [each.line for each in found] == lines


@pytest.mark.parametrize(("time", "lines"), [(28.9, [3]), (29, [])])
def test_a_whole_call_acts_after_the_last_observation_also_of_an_entity_at_rest(time: float, lines: list[int]) -> None:
    free = Observation(entity="l", of="lease", shows="free", at=0)

    found, notes = judged(machine_of(LEASE), free, at(5, "acquire", "ok"), at(time, "expire"))

    assert ([each.line for each in found], notes) == (lines, {})


@pytest.mark.parametrize(("time", "lines"), [(38.9, [2]), (39, []), (51, []), (51.1, [2])])
def test_a_call_with_a_start_and_an_end_acts_in_between(time: float, lines: list[int]) -> None:
    acquire = Observation(
        entity="l", of="lease", event="acquire", reply="ok", start=10 * SECOND, end=20 * SECOND, at=30 * SECOND
    )

    found, _ = judged(machine_of(LEASE), acquire, at(time, "expire"))

    assert [each.line for each in found] == lines


def test_the_first_observation_of_an_entity_may_start_a_timer_again() -> None:
    held = edited(
        edited(LEASE, 'initial = "free"', 'initial = "held"'), '{ held = "over" }', "{ held = { stays = true } }"
    )

    found, _ = judged(machine_of(held), at(5, "expire"), at(33, "expire"))
    assert [each.line for each in found] == [2]
    renewed = structs.replace(at(5, "renew", "ok"), start=5 * SECOND, end=5 * SECOND)
    found, _ = judged(machine_of(held), renewed, at(33, "expire"))
    assert [each.line for each in found] == [2]
    found, _ = judged(machine_of(held), at(5, "renew", "ok", "reply"), at(33, "expire"))
    assert found == []


def test_a_violation_names_the_timer_its_start_and_what_was_expected() -> None:
    (violation,), _ = judged(machine_of(LEASE), *called(0, "acquire"), at(10, "expire"))

    assert violation.cause is Cause.TIME
    assert violation.limit is not None
    assert (violation.limit.timer, violation.limit.early) == ("term", True)
    assert [line.number for line in violation.lines] == [1, 3]


def test_a_timer_that_should_have_fired_before_the_recording_ends_is_a_violation() -> None:
    other = structs.replace(at(100, "acquire", "ok"), entity="other")

    found, _ = judged(machine_of(LEASE), *called(0, "acquire"), other)
    assert [each.observation.entity for each in found] == ["l"]
    found, _ = judged(machine_of(LEASE), *called(90, "acquire"), other)
    assert found == []


def test_what_is_not_decided_is_counted() -> None:
    _, notes = judged(machine_of(LEASE), *called(0, "acquire", took=5), at(34.5, "expire"))

    assert notes == {"timer term not decided": 1}


def illegal(
    of: random_timers.TimedMachine, run: TimedRun, chance: random.Random
) -> list[tuple[list[Observation], str]]:
    """Return variants of *run* in which a firing certainly comes too early, too late, or not at all."""
    made = []
    for firing in run.firings:
        before, after = run.observations[: firing.index], run.observations[firing.index + 1 :]
        seen = run.observations[firing.index]
        last = before[-1].at if before else 0
        early = firing.earliest + (of.after - of.tolerance) * SECOND - 1
        if isinstance(last, int) and last < early:
            made.append(([*before, structs.replace(seen, at=chance.randint(last + 1, early))], "early"))
        late = firing.latest + (of.after + of.tolerance) * SECOND + chance.randint(1, SECOND)
        made.append(([*before, structs.replace(seen, at=late)], "late"))
        if after and isinstance(after[0].at, int) and after[0].at > late:
            made.append(
                ([*before, structs.replace(after[0], event="", phase="", reply="", shows=seen.shows)], "absent")
            )
    return made


@pytest.mark.parametrize("part", range(8))
def test_random_runs_are_legal_and_their_untimely_variants_are_not(part: int) -> None:
    chance = random.Random(part)
    legal = accused = wrong = 0
    for _ in range(60):
        of = random_timers.machine(chance)
        machine = machine_of(of.model())
        run = random_timers.run(of, chance)
        found, _ = judged(machine, *run.observations)
        assert found == [], (of, run)
        legal += 1
        for seen, _why in illegal(of, run, chance):
            found, _ = judged(machine, *seen)
            wrong += 1
            accused += bool(found)
    print(f"{legal} legal runs, 0 accused; {wrong} untimely runs, {accused} accused")  # noqa: T201
    assert accused == wrong > 10
