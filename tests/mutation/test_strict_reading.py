"""The strict reading finds contradictions in recordings, but none in containerd's real behaviour."""

from __future__ import annotations

import json

import pytest
from judged import CALLS, LOGS, content, profile
from power_page import CROWDED
from thorough import TIMES

from fsm.language.library import load
from fsm.mutation.strict_reading import Contradiction, RecordedAct, Room, contradiction
from fsm.recordings.time_order import Restarts
from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.recordings.recorded_acts import RecordedActs, acts_of_calls, acts_of_log

CONTAINERS = load("cri-container")


def acts(*calls: str) -> list[RecordedAct]:
    """Parse *calls* in the notation ``start-end call reply [shows]``, or ``at call reply``."""
    found = []
    for number, (when, event, reply, *shows) in enumerate(map(str.split, calls), 1):
        start, _, end = when.partition("-")
        found.append(
            RecordedAct(
                entity="c",
                of=CONTAINER,
                event=event,
                start=int(start),
                end=int(end or start),
                line=number,
                reply=reply,
                shows="".join(shows),
            )
        )
    return found


def read(*calls: str, rooms: tuple[Room, ...] = ()) -> tuple[int, tuple[str, ...]] | None:
    found = contradiction(CONTAINERS, acts(*calls), rooms, initial=["absent"], unseen=["exit"])
    return None if found is None else (found.act.line, found.states)


LEGAL = [
    ("1 create ok", "2 start ok", "3 status ok CONTAINER_EXITED", "4 stop ok", "5 remove ok", "6 status NOT_FOUND"),
    ("1 create ok", "2-9 start ok", "3-8 remove INTERNAL", "4-7 status ok CONTAINER_CREATED"),
    ("1 create ok", "2-9 remove ok", "3-4 stop INTERNAL", "5-6 status ok CONTAINER_CREATED", "10 stop ok"),
]
ILLEGAL = [
    (("1 create ok", "2 start ok", "3 status ok CONTAINER_CREATED"), (3, ("exited", "running"))),
    (("1 create ok", "2-5 start ok", "3-6 start ok"), (3, ("exited", "running"))),
    (("1 create ok", "2 remove ok", "3 stop INTERNAL"), (3, ("absent",))),
    (("1 create ok", "2 remove ok", "3 status ok CONTAINER_EXITED"), (3, ("absent",))),
]


@pytest.mark.parametrize("calls", LEGAL, ids=" ".join)
def test_an_order_is_found(calls: tuple[str, ...]) -> None:
    assert read(*calls) is None


@pytest.mark.parametrize(("calls", "found"), ILLEGAL, ids=[" ".join(each[0]) for each in ILLEGAL])
def test_a_contradiction_is_found(calls: tuple[str, ...], found: tuple[int, tuple[str, ...]]) -> None:
    assert found == read(*calls)


@pytest.mark.parametrize("certain", [False, True])
def test_a_restart_explains_what_it_may_leave(*, certain: bool) -> None:
    room = Room(start=1, end=3, certain=certain)

    assert read("1 create ok", "4 status ok CONTAINER_UNKNOWN", rooms=(room,)) is None
    assert (2, ("created",)) == read("1 create ok", "4 status ok CONTAINER_UNKNOWN")
    assert read("1 create ok", "4 status ok CONTAINER_CREATED", "5 status ok CONTAINER_RUNNING", rooms=(room,)) == (
        3,
        ("created",),
    )


def contradictions(name: str) -> list[Contradiction]:
    lines = content(name).splitlines()
    calls = name in CALLS
    recorded: RecordedActs = acts_of_calls(lines, Restarts()) if calls else acts_of_log(lines)
    machines = {CONTAINER: load("cri-container").under(profile(name)), POD: load("cri-pod").under(profile(name))}
    found = []
    for entity in list(recorded.acts):
        of, identity = entity
        machine, fresh = machines[of], entity in recorded.fresh
        if calls or (fresh and (of == POD or (POD, recorded.pods[identity]) in recorded.fresh)):
            initial = [machine.initial] if fresh else list(machine.states)
            found.append(
                contradiction(machine, recorded.during(entity), recorded.rooms, initial=initial, unseen=["exit"])
            )
    assert found
    return [each for each in found if each is not None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [each for each in (*CALLS, *LOGS) if TIMES > 1 or not any(crowded in each for crowded in CROWDED)]
)
def test_nothing_that_containerd_did_contradicts_its_contract(name: str) -> None:
    """No recording contradicts its contract. If one did, even legal edits of it would count as illegal."""
    assert [] == contradictions(name)


def test_a_planted_line_does() -> None:
    name = "cri-calls-2.1.9.jsonl"
    lines = content(name).splitlines()
    index, call = next(
        (index, call)
        for index, call in enumerate(map(json.loads, lines))
        if call["op"] == "StartContainer" and call["code"] == "NOT_FOUND"
    )
    lines[index] = json.dumps(call | {"code": "OK", "detail": ""}).encode()
    recorded = acts_of_calls(lines, Restarts())
    machine = load("cri-container")
    found = contradiction(
        machine, recorded.during((CONTAINER, call["id"])), recorded.rooms, initial=["absent"], unseen=["exit"]
    )

    assert found is not None
    assert (index + 1, ("absent",)) == (found.act.line, found.states)
