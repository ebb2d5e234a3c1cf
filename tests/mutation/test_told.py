"""A call counts as relayed to a plugin in time only if the recording leaves no doubt."""

from __future__ import annotations

import json

import pytest

from fsm.runtimes.recordings.recorded_acts import timed, told

POD, CONTAINER = "a" * 64, "b" * 64
CREATED = [(30, "CreateContainer"), (31, "PostCreateContainer")]
AGAIN = [(60, "Configure"), (61, "Synchronize")]
STOPPED = [(80, "StopContainer")]


def _told(events: list[tuple[int, str]], calls: list[tuple[str, str, int, int, str]]) -> dict[str, bool]:
    """For each call that counts, return its name and whether a plugin was notified of the call in time."""
    of: dict[str, dict[str, str]] = {"Configure": {}, "Synchronize": {}}
    lines = [
        json.dumps({"ts": at, "event": name, **of.get(name, {"pod": POD, "container": CONTAINER})}).encode()
        for at, name in [(10, "Configure"), (20, "Synchronize"), *events, (100, "StateChange")]
    ]
    keys = ("op", "id", "start", "end", "code")
    called = [json.dumps(dict(zip(keys, call, strict=True)) | {"pod": POD}).encode() for call in calls]
    return {name: in_time for (name, _, _), in_time in told(lines, timed(called)).items()}


@pytest.mark.parametrize(("start", "counts"), [(25, {"CreateContainer": True}), (15, {})])
def test_a_plugin_is_there_when_it_is_synchronised(start: int, counts: dict[str, bool]) -> None:
    """Calls that begin before a plugin is synchronised need not be relayed to it."""
    assert _told(CREATED, [("CreateContainer", CONTAINER, start, 40, "OK")]) == counts


def test_what_comes_after_the_reply_is_late() -> None:
    assert _told(CREATED, [("CreateContainer", CONTAINER, 25, 30, "OK")]) == {"CreateContainer": False}


@pytest.mark.parametrize(
    ("events", "calls", "counts"),
    [
        (CREATED, [], {"StopContainer": True}),
        ([*CREATED, *AGAIN], [], {}),  # an event that was relayed on another connection may be forgotten
        ([], [], {}),
        (CREATED, [("StopContainer", CONTAINER, 50, 55, "DEADLINE_EXCEEDED")], {}),
        (CREATED, [("RemovePodSandbox", POD, 50, 55, "DEADLINE_EXCEEDED")], {}),
        (CREATED, [("StartContainer", CONTAINER, 50, 55, "DEADLINE_EXCEEDED")], {"StopContainer": True}),
    ],
)
def test_a_stop_counts_if_nothing_else_may_have_stopped_it(
    events: list[tuple[int, str]], calls: list[tuple[str, str, int, int, str]], counts: dict[str, bool]
) -> None:
    assert _told([*events, *STOPPED], [*calls, ("StopContainer", CONTAINER, 70, 90, "OK")]) == counts
