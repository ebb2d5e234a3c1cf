"""If the disk is full, a command says so, exits with 74, and leaves no partial file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from commands import FAILING, FSM, PLAIN

ROOM = 4_096
"""The maximum size of a file in bytes.

As on a full disk, the system writes up to this limit and refuses the rest.
"""


def limited(folder: Path, *arguments: str, room: int = ROOM, unbuffered: str = "") -> tuple[int, str, int]:
    """Run the command with its output in a file of limited size.

    Return the exit code, the messages, and the number of bytes written.
    """
    with (folder / "stdout").open("wb") as out:
        ran = subprocess.run(
            ["prlimit", f"--fsize={room}:{room}", FSM, *arguments],  # noqa: S607
            cwd=folder,
            # Python would not notice that a cached module is truncated, and later processes could not load it.
            env=PLAIN | {"PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    found = ran.returncode, ran.stderr.decode(), (folder / "stdout").stat().st_size
    (folder / "stdout").unlink()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    ["check cri-pod --format json", "show container-status", "draw cri-pod -f dot", "export container-status -t scxml",
     "simulate cri-pod --length 500", "schema", f"judge {FAILING} --format json"],
)  # fmt: skip
def test_output_that_was_cut_is_no_success(command: str, unbuffered: str, tmp_path: Path) -> None:
    """Without a buffer, Python silently drops the rest of a partial write."""
    code, said, size = limited(tmp_path, *command.split(), unbuffered=unbuffered)

    assert (74, ROOM) == (code, size), said
    assert "could not write: file too large" == said.splitlines()[-1]


def test_what_is_unbuffered_is_written_whole(tmp_path: Path) -> None:
    code, said, size = limited(tmp_path, "show", "cri-pod", room=1 << 20, unbuffered="1")

    assert (0, "") == (code, said)
    assert size > ROOM


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["draw cri-pod -f dot -f svg -o made/pictures", "findings late-updates -o made", "init made",
     f"draw --sequence {FAILING} -f svg -o made/chart.svg", "export cri-pod -t scxml -o made.xml",
     f"convert {FAILING} -o made.parquet", "explore cri-pod -o made.html"],
)  # fmt: skip
def test_files_are_there_whole_or_not_at_all(command: str, tmp_path: Path) -> None:
    """A command that fails leaves no incomplete files, and removes the folders that it has created for them."""
    code, said, _ = limited(tmp_path, *command.split(), room=ROOM // 8)

    assert 74 == code, said
    assert "file too large" in said
    assert [] == [*tmp_path.iterdir()]


def test_folders_that_were_there_stay(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "old.txt").write_text("old", encoding="utf-8")
    code, said, _ = limited(tmp_path, "draw", "cri-pod", "-f", "mermaid", "-f", "dot", "-o", "made/", room=ROOM)

    assert 74 == code, said
    assert ["old.txt"] == [each.name for each in (tmp_path / "made").iterdir()]
