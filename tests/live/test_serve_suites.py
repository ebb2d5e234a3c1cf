"""The served reference works with critest, crictl and the kubelet."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from served import ServedClient, served

from fsm.runtimes.sockets import cri_pb2 as cri

NOWHERE = "f" * 64
LOGGING = ("sh", "-c", "while true; do echo hello World; sleep 0.05; done")


@pytest.fixture(scope="module", params=["simulated", "processes"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("served"), processes=request.param == "processes") as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[ServedClient]:
    with ServedClient(address) as found:
        yield found


def _logged(path: Path) -> list[list[str]]:
    return [line.split(" ", 3) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _some(path: Path) -> list[list[str]]:
    for _ in range(2_000):
        if found := _logged(path):
            return found
        time.sleep(0.005)
    raise AssertionError(f"nothing is written to {path}")


@pytest.mark.parametrize(
    ("command", "said", "complained", "code"),
    [
        (["echo", "-n", "hello"], "hello", "", 0),
        (["sh", "-c", "echo out; echo err >&2; exit 6"], "out\n", "err\n", 6),
        (["sh", "-c", "echo lost > /dev/null; false || echo kept 2>&1"], "kept\n", "", 0),
        (["sh", "-c", 'echo "$GREETING" ${GREETING}'], "hi there hi there\n", "", 0),
        (["true"], "", "", 0),
        (["false"], "", "", 1),
    ],
)
def test_commands_say_what_they_say(
    client: ServedClient, command: list[str], said: str, complained: str, code: int
) -> None:
    """ExecSync returns the output of a command on both streams, and its exit code."""
    variable = cri.KeyValue(key="GREETING", value="hi there")
    container = client.container(client.pod(), "sleep", "60", started=True, envs=[variable])
    done = client.call("ExecSync", container_id=container, cmd=command, timeout=30).message

    assert (said, complained, code) == (done.stdout.decode(), done.stderr.decode(), done.exit_code)


def test_a_command_that_takes_too_long_is_gone(client: ServedClient) -> None:
    container = client.container(client.pod(), "sleep", "60", started=True)
    late = client.call("ExecSync", container_id=container, cmd=["sleep", "4321"], timeout=1)
    after = client.call("ExecSync", container_id=container, cmd=["sh", "-c", "pgrep -f 'sleep 4321$' || true"])
    none = client.call("ExecSync", container_id=container)

    assert ["DEADLINE_EXCEEDED", "OK", "INVALID_ARGUMENT"] == [late.code, after.code, none.code]
    assert (b"", b"") == (after.message.stdout.strip(), after.message.stderr)
    assert "CONTAINER_RUNNING" == client.state(container)


def test_what_is_mounted_is_there(client: ServedClient, tmp_path: Path) -> None:
    """A folder can be mounted through a symbolic link, and commands report files that are missing from it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "flag").write_text("up\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    link = str(tmp_path / "link")
    mounts = [cri.Mount(container_path=link, host_path=link, readonly=True)]
    container = client.container(client.pod(), "sh", "-c", "sleep 60", started=True, mounts=mounts)

    def said(*command: str) -> tuple[int, bytes, bool]:
        done = client.call("ExecSync", container_id=container, cmd=command).message
        return done.exit_code, done.stdout, bool(done.stderr)

    assert (0, b"flag\n", False) == said("ls", "-A", link)
    assert (0, b"up\n", False) == said("cat", f"{link}/flag")
    assert [True] * 2 == [said(each, f"{link}/none")[2] for each in ("ls", "cat")]
    assert [*mounts] == [*client.status(container).mounts]


def test_logs_have_the_format_of_cri(client: ServedClient, tmp_path: Path) -> None:
    """Each line has a time, a stream, a mark for complete or partial lines, and the text."""
    pod = client.pod(log_directory=str(tmp_path))
    line = "echo hello World; echo; echo oops >&2; echo -n end"
    container = client.container(pod, "sh", "-c", line, started=True, log_path="it.log")
    assert 0 == client.exited(container).exit_code
    lines = _logged(tmp_path / "it.log")

    assert str(tmp_path / "it.log") == client.status(container).log_path
    assert [["stdout", "F", each] for each in ("hello World", "", "end")] == [
        each[1:] for each in lines if each[1] == "stdout"
    ]
    assert [["stderr", "F", "oops"]] == [each[1:] for each in lines if each[1] == "stderr"]
    assert all(datetime.fromisoformat(each[0]).utcoffset() is not None for each in lines)


def test_logs_go_on_where_they_were_reopened(client: ServedClient, tmp_path: Path) -> None:
    pod = client.pod(log_directory=str(tmp_path))
    container = client.container(pod, *LOGGING, started=True, log_path="it.log")
    log, old = tmp_path / "it.log", tmp_path / "it.log.new"
    _some(log)

    log.rename(old)
    reopened = client.call("ReopenContainerLog", container_id=container).code
    there = log.exists()
    before = len(_logged(old))
    again = {each[3] for each in _some(log)}

    assert ("OK", True, {"hello World"}) == (reopened, there, again)
    assert before == len(_logged(old))
    assert "OK" == client.call("StopContainer", container_id=container).code


def test_usage_is_told_of_what_runs(client: ServedClient) -> None:
    """The usage of a running entity can be queried directly or in a filtered list.

    A query for an absent entity fails with NOT_FOUND.
    """
    labels = {"foo": client.pod()}
    pod = client.pod("pod-with-stats" + labels["foo"], labels=labels)
    running = client.container(pod, "sleep", "60", started=True, labels=labels)
    created = client.container(pod, "sleep", "60", labels=labels)

    one = client.call("ContainerStats", container_id=running).message.stats
    whole = client.call("PodSandboxStats", pod_sandbox_id=pod[:20]).message.stats

    def containers(**wanted: object) -> set[str]:
        answer = client.call("ListContainerStats", filter=cri.ContainerStatsFilter(**wanted))  # type: ignore[arg-type]
        return {each.attributes.id for each in answer.message.stats}

    def pods(**wanted: object) -> set[str]:
        answer = client.call("ListPodSandboxStats", filter=cri.PodSandboxStatsFilter(**wanted))  # type: ignore[arg-type]
        return {each.attributes.id for each in answer.message.stats}

    assert (running, True, True) == (one.attributes.id, one.cpu.timestamp > 0, one.memory.timestamp > 0)
    assert one.writable_layer.used_bytes.value
    assert {running} == containers(id=running) == containers(label_selector=labels) == containers(pod_sandbox_id=pod)
    assert set() == containers(label_selector={"foo": "other"}) == containers(id=created)
    assert running in {
        each.attributes.id for each in client.call("ListContainerStats").message.stats
    }  # without a filter
    assert (pod, [running]) == (whole.attributes.id, [each.attributes.id for each in whole.linux.containers])
    assert {pod} == pods(id=pod) == pods(label_selector=labels)
    assert set() == pods(label_selector={"foo": "other"})
    assert "NOT_FOUND" == client.call("PodSandboxStats", pod_sandbox_id=NOWHERE).code


def test_attributes_are_kept(client: ServedClient) -> None:
    """Statuses and lists show the attributes of pods and containers.

    The namespaces matter most, because the kubelet recreates a pod if they differ.
    """
    kept: dict[str, Any] = {"labels": {"foo": "bar"}, "annotations": {"abc": "def"}}
    spaces = cri.NamespaceOption(network="NODE", pid="CONTAINER", ipc="POD")
    linux = cri.LinuxPodSandboxConfig(security_context=cri.LinuxSandboxSecurityContext(namespace_options=spaces))
    pod = client.pod(linux=linux, **kept)
    other = client.pod()
    limits = cri.LinuxContainerResources(cpu_shares=512, cpuset_cpus="0-1")
    given = cri.LinuxContainerConfig(resources=limits)
    container = client.container(pod, "sleep", "60", linux=given, **kept)
    update = cri.LinuxContainerResources(cpu_quota=2_000, cpuset_cpus="0")
    client.call("UpdateContainerResources", container_id=container, linux=update)

    shown = client.call("PodSandboxStatus", pod_sandbox_id=pod).message.status
    (listed,) = client.call("ListPodSandbox", filter=cri.PodSandboxFilter(id=pod)).message.items
    status = client.status(container)
    (seen,) = client.call("ListContainers", filter=cri.ContainerFilter(id=container)).message.containers

    for each in (shown, listed, status, seen):
        assert kept == {"labels": dict(each.labels), "annotations": dict(each.annotations)}
    assert shown.metadata == listed.metadata
    assert (spaces, "") == (shown.linux.namespaces.options, shown.network.ip)
    assert client.call("PodSandboxStatus", pod_sandbox_id=other).message.status.network.ip
    merged = cri.LinuxContainerResources(cpu_shares=512, cpu_quota=2_000, cpuset_cpus="0")
    assert merged == status.resources.linux
    assert status.image_ref.startswith("docker.io/library/busybox@sha256:")
    assert ("docker.io/library/busybox:latest", True) == (
        status.image.image,
        status.image_id == seen.image_id == seen.image_ref != "",
    )


def test_verbose_answers_tell_more(client: ServedClient) -> None:
    pod = client.pod()
    container = client.container(pod, "sleep", "60", started=True)
    image = cri.ImageSpec(image="busybox")
    for op, fields in (
        ("Status", {}),
        ("PodSandboxStatus", {"pod_sandbox_id": pod}),
        ("ContainerStatus", {"container_id": container}),
        ("ImageStatus", {"image": image}),
    ):
        told = client.call(op, verbose=True, **fields).message.info
        assert told
        assert all(isinstance(json.loads(each), dict) for each in told.values())
        assert not client.call(op, **fields).message.info
    assert [""] == [each.name for each in client.call("Status").message.runtime_handlers][:1]


def test_images_have_tags_or_digests(client: ServedClient) -> None:
    """An image is found by its id, tag or digest. A query for an unknown image is not an error."""
    digest = f"registry.example/by-digest@sha256:{'0' * 64}"
    for name, tags in (
        ("registry.example/plain", ["registry.example/plain:latest"]),
        ("registry.example/tagged:test", ["registry.example/tagged:test"]),
        (digest, []),
    ):
        identity = client.call("PullImage", image=cri.ImageSpec(image=name)).message.image_ref
        shown = client.call("ImageStatus", image=cri.ImageSpec(image=name)).message.image
        assert (identity, tags, True) == (shown.id, [*shown.repo_tags], shown.size > 0)
        for each in (shown.id, *shown.repo_tags, *shown.repo_digests):
            assert shown == client.call("ImageStatus", image=cri.ImageSpec(image=each)).message.image
        assert "OK" == client.call("RemoveImage", image=cri.ImageSpec(image=identity)).code
        gone = client.call("ImageStatus", image=cri.ImageSpec(image=name))
        assert ("OK", False) == (gone.code, gone.message.HasField("image"))
    assert digest in [*shown.repo_digests]
    assert "OK" == client.call("RemoveImage", image=cri.ImageSpec(image="0" * 64)).code
    late = client.call("PullImage", image=cri.ImageSpec(image="registry.example/late"), give_up=0.001)
    assert "DEADLINE_EXCEEDED" == late.code


def test_a_pod_gives_its_files(tmp_path: Path) -> None:
    """Even a simulated container gets a host name, name servers and sysctls from its pod."""
    linux = cri.LinuxPodSandboxConfig(sysctls={"kernel.shm_rmid_forced": "1"})
    dns = cri.DNSConfig(servers=["10.10.10.10"], searches=["example.org"], options=["ndots:8"])
    with served(tmp_path) as address, ServedClient(address) as client:
        pod = client.pod(hostname="web", linux=linux, dns_config=dns)
        container = client.container(pod, "sleep", "60", started=True)

        def said(*command: str) -> str:
            return str(client.call("ExecSync", container_id=container, cmd=command).message.stdout.decode())

        assert "web\n" == said("hostname")
        assert "1\n" == said("cat", "/proc/sys/kernel/shm_rmid_forced")
        assert "nameserver 10.10.10.10\nsearch example.org\noptions ndots:8\n" == said("cat", "/etc/resolv.conf")


def test_calls_that_make_no_sense_are_refused(address: str, client: ServedClient) -> None:
    codes = list[str]()
    with grpc.insecure_channel(address) as channel:
        for path, sent in (
            ("/runtime.v1.RuntimeService/ContainerStatus", b"\xff\xff\xff"),
            ("/runtime.v1.ImageService/ContainerStatus", b""),
            ("/runtime.v1alpha2.RuntimeService/Version", b""),
            ("/runtime.v1.RuntimeService/ListMetricDescriptors", b""),
            ("/runtime.v1.RuntimeService/RunPodSandbox", b""),
        ):
            call: Callable[..., bytes] = channel.unary_unary(path)
            with pytest.raises(grpc.RpcError) as raised:
                call(sent, timeout=10)
            codes.append(raised.value.code().name)

    assert ["INTERNAL", "UNIMPLEMENTED", "UNIMPLEMENTED", "UNIMPLEMENTED", "UNKNOWN"] == codes
    assert "OK" == client.call("Version").code


@pytest.mark.slow
def test_thousands_of_containers() -> None:
    def fill(where: str) -> None:
        with ServedClient(where) as client:
            pods = [client.pod() for _ in range(5)]
            for turn in range(300):
                client.container(pods[turn % 5], "sleep", "600", started=True)

    memory = Path("/dev/shm")  # noqa: S108  (names in it are random; a disk would be asked to keep all of it)
    with (
        TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder,
        served(Path(folder)) as address,
        ServedClient(address) as client,
    ):
        threads = [threading.Thread(target=fill, args=(address,)) for _ in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
        listed = len(client.call("ListContainers", filter=running).message.containers)
        for pod in client.call("ListPodSandbox").message.items:
            client.call("RemovePodSandbox", pod_sandbox_id=pod.id)
        left = client.call("ListContainers").message.containers

    assert (1_800, []) == (listed, [*left])
