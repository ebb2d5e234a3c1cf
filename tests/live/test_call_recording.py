"""The call recorder writes recordings that the reader of recordings can read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from fsm.runtimes.live.call_recording import CallRecording
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.runtimes.sockets.cri_pb2 import (
    CONTAINER_EXITED,
    SANDBOX_NOTREADY,
    ContainerConfig,
    ContainerStatus,
    ContainerStatusRequest,
    ContainerStatusResponse,
    CreateContainerRequest,
    CreateContainerResponse,
    ListImagesRequest,
    ListImagesResponse,
    PodSandboxStatus,
    PodSandboxStatusRequest,
    PodSandboxStatusResponse,
    RunPodSandboxRequest,
    RunPodSandboxResponse,
    StopContainerRequest,
)

CALLS: list[tuple[str, Message, Message | None, str]] = [
    ("RunPodSandbox", RunPodSandboxRequest(), RunPodSandboxResponse(pod_sandbox_id="p1"), "OK"),
    (
        "CreateContainer",
        CreateContainerRequest(pod_sandbox_id="p1", config=ContainerConfig(command=["/bin/sleep"], args=["5"])),
        CreateContainerResponse(container_id="c1"),
        "OK",
    ),
    ("CreateContainer", CreateContainerRequest(pod_sandbox_id="p1"), None, "UNKNOWN"),
    ("StopContainer", StopContainerRequest(container_id="c2"), None, "NOT_FOUND"),
    ("ListImages", ListImagesRequest(), ListImagesResponse(), "OK"),
    (
        "ContainerStatus",
        ContainerStatusRequest(container_id="c1"),
        ContainerStatusResponse(
            status=ContainerStatus(
                id="c1", state=CONTAINER_EXITED, created_at=4, started_at=5, finished_at=6, exit_code=3, reason="Error"
            )
        ),
        "OK",
    ),
    (
        "PodSandboxStatus",
        PodSandboxStatusRequest(pod_sandbox_id="p1"),
        PodSandboxStatusResponse(status=PodSandboxStatus(id="p1", state=SANDBOX_NOTREADY)),
        "OK",
    ),
]


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.jsonl.gz"])
def test_recorded_calls_are_read_as_they_were(tmp_path: Path, name: str) -> None:
    with CallRecording(tmp_path / name) as recording:
        for number, (op, request, response, code) in enumerate(CALLS):
            start = 10 * number
            recording.take(CallAnswer(op=op, request=request, message=response, start=start, end=start + 5, code=code))
        if name == "calls.jsonl":
            assert len((tmp_path / name).read_bytes().splitlines()) == len(CALLS) + 1
    recording.close()

    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "rb") as file:
        lines = file.read().splitlines()
    reader = CriCallReader(as_called=True)
    seen = [each for number, line in enumerate(lines, 1) for _, each in reader.observations(line, number)]
    seen += [each for _, each in reader.rest()]
    replies = [(each.event, each.entity, each.reply, each.met) for each in seen if each.phase == "reply"]

    assert replies == [
        ("RunPodSandbox", "p1", "ok", ""),
        ("CreateContainer", "c1", "ok", ""),
        ("CreateContainer", "p1", "UNKNOWN", ""),
        ("StopContainer", "c2", "NOT_FOUND", ""),
        ("ContainerStatus", "c1", "ok", ""),
        ("ContainerStatus", "c1", "ok", "CONTAINER_EXITED"),
        ("PodSandboxStatus", "p1", "ok", "SANDBOX_NOTREADY"),
    ]
    fields = next(each.fields for each in seen if each.met == "CONTAINER_EXITED")
    assert fields == {
        "created": 4,
        "started": 5,
        "finished": 6,
        "exit-code": 3,
        "reason": "Error",
        "message": "",
    }
    assert reader.notes == {"calls without a lifecycle": 1}


def test_the_keys_are_those_of_other_recordings(tmp_path: Path) -> None:
    with CallRecording(tmp_path / "calls.jsonl") as recording:
        op, request, response, code = CALLS[1]
        recording.take(CallAnswer(op=op, request=request, message=response, start=1, end=2, code=code))

    assert json.loads((tmp_path / "calls.jsonl").read_text(encoding="utf-8")) == {
        "op": "CreateContainer",
        "id": "c1",
        "pod": "p1",
        "command": "/bin/sleep 5",
        "start": 1,
        "end": 2,
        "code": "OK",
        "detail": "",
    }
