"""The user's command restarts the runtime under test, or kills it during a call."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from packages_of_debian import CACHE
from served import served

from fsm.conformance import suite
from fsm.conformance.lookup import find
from fsm.conformance.plan import steps
from fsm.language.library import load
from fsm.runtimes.reference.driven import CallError
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CriClient
from fsm.runtimes.sockets.cri_server import CriServer
from fsm.verdict import Fails, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containerds import Containerd

    from fsm.conformance.tested import Tested

_CREATE, _START, _STATUS = (
    CriServer.CreateContainer,
    CriServer.StartContainer,
    CriServer.ContainerStatus,
)


def done(model: str, address: str, text: str, runtime: dict[str, str], profile: str | None = None) -> Tested:
    machine = load(model)
    found = suite.replay(machine, find(f"cri:{address}", machine, options=runtime), steps(text), profile=profile)
    assert isinstance(found.verdict, Fails) or found.cover.steps == len(steps(text))
    return found


def broken(found: Tested) -> list[str]:
    return [each.violation.clause.name if each.violation else each.broken for each in found.failures]


def restarts(found: Tested) -> set[str]:
    table = found.oracle.plan.table
    ways = [way for way in found.cover.ways if table.origin[way][0] == table.row["restart"]]
    return {table.ways[way].name for way in ways}


def wanted(text: str) -> set[str]:
    return {each.expected[0] for each in steps(text) if each.event == "restart"}


# -- restarts ----------------------------------------------------------------------


PART = Unknown(why="only a part of the plan was requested")


def test_a_restart_is_what_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that was running before a restart must not look as if it had never been started."""
    command = {"restart_command": f"touch {tmp_path / 'restarted'}"}
    life = "create=created; start=begins,started; restart=running; restart=running"

    async def waiting(server: CriServer, request: Any) -> cri.ContainerStatusResponse:  # noqa: ANN401
        found: cri.ContainerStatusResponse = await _STATUS(server, request)
        if (tmp_path / "restarted").exists():
            found.status.state, found.status.started_at = cri.CONTAINER_CREATED, 0
        return found

    with served(tmp_path) as address:
        right = done("container-status", address, life, command)
    (tmp_path / "restarted").unlink()  # this fails if the command was not run
    monkeypatch.setattr(CriServer, "ContainerStatus", waiting)
    with served(tmp_path) as address:
        wrong = done("container-status", address, life, command)

    assert right.verdict == PART
    assert broken(wrong) == ["recovery"]


def test_a_command_that_fails_is_no_restart(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        found = done("container-status", address, "restart", {"restart_command": "echo no >&2; exit 4"})

    assert broken(found) == ["echo no >&2; exit 4 exited with 4: no"]


def test_a_failure_is_printed_with_the_command(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        test = ("test", "cri-pod", "--against", f"cri:{address}", "--restart-command", "exit 4", "--format", "json")
        found = fsm(*test, "--replay", "run=ready; restart=kept")

    [failure] = json.loads(found.stdout)["failures"]
    assert "--restart-command 'exit 4' --replay 'run=ready; restart=kept'" in failure["again"]


RESTARTED = {
    "container-status": "restart; create=created; restart=created; start=begins,started; restart=running; exit; "
    "restart=exited; remove=begins,removed; restart",
    "pod-sandbox": "restart; run=ready; restart=ready; stop=stopped; restart=notready; remove=removed; restart",
}


@pytest.mark.live
@pytest.mark.parametrize("model", RESTARTED)
def test_real_runtimes_find_what_there_was(containerd: Containerd, model: str) -> None:
    command = {"restart_command": containerd.restart_command}
    before = containerd.pid
    found = done(
        model, f"unix://{containerd.endpoint}", RESTARTED[model], command, profile=f"containerd-{containerd.version}"
    )

    assert broken(found) == []
    assert containerd.pid != before


# -- damaged checkpoints -----------------------------------------------------------


@contextmanager
def stoppable(folder: Path) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield the address of a server that keeps its state, and a function that builds a command to restart it.

    The function takes a command to run while the server is stopped.
    """
    over = threading.Event()
    stop, start = folder / "stop", folder / "start"

    def serve() -> None:
        while not over.is_set():
            with served(folder, kept=True):
                start.unlink(missing_ok=True)
                while not stop.exists() and not over.is_set():
                    over.wait(0.005)
            stop.unlink(missing_ok=True)
            while not start.exists() and not over.is_set():
                over.wait(0.005)

    def gone(file: Path) -> str:
        return f"touch {file}; while [ -e {file} ]; do sleep 0.005; done"

    start.touch()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        while start.exists():
            over.wait(0.005)
        yield f"unix://{folder / 'cri.sock'}", lambda meanwhile: f"{gone(stop)}; {meanwhile}; {gone(start)}"
    finally:
        over.set()
        thread.join()


DAMAGED = {
    "container-status": "create=created; restart=created; restart=unknown; start; restart=unknown; stop=stopped; "
    "restart=exited; restart=unknown; remove=killed,removed; create=created; start=begins,started; restart=unknown; "
    "update-resources; stop=stopped; remove=begins,removed",
    "cri-container": "create=created; restart=kept; restart=unreadable; start; restart=unreadable; stop; remove",
}
FORGING = r"""sed -i 's/"\(Started\|Finished\)At":[0-9]*/"\1At":0/g'"""


@pytest.mark.parametrize("model", DAMAGED)
def test_a_checkpoint_is_damaged_while_the_runtime_is_down(model: str, tmp_path: Path) -> None:
    status = tmp_path / "node" / "containers" / "{container}" / "status"
    with stoppable(tmp_path) as (address, restart):
        command = {"restart_command": restart(":"), "damage_command": restart(f"truncate -s 0 {status}")}
        found = done(model, address, DAMAGED[model], command)

    assert broken(found) == []
    assert restarts(found) == wanted(DAMAGED[model])


@pytest.mark.parametrize(("damage", "clauses"), [("test -s", []), (FORGING, ["recovery"])])
def test_damage_that_makes_no_container_unknown(damage: str, clauses: list[str], tmp_path: Path) -> None:
    """If the container is still known after the damage, the outcome ``unknown`` counts as not available.

    A container that has exited must not look as if it had never run.
    """
    status = tmp_path / "node" / "containers" / "{container}" / "status"
    life = "create=created; start=begins,started; exit; restart=unknown"
    with stoppable(tmp_path) as (address, restart):
        command = {"restart_command": restart(":"), "damage_command": restart(f"{damage} {status}")}
        found = done("container-status", address, life, command)

    assert broken(found) == clauses
    assert clauses or ("restart", "unknown") in found.unarranged


LOST = {
    "container-status": "create=created; restart=skipped; start; restart=skipped; remove; create=created; "
    "start=begins,started; exit; restart=skipped; status; stop; remove",
    "cri-container": "create=created; restart=lost; start; restart=lost; stop; remove",
}


@pytest.mark.live
@pytest.mark.parametrize("model", DAMAGED)
def test_real_runtimes_bear_damage(containerd: Containerd, model: str) -> None:
    """Real daemons recover if a checkpoint is empty or a container has no record."""
    ctr = f"{CACHE / containerd.version / 'bin' / 'ctr'} -a {containerd.endpoint} -n k8s.io"
    removing = f"{ctr} containers rm {{container}}; {containerd.restart_command}"
    profile = f"containerd-{containerd.version}"
    for damage, life in ((containerd.damage_command, DAMAGED[model]), (removing, LOST[model])):
        command = {"restart_command": containerd.restart_command, "damage_command": damage}
        found = done(model, f"unix://{containerd.endpoint}", life, command, profile=profile)

        assert broken(found) == []
        assert restarts(found) == wanted(life)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("container-status", "--damage-command", "rm {container}"),
            "needs --restart-command, which is used for restarts without damage",
        ),
        (("container-status", "--restart-command", "x", "--damage-command", "rm"), "must contain {container}"),
        (("cri-pod", "--restart-command", "x", "--damage-command", "rm {container}"), "cri-pod is about pods"),
    ],
)
def test_damage_that_means_nothing_is_refused(arguments: tuple[str, ...], said: str) -> None:
    found = fsm("test", *arguments, "--against", "cri:unix:///x")

    assert (found.returncode, found.stdout) == (2, "")
    assert said in " ".join(found.stderr.split())


# -- kills during calls -------------------------------------------------------------


@pytest.mark.parametrize("starts", [False, True])
def test_what_a_call_has_made_that_was_cut_off_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    """If a crash loses a container's id, the container is found and removed; a running container is an error."""

    async def lost(server: CriServer, request: Any) -> cri.CreateContainerResponse:  # noqa: ANN401
        made = await _CREATE(server, request)
        if starts:
            await _START(server, cri.StartContainerRequest(container_id=made.container_id))
        for _ in range(30):
            if not (tmp_path / "killed").exists():
                await asyncio.sleep(0.01)
        raise CallError("create", "UNAVAILABLE", "gone")

    monkeypatch.setattr(CriServer, "CreateContainer", lost)
    with served(tmp_path) as address:
        command = {"kill_command": f"touch {tmp_path / 'killed'}"}
        found = done("container-status", address, "crash@0 create=created,created", command)
        with CriClient(address) as client:
            assert not client.call("ListContainers").message.containers

    (shown,) = [each.seen.shows for each in found.failures[0].trace if each.seen] if starts else ["CONTAINER_CREATED"]
    assert shown == ("CONTAINER_RUNNING" if starts else "CONTAINER_CREATED")
    assert ["after a crash the SUT shows CONTAINER_RUNNING" in each for each in broken(found)] == [True] * starts


def test_a_call_that_is_over_is_not_cut_off(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        command = {"kill_command": f"touch {tmp_path / 'killed'}"}
        found = done("container-status", address, "create=created; crash@50 status=read,created", command)

    assert found.verdict == PART
    assert not (tmp_path / "killed").exists()


KILLED = [
    ("container-status", "crash@0 create=created,created"),
    ("container-status", "create=created; crash@1 start=begins,started,created"),
    ("pod-sandbox", "crash@1 run=ready,ready"),
]


@pytest.mark.live
@pytest.mark.parametrize(("model", "life"), KILLED)
def test_real_runtimes_that_are_killed_have_done_it_or_not(containerd: Containerd, model: str, life: str) -> None:
    command = {"kill_command": containerd.kill_command}
    before = containerd.pid
    found = done(model, f"unix://{containerd.endpoint}", life, command, profile=f"containerd-{containerd.version}")

    assert broken(found) == []
    assert containerd.pid != before
