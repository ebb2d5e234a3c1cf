"""Timers and time limits, also of machines with data, are judged as by a search through all runs."""

from __future__ import annotations

import random
from bisect import bisect
from typing import TYPE_CHECKING, Literal, TypeAlias
from unittest.mock import patch

import msgspec
import pytest
from machines import machine_of
from msgspec import structs
from naive_timing import SECOND, first_illegal, random_recording, random_timed
from thorough import amount

from fsm.machine.calls.clocks import RunningClock, RunningTimers
from fsm.machine.findings import Illegal
from fsm.monitor import Monitor
from fsm.monitor.stepping import Beliefs
from fsm.recordings.json_lines import Trace, TraceHeader
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine import Machine
    from fsm.monitor.life import Times

Written: TypeAlias = Literal["parts", "line", "interval", "time"]
"""A way to record calls.

- parts: each as a request and a reply
- line: on a line with its start and end, which is read
- interval, time: as an observation with its start and end, or with one time
"""


def first_violation(machine: Machine, seen: list[Observation], end: int) -> int | None:
    monitor = Monitor(machine, fresh=True)
    for index, each in enumerate(seen):
        if monitor.observe(each):
            return index
    monitor.observe(Observation(entity="other", of="timed", shows="s0", at=end * SECOND))
    return len(seen) if isinstance(monitor.judgement().verdict, Illegal) else None


def whole_calls(seen: list[Observation], written: Written) -> tuple[list[Observation], list[int]]:
    """Return *seen* with calls as single observations, and the index of each in *seen*.

    Calls stay apart if something was observed in the meantime: on lines, only if it was observed when the call began,
    because the order of both would be lost.
    """
    found = list[tuple[Observation, int]]()
    asked = 0
    for index, each in enumerate(seen):
        made = each
        if each.phase == "request":
            asked = len(found)
        elif each.phase == "reply":
            start, between = found[asked][0].at, [other.at for other, _ in found[asked + 1 :]]
            if not between or (written == "line" and start not in between):
                times = {"at": each.at} if written == "time" else {"at": None, "start": start, "end": each.at}
                made, index = structs.replace(each, phase="", **times), found.pop(asked)[1]  # noqa: PLW2901
        found.append((made, index))
    return [each for each, _ in found], [index for _, index in found]


def read(seen: list[Observation]) -> list[Observation]:
    """Return what is read from *seen*, which is written as a trace."""
    trace = Trace(title=TraceHeader(trace=1, clock="relative"))
    first = trace.observations(b"\n".join(map(msgspec.json.encode, seen)), 1)
    return [*first.observations, *trace.rest().observations]


def opinions(seed: int, written: Written | None = None) -> tuple[bool, int | None, int | None]:
    """Return whether observations determine everything, and where the search and the monitor see a violation."""
    chance = random.Random(seed)
    of = random_timed(chance, calls=written is not None)
    if written == "time":  # a time limit is judged as if such a call acted at its time
        of.ways = {at: tuple(way._replace(within=0) for way in ways) for at, ways in of.ways.items()}
    seen = random_recording(of, chance)
    if written or chance.random() < 0.5:  # everything from some observation on is later or earlier
        fired = [index for index, each in enumerate(seen) if written and each.event.startswith("fire")]
        index, by = chance.choice(fired or range(len(seen))), chance.randint(-6 if written else -3, 6) * SECOND
        least = int(seen[index - 1].at or 0) if index else 0
        for at in range(index, len(seen)):
            least = max(least, int(seen[at].at or 0) + by)
            seen[at] = structs.replace(seen[at], at=least)
    end = int(seen[-1].at or 0) // SECOND + chance.choice((0, 3, 12))
    machine, given, indices = machine_of(of.model()), seen, [*range(len(seen))]
    if written not in {None, "parts"}:
        given, indices = whole_calls(seen, written)
    if written == "line":
        given, indices = read(given), [*range(len(seen))]
        assert [(each.event, each.phase, each.reply) for each in given] == [
            (each.event, each.phase, each.reply) for each in seen
        ]
    for index, each in zip(indices, given, strict=True):
        if written == "time" and each.event and seen[index].phase == "request" and not each.phase:
            # It is not known when the call was made: it may have acted at any time since the last observation.
            seen[index] = structs.replace(seen[index], at=seen[index - 1].at)
    naive = first_illegal(of, seen, end)
    naive = None if naive is None else bisect([*indices, len(seen)], naive) - 1
    return of.exact, naive, first_violation(machine, given, end)


def wrong(seed: int) -> bool:
    """Return whether the monitor accuses what has a run, or misses a violation although nothing is uncertain."""
    exact, naive, found = opinions(seed)
    return naive != found if exact else accuses(naive, found)


def accuses(naive: int | None, found: int | None) -> bool:
    """Return whether the monitor has *found* a violation where the search has not."""
    return found is not None and (naive is None or found < naive)


@pytest.mark.parametrize("part", range(4))
def test_random_machines(part: int) -> None:
    seeds = range(part * 10_000, part * 10_000 + amount(150, night=5_000))
    assert [] == [seed for seed in seeds if wrong(seed)]


def test_most_violations_are_found_although_events_are_hidden() -> None:
    those = [each for each in map(opinions, range(400)) if not each[0]]
    missed = [each for each in those if each[1] != each[2]]
    print(f"{len(those)} recordings, {len(missed)} judged differently")  # noqa: T201
    assert len(missed) < len(those) / 10


def never_restarts(moved: Callable[..., tuple[RunningClock, ...]]) -> Callable[..., tuple[RunningClock, ...]]:
    def changed(
        self: RunningTimers, clocks: tuple[RunningClock, ...], *rest: object, **how: object
    ) -> tuple[RunningClock, ...]:
        kept = {each.timer: each for each in clocks}
        return tuple(kept.get(each.timer, each) for each in moved(self, clocks, *rest, **how))

    return changed


FAN = """\
[machine]
name    = "fan"
title   = "A fan"
about   = "It cools something down, and counts its turns."
source  = "a test"
initial = "still"

[states]
still   = { about = "" }
turning = { about = "" }

[data]
turns = { from = 0, to = 3, scope = true }

[event.start]
kind  = "signal"
about = "It is hot."
moves = { still = { to = "turning", within = 5 } }
cannot = ["turning"]

[event.turn]
kind   = "signal"
about  = "It has turned once more."
moves  = { turning = { stays = true, set = { turns = "turns + 1" } } }
cannot = ["still"]

[event.stop]
kind   = "signal"
about  = "It is cool."
moves  = { turning = "still" }
cannot = ["still"]
"""


def fan_lines(*times: int) -> list[int]:
    """Return the lines with violations if the fan starts, turns, and stops at the last of *times*."""
    monitor = Monitor(machine_of(FAN), fresh=True)
    events = ("start", *["turn"] * (len(times) - 2), "stop")
    seen = [Observation(entity="e", event=event, at=at * SECOND) for event, at in zip(events, times, strict=True)]
    return [each.line for one in seen for each in monitor.observe(one)]


@pytest.mark.parametrize(
    ("times", "lines"),
    [((1, 3, 6), []), ((1, 3, 7), [3]), ((1, 3, 5, 6), []), ((1, 3, 5, 7), [4]), ((1, 7, 9), [2])],
)
def test_a_time_limit_goes_on_when_data_change(times: tuple[int, ...], lines: list[int]) -> None:
    assert fan_lines(*times) == lines


PLANTED = {
    "timers never restart": ("fsm.machine.calls.clocks.RunningTimers.moved", never_restarts(RunningTimers.moved)),
    "nothing runs": ("fsm.machine.calls.clocks.RunningTimers.moved", lambda *_, **__: ()),
    "a change of data leaves the state": ("fsm.machine.calls.valued.ValuedTable.bare", lambda _, state: state),
    "everything is in time": ("fsm.monitor.life.Life.passes", lambda life, *_: life.belief.configurations),
    "starts are not counted from the last observation": (
        "fsm.machine.calls.unobserved.Unobserved.started",
        lambda _, those: frozenset(those),
    ),
    "a call that changes nothing restarts nothing": (
        "fsm.machine.calls.unobserved.Unobserved.apart",
        lambda *_: False,
    ),
    "the tolerance is ignored": ("fsm.machine.timers.Timer.latest", property(lambda timer: timer.after)),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_noticed(mistake: str) -> None:
    with patch(*PLANTED[mistake]):
        assert fan_lines(1, 3, 7) != [3] or any(map(wrong, range(400)))


def test_calls_with_a_start_and_an_end_are_judged_as_requests_and_replies_are() -> None:
    seeds = range(amount(200, night=5_000))
    assert [opinions(seed, "parts") for seed in seeds] == [opinions(seed, "line") for seed in seeds]


@pytest.mark.parametrize("written", ["line", "interval", "time"])
def test_whole_calls_are_not_accused_wrongly_and_most_violations_are_found(written: Written) -> None:
    judged = [opinions(seed, written)[1:] for seed in range(50_000, 50_000 + amount(400, night=10_000))]
    alarms = [each for each in judged if accuses(*each)]
    illegal = [each for each in judged if each[0] is not None]
    missed = sum(naive != found for naive, found in illegal)
    print(f"{written}: {len(judged)} recordings, {len(alarms)} false alarms; {len(illegal)} illegal, {missed} missed")  # noqa: T201
    assert not alarms
    assert missed < len(illegal) / 5


COUNTED = (
    (
        FAN.replace("scope = true", "scope = true, shown = true")
        .replace(", within = 5", "")
        .replace('"signal"\nabout  = "It has', '"call"\nabout  = "It has')
        .replace('cannot = ["still"]', 'refuses = { still = "STILL" }', 1)
    )
    + """
[timer.heat]
in        = ["turning"]
event     = "stop"
after     = "50 s"
tolerance = "1 s"
restarts  = ["turn"]
"""
)


@pytest.mark.parametrize(("at", "lines"), [(58.9, [4]), (59, []), (101, []), (101.1, [4])])
def test_shown_values_do_not_move_a_call_to_its_beginning(at: float, lines: list[int]) -> None:
    turn = Observation(entity="e", event="turn", reply="ok", fields={"turns": 1}, start=10 * SECOND, end=50 * SECOND)
    seen = [Observation(entity="e", event="start", at=5 * SECOND), turn]
    seen.append(Observation(entity="e", event="stop", at=round(at * SECOND)))
    monitor = Monitor(machine_of(COUNTED), fresh=True)

    assert [each.line for one in read(seen) for each in monitor.observe(one)] == lines


def reads(**changes: Callable[[Observation], int | None]) -> Callable[..., Observation]:
    """Return a wrong ``replace`` of the reader.  *changes* maps phases to their times, given the reply or the line."""

    def wrong(seen: Observation, *, phase: str, **rest: object) -> Observation:
        rest |= {"at": changes[phase](seen)} if phase in changes else {}
        return structs.replace(seen, phase=phase, **rest)

    return wrong


def acts(times: Callable[[Times], Times]) -> Callable[..., Times]:
    original = Beliefs._times  # noqa: SLF001  (a mistake is planted there)
    return lambda *each: times(original(*each))


PLANTED_IN_CALLS: dict[str, tuple[Written, str, object]] = {
    "a call on a line has no times": (
        "line",
        "fsm.recordings.json_lines.replace",
        reads(request=lambda _: None, reply=lambda _: None),
    ),
    "a call on a line acts when it ends": (
        "line",
        "fsm.recordings.json_lines.replace",
        reads(request=lambda reply: reply.at),  # type: ignore[arg-type, return-value]  # nanoseconds here
    ),
    "a call on a line acts when it begins": (
        "line",
        "fsm.recordings.json_lines.replace",
        reads(reply=lambda line: line.start),
    ),
    "a call acts when it ends": (
        "interval",
        "fsm.monitor.stepping.Beliefs._times",
        acts(lambda at: at._replace(acted=at.end)),
    ),
    "a call acts when it begins": (
        "interval",
        "fsm.monitor.stepping.Beliefs._times",
        acts(lambda at: at._replace(end=at.acted)),
    ),
    "a call acts at its time": (
        "time",
        "fsm.monitor.stepping.Beliefs._times",
        acts(lambda at: at._replace(acted=at.end)),
    ),
}


@pytest.mark.parametrize("mistake", PLANTED_IN_CALLS)
def test_a_mistake_in_calls_is_noticed(mistake: str) -> None:
    written, where, what = PLANTED_IN_CALLS[mistake]

    def noticed(seed: int) -> bool:
        with patch(where, what):
            _, naive, found = opinions(seed, written)
        return accuses(naive, found) or (naive != found and naive == opinions(seed, written)[2])

    assert any(map(noticed, range(50_000, 50_400)))
