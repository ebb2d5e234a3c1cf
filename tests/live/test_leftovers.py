"""Tests of a real runtime leave nothing behind, even if they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import FSM
from containerds import Containerd, processes

from fsm.runtimes.live.workload import NAMESPACE
from fsm.runtimes.sockets.cri_client import CriClient, connected

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

RUNS = {4: range(1, 3), 20: range(2, 20, 4)}
"""The runs that are killed, for four or twenty runs in total."""

LIVES = "create; start; status; exit; remove; create; start; stop; remove"
EARLIEST = 0.15
"""The delay in seconds from the first pod of run 1 to its kill. Run N is killed after N times this delay."""

AGE = 120.0
"""The age in seconds at which a folder without an owner counts as old."""


def command(containerd: Containerd, model: str, *more: str) -> list[str]:
    return [FSM, "test", model, "--against", f"cri:unix://{containerd.endpoint}", "--examples", "1", *more]


def pods(client: CriClient) -> list[str]:
    return [each.id for each in client.call("ListPodSandbox").message.items]


def left(containerd: Containerd, client: CriClient, folder: Path) -> dict[str, list[str]]:
    run = Path(f"/proc/{containerd.pid}/root/run/containerd")
    mounts = Path(f"/proc/{containerd.pid}/mounts").read_text(encoding="utf-8").splitlines()
    tasks = containerd.folder / "state" / "io.containerd.runtime.v2.task" / NAMESPACE
    # Only this daemon is considered, because other daemons may create and remove containers at the same time.
    walk = os.walk("/sys/fs/cgroup")
    groups = [Path(where, name) for where, names, _ in walk if Path(where).name == NAMESPACE for name in names]
    return {
        "pods": pods(client),
        "containers": [each.id for each in client.call("ListContainers").message.containers],
        "images": sorted(each.id for each in client.call("ListImages").message.images),
        "processes": list(map(str, processes(containerd.reaper))),
        "mounts": sorted(mounts),
        "sockets": sorted(each.name for each in (run / "s").glob("*")),
        "tasks": sorted(each.name for each in tasks.glob("*")),
        "groups": sorted(str(each) for each in groups if _of(containerd, each)),
        "files": sorted(str(each) for each in folder.iterdir()),
    }


def _of(containerd: Containerd, group: Path) -> bool:
    """Check whether a control group belongs to this daemon. Other daemons may be running."""
    return group.name in containerd.log.read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def client(containerd: Containerd) -> Iterator[CriClient]:
    client, _ = connected(f"unix://{containerd.endpoint}")
    with client:
        yield client


@pytest.mark.parametrize("runs", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_nothing_is_left_of_runs(containerd: Containerd, client: CriClient, tmp_path: Path, runs: int) -> None:
    """A later run removes everything that a killed run leaves behind."""
    if containerd.version == "1.6.20":  # two runs are enough
        return
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    before = left(containerd, client, tmp_path)
    half_way = 0
    for number in range(runs):
        if number not in RUNS[runs]:
            ran = subprocess.run(
                command(containerd, "cri-container", "--replay", LIVES),
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            assert 3 == ran.returncode, ran.stdout + ran.stderr
            continue
        model = ("cri-container", "cri-pod")[half_way % 2]
        with subprocess.Popen(
            command(containerd, model), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as killed:
            late = time.monotonic() + 20
            while not pods(client) and time.monotonic() < late:
                time.sleep(0.01)
            time.sleep(number * EARLIEST)
            half_way += killed.poll() is None
            killed.send_signal(signal.SIGKILL)
    assert len(RUNS[runs]) == half_way
    for each in tmp_path.iterdir():
        os.utime(each, times=(time.time() - AGE,) * 2)

    last = subprocess.run(
        command(containerd, "cri-container", "--replay", LIVES), env=env, capture_output=True, text=True, check=False
    )

    assert 3 == last.returncode, last.stdout + last.stderr
    assert before == left(containerd, client, tmp_path)
