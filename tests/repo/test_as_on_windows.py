"""Generic commands need no module or function that Python lacks on Windows."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from commands import PLAIN
from guide import PROGRESS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS: Final = [ROOT / "tests" / "support" / "as_on_windows", ROOT / "tests" / "support", ROOT]


def as_on_windows(code: str, folder: Path) -> None:
    environment = PLAIN | {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, check=False, text=True
    )
    assert (ran.returncode, PROGRESS.sub("", ran.stderr)) == (0, ""), ran.stdout + ran.stderr


@pytest.mark.parametrize("line", ["import fcntl", "from resource import getrlimit", "import signal; signal.SIGHUP"])
def test_modules_are_hidden(line: str, tmp_path: Path) -> None:
    as_on_windows(f"exec({line!r}, {{'__name__': 'other'}})", tmp_path)
    with pytest.raises(AssertionError, match=r"ModuleNotFoundError|AttributeError"):
        as_on_windows(f"exec({line!r}, {{'__name__': 'fsm.cli'}})", tmp_path)


def test_nothing_is_hidden_from_other_tests() -> None:
    """The module that hides features is not imported when all doctests are collected."""
    assert builtins.__import__.__module__ != "sitecustomize"


TUTORIAL: Final = """\
from pathlib import Path
from guide import ROOT, follow

follow((page.read_text() for page in sorted((ROOT / "docs" / "tutorial").glob("*.md"))), Path.cwd())
"""

COMMANDS: Final = """\
from commands import fsm

for code, line in [
    (0, "init door"),
    (0, "check properties/door.toml"),
    (0, "test models/door.toml --against model:models/door.toml"),
    (0, "draw models/door.toml -o pictures -f svg -f mermaid -f markdown"),
    (0, "explore models/door.toml -o door.html"),
    (1, "mutate models/door.toml"),
    (0, "list"),
    (0, "help judge"),
    (2, "test models/door.toml --timeout 1 --against python:wrong:Wrong"),
]:
    ran = fsm(*line.split())
    assert ran.returncode == code, (line, ran)
"""


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    as_on_windows(TUTORIAL, tmp_path)


@pytest.mark.slow
def test_other_commands(tmp_path: Path) -> None:
    as_on_windows(COMMANDS, tmp_path)
