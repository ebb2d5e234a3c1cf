"""What README and docs show is what happens."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import fsm

ROOT = Path(__file__).resolve().parent.parent.parent
FSM = str(Path(sys.executable).parent / "fsm")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1"}
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def _blocks(page: Path, kind: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text(encoding="utf-8")) if name == kind]


def _run(command: str) -> str:
    """What *command* prints, errors included, in a terminal of 80 columns; one that needs no shell is called."""
    name, *words = shlex.split(command)
    if name == "fsm" and not set(command) & set("|;*"):
        called = fsm(*words, env=TERMINAL, cwd=ROOT)
        return called.stdout + called.stderr
    done = subprocess.run(
        ["bash", "-c", f'fsm() {{ "{FSM}" "$@"; }}\n{command}'],  # noqa: S607  (as users type it)
        cwd=ROOT,
        env={**os.environ, **TERMINAL},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


SLOW = ("$ fsm test event-backoff --against reference",)
"""First lines of sessions that take seconds."""

SESSIONS = [
    pytest.param(block, marks=pytest.mark.slow) if block.startswith(SLOW) else block
    for page in PAGES
    for block in _blocks(page, "console")
]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda text: text.splitlines()[0])
def test_sessions_are_real(session: str) -> None:
    """A session shown in the docs is what the command prints; ``...`` stands for anything."""
    command, _, shown = session.partition("\n")
    assert command.startswith("$ ")

    printed = _run(command.removeprefix("$ "))

    assert shown.strip(), "the session shows no output"
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed


def test_there_are_sessions() -> None:
    """README shows at least one."""
    assert SESSIONS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link in the docs names a file that is there."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_first_command_judges_three_logs() -> None:
    """README's first command, once set up, prints the three verdicts and fails for the first of them."""
    (first, *_) = _blocks(ROOT / "README.md", "sh")
    judged = first.split("&&")[1].strip().replace(".venv/bin/fsm", "fsm")

    printed = _run(f"{judged}; echo exit $?")

    *verdicts, code = printed.splitlines()[-4:]
    assert (["fails", "holds", "holds"], "exit 1") == ([line.split()[0] for line in verdicts], code)


def test_ci_calls_the_test_command() -> None:
    """What CI runs is what README tells people to run, and more tests with it."""
    (_, test, *_) = _blocks(ROOT / "README.md", "sh")

    assert f'{test.strip()} -m "not live"' in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_scripts_of_the_docs_are_there() -> None:
    """The scripts that README names exist and are executable."""
    for name in re.findall(r"bash (\.ci/\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert os.access(ROOT / name, os.X_OK), name
