"""The recording plugin works with real daemons."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from called import ended, running_pod, started
from commands import FSM
from judged import violations

from fsm.monitor.judgement import judge
from fsm.runtimes.sockets.cri_client import connected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containerds import Containerd

pytestmark = pytest.mark.live

LIFE = [
    "RUN_POD_SANDBOX",
    "CreateContainer",
    "POST_CREATE_CONTAINER",
    "START_CONTAINER",
    "POST_START_CONTAINER",
    "StopContainer",
    "REMOVE_CONTAINER",
    "STOP_POD_SANDBOX",
    "REMOVE_POD_SANDBOX",
]
TOLD = ["Configure", "Synchronize", *LIFE]


def life(containerd: Containerd) -> None:
    with connected(f"unix://{containerd.endpoint}")[0] as client, running_pod(client) as pod:
        ended(client, started(client, pod))


@contextmanager
def recording(containerd: Containerd, path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Run ``fsm record`` during two lifecycles, and yield a function that returns the events recorded so far."""

    def written() -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    command = [FSM, "record", "--nri", f"unix://{containerd.nri}", "--output", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as recorder:
        try:
            yield written
        finally:
            recorder.send_signal(signal.SIGTERM)
            _, said = recorder.communicate(timeout=60)
    assert 0 == recorder.returncode
    assert b"the runtime has closed the connection\nrecorded 18 events on 2 connections" in said


def until(holds: Callable[[], bool]) -> None:
    late = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < late
        time.sleep(0.02)


def test_a_life_is_told_and_judged(containerd: Containerd, tmp_path: Path) -> None:
    if containerd.nri is None:
        assert containerd.version.startswith("1.6.")
        return
    path = tmp_path / "events.jsonl"
    with recording(containerd, path) as written:
        until(lambda: len(written()) == len(TOLD[:2]))
        life(containerd)
        until(lambda: len(written()) == len(TOLD))
        containerd.restart()
        until(lambda: len(written()) == len(TOLD) + len(TOLD[:2]))
        life(containerd)
        until(lambda: len(written()) == 2 * len(TOLD))
        told = [each["event"] for each in written()]

    under = judge(str(path), profile=f"containerd-{containerd.version}")
    assert 2 * TOLD == told
    assert [] == violations(under)
