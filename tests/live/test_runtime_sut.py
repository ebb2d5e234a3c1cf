"""A runtime behind a socket is the system under test. The served reference passes, and wrong answers are found."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from judged import violations
from served import served

from fsm.conformance import suite
from fsm.conformance.lookup import find
from fsm.conformance.plan import steps
from fsm.errors import InputError
from fsm.language.library import load
from fsm.monitor.judgement import judge
from fsm.runtimes.live import runtime_session
from fsm.runtimes.live.container_sut import RuntimeContainerSUT
from fsm.runtimes.live.runtime_session import RuntimeSession
from fsm.runtimes.reference.driven import CallError
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CallAnswer, CriClient
from fsm.runtimes.sockets.cri_server import CriServer
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.conformance.tested import Tested


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("node")) as address:
        yield address


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("node"), profile="containerd-1.6") as address:
        yield address


def again(model: str, address: str, text: str, profile: str | None = None) -> Tested:
    machine = load(model)
    return suite.replay(machine, find(f"cri:{address}", machine), steps(text), profile=profile)


def pods(address: str) -> list[str]:
    with CriClient(address) as client:
        return [each.labels[runtime_session.KEY] for each in client.call("ListPodSandbox").message.items]


def drive(model: str, address: str, profile: str | None = None, examples: int = 0) -> Tested:
    return suite.conform(load(model), f"cri:{address}", profile=profile, examples=examples, steps=10)


def covered(found: Tested) -> set[tuple[str, str]]:
    """Return the cells that a test seems to have reached.

    This is a guess, because an unobserved restart may have changed the state before an event.
    """
    table, edges = found.oracle.plan.table, filter(found.cover.took, found.oracle.plan.edges)
    return {(table.rows[row].name, table.states[state]) for edge in edges for row, state in edge.cells}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "states", "without"),
    [
        ("cri-container", {"absent", "created", "running", "exited"}, {"exit", "restart"}),
        ("cri-pod", {"absent", "ready", "stopped"}, {"exit", "restart", "started-once-stopped"}),
    ],
)
def test_the_served_reference_conforms(address: str, model: str, states: set[str], without: set[str]) -> None:
    found = drive(model, address, examples=2)

    calls = {name for name in load(model).events if name not in without}
    assert isinstance(found.verdict, Holds)
    assert {(event, state) for event in calls for state in states} <= covered(found)
    assert () == found.missed
    assert pods(address) == []


@pytest.mark.parametrize("model", ["cri-container", "cri-pod"])
def test_an_old_runtime_is_found(old: str, model: str) -> None:
    found, tolerated = again(model, old, "stop"), again(model, old, "stop", "containerd-1.6")

    assert isinstance(found.verdict, Fails)
    assert [each.violation.clause.name for each in found.failures if each.violation] == ["stop-is-idempotent"]
    assert not tolerated.failures
    assert tolerated.cover.deviations == {"stop-of-removed": 1}


def test_outcomes_are_arranged(address: str) -> None:
    lives = {
        "container-status": "create=failed; create=created; start=begins,started; exec=failed; exec-sync=failed; "
        "attach=failed; reopen-log=failed; exec=prepared; exec-sync=ran; attach=prepared; reopen-log=reopened; "
        "stop=cut-short; exit; remove=begins,removed; create=created; start=begins,failed; remove=begins,removed",
        "cri-pod": "run=undone; run=ready; create-container; stop=stopped; remove=removed; run=ready; remove=removed",
    }
    for model, life in lives.items():
        found = again(model, address, life)
        assert not found.failures
        assert (found.unarranged, found.left_out) == ((), ())
        assert found.cover.steps == len(steps(life))


async def _nothing(_server: CriServer, _request: object) -> cri.RemoveContainerResponse:
    return cri.RemoveContainerResponse()


async def _unknown(server: CriServer, request: Any) -> cri.ContainerStatusResponse:  # noqa: ANN401
    found: cri.ContainerStatusResponse = await _STATUS(server, request)
    found.status.finished_at = 1
    return found


async def _crash(_server: CriServer, _request: object) -> cri.StopContainerResponse:
    raise CallError("stop", "UNAVAILABLE", "gone")


_STATUS: Callable[[CriServer, Any], Any] = CriServer.ContainerStatus


@pytest.mark.parametrize(
    ("method", "wrong", "life", "says"),
    [
        ("RemoveContainer", _nothing, "create=created; remove=begins,removed", "remove-"),
        ("ContainerStatus", _unknown, "create=created", "not-started-has-no-start"),
        ("StopContainer", _crash, "create=created; stop", "StopContainer was answered UNAVAILABLE"),
    ],
)
def test_a_wrong_answer_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, wrong: object, life: str, says: str
) -> None:
    """A removal without effect, an end before the start, and a crash of the runtime are found."""
    monkeypatch.setattr(CriServer, method, wrong)
    with served(tmp_path) as address:
        found = again("cri-container", address, life)
        assert pods(address) == []

    assert isinstance(found.verdict, Fails)
    assert [says in (each.violation.clause.name if each.violation else each.broken) for each in found.failures] == [
        True
    ]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path) as address:
        yield address


def test_what_a_killed_run_has_left_is_removed(own: str) -> None:
    script = (
        "import sys; from fsm.runtimes.live.runtime_session import RuntimeSession; "
        "session = RuntimeSession(sys.argv[1], image='busybox'); session.ready(); print('made', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, own]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        with CriClient(own) as client:
            metadata = cri.PodSandboxMetadata(name="other", uid="1", namespace="default")
            client.call("RunPodSandbox", cri.RunPodSandboxRequest(config=cri.PodSandboxConfig(metadata=metadata)))
        RuntimeSession(own, image="busybox").close()
        during = pods(own)
        process.send_signal(signal.SIGKILL)
        process.wait()
    RuntimeSession(own, image="busybox").close()

    assert [bool(each) for each in during] == [True, False]
    assert pods(own) == [""]


def test_an_interrupted_test_leaves_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = RuntimeContainerSUT._call  # noqa: SLF001  (what is interrupted)

    def interrupted(sut: RuntimeContainerSUT, op: str) -> CallAnswer:
        if op == "Exec":
            signal.raise_signal(signal.SIGINT)
        return call(sut, op)

    monkeypatch.setattr(RuntimeContainerSUT, "_call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again("cri-container", address, "create=created; exec")

    assert pods(address) == []


def test_a_failure_is_repeated_recorded_and_judged_alike(tmp_path: Path, old: str) -> None:
    """The failure is also written as a script, and its recording is judged to have the same violation."""
    recording, script = tmp_path / "calls.jsonl", tmp_path / "calls.sh"
    options = ["--replay", "stop", "--format", "json", "--record", str(recording), "--script", str(script)]
    ran = fsm("test", "cri-container", "--against", f"cri:{old}", *options)

    (failure,) = json.loads(ran.stdout)["failures"]
    assert ran.returncode == 1
    assert failure["repeated"] == {"failed": 3, "of": 3}
    assert [each.clause for each in violations(judge(recording))] == ["stop-is-idempotent"]
    assert 'crictl stop "$CONTAINER"' in script.read_text(encoding="utf-8")


WRONG = [
    (["cri-container", "--against", "cri:unix:///no/such.sock"], "there is no such socket"),
    (["cri-container", "--against", "cri:tcp://localhost:1"], "this is not the address of a Unix socket"),
    (["nri-api", "--against", "cri:unix:///no/such.sock"], "nri-api does not describe CRI calls"),
    (["cri-container", "--against", "reference", "--image", "busybox"], "can be used only with --against cri:ADDRESS"),
    (["cri-pod", "--against", "cri:/it", "--properties", "--record", "x"], "do not apply to tests of properties"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
def test_what_cannot_be_tested_is_refused(arguments: list[str], says: str) -> None:
    ran = fsm("test", *arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr


async def _no_pods(_server: CriServer, _request: object) -> cri.RunPodSandboxResponse:
    raise CallError("run", "UNKNOWN", "no sandbox image")


def test_a_runtime_without_pods_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CriServer, "RunPodSandbox", _no_pods)

    with served(tmp_path) as address, pytest.raises(InputError, match="no sandbox image") as refused:
        find(f"cri:{address}", load("cri-container"))()

    assert refused.value.problems[0].code == "FSM606"
