"""The proxy is transparent to the clients of real daemons, including containerd's own client."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
from containerds import Containerd
from packages_of_debian import CACHE
from passing import passing, wait_for

from fsm.runtimes.live.call_recording import recorded
from fsm.runtimes.live.faults import read_rules
from fsm.runtimes.live.workload import PAUSE
from fsm.runtimes.sockets.cri_client import CallAnswer, CriClient
from fsm.runtimes.sockets.cri_pb2 import (
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

pytestmark = pytest.mark.live

_SOON = 3
"""The number of seconds after which the client gives up a call whose reply is lost."""


def _life(client: CriClient, name: str, *, lost: int = 0) -> list[CallAnswer]:
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
        found.append(client.call(op, request, timeout=_SOON if len(found) + 1 == lost else None))
    return found


def test_a_client_meets_what_it_meets_without_the_proxy(containerd: Containerd, tmp_path: Path) -> None:
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
    """Containerd's own client uses other services as well, and streams in both directions."""
    ctr = next((CACHE / containerd.version).rglob("ctr"))

    def done(endpoint: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(ctr), "-a", str(endpoint), "-n", "k8s.io", *arguments]
        return subprocess.run(command, check=False, capture_output=True, timeout=60)

    def same(*arguments: str) -> bool:
        direct, through = (done(each, *arguments) for each in (containerd.endpoint, tmp_path / "proxy"))
        assert (direct.returncode, through.returncode) == (0, 0), direct.stderr + through.stderr
        return direct.stdout == through.stdout

    image = tmp_path / "image.tar"

    def moved() -> bool:
        """Export and import the image, and check the result.

        The export may not be complete when ctr 2.1 exits.
        """
        images = partial(done, tmp_path / "proxy", "images")
        ctr_said.extend((images("export", str(image), PAUSE), images("import", str(image))))
        return image.stat().st_size > 100_000 and not any(each.returncode for each in ctr_said[-2:])

    ctr_said: list[subprocess.CompletedProcess[bytes]] = []
    with passing(tmp_path / "proxy", containerd.endpoint) as proxy:
        for words in (("version",), ("images", "ls", "-q"), ("content", "ls", "-q"), ("namespaces", "ls", "-q")):
            wait_for(partial(same, *words))  # containerd may collect garbage at any time
        wait_for(moved, ctr_said)
        assert [] == [line for each in proxy.calls for line in recorded(each)]
        assert proxy.proxy.unread == 0


FAULTS = """
[[fault]]
method = "/containerd.services.version.v1.Version/Version"
nth    = 1
do     = "fail"

[[fault]]
method = "StartContainer"
nth    = 1
do     = "fail"

[[fault]]
method = "StartContainer"
nth    = 2
do     = "fail"
when   = "after"
code   = "ABORTED"

[[fault]]
method = "StopContainer"
nth    = 1
do     = "lose-reply"

[[fault]]
method       = "*"
every        = 3
do           = "delay"
milliseconds = 5
when         = "after"
"""


def test_a_connection_outlives_its_faults(containerd: Containerd, tmp_path: Path) -> None:
    """The gRPC library for Go would notice any violation of the protocol."""
    ctr = next((CACHE / containerd.version).rglob("ctr"))
    (tmp_path / "rules.toml").write_text(FAULTS, encoding="utf-8")
    with passing(tmp_path / "proxy", containerd.endpoint, read_rules(tmp_path / "rules.toml")) as proxy:
        command = [str(ctr), "-a", str(tmp_path / "proxy"), "version"]
        first, second = (
            subprocess.run(command, check=False, capture_output=True, text=True, timeout=60) for _ in range(2)
        )
        assert (1, 0) == (first.returncode, second.returncode)
        assert "code = Unavailable desc = injected by fsm proxy" in first.stderr
        with CriClient(f"unix:{tmp_path / 'proxy'}") as near:
            life = _life(near, "faults", lost=7)
            found = [(each.op, each.code) for each in life if each.op in {"StartContainer", "StopContainer"}]
        wait_for(lambda: len(proxy.calls) > len(found))
        injected = dict(proxy.proxy.injected)
        states = [line["state"] for each in proxy.calls for line in recorded(each) if line["op"] == "status"]

    lost = [("StartContainer", "UNAVAILABLE"), ("StartContainer", "ABORTED"), ("StopContainer", "DEADLINE_EXCEEDED")]
    assert lost == found[:3]
    assert ["CONTAINER_CREATED", "CONTAINER_EXITED"] == states
    assert (2, 1, 1) == (injected["UNAVAILABLE"], injected["ABORTED"], injected["lose-reply"])
    assert injected["delay"] > 1
