"""The proxy in front of real daemons: a client meets what it meets without it, and so does containerd's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from containerds import Containerd
from packages_of_debian import CACHE
from passing import passing

from fsm.live.call_lines import recorded
from fsm.live.cri_client import CallAnswer, CriClient
from fsm.live.cri_pb2 import (
    ContainerStatusRequest,
    CreateContainerRequest,
    PodSandboxStatusRequest,
    RemoveContainerRequest,
    RemovePodSandboxRequest,
    RunPodSandboxRequest,
    StartContainerRequest,
    StopContainerRequest,
    StopPodSandboxRequest,
)
from fsm.live.workload import PAUSE

pytestmark = pytest.mark.live


def _life(client: CriClient, name: str) -> list[CallAnswer]:
    """A pod with a container, from the beginning to the end and beyond."""
    found = [client.call("Version")]
    pod = {
        "metadata": {"name": name, "uid": name, "namespace": "proxy", "attempt": 0},
        "linux": {"security_context": {"namespace_options": {"network": 2}}},
    }
    found.append(client.call("RunPodSandbox", RunPodSandboxRequest(config=pod)))
    assert found[-1].code == "OK", found[-1].detail
    pod_id = found[-1].message.pod_sandbox_id
    container = {"metadata": {"name": name, "attempt": 0}, "image": {"image": PAUSE}, "command": ["/bin/sleep", "1000"]}
    asked = CreateContainerRequest(pod_sandbox_id=pod_id, config=container, sandbox_config=pod)
    found.append(client.call("CreateContainer", asked))
    one = found[-1].message.container_id if found[-1].message else "0" * 64
    for op, request in (
        ("StartContainer", StartContainerRequest(container_id=one)),
        ("ContainerStatus", ContainerStatusRequest(container_id=one)),
        ("StartContainer", StartContainerRequest(container_id=one)),
        ("StopContainer", StopContainerRequest(container_id=one)),
        ("ContainerStatus", ContainerStatusRequest(container_id=one)),
        ("RemoveContainer", RemoveContainerRequest(container_id=one)),
        ("ContainerStatus", ContainerStatusRequest(container_id=one)),
        ("StopContainer", StopContainerRequest(container_id=one)),
        ("StopPodSandbox", StopPodSandboxRequest(pod_sandbox_id=pod_id)),
        ("RemovePodSandbox", RemovePodSandboxRequest(pod_sandbox_id=pod_id)),
        ("PodSandboxStatus", PodSandboxStatusRequest(pod_sandbox_id=pod_id)),
    ):
        found.append(client.call(op, request, timeout=30))
    return found


def test_a_client_meets_what_it_meets_without_the_proxy(containerd: Containerd, tmp_path: Path) -> None:
    """And what is recorded is what the client was answered."""
    with CriClient(f"unix:{containerd.endpoint}") as far:
        direct = _life(far, "direct")
    with (
        passing(tmp_path / "proxy", containerd.endpoint) as proxy,
        CriClient(f"unix:{tmp_path / 'proxy'}") as near,
    ):
        through = _life(near, "through")
        calls = proxy.until(len(through))

    assert [(each.op, each.code) for each in direct] == [(each.op, each.code) for each in through]
    assert "CONTAINER_EXITED" in str([recorded(each) for each in calls])
    lines = [recorded(each)[0] for each in calls]
    assert [(each.op, each.code, each.detail) for each in through] == [
        (each["op"], each["code"], each["detail"]) for each in lines
    ]
    for answer, line in zip(through, lines, strict=True):
        assert answer.start <= int(line["start"]) <= int(line["end"]) <= answer.end


def test_the_client_of_containerd_itself_works_through_it(containerd: Containerd, tmp_path: Path) -> None:
    """Its services are others than those of CRI; an image is exported and imported, which are streams both ways."""
    ctr = next((CACHE / containerd.version).rglob("ctr"))

    def ran(endpoint: Path, *arguments: str) -> bytes:
        command = [str(ctr), "-a", str(endpoint), "-n", "k8s.io", *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout

    with passing(tmp_path / "proxy", containerd.endpoint) as proxy:
        for words in (("version",), ("images", "ls", "-q"), ("content", "ls", "-q"), ("namespaces", "ls", "-q")):
            assert ran(containerd.endpoint, *words) == ran(tmp_path / "proxy", *words)
        ran(tmp_path / "proxy", "images", "export", str(tmp_path / "image.tar"), PAUSE)
        assert (tmp_path / "image.tar").stat().st_size > 100_000
        ran(tmp_path / "proxy", "images", "import", str(tmp_path / "image.tar"))
        assert [] == [line for each in proxy.calls for line in recorded(each)]
        assert proxy.proxy.unread == 0
