"""Several threads may use one container at once. The served reference passes, and a planted race is found."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from judged import violations
from served import served

from fsm.conformance.concurrency import concurrently
from fsm.conformance.lookup import find
from fsm.conformance.race_runs import Pace
from fsm.language.library import load
from fsm.monitor.judgement import judge
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_server import CriServer

if TYPE_CHECKING:
    from pathlib import Path

    from containerds import Containerd

_START, _STATUS = CriServer.StartContainer, CriServer.ContainerStatus


async def _started_twice(server: CriServer, request: Any) -> cri.StartContainerResponse | None:  # noqa: ANN401
    """Start a container after checking its state once, so two concurrent starts may both succeed."""

    async def state() -> int:
        found = await _STATUS(server, cri.ContainerStatusRequest(container_id=request.container_id))
        return int(found.status.state)

    created = await state() == cri.CONTAINER_CREATED
    await asyncio.sleep(0.12)
    if created and await state() == cri.CONTAINER_RUNNING:
        return cri.StartContainerResponse()
    await _START(server, request)
    return None


def test_a_runtime_without_races_passes(tmp_path: Path) -> None:
    machine = load("container-status")
    with served(tmp_path) as address:
        search = concurrently(
            machine, find(f"cri:{address}", machine), repeats=1, examples=30, pace=Pace(delay=0.01, seconds=60)
        )

    assert search.race is None
    assert not search.cut
    assert search.runs >= search.programmes > 10
    assert search.events >= 2 * search.runs


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    machine = load("container-status")
    with served(tmp_path) as address:
        search = concurrently(machine, find(f"cri:{address}", machine), pace=Pace(delay=0.1, seconds=0.2))

    assert search.cut
    assert search.runs < 20


@pytest.mark.nightly
def test_a_race_is_found_repeated_recorded_and_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = tmp_path / "race.jsonl"
    monkeypatch.setattr(CriServer, "StartContainer", _started_twice)
    with served(tmp_path) as address:
        options = ["--threads", "2", "-n", "20", "--format", "json", "--record", str(recording)]
        ran = fsm("test", "cri-container", "--against", f"cri:{address}", *options)

    found = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert found["failures"] == []
    assert "start: ok" in found["race"]
    assert found["races"]["repeated"]["failed"] > 0
    assert found["races"]["repeated"]["of"] == 20
    assert [each.clause for each in violations(judge(recording))] == ["start-only-created"]


@pytest.mark.live
def test_real_runtimes_have_no_races(containerd: Containerd) -> None:
    machine = load("container-status")
    search = concurrently(
        machine,
        find(f"cri:unix://{containerd.endpoint}", machine),
        profile=f"containerd-{containerd.version}",
        repeats=1,
        pace=Pace(delay=0.05, seconds=10),
    )

    assert search.race is None
    assert search.runs > 2  # within ten seconds, however busy the machine is
