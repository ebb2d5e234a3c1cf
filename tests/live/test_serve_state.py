"""A restart of the served reference restores its pods, containers and images."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import fsm
from served import ServedClient, served

from fsm.monitor.judgement import judge
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.verdict import Holds

FSM = str(Path(sys.executable).parent / "fsm")
MODELS = ("cri-container", "cri-pod", "container-status", "pod-sandbox")


def _states(client: ServedClient, containers: list[str]) -> list[str]:
    return [client.state(each) for each in containers]


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_pods_and_containers_are_taken_up(how: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        each.mkdir()
    with served(first, kept=True) as address, ServedClient(address) as client:
        pods = [client.pod("one", log_directory=str(tmp_path), labels={"a": "b"}), client.pod("two")]
        removed = client.pod("three")
        limits = cri.LinuxContainerConfig(resources=cri.LinuxContainerResources(cpu_shares=7))
        made = [
            client.container(pods[0], "true", linux=limits, annotations={"c": "d"}),
            client.container(pods[0], "sleep", "60", started=True),
            client.container(pods[0], "sh", "-c", "sleep 0.6; exit 4", started=True),
            client.container(pods[0], "sh", "-c", "exit 3", started=True),
            client.container(
                pods[0], "sh", "-c", "while true; do echo on; sleep 0.1; done", started=True, log_path="l"
            ),
        ]
        gone = client.container(pods[0], "true")
        client.call("RemoveContainer", container_id=gone)
        client.call("RemovePodSandbox", pod_sandbox_id=removed)
        client.call("StopPodSandbox", pod_sandbox_id=pods[1])
        client.call("PullImage", image=cri.ImageSpec(image="kept"))
        client.exited(made[3])
        before = [client.status(each) for each in made]
        shown = client.call("PodSandboxStatus", pod_sandbox_id=pods[0]).message.status
        if how == "killed":
            shutil.copytree(first / "node", second / "node")
    if how == "ended":
        shutil.move(first / "node", second / "node")
    while time.time_ns() < before[2].started_at + 600_000_000:
        time.sleep(0.01)
    (tmp_path / "l").unlink()

    with served(second, kept=True) as address, ServedClient(address) as client:
        states = _states(client, [*made, gone])
        after = [client.status(each) for each in made]
        again = client.call("PodSandboxStatus", pod_sandbox_id=pods[0]).message.status
        listed = {each.id: each.state for each in client.call("ListPodSandbox").message.items}
        reserved = client.run("one").code
        there = client.call("ImageStatus", image=cri.ImageSpec(image="kept")).message.HasField("image")
        while not (tmp_path / "l").exists():
            time.sleep(0.01)
        codes = client.codes(
            ("StartContainer", {"container_id": made[0]}),
            ("StopContainer", {"container_id": made[1], "timeout": 5}),
            ("RemoveContainer", {"container_id": made[3]}),
            ("RemovePodSandbox", {"pod_sandbox_id": pods[0]}),
            ("RemovePodSandbox", {"pod_sandbox_id": pods[1]}),
        )
        left = client.call("ListContainers").message.containers

    assert ["CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_EXITED", "CONTAINER_RUNNING"] == (
        states[:5]
    )
    assert "NOT_FOUND" == states[5]
    assert [before[each] for each in (0, 1, 3, 4)] == [after[each] for each in (0, 1, 3, 4)]
    assert (4, True) == (after[2].exit_code, after[2].finished_at - after[2].started_at > 250_000_000)
    assert shown == again
    assert {pods[0]: cri.SANDBOX_READY, pods[1]: cri.SANDBOX_NOTREADY} == listed
    assert ("UNKNOWN", True, ["OK"] * 5, []) == (reserved, there, codes, [*left])
    assert not [each for kind in ("containers", "pods") for each in (second / "node" / "records" / kind).iterdir()]


def test_without_it_nothing_is_kept(tmp_path: Path) -> None:
    with served(tmp_path, kept=True) as address, ServedClient(address) as client:
        client.pod()
    with served(tmp_path) as address, ServedClient(address) as client:
        assert not client.call("ListPodSandbox").message.items


@pytest.mark.parametrize("profile", ["", "containerd-1.7", "upstream"])
def test_restarts_are_legal(profile: str, tmp_path: Path) -> None:
    pods, containers = list[str](), list[str]()
    known = profile.replace("upstream", "") or None
    for turn in range(3):
        with (
            served(tmp_path, profile=profile, kept=True) as address,
            ServedClient(address, tmp_path / f"{turn}.jsonl") as client,
        ):
            client.wander(40, turn, pods, containers)
            for each in containers:
                client.state(each)
    recording = tmp_path / "all.jsonl"
    recording.write_bytes(b"".join((tmp_path / f"{turn}.jsonl").read_bytes() for turn in range(3)))

    judged = judge(recording, models=MODELS, profile=known)

    assert [Holds] * 4 == [type(each.verdict) for each in judged.judgements]


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    """A container whose checkpoint cannot be read is unknown, but a stored request that cannot be read is an error."""
    with served(tmp_path, kept=True) as address, ServedClient(address) as client:
        container = client.container(client.pod(), "sleep", "60", started=True)
    (tmp_path / "node" / "containers" / container / "status").write_bytes(b"")
    with served(tmp_path, kept=True) as address, ServedClient(address) as client:
        assert "CONTAINER_UNKNOWN" == client.state(container)
        assert "OK" == client.call("StopContainer", container_id=container).code
        assert "OK" == client.call("RemoveContainer", container_id=container).code

    state = tmp_path / "state"
    (state / "records" / "pods").mkdir(parents=True)
    (state / "records" / "pods" / "p.json").write_text("{", encoding="utf-8")
    ran = fsm("serve", "--cri", f"unix://{tmp_path}/it.sock", "--state", str(state))
    assert (2, True) == (ran.returncode, "p.json: the file cannot be read" in ran.stderr), ran.stderr


def test_the_command_keeps_its_state(tmp_path: Path) -> None:
    """Only one server at a time can use a folder of ``fsm serve``, and container processes end with their server."""
    address, state = f"unix://{tmp_path}/it.sock", tmp_path / "state"
    command = [FSM, "serve", "--cri", address, "--state", str(state), "--processes"]
    made = ""
    for turn in range(2):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("serving")
            with ServedClient(address) as client:
                if turn == 0:
                    made = client.container(client.pod(), "sleep", "66", started=True)
                    other = fsm("serve", "--cri", f"unix://{tmp_path}/other.sock", "--state", str(state))
                    assert (2, True) == (other.returncode, "is in use by another server" in other.stderr)
                    os.kill(process.pid, signal.SIGKILL)
                    continue
                ended = client.status(made)
                assert (cri.CONTAINER_EXITED, 255, "Unknown") == (ended.state, ended.exit_code, ended.reason)
                assert [cri.SANDBOX_NOTREADY] == [each.state for each in client.call("ListPodSandbox").message.items]
            process.terminate()
            assert 0 == process.wait()
