"""Claims with "eventually" are judged: after a container or its pod is stopped, the container stops running."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from judged import CALLS, LOGS, content, every_violation, judged, profile, violations

from fsm.language.library import load as shipped

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.recordings.time_order import Assume

__all__ = ["every_violation"]

STOPPED = {
    "1.7.24-killed-containers.calls.jsonl.gz": "b5ecc",
    "2.1.9-killed-containers.calls.jsonl.gz": "71efe",
}
"""Containers that are shown as running after a stop, because their shim was killed."""

SECOND = 1_000_000_000


def looks(container: str, state: str, at: int) -> list[bytes]:
    call = {"op": "ContainerStatus", "id": container, "start": at, "end": at + 1_000, "code": "OK"}
    shown = {"op": "status", "id": container, "start": at + 2_000, "state": state}
    return [json.dumps(each).encode() for each in (call, shown)]


@pytest.mark.parametrize("assume", ["maybe", "none"])
@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_container_runs_no_minute_longer(name: str, assume: Assume, tmp_path: Path) -> None:
    """A stopped container may be shown as running for up to a minute, whether a restart is assumed or not."""
    lines = content(name).splitlines()
    calls = [json.loads(line) for line in lines]
    of = next(call["id"] for call in calls if call.get("id", "").startswith(STOPPED[name]))
    stop = next(
        call["end"] for call in calls if (call["op"], call.get("id"), call.get("code")) == ("StopContainer", of, "OK")
    )
    shown = [call for call in calls if call["op"] == "status" and call["id"] == of and call["start"] > stop]
    assert "CONTAINER_RUNNING" == shown[0]["state"]
    until = calls.index(shown[0]) + 1

    def found(*seconds: int) -> list[tuple[int, str, str]]:
        more = [line for each in seconds for line in looks(of, "CONTAINER_RUNNING", stop + each * SECOND)]
        data = b"\n".join([*lines[:until], *more])
        new = violations(judged(data, tmp_path, profile=profile(name), restarts=assume))
        return [(each.line - until, each.clause, each.level) for each in new]

    assert [] == found(5, 20, 40, 59)
    assert [(8, "stop-ends-it", "MUST")] == found(5, 20, 40, 61)
    assert [(2, "stop-ends-it", "MUST")] == found(600)


@pytest.mark.parametrize(("call", "on"), [("StopContainer", "c" * 64), ("StopPodSandbox", "d" * 64)])
def test_the_stop_of_its_pod_ends_a_container(call: str, on: str, tmp_path: Path) -> None:
    """Stopping a pod must end its containers, just as stopping a container must end the container.

    A container may run forever if it is started for the first time after it was stopped.
    """
    container, pod = "c" * 64, "d" * 64
    run = {"op": "RunPodSandbox", "id": pod, "start": 1, "end": 2, "code": "OK"}
    create = {"op": "CreateContainer", "id": container, "pod": pod, "start": 3, "end": 4, "code": "OK"}
    start = {"op": "StartContainer", "id": container, "start": 5, "end": 6, "code": "OK"}
    stop = {"op": call, "id": on, "start": 7, "end": 8, "code": "OK"}
    look = looks(container, "CONTAINER_RUNNING", 61 * SECOND)

    def found(*calls: dict[str, object]) -> list[str]:
        data = b"\n".join([*(json.dumps(each).encode() for each in calls), *look])
        return [each.clause for each in violations(judged(data, tmp_path))]

    assert ["stop-ends-it"] == found(run, create, start, stop)
    assert [] == found(run, create, start, stop | {"code": "UNKNOWN"})
    if call == "StopContainer":
        assert [] == found(run, create, stop | {"start": 4, "end": 5}, start)


def test_a_log_shows_what_runs_in_what_refuses_to_start(tmp_path: Path) -> None:
    """If a start is refused because the container is running, the refusal proves this as a status would."""
    name = "2.1.9-killed-containers.log.gz"
    lines = content(name).splitlines()
    until = (
        next(
            index
            for index, line in enumerate(lines)
            if b'StopContainer for \\"71efe' in line and b"successfully" in line
        )
        + 1
    )
    refused = [line for line in lines[:until] if b'StartContainer for \\"71efe' in line][-2:]
    stopped = datetime.fromisoformat(re.findall(rb'time="([^"]*)"', lines[until - 1])[0].decode())
    assert b"is in CONTAINER_RUNNING state" in refused[1]

    def found(seconds: int) -> list[tuple[str, str]]:
        at = (stopped + timedelta(seconds=seconds)).isoformat().encode()
        later = [re.sub(rb'time="[^"]*"', b'time="' + at + b'"', line) for line in refused]
        data = b"\n".join([*lines[:until], *later])
        return [(each.clause, each.level) for each in violations(judged(data, tmp_path, profile=profile(name)))]

    assert [] == found(59)
    assert [("stop-kills", "MUST")] == found(61)


@pytest.mark.slow
def test_no_container_starts_in_a_stopped_pod(tmp_path: Path) -> None:
    """A start that succeeds in a stopped pod is a finding.

    In the recordings of clients, the test edits every start that was refused because its pod was stopped.
    """
    planted = 0
    for name in CALLS:
        lines = content(name).splitlines()
        calls = [json.loads(line) for line in lines]
        for index, call in enumerate(calls):
            pods = re.findall(r'sandbox container \\?"([0-9a-f]{64})\\?" is not running', call.get("detail", ""))
            stops = [each for each in calls[:index] if each["op"] == "StopPodSandbox" and [each["id"]] == pods]
            if call["op"] != "StartContainer" or len(call["id"]) < 64 or "OK" not in {each["code"] for each in stops}:
                continue
            planted += 1
            put = json.dumps(call | {"code": "OK", "detail": ""}).encode()
            data = b"\n".join([*lines[:index], put])
            found = violations(judged(data, tmp_path, profile=profile(name)))

            assert [(index + 1, "cri-pod", "nothing-starts-once-stopped", "MUST")] == [
                (each.line, each.machine, each.clause, each.level) for each in found
            ]
    assert planted > 10


def test_no_container_starts_in_a_stopped_pod_of_a_log(tmp_path: Path) -> None:
    planted = 0
    for name in LOGS:
        lines = content(name).splitlines()
        for index, line in enumerate(lines):
            of = re.search(
                rb'StartContainer for \\\\*"([0-9a-f]{64}).*sandbox container \\\\*"([0-9a-f]{64})\\\\*" is not running',
                line,
            )
            if of is None or not any(
                b"StopPodSandbox for" in each and of[2] in each and b"success" in each for each in lines[:index]
            ):
                continue
            planted += 1
            time = re.findall(rb'time="?([^" ]*)|"time":"([^"]*)"', line)[0]
            put = b'time="%s" level=info msg="StartContainer for \\"%s\\" returns successfully"' % (
                b"".join(time),
                of[1],
            )
            found = violations(judged(b"\n".join([*lines[:index], put]), tmp_path, profile=profile(name)))

            assert [(index + 1, "nothing-starts-once-stopped")] == [(each.line, each.clause) for each in found]
    assert planted > 10


@pytest.mark.parametrize(
    ("asked", "code", "found"),
    [(9, "OK", True), (9, "UNKNOWN", False), (7, "OK", False), (5, "OK", False)],
)
def test_a_start_that_the_stop_of_the_pod_overlaps_may_succeed(
    asked: int,
    code: str,
    tmp_path: Path,
    *,
    found: bool,
) -> None:
    """A start may succeed during the stop of its pod if it checked the pod before the stop took effect."""
    container, pod = "c" * 64, "d" * 64
    calls = [
        {"op": "RunPodSandbox", "id": pod, "start": 1, "end": 2, "code": "OK"},
        {"op": "CreateContainer", "id": container, "pod": pod, "start": 3, "end": 4, "code": "OK"},
        {"op": "StopPodSandbox", "id": pod, "start": 6, "end": 8, "code": "OK"},
        {"op": "StartContainer", "id": container, "start": asked, "end": 10, "code": code},
    ]
    lost = {"op": "StartContainer", "id": container, "start": 5, "end": 7, "code": "DEADLINE_EXCEEDED"}
    for recorded, expected in ((calls, found), ([*calls[:2], lost, *calls[2:]], False)):
        data = "\n".join(map(json.dumps, recorded)).encode()

        assert expected == bool(violations(judged(data, tmp_path)))


@pytest.mark.parametrize(
    ("asked", "state", "code", "pause", "found"),
    [
        (20, "NOTREADY", "OK", 0, True),
        (20, "NOTREADY", "UNKNOWN", 0, False),
        (20, "READY", "OK", 0, False),
        (15, "NOTREADY", "OK", 0, False),
        (20, "NOTREADY", "OK", SECOND, False),
    ],
)
def test_no_container_starts_in_a_pod_that_was_shown_as_not_ready(
    asked: int, state: str, code: str, pause: int, tmp_path: Path, *, found: bool
) -> None:
    """A start in a pod that was shown as not ready is a finding, unless a restart may have changed the pod."""
    container, pod = "c" * 64, "d" * 64
    calls = [
        {"op": "RunPodSandbox", "id": pod, "start": 1, "end": 2, "code": "OK"},
        {"op": "CreateContainer", "id": container, "pod": pod, "start": 3, "end": 4, "code": "OK"},
        {"op": "PodSandboxStatus", "id": pod, "start": 10, "end": 16, "code": "OK", "state": f"SANDBOX_{state}"},
        {"op": "StartContainer", "id": container, "start": asked + pause, "end": 30 + pause, "code": code},
    ]
    data = "\n".join(map(json.dumps, calls)).encode()

    accused = [(each.line, each.clause) for each in violations(judged(data, tmp_path, profile="containerd-2.1"))]
    assert [(4, "nothing-starts-once-stopped")] * found == accused


@pytest.mark.parametrize(
    ("release", "stopped"), [("containerd-1.7", False), ("containerd-2.1", True), ("containerd-main", False)]
)
def test_a_creation_that_the_stop_of_the_pod_overlaps_may_succeed(
    release: str, tmp_path: Path, *, stopped: bool
) -> None:
    """A creation that overlaps the stop of its pod may succeed, and may even be relayed after the stop.

    A creation that begins in a stopped pod is refused, except in 2.1.
    """
    container, pod = "c" * 64, "d" * 64
    calls = [
        {"op": "RunPodSandbox", "id": pod, "start": 1, "end": 2, "code": "OK"},
        {"op": "StopPodSandbox", "id": pod, "start": 8, "end": 10, "code": "OK"},
        {"op": "CreateContainer", "id": container, "pod": pod, "start": 7, "end": 12, "code": "OK"},
    ]
    events = [(2, "RUN_POD_SANDBOX"), (9, "STOP_POD_SANDBOX"), (11, "CREATE_CONTAINER")]
    sent = [{"ts": at, "event": event, "pod": pod, "container": container * (at > 9)} for at, event in events]
    called, told = ("\n".join(map(json.dumps, each)).encode() for each in (calls, sent))
    created = shipped("cri-pod").under(release).step("stopped", "create-container") or ()

    assert [] == violations(judged(called, tmp_path, profile=release))
    assert stopped == any(way.replies("ok") for way in created)
    if release != "containerd-main":
        assert [] == violations(judged(told, tmp_path, profile=release))
