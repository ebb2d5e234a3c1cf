"""An output file is complete or absent, has the usual permissions, and is the only new file in its folder.

Writing through a symbolic link keeps the link.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import leftovers
import pytest
from commands import RECORDINGS, fsm
from real_parts import program

from fsm.cli.output import write


@pytest.fixture(params=[True, False], ids=["nameless", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on a file system that does or does not support unnamed files (``O_TMPFILE``)."""
    if not request.param:
        real = os.open

        def refused(path: str | Path, flags: int, *others: int) -> int:
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(95, "operation not supported")
            return real(path, flags, *others)

        monkeypatch.setattr(os, "open", refused)
    return tmp_path


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_rights_that_the_umask_leaves(folder: Path, umask: int, expected: int) -> None:
    before, rights = os.umask(umask), mode(folder)
    try:
        write(folder / "a.svg", "<svg/>")
    finally:
        os.umask(before)

    assert (expected, "<svg/>") == (mode(folder / "a.svg"), (folder / "a.svg").read_text(encoding="utf-8"))
    assert rights == mode(folder)
    assert ["a.svg"] == names(folder)


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o755, 0o666])
def test_a_file_that_is_there_keeps_its_rights(folder: Path, rights: int) -> None:
    path = folder / "a.svg"
    path.write_text("old", encoding="utf-8")
    path.chmod(rights)
    write(path, "new")

    assert (rights, "new") == (mode(path), path.read_text(encoding="utf-8"))
    assert ["a.svg"] == names(folder)


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_is_followed_and_stays(folder: Path, *, there: bool) -> None:
    (folder / "elsewhere").mkdir()
    target = folder / "elsewhere" / "b.svg"
    if there:
        target.write_text("old", encoding="utf-8")
    (folder / "a.svg").symlink_to("elsewhere/b.svg")
    write(folder / "a.svg", "new")

    assert ("elsewhere/b.svg", "new") == (str((folder / "a.svg").readlink()), target.read_text(encoding="utf-8"))
    assert (["b.svg"], False) == (names(target.parent), target.is_symlink())


def test_a_pipe_is_written_to_and_stays_one(folder: Path) -> None:
    pipe, read = folder / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe, "new")
    reader.join()

    assert ([b"new"], True) == (read, pipe.is_fifo())


@pytest.mark.parametrize("where", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name_is_written_to(where: str) -> None:
    code = f"from pathlib import Path; from fsm.cli.output import write; write(Path({where!r}), 'new')"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert b"new" == result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("draw", "container-status", "--format", "dot"),
        ("explore", "container-status"),
        ("judge", str(RECORDINGS / "containerd-2.1.9.log"), "--format", "json"),
    ],
    ids=lambda command: command[0],
)
def test_a_dash_is_standard_output(command: tuple[str, ...], tmp_path: Path) -> None:
    """The option ``-o -`` prints what the command prints without it, and creates no file of that name."""
    expected, found = fsm(*command, cwd=tmp_path), fsm(*command, "-o", "-", cwd=tmp_path)

    assert found.stdout == expected.stdout != ""
    assert not [*tmp_path.iterdir()]


def test_a_write_that_fails_leaves_the_old_file_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.svg").write_text("old", encoding="utf-8")

    def refused(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="no space left"):
        write(folder / "a.svg", "new")

    assert (["a.svg"], "old") == (names(folder), (folder / "a.svg").read_text(encoding="utf-8"))


def test_without_proc_a_file_is_written_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If /proc is missing, as in a chroot, the command uses a named temporary file."""
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: not str(path).startswith("/proc/") and exists(path))
    write(tmp_path / "a.svg", "new")

    assert ["a.svg"] == names(tmp_path)


def killed(*arguments: str) -> tuple[list[str], list[str]]:
    """Return the system calls of a write, and the calls at which killing the process leaves a second file behind."""
    program("strace")
    command = [sys.executable, leftovers.__file__, *arguments]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 0 == result.returncode, result.stderr
    calls, left = result.stdout.splitlines()
    return calls.split(), left.split()


@pytest.mark.parametrize("file", ["new", "old"])
def test_a_kill_leaves_nothing_beside_the_file(file: str) -> None:
    calls, left = killed(file)

    assert len(calls) > 10
    assert ["rename"] == left


def test_a_file_that_has_a_name_is_left_by_a_kill() -> None:
    """A kill leaves a named temporary file behind, which shows that the previous test can fail."""
    assert len(killed("old", "named")[1]) > 3
