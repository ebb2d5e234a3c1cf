"""Scratch folders of killed processes are deleted, but not the folders of running processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fsm import scratch
from fsm.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDING = """\
import sys
from fsm.scratch import ScratchFolder
folder = ScratchFolder()
open(folder.name + "/state", "x").close()
print(folder.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch.sweep.cache_clear()
    yield tmp_path
    scratch.sweep.cache_clear()


def aged(folder: Path) -> Path:
    then = folder.stat().st_mtime - 3_600
    os.utime(folder, (then, then))
    return folder


def held(place: Path) -> tuple[subprocess.Popen[str], Path]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdin=pipe, stdout=pipe, env=os.environ | {"TMPDIR": str(place)}, text=True
    )
    assert process.stdout is not None
    return process, aged(Path(process.stdout.readline().strip()))


@pytest.mark.parametrize("how", [signal.SIGKILL, None])
def test_what_a_killed_process_left_is_deleted(how: int | None, place: Path) -> None:
    process, folder = held(place)
    if how:
        process.send_signal(how)
        process.wait()

    with ScratchFolder():
        assert (how is None) == folder.exists()

    process.communicate()
    assert [] == list(place.iterdir())


def test_what_is_not_ours_stays(place: Path) -> None:
    for name in ("fsm-12345678", "container-fsm-checkout", "container-fsm-scratch-1234567"):
        aged_one = place / name
        aged_one.mkdir()
        aged(aged_one)
    (place / "container-fsm-scratch-abcdefg1").mkdir()
    (place / "container-fsm-scratch-abcdefg2").symlink_to("fsm-12345678")
    before = {*place.iterdir()}

    ScratchFolder().cleanup()

    assert before == {*place.iterdir()}


def test_it_is_closed_once_and_leaves_no_file_open() -> None:
    opened = len([*Path("/proc/self/fd").iterdir()])
    folder = ScratchFolder()
    (Path(folder.name) / "full").touch()

    folder.cleanup()
    folder.cleanup()

    assert opened == len([*Path("/proc/self/fd").iterdir()])
    assert not Path(folder.name).exists()
