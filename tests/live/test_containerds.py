"""The daemons for live tests run until they are closed, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from containerds import Containerd, DaemonError, lacks, processes
from packages_of_debian import VERSIONS

pytestmark = pytest.mark.live

NEWEST = list(VERSIONS)[-1]


def of_the_folder(folder: Path) -> list[str]:
    mounts = [line for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines() if str(folder) in line]
    return mounts + [each.parent.name for each in Path("/proc").glob("[0-9]*/cmdline") if _names(each, f"{folder}/")]


def _names(command: Path, path: str) -> bool:
    try:
        return path in command.read_text(encoding="utf-8")
    except OSError:  # the process has already ended
        return False


def test_a_daemon_is_ended_and_started(containerd: Containerd) -> None:
    seen = [containerd.pid]
    containerd.restart()
    seen.append(containerd.pid)
    containerd.kill()
    seen.append(containerd.pid)
    subprocess.run(["/bin/sh", "-c", containerd.restart_command], check=True)
    containerd.answered()
    seen.append(containerd.pid)

    assert 4 == len(set(seen))
    assert containerd.pid in processes(containerd.reaper)


def test_a_daemon_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    if why := lacks():
        pytest.skip(why)
    daemon = Containerd(version=NEWEST, folder=tmp_path)
    (tmp_path / "containerd.sock").mkdir()

    with pytest.raises(DaemonError, match=r"never answers(?s:.*)containerd\.sock"):
        daemon.open()

    assert 0 == daemon.reaper
    assert [] == of_the_folder(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_daemon_ends_with_who_started_it(number: signal.Signals, tmp_path: Path) -> None:
    if why := lacks():
        pytest.skip(why)
    program = "import time\nfrom pathlib import Path\nfrom containerds import Containerd\n"
    program += f"Containerd(version={NEWEST!r}, folder=Path({str(tmp_path)!r})).open()\nprint('open', flush=True)\n"
    program += "time.sleep(30)"
    command = [sys.executable, "-c", program]
    support = str(Path(__file__).parent.parent / "support")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": support}) as starter:
        assert starter.stdout
        assert b"open\n" == starter.stdout.readline()
        daemon = Containerd(version=NEWEST, folder=tmp_path)
        assert processes(daemon.reaper)
        starter.send_signal(number)
    late = time.monotonic() + 60
    while of_the_folder(tmp_path) and time.monotonic() < late:
        time.sleep(0.02)

    assert [] == of_the_folder(tmp_path)
