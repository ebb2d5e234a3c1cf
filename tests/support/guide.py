"""Follow documentation pages as a reader would: write the files, and type the commands.

A block of code whose first line names a file, as in ````` ```toml models/door.toml`````, is the content of that file.
A block that begins with ````` ```diff models/door.toml````` is a change to the file. A block in the language
``console`` is a session with commands after ``$``, each followed by its output, in which ``...`` matches any text.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commands import fsm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
FSM: Final = str(Path(sys.executable).parent / "fsm")
TERMINAL: Final = {"COLUMNS": "80", "NO_COLOR": "1"}
_BLOCK: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRESS: Final = re.compile(r"^[a-z ]+: [\d,]+ of [\d,]+ after [\d,]+ s\n", re.MULTILINE)
"""A progress line, which is removed from outputs because it depends on the speed of the machine."""

_PROMPT: Final = re.compile(r"^\$ (.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    kind: str
    file: str
    text: str

    @property
    def steps(self) -> list[tuple[str, str]]:
        _, *parts = _PROMPT.split(self.text)
        return list(zip(parts[::2], parts[1::2], strict=True))


def blocks(text: str) -> list[Block]:
    return [Block(kind=kind, file=file, text=body) for kind, file, body in _BLOCK.findall(text)]


def run(command: str, folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a command as in a terminal with 80 columns, and return everything that it prints.

    The command runs in this process unless it needs a shell or environment variables.
    """
    name, *words = shlex.split(command)
    activated = {**TERMINAL, "PATH": f"{Path(FSM).parent}{os.pathsep}{os.environ['PATH']}"}
    if name == "fsm" and not variables and not set(command) & set("|;*<>&"):
        called = fsm(*words, env=activated, cwd=folder)
        return called.stdout + called.stderr
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "FSM_"))}
    done = subprocess.run(
        ["bash", "-c", command],  # noqa: S607  (as users type it)
        cwd=folder,
        env={**environment, **activated, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return PROGRESS.sub("", done.stdout)


def check(session: Block, folder: Path, variables: Mapping[str, str] | None = None) -> None:
    assert session.steps, session.text
    assert session.text.startswith("$ "), session.text
    assert session.steps[-1][1].strip(), "the session shows no output"
    for command, shown in session.steps:
        printed = run(command, folder, variables)
        assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), f"$ {command}\n{printed}"


def follow(texts: Iterable[str], folder: Path, variables: Mapping[str, str] | None = None) -> None:
    for block in (each for text in texts for each in blocks(text)):
        if block.kind == "console":
            check(block, folder, variables)
        elif block.file:
            file = folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_changed(file, block.text) if block.kind == "diff" else block.text, encoding="utf-8")


def _changed(file: Path, change: str) -> str:
    before, after = (
        "".join(line[1:] for line in change.splitlines(keepends=True) if line[0] in signs) for signs in (" -", " +")
    )
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file.name} has {text.count(before)} times\n{before}"
    return text.replace(before, after)
