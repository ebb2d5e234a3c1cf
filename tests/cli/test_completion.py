"""The command prints completion candidates for each shell.

One test runs a real bash.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import FSM, PLAIN, fsm
from machines import DOOR

from fsm.cli import commands
from fsm.language.codes import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

DOOR_STATES = ["shut", "open", "ajar", "gone"]

RELEASES = [f"containerd-{release}" for release in ("1.6", "1.7", "2.0", "2.1", "2.2", "2.3", "main")]

OFFERED = [
    ("fsm ", list(commands())),
    ("fsm s", ["show", "simulate", "schema", "serve"]),
    ("fsm help s", ["show", "simulate", "schema", "serve"]),
    ("fsm judge --profile cont", RELEASES),
    ("fsm serve --profile containerd-2.1", ["containerd-2.1"]),
    ("fsm proxy --judge --profile cont", RELEASES),
    ("fsm judge --model cri-", ["cri-container", "cri-pod", "cri-service"]),
    ("fsm judge --property stop-is-id", ["stop-is-idempotent"]),
    ("fsm judge --format s", ["sarif", "summary"]),
    ("fsm judge --fail", ["--fail-on"]),
    ("fsm simulate cri-", ["cri-container", "cri-pod", "cri-service"]),
    ("fsm simulate cri-pod --profile containerd-2.1", ["containerd-2.1"]),
    ("fsm show container-s", ["container-status"]),
    ("fsm show container-status --profile ", [*RELEASES, "mended"]),
    ("fsm show container-status --event st", ["start", "stop", "status", "stats"]),
    ("fsm show --event st", []),
    ("fsm show no-such-model --event st", []),
    ("fsm show door.toml --state ", DOOR_STATES),
    ("fsm show broken.toml --state ", []),
    ("fsm show node --event stop-", ["stop-pod", "stop-container"]),
    ("fsm show node --state run", []),
    ("fsm show node --profile ", ["mended"]),
    ("fsm draw container-status -f dot --event star", ["start"]),
    ("fsm check cri-pod -P only-rem", ["only-removal-removes"]),
    ("fsm check door.toml -P ", []),
    ("fsm test cri-pod --against ", ["reference", "python:", "exec:", "cri:", "nri-plugin:", "model:"]),
    ("fsm test cri-pod --against re", ["reference"]),
    ("fsm explain FSM70", [code for code in RULES if code.startswith("FSM70")]),
    ("fsm explain fsm20", [code for code in RULES if code.startswith("FSM20")]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "door.toml").write_text(DOOR, encoding="utf-8")
    (folder / "broken.toml").write_text("[machine]", encoding="utf-8")
    (folder / "recording.log").touch()
    return folder


def asked(where: str, line: str, folder: Path) -> list[str]:
    words = line.split(" ")
    current = words[-1] if where == "fish" else str(len(words) - 1)
    env = {"_FSM_COMPLETE": f"{where}_complete", "COMP_WORDS": line, "COMP_CWORD": current}
    ran = fsm(env=env, cwd=folder)

    assert "" == ran.stderr
    return [each for each in ran.stdout.splitlines() if each]


@pytest.mark.parametrize(("line", "offered"), OFFERED)
@pytest.mark.parametrize("where", ["bash", "zsh", "fish"])
def test_names_are_offered(where: str, line: str, offered: list[str], folder: Path) -> None:
    lines = asked(where, line, folder)

    found = {"bash": [each.removeprefix("plain,") for each in lines], "zsh": lines[1::3], "fish": _fish(lines)}[where]
    assert offered == found


def _fish(lines: list[str]) -> list[str]:
    """Return the candidates for fish.

    A candidate takes three lines, or a single line in older releases of click.
    """
    if lines and lines[0] == "plain":
        return lines[1::3]
    return [each.removeprefix("plain,").partition("\t")[0] for each in lines]


@pytest.mark.parametrize(
    "line", ["fsm show doo", "fsm judge rec", "fsm check doo", "fsm judge --with rec", "fsm import rec", "fsm diff doo"]
)
def test_files_are_left_to_the_shell(line: str, folder: Path) -> None:
    """If no model name begins with the word and a file is allowed, the shell completes the word."""
    assert [f"file,{line.rpartition(' ')[2]}"] == asked("bash", line, folder)


@pytest.mark.parametrize("where", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(where: str) -> None:
    assert f"_FSM_COMPLETE={where}_complete" in fsm(env={"_FSM_COMPLETE": f"{where}_source"}).stdout


class Bash:
    """Bash in a terminal, with completion loaded as described in the guide."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        path = f"{Path(FSM).parent}{os.pathsep}{os.environ['PATH']}"
        environment = PLAIN | {"PATH": path, "PS1": "$ ", "TERM": "dumb", "HOME": str(folder), "INPUTRC": os.devnull}
        self._process = subprocess.Popen(
            ["/bin/bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
        )
        os.close(theirs)
        guide = (Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "install.md").read_text(
            encoding="utf-8"
        )
        (load,) = re.findall(r'^(eval "\$\(_FSM_COMPLETE=bash_source fsm\)")$', guide, re.MULTILINE)
        self.type(f"stty cols 300; {load}; echo rea''dy\n", until="ready")

    def type(self, keys: str, *, until: str, patience: float = 30) -> str:
        """Type *keys*, and return the output once it contains *until*, or after *patience* seconds."""
        os.write(self._ours, keys.encode())
        shown, end = "", time.monotonic() + patience
        os.set_blocking(self._ours, False)
        while until not in shown and time.monotonic() < end:
            try:
                shown += os.read(self._ours, 65_536).decode()
            except BlockingIOError:
                time.sleep(0.01)
        return shown

    def close(self) -> None:
        os.close(self._ours)
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def bash(folder: Path) -> Iterator[Bash]:
    bash = Bash(folder)
    yield bash
    bash.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("fsm expla", "fsm explain "),
        ("fsm show container-status --event remo", "fsm show container-status --event remove "),
        ("fsm show door.toml --state op", "fsm show door.toml --state open "),
        ("fsm check cri-pod --property only-rem", "fsm check cri-pod --property only-removal-removes "),
        ("fsm test cri-pod --against ref", "fsm test cri-pod --against reference "),
        ("fsm judge recor", "fsm judge recording.log "),
        ("fsm show doo", "fsm show door.toml "),
    ],
)
def test_in_bash_itself(bash: Bash, line: str, completed: str) -> None:
    shown = bash.type(f"{line}\t", until=completed)
    bash.type("\x15", until="")  # delete the line

    assert completed in shown
