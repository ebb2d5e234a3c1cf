"""The served reference returns legal answers over a socket. Under a profile, it deviates like that version."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from commands import fsm
from served import ServedClient, served

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.verdict import Holds

FSM = str(Path(sys.executable).parent / "fsm")
PROFILES = ("", "containerd-1.6", "containerd-1.7.24", "containerd-2.1", "containerd-main", "upstream")
STRICT = {"containerd-1.6"}
"""The profiles that refuse to stop an absent container."""
NOWHERE = "f" * 64


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[ServedClient]:
    with ServedClient(address) as found:
        yield found


def test_a_whole_life(client: ServedClient) -> None:
    pod = client.pod()
    container = client.container(pod, "sleep", "0.05")
    created = client.status(container)
    assert (created.state, created.started_at, created.finished_at) == (cri.CONTAINER_CREATED, 0, 0)

    starts = client.codes(*[("StartContainer", {"container_id": container})] * 2)
    ended = client.exited(container)
    removals = client.codes(*[("RemoveContainer", {"container_id": container})] * 2)

    assert (["OK", "UNKNOWN"], ["OK", "OK"]) == (starts, removals)
    assert (0, "Completed") == (ended.exit_code, ended.reason)
    assert 0 < created.created_at == ended.created_at <= ended.started_at < ended.finished_at
    assert "NOT_FOUND" == client.state(container)


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("true", 0, "Completed"),
        ("false", 1, "Error"),
        ("exit 3", 3, "Error"),
        ("/bin/sleep 0.01", 0, "Completed"),
        ("sleep nonsense", 1, "Error"),
    ],
)
def test_containers_end_as_their_commands_do(client: ServedClient, command: str, code: int, reason: str) -> None:
    pod = client.pod()
    found = [
        client.exited(client.container(pod, *each, started=True)) for each in (command.split(), ["sh", "-c", command])
    ]

    assert [(code, reason)] * 2 == [(each.exit_code, each.reason) for each in found]


@pytest.mark.parametrize("command", ["/no/such/command", "no-such-command", "/etc/sleep"])
def test_what_is_not_there_does_not_start(client: ServedClient, command: str) -> None:
    """A container exits with code 128 if its command does not exist, or if it is started in a stopped pod."""
    pod = client.pod()
    missing, late = client.container(pod, command), client.container(pod, "true")
    client.call("StopPodSandbox", pod_sandbox_id=pod)

    answers = [client.call("StartContainer", container_id=each) for each in (missing, late)]

    assert ["UNKNOWN"] * 2 == [each.code for each in answers]
    assert f'sandbox container "{pod}" is not running' == answers[1].detail
    for each in map(client.status, (missing, late)):
        assert (cri.CONTAINER_EXITED, 128, "StartError", 0) == (
            each.state,
            each.exit_code,
            each.reason,
            each.started_at,
        )


def test_stops_ask_first_and_then_kill(client: ServedClient) -> None:
    """A stop sends SIGTERM and, after its grace period, SIGKILL.

    If the period is zero, it sends only SIGKILL.
    """
    pod = client.pod()
    asked, killed = (client.container(pod, "sleep", "60", started=True) for _ in range(2))
    stubborn = client.container(pod, "sh", "-c", "trap '' TERM; sleep 60", started=True)

    client.call("StopContainer", container_id=asked, timeout=10)
    client.call("StopContainer", container_id=killed)
    given_up = client.call("StopContainer", container_id=stubborn, timeout=10, give_up=0.2)
    running = client.state(stubborn)
    client.call("StopContainer", container_id=stubborn, timeout=1)

    assert [143, 137, 137] == [client.status(each).exit_code for each in (asked, killed, stubborn)]
    assert ("DEADLINE_EXCEEDED", "CONTAINER_RUNNING") == (given_up.code, running)


def test_ids_may_be_shortened(client: ServedClient) -> None:
    pod = client.pod()
    made = [client.container(pod, "true") for _ in range(17)]  # two ids have the same prefix
    first = next(each[0] for each in made if sum(other[0] == each[0] for other in made) > 1)

    assert made[0] == client.status(made[0][:12]).id
    for given, text in (("", "prefix can't be empty"), (first, "Multiple IDs found with provided prefix")):
        for op in ("StopContainer", "RemoveContainer", "ContainerStatus"):
            answer = client.call(op, container_id=given)
            assert ("UNKNOWN", True) == (answer.code, text in answer.detail)


def test_lists_are_filtered(client: ServedClient) -> None:
    pod, other = client.pod(labels={"app": "one"}), client.pod(labels={"app": "two"})
    running = client.container(pod, "sleep", "60", started=True, labels={"tier": "front"})
    created = client.container(pod, "sleep", "60")

    def containers(**wanted: object) -> set[str]:
        answer = client.call("ListContainers", filter=cri.ContainerFilter(**wanted))  # type: ignore[arg-type]
        return {each.id for each in answer.message.containers}

    def pods(**wanted: object) -> set[str]:
        answer = client.call("ListPodSandbox", filter=cri.PodSandboxFilter(**wanted))  # type: ignore[arg-type]
        return {each.id for each in answer.message.items}

    client.call("StopPodSandbox", pod_sandbox_id=other)
    assert {running, created} == containers(pod_sandbox_id=pod[:20]) >= containers(id=created[:20]) == {created}
    assert running in containers(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
    assert created not in containers(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
    assert {running} == containers(label_selector={"tier": "front"})
    assert set() == containers(id=NOWHERE) == containers(label_selector={"tier": "back"})
    assert {pod} == pods(label_selector={"app": "one"}) == pods(id=pod[:30])
    assert other in pods(state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY))
    assert pod not in pods(state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY))


def test_names_are_taken_once(client: ServedClient) -> None:
    """A name is reserved until its owner is removed."""
    pod = client.pod("taken")
    container = client.container(pod, "true", name="taken")
    again = [client.run("taken"), client.create(pod, "true", name="taken")]
    client.call("RemoveContainer", container_id=container)
    free = [client.create(pod, "true", name="taken")]
    client.call("RemovePodSandbox", pod_sandbox_id=pod)
    free.append(client.run("taken"))

    assert (["UNKNOWN"] * 2, ["OK"] * 2) == ([each.code for each in again], [each.code for each in free])
    assert all("is reserved for" in each.detail for each in again)


def test_commands_run_in_what_runs(client: ServedClient) -> None:
    """A command in a running container returns its output and its exit code.

    A command that takes too long fails. A command may kill the process of its container, which ends the container.
    """
    container = client.container(client.pod(), "sleep", "60", started=True)

    said = client.call("ExecSync", container_id=container, cmd=["sh", "-c", "echo hello && exit 4"]).message
    late = client.call("ExecSync", container_id=container, cmd=["sleep", "30"], timeout=1)
    missing = client.call("ExecSync", container_id=container, cmd=["/no/such"])
    client.call("ExecSync", container_id=container, cmd=["kill", "-9", "1"])
    over = client.call("ExecSync", container_id=container, cmd=["true"])

    assert (b"hello\n", 4) == (said.stdout, said.exit_code)
    assert ("DEADLINE_EXCEEDED", "UNKNOWN", "UNKNOWN") == (late.code, missing.code, over.code)
    assert (137, True) == (client.status(container).exit_code, "CONTAINER_EXITED" in over.detail)


def test_streams_are_prepared_for_what_runs(client: ServedClient) -> None:
    pod = client.pod()
    running, created = client.container(pod, "sleep", "60", started=True), client.container(pod, "true")
    for op in ("Exec", "Attach"):
        answers = [client.call(op, container_id=each, stdout=True) for each in (running, created, NOWHERE)]
        assert ["OK", "UNKNOWN", "NOT_FOUND"] == [each.code for each in answers]
        assert answers[0].message.url
        assert "UNKNOWN" == client.call(op, container_id=running).code  # without any stream
    assert ["OK", "NOT_FOUND"] == client.codes(*[("PortForward", {"pod_sandbox_id": each}) for each in (pod, NOWHERE)])


def test_logs_are_written_and_reopened(client: ServedClient, tmp_path: Path) -> None:
    pod = client.pod(log_directory=str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    container = client.container(pod, "sh", "-c", "echo hello; sleep 60", started=True, log_path="0.log")
    log = tmp_path / "logs" / "0.log"
    assert str(log) == client.status(container).log_path
    assert log.read_text(encoding="utf-8").endswith(" stdout F hello\n")

    log.rename(tmp_path / "old.log")
    assert "OK" == client.call("ReopenContainerLog", container_id=container).code
    log.unlink()
    log.parent.rmdir()
    assert "UNKNOWN" == client.call("ReopenContainerLog", container_id=container).code


def test_a_process_may_wait_at_a_pipe(client: ServedClient, tmp_path: Path) -> None:
    """A process may wait for data from a pipe in a mounted folder.

    If the folder is missing, the container cannot start.
    """
    os.mkfifo(tmp_path / "end")
    mount = [cri.Mount(container_path="/shared", host_path=str(tmp_path))]
    command = ("sh", "-c", "read code < /shared/end; exit $code")
    pod = client.pod()
    container = client.container(pod, *command, started=True, mounts=mount)
    gone = client.container(pod, *command, mounts=[cri.Mount(container_path="/shared", host_path=str(tmp_path / "no"))])

    (tmp_path / "end").write_text("7\n", encoding="utf-8")

    assert 7 == client.exited(container).exit_code
    assert "UNKNOWN" == client.call("StartContainer", container_id=gone).code


def test_images_are_there_when_pulled(client: ServedClient) -> None:
    spec = cri.ImageSpec(image="registry.example/app:1")
    pod = client.pod()

    def there() -> bool:
        return bool(client.call("ImageStatus", image=spec).message.HasField("image"))

    before = there(), client.create(pod, "true", image=spec.image).code
    reference = client.call("PullImage", image=spec).message.image_ref
    assert [reference] == [
        each.id for each in client.call("ListImages", filter=cri.ImageFilter(image=spec)).message.images
    ]
    between = (
        there(),
        client.create(pod, "true", image=spec.image).code,
        client.create(pod, "true", image=reference).code,
    )
    removed = client.codes(*[("RemoveImage", {"image": spec})] * 2)

    assert ((False, "UNKNOWN"), (True, "OK", "OK"), ["OK", "OK"], False) == (before, between, removed, there())
    assert client.call("ImageFsInfo").message.image_filesystems


def test_the_runtime_says_that_it_is_ready(client: ServedClient) -> None:
    conditions = {each.type: each.status for each in client.call("Status").message.status.conditions}

    assert {"RuntimeReady": True, "NetworkReady": True} == conditions
    assert ("fsm", "v1") == (
        client.client.version().runtime_name,
        client.client.version().runtime_api_version,
    )


def test_unknown_methods_are_unimplemented(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        call: Callable[..., bytes] = channel.unary_unary("/runtime.v1.RuntimeService/NoSuchMethod")
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", timeout=10)

    assert "UNIMPLEMENTED" == raised.value.code().name


def test_events_are_streamed(tmp_path: Path) -> None:
    with served(tmp_path) as address, ServedClient(address) as client:
        first = client.pod()
        stream = iter(client.client.events(timeout=20))
        assert [first] * 2 == [next(stream).container_id for _ in range(2)]  # kept until someone subscribes
        pod = client.pod()
        container = client.container(pod, "true", started=True)
        client.exited(container)
        client.call("RemoveContainer", container_id=container)
        client.call("RemovePodSandbox", pod_sandbox_id=pod)
        seen = [next(stream) for _ in range(8)]

    kinds = [(each.container_id, cri.ContainerEventType.Name(each.container_event_type)) for each in seen]
    pods, containers = (
        [(one, f"CONTAINER_{each}_EVENT") for each in ("CREATED", "STARTED", "STOPPED", "DELETED")]
        for one in (pod, container)
    )
    assert [*pods[:2], *containers, *pods[2:]] == kinds
    assert [[], [], *[[container]] * 3, [], [], []] == [[one.id for one in each.containers_statuses] for each in seen]
    assert {pod} == {each.pod_sandbox_status.id for each in seen}


# -- judged -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_random_calls_are_legal(profile: str, tmp_path: Path) -> None:
    """Random calls are legal under the profile; without it, exactly its deviations are found."""
    known = profile.replace("upstream", "") or None
    with served(tmp_path, profile=profile) as address, ServedClient(address, tmp_path / "calls.jsonl") as client:
        client.wander(150, 7, [NOWHERE], [NOWHERE])
        client.codes(("StopContainer", {"container_id": NOWHERE}), ("StopPodSandbox", {"pod_sandbox_id": NOWHERE}))
    names = ("cri-container", "cri-pod", "container-status", "pod-sandbox")

    under = judge(tmp_path / "calls.jsonl", models=names, profile=known)
    without = judge(tmp_path / "calls.jsonl", models=("cri-container", "cri-pod"))

    assert [Holds] * 4 == [type(each.verdict) for each in under.judgements]
    assert [Illegal if profile in STRICT else Holds] * 2 == [type(each.verdict) for each in without.judgements]
    for each in without.judgements:
        if isinstance(each.verdict, Illegal):
            assert {"stop-is-idempotent"} == {found.first[0].clause.name for found in each.verdict.findings}


@pytest.mark.parametrize("profile", ["containerd-2.1", ""])
def test_what_a_profile_allows_may_happen(profile: str, tmp_path: Path) -> None:
    """Calls may be refused as if records had been lost, if the profile of the version allows it."""
    chance = random.Random(5)
    with (
        served(tmp_path, profile=profile, deviates=lambda: chance.random() < 0.5) as address,
        ServedClient(address, tmp_path / "calls.jsonl") as client,
    ):
        pod = client.pod()
        over = client.container(pod, "true", started=True)
        while client.state(over) == "CONTAINER_RUNNING":
            pass
        codes = client.codes(*[("StopContainer", {"container_id": over})] * 20)
        client.wander(150, 3, [NOWHERE], [NOWHERE])
    names = ("cri-container", "cri-pod", "container-status", "pod-sandbox")

    under = judge(tmp_path / "calls.jsonl", models=names, profile=profile or None)
    without = judge(tmp_path / "calls.jsonl", models=("cri-container",))

    assert ({"OK", "NOT_FOUND"} if profile else {"OK"}) == {*codes}
    assert [Holds] * 4 == [type(each.verdict) for each in under.judgements]
    assert [Illegal if profile else Holds] == [type(each.verdict) for each in without.judgements]


@pytest.mark.parametrize(
    ("profile", "code"),
    [
        ("", "NOT_FOUND"),
        ("containerd-1.7", "NOT_FOUND"),
        ("containerd-2.1", "OK"),
        ("containerd-2.2.5", "OK"),
        ("containerd-2.2.6", "UNKNOWN"),
        ("containerd-main", "UNKNOWN"),
    ],
)
def test_each_version_has_its_own_stopped_pods(profile: str, code: str, tmp_path: Path) -> None:
    with served(tmp_path, profile=profile) as address, ServedClient(address) as client:
        pod = client.pod()
        client.call("StopPodSandbox", pod_sandbox_id=pod)

        assert code == client.create(pod, "true").code


def test_clients_at_once_get_legal_answers(tmp_path: Path) -> None:
    """Four clients that share containers get legal answers; of two concurrent starts, one is refused."""
    with served(tmp_path) as address, ServedClient(address, tmp_path / "calls.jsonl") as client:
        pods, containers = [client.pod()], [NOWHERE]
        threads = [threading.Thread(target=client.wander, args=(60, seed, pods, containers)) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        one = client.container(client.pod(), "sleep", "60")
        codes: list[str] = []
        starts = [
            threading.Thread(target=lambda: codes.append(client.call("StartContainer", container_id=one).code))
            for _ in range(4)
        ]
        for each in starts:
            each.start()
        for each in starts:
            each.join()

    judged = judge(tmp_path / "calls.jsonl", models=("cri-container", "cri-pod", "container-status", "pod-sandbox"))

    assert ["OK", "UNKNOWN", "UNKNOWN", "UNKNOWN"] == sorted(codes)
    assert [Holds] * 4 == [type(each.verdict) for each in judged.judgements]


@pytest.mark.parametrize("model", ["cri-pod", pytest.param("cri-container", marks=pytest.mark.slow)])
def test_it_passes_the_kit_as_runtimes_do(model: str, tmp_path: Path) -> None:
    """The reference passes under each profile, and its deviation is found without the profile."""
    with served(tmp_path, profile="containerd-1.6") as address:
        test = ["test", model, "--against", f"cri:{address}", "--examples", "1"]
        under, without = fsm(*test, "--profile", "containerd-1.6"), fsm(*test)

    assert (0, True) == (under.returncode, "verdict: holds" in under.stdout), under.stdout
    assert (1, True) == (without.returncode, "stop-is-idempotent" in without.stdout), without.stdout


@pytest.mark.slow
def test_the_kit_ends_pods_of_processes(tmp_path: Path) -> None:
    """The test kit reaches the cells of unready pods by killing the pause process.

    It finds the id of the process in the verbose status.
    """
    with served(tmp_path, processes=True) as address:
        tested = fsm("test", "cri-pod", "--against", f"cri:{address}", "--examples", "1")

    assert (0, True) == (tested.returncode, "of 36 reachable (event, state) pairs" in tested.stdout), tested.stdout


# -- processes ----------------------------------------------------------------


def test_processes_of_this_machine(tmp_path: Path) -> None:
    """A stop also ends child processes, and all processes end with the server."""
    with served(tmp_path, processes=True) as address, ServedClient(address) as client:
        pod = client.pod()
        mount = [cri.Mount(container_path="/shared", host_path=str(tmp_path))]
        writes = client.container(
            pod, "sh", "-c", 'echo "$GREETING" > /shared/said; exit 5', started=True, mounts=mount,
            envs=[cri.KeyValue(key="GREETING", value="hello")],
        )  # fmt: skip
        tree = client.container(pod, "sh", "-c", f"sleep 61 & echo $! > {tmp_path}/child; wait", started=True)
        left = client.container(pod, "sh", "-c", f"echo $$ > {tmp_path}/left; exec sleep 62", started=True)
        missing = client.container(pod, "/no/such/command")

        ended = client.exited(writes)
        executed = client.call(
            "ExecSync", container_id=tree, cmd=["sh", "-c", "echo out; echo err >&2; exit 6"]
        ).message
        while not (tmp_path / "child").exists() or not (tmp_path / "left").exists():
            time.sleep(0.01)
        late = client.call("ExecSync", container_id=left, cmd=["sleep", "30"], timeout=1)
        stopped = client.call("StopContainer", container_id=tree, timeout=10).code

        assert (5, "hello\n") == (ended.exit_code, (tmp_path / "said").read_text(encoding="utf-8"))
        assert (b"out\n", b"err\n", 6) == (executed.stdout, executed.stderr, executed.exit_code)
        assert ("DEADLINE_EXCEEDED", "OK", 143) == (late.code, stopped, client.status(tree).exit_code)
        assert "UNKNOWN" == client.call("StartContainer", container_id=missing).code
        assert not _runs(tmp_path / "child")
        assert _runs(tmp_path / "left")
        pause = json.loads(client.call("PodSandboxStatus", pod_sandbox_id=pod, verbose=True).message.info["info"])[
            "pid"
        ]
        assert f"FSM_POD={pod}" in Path(f"/proc/{pause}/environ").read_text(encoding="utf-8").split("\0")
        os.kill(pause, signal.SIGKILL)
        while client.call("PodSandboxStatus", pod_sandbox_id=pod).message.status.state == cri.SANDBOX_READY:
            time.sleep(0.01)

    assert not _runs(tmp_path / "left")


def _runs(file: Path) -> bool:
    return Path(f"/proc/{int(file.read_text(encoding='utf-8'))}").exists()


# -- the command --------------------------------------------------------------


def _started(address: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([FSM, "serve", "--cri", address, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"serving CRI at {address}")
    return process


def test_the_command_leaves_nothing(tmp_path: Path) -> None:
    """The socket belongs to this user, and cannot be taken over while it is in use.

    After SIGKILL, a later server replaces it. SIGTERM removes it and ends the command with exit code 0.
    """
    address, path = f"unix://{tmp_path}/it.sock", tmp_path / "it.sock"
    killed = _started(address)
    with killed:
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        taken = fsm("serve", "--cri", address)
        killed.kill()
    assert (2, True) == (taken.returncode, "is in use: another process listens there [FSM603]" in taken.stderr)
    assert path.is_socket()

    plugins = f"unix://{tmp_path}/nri.sock"
    with _started(address, "--processes", "--profile", "containerd-1.6", "--nri", plugins) as process:
        with ServedClient(address) as client:
            client.container(client.pod(), "sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 63", started=True)
            while not (tmp_path / "pid").exists():
                time.sleep(0.01)
            assert "NOT_FOUND" == client.call("StopContainer", container_id=NOWHERE).code
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert (0, "") == (process.returncode, errors)
    assert [tmp_path / "pid"] == [*tmp_path.iterdir()]
    assert not _runs(tmp_path / "pid")


def test_what_cannot_be_served_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    for arguments, what in (
        (["--cri", f"unix://{tmp_path}/file"], "exists already and is not a socket"),
        (["--cri", f"unix://{tmp_path}/no/it.sock"], f"there is no folder {tmp_path}/no"),
        (
            ["--cri", f"unix://{tmp_path}/it.sock", "--nri", f"unix://{tmp_path}/file"],
            "exists already and is not a socket",
        ),
        (["--cri", "tcp://localhost:1"], "this is not the address of a Unix socket"),
        (["--cri", f"unix://{tmp_path}/it.sock", "--profile", "containerd-1.66"], "containerd-1.6"),
        (["--cri", f"unix://{tmp_path}/it.sock", "--deviate", "0.5"], "--deviate needs a profile"),
        ([], "--cri"),
    ):
        ran = fsm("serve", *arguments)
        assert (2, True) == (ran.returncode, what in ran.stderr), ran.stderr
    assert "kept" == (tmp_path / "file").read_text(encoding="utf-8")
    assert [tmp_path / "file"] == [*tmp_path.iterdir()]


def test_the_last_words_of_a_client_are_not_printed(tmp_path: Path) -> None:
    """The client chooses the debug text of a GOAWAY frame, which gRPC would print by default."""
    text = b"bye\x1b[2J"
    goaway = struct.pack(">II", 0, 11) + text
    frames = [(4, b""), (7, goaway)]
    with _started(f"unix://{tmp_path}/it.sock") as process:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{tmp_path}/it.sock")
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            for kind, body in frames:
                client.sendall(struct.pack(">I", len(body))[1:] + bytes([kind, 0, 0, 0, 0, 0]) + body)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1_000):  # until the server has read all of the data
                pass
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)

    assert (0, "") == (process.returncode, errors)
