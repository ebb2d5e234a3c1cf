"""A command handles signals during imports, repeated signals, and signals after its verdict."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from commands import FSM, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HOOK = """\
import os, sys

MODULE, NUMBERS = {module!r}, {numbers!r}

def hook(event, arguments, own=os.getpid()):
    if event == "import" and os.getpid() == own:
        if MODULE is None:
            print(arguments[0], file=sys.stderr)
        elif arguments[0] == MODULE:
            for number in NUMBERS:
                os.kill(own, number)

sys.addaudithook(hook)
"""
"""A module that Python imports before fsm, which sends signals during an import or lists all imports."""


def run_with_hook(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    environment = PLAIN | {"PYTHONPATH": str(folder)}
    return subprocess.run([FSM, *arguments], capture_output=True, env=environment, check=False)


def signalled(
    folder: Path, module: str | None, numbers: Iterable[int], *arguments: str, code: str = ""
) -> tuple[int, bytes, list[bytes]]:
    """Run a command that receives signals while it imports *module*."""
    code += HOOK.format(module=module, numbers=[int(each) for each in numbers])
    ran = run_with_hook(folder, code, *arguments)
    return ran.returncode, ran.stdout, ran.stderr.split()


def imported(folder: Path) -> list[str]:
    """Return the modules that ``fsm list`` imports after the start of the interpreter, in order."""
    _, _, err = signalled(folder, None, [], "list")
    names = [each.decode() for each in err]
    return [*dict.fromkeys(names[names.index("signal") :])]


ENDED = (130, b"", [b"interrupted"])
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.mark.parametrize(
    ("module", "numbers"),
    [
        ("fsm.interruption", (INT,)),
        ("threading", (TERM,)),
        ("typing", (HUP,)),
        ("fsm.cli", (INT, TERM)),
        ("click", (TERM, INT, HUP)),
        ("pydantic_core", (INT, INT)),
    ],
)
def test_a_signal_during_an_import(module: str, numbers: tuple[int, ...], tmp_path: Path) -> None:
    """Even after several signals, the command prints one line and exits with the code of an interruption."""
    assert ENDED == signalled(tmp_path, module, numbers, "list")


@pytest.mark.parametrize("module", ["signal", "enum"])
def test_ctrl_c_before_signals_are_handled(module: str, tmp_path: Path) -> None:
    """An interrupt prints no traceback, even during the import of the ``signal`` module."""
    assert ENDED == signalled(tmp_path, module, [INT], "list")


@pytest.mark.slow
def test_a_signal_during_any_import(tmp_path: Path) -> None:
    pairs = [(INT,), (INT, TERM), (HUP, INT), (TERM, TERM)]
    modules = imported(tmp_path)
    modules = modules[modules.index("fsm.interruption") :: 3]

    wrong = {
        module: found
        for number, module in enumerate(modules)
        if (found := signalled(tmp_path, module, pairs[number % 4], "list")) != ENDED
    }

    assert len(modules) > 50
    assert not wrong


LATE = """\
import atexit, os, sys

class Late:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, {number})

sys.late = Late()
if {early}:
    atexit.register(os.kill, os.getpid(), {number})
"""
"""A program that sends a signal in an exit handler, and another after Python has reset the handlers."""


@pytest.mark.parametrize(("number", "early"), [(INT, True), (TERM, False)])
def test_a_signal_after_the_verdict(number: int, early: bool, tmp_path: Path) -> None:  # noqa: FBT001
    ran = run_with_hook(tmp_path, LATE.format(number=int(number), early=early), "list")

    assert (0, b"") == (ran.returncode, ran.stderr)
    assert b"cri-pod" in ran.stdout


@pytest.mark.parametrize("number", [INT, TERM])
def test_a_second_signal_while_an_interrupted_command_ends(number: int, tmp_path: Path) -> None:
    code = LATE.format(number=int(number), early=True)
    assert ENDED == signalled(tmp_path, "click", [TERM], "list", code=code)
