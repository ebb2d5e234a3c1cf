"""A pod, its container and a plugin are tested together as one system, here with the served reference."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from served import served

from fsm.conformance import suite
from fsm.conformance.executor import Execution
from fsm.conformance.lookup import find
from fsm.conformance.oracle import oracle
from fsm.conformance.plan import steps
from fsm.runtimes.live import node_sut
from fsm.runtimes.node_model import node
from fsm.runtimes.reference.driven import CallError
from fsm.runtimes.reference.nri.lifecycle import MergedAnswers
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CriClient
from fsm.runtimes.sockets.cri_server import CriServer
from fsm.runtimes.sockets.nri_relays import NodePlugins
from fsm.sut import Emitting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.conformance.tested import Tested
    from fsm.runtimes.reference.nri.messages import Request

LIFE = (
    "plugin-joins; run-pod=refused-by-plugin; run-pod=ready; create-container=refused-by-plugin; create-container=created; "
    "update-container=refused-by-plugin; start-container=started; update-container; exit-container; relay-exit; "
    "remove-container; create-container=created; start-container=refused-by-plugin; plugin-leaves; remove-container; "
    "create-container=failed; create-container=created; plugin-joins; start-container=started; stop-pod; remove-pod"
)
LATE = (
    "plugin-joins; run-pod=ready; create-container=created; start-container=started; stop-pod; relay-exit; remove-pod"
)
TOO_LATE = "run-pod=ready; create-container=created; start-container=started; exit-container; plugin-joins; relay-exit"
STOPPED_FIRST = "plugin-joins; run-pod=ready; create-container=created; stop-container; start-container=started"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("node")
    with served(folder, plugins=NodePlugins(), profile="containerd-2.1") as address:
        yield address, f"unix://{folder / 'nri.sock'}"


def again(
    runtime: tuple[str, str], text: str, judge: str = "", profile: str | None = None, *, restart: str = ""
) -> Tested:
    machine = node(None)
    options = {"nri": runtime[1], "restart_command": restart}
    return suite.replay(
        machine, find(f"cri:{runtime[0]}", machine, options=options, model=judge, profile=profile), steps(text)
    )


def test_a_plugin_that_joins_again_is_one(runtime: tuple[str, str]) -> None:
    sut = find(f"cri:{runtime[0]}", node(None), options={"nri": runtime[1]})()
    try:
        for event in ("plugin-joins", "plugin-joins", "run-pod"):
            sut.do(event)
        assert isinstance(sut, Emitting)
        assert ("RunPodSandbox",) == sut.outputs()
    finally:
        sut.close()


def test_calls_and_what_is_told_are_judged_together(runtime: tuple[str, str]) -> None:
    """A test with refusals, late ends and a reconnecting plugin passes, and leaves no pod behind."""
    found = again(runtime, LIFE)

    assert not found.failures
    assert len(steps(LIFE)) == found.cover.steps
    with CriClient(runtime[0]) as client:
        assert not client.call("ListPodSandbox").message.items


def test_what_is_told_is_attributed(runtime: tuple[str, str]) -> None:
    """Each event is attributed to the step that caused it.

    The event of a container's end may instead be attributed to the removal that reports it.
    """
    machine = node(None)
    sut = find(f"cri:{runtime[0]}", machine, options={"nri": runtime[1]})()
    walk = Execution(oracle(machine, overlaps=False, sut=sut), sut)
    started = "plugin-joins; run-pod=ready; create-container=created; start-container=started"
    try:
        walk.replay(steps(f"{started}; stop-pod; relay-exit; remove-pod"))
        asked = [taken.seen.outputs for taken in walk.trace[4:] if taken.seen]
        walk.replay(steps(f"{started}; remove-pod"))
    finally:
        sut.close()

    assert asked == [("StopPodSandbox",), ("StopContainer",), ("RemoveContainer", "RemovePodSandbox")]
    seen = walk.trace[-1].seen
    assert seen is not None
    assert seen.outputs == ("StopPodSandbox", "StopContainer", "RemoveContainer", "RemovePodSandbox")


def test_what_ended_before_the_plugin_joined_may_have_been_told_to_nobody(runtime: tuple[str, str]) -> None:
    found = again(runtime, TOO_LATE)

    assert not found.failures
    assert len(steps(TOO_LATE)) == found.cover.steps


class _Silent(NodePlugins):
    async def send(self, request: Request) -> MergedAnswers:
        if request.event == "StopContainer":
            return MergedAnswers(request)
        return await super().send(request)


@pytest.mark.slow
def test_an_end_that_is_not_told_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit that is not relayed is found if the plugin knew that the container was running."""
    monkeypatch.setattr(node_sut, "_RELAYED", 0.05)
    begun = "run-pod=ready; create-container=created; start-container=started"
    with served(tmp_path, plugins=_Silent()) as address:
        runtime = (address, f"unix://{tmp_path / 'nri.sock'}")
        found = [
            again(runtime, f"{life}; exit-container; relay-exit")
            for life in (f"{begun}; plugin-joins", f"plugin-joins; {begun}")
        ]

    clauses = [[each.violation.clause.name for each in one.failures if each.violation] for one in found]
    assert clauses == [["exits-are-relayed-later"]] * 2


@pytest.mark.parametrize("comes", [False, True])
def test_a_pod_whose_run_was_refused_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, comes: bool
) -> None:
    """A refused pod that exists again after a restart is found, and is removed by its name."""
    run, listed = CriServer.RunPodSandbox, CriServer.ListPodSandbox
    refused: list[Any] = []

    async def running(server: CriServer, request: Any) -> cri.RunPodSandboxResponse:  # noqa: ANN401
        try:
            return await run(server, request)
        except CallError:
            refused.append(request)
            raise

    async def listing(server: CriServer, request: Any) -> cri.ListPodSandboxResponse:  # noqa: ANN401
        if comes and refused and (tmp_path / "restarted").exists():
            await run(server, refused.pop())
        return await listed(server, request)

    monkeypatch.setattr(CriServer, "RunPodSandbox", running)
    monkeypatch.setattr(CriServer, "ListPodSandbox", listing)
    with served(tmp_path, plugins=NodePlugins()) as address:
        runtime = (address, f"unix://{tmp_path / 'nri.sock'}")
        life = "plugin-joins; run-pod=refused-by-plugin; restart"
        found = again(runtime, life, restart=f"touch {tmp_path / 'restarted'}")
        with CriClient(address) as client:
            assert not client.call("ListPodSandbox").message.items

    assert ["memory-is-lost"] * comes == [each.violation.clause.name for each in found.failures if each.violation]
    assert comes is not bool(refused)


class _Forgetful(NodePlugins):
    async def send(self, request: Request) -> MergedAnswers:
        if request.event == "RemoveContainer":
            return MergedAnswers(request)
        return await super().send(request)


@pytest.mark.slow
def test_what_is_not_told_is_found(tmp_path: Path) -> None:
    life = "plugin-joins; run-pod=ready; create-container=created; remove-container"
    with served(tmp_path, plugins=_Forgetful()) as address:
        runtime = (address, f"unix://{tmp_path / 'nri.sock'}")
        by_node, by_contract = again(runtime, life), again(runtime, f"{life}; stop-pod", "plugin-container")

    clauses = [
        each.violation.clause.name for found in (by_node, by_contract) for each in found.failures if each.violation
    ]
    assert clauses == ["remove-relays-on-the-way", "removal-is-relayed"]


@pytest.mark.slow
@pytest.mark.parametrize("joins", [False, True])
def test_what_happens_while_no_plugin_is_there_is_not_told(tmp_path: Path, *, joins: bool) -> None:
    """A missing event is a violation only if the plugin reconnected after the restart."""
    life = "plugin-joins; run-pod=ready; create-container=created; restart; plugin-joins; remove-container; stop-pod"
    text = life if joins else life.replace("restart; plugin-joins", "restart")
    with served(tmp_path, plugins=_Forgetful()) as address:
        options = {"nri": f"unix://{tmp_path / 'nri.sock'}", "restart_command": "true"}
        sut = find(f"cri:{address}", node(None), options=options, model="plugin-container")
        found = suite.replay(node(None), sut, steps(text))

    clauses = [each.violation.clause.name for each in found.failures if each.violation]
    assert clauses == ["removal-is-relayed"] * joins
    assert joins or len(steps(text)) == found.cover.steps


@pytest.mark.slow
def test_the_contract_judges_in_place_of_the_system(runtime: tuple[str, str], tmp_path: Path) -> None:
    """Like a test against the system, one against the contract finds, tolerates and records containerd's deviations."""
    calls = tmp_path / "calls.jsonl"
    test = ("test", "nri-plugin-contract", "--against", f"cri:{runtime[0]}", "--nri", runtime[1])
    tested = fsm(*test, "--replay", STOPPED_FIRST, "--record", str(calls), "--format", "json", "--fail-on", "SHOULD")
    judged = fsm("judge", f"{calls}.nri", "--with", str(calls), "--fail-on", "SHOULD")
    tolerated = again(runtime, STOPPED_FIRST, "nri-plugin-contract", "containerd-2.1")

    [failure] = json.loads(tested.stdout)["failures"]
    assert (tested.returncode, judged.returncode) == (1, 1)
    assert (failure["clause"]["name"], failure["repeated"]) == ("no-start-after-stop", {"failed": 3, "of": 3})
    assert "no-start-after-stop" in judged.stdout
    assert not tolerated.failures
    assert {each.machine for each in tolerated.covered} == {"plugin-pod", "plugin-container"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("cri-container", "--against", "cri:unix:///x", "--nri", "unix:///y"),
            "--nri can be used only with node, nri-container",
        ),
        (("node", "--against", "reference", "--nri", "unix:///y"), "can be used only with --against cri:ADDRESS"),
        (("node", "--against", "cri:unix:///x"), "too many for one machine"),
        (("node", "--against", "cri:unix:///x", "--parts", "pod=1,container=1"), "add --nri ADDRESS"),
        (("node", "--against", "cri:unix:///x", "--nri", "unix:///y", "--parts", "pod=2"), "pod=1,container=1"),
        (("node", "--against", "cri:unix:///x", "--nri", "unix:///y", "--profile", "x"), "profiles: mended"),
        (("plugin-pod", "--against", "cri:unix:///x"), "add --nri ADDRESS"),
        (("node", "--against", "model:node", "--parts", "pods=1"), "unknown part 'pods'"),
        (("node", "--against", "model:node", "--parts", "pod=0"), "give a number from 1 to 100"),
        (("node", "--against", "model:node", "--parts", "pod"), "is not PART=COUNT"),
        (("cri-pod", "--against", "model:cri-pod", "--parts", "pod=1"), "--parts can be used only with a system"),
    ],
)
def test_what_cannot_be_tested_is_said(arguments: tuple[str, ...], said: str) -> None:
    found = fsm("test", *arguments)

    assert (found.returncode, found.stdout) == (2, "")
    assert said in " ".join(found.stderr.split())


def test_nobody_takes_plugins(runtime: tuple[str, str], tmp_path: Path) -> None:
    found = fsm("test", "node", "--against", f"cri:{runtime[0]}", "--nri", f"unix://{tmp_path / 'nri.sock'}")

    assert found.returncode == 2
    assert "there is no such socket" in found.stderr
