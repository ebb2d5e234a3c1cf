"""The example of a connection pool: its log is judged, and its planted bugs are found."""

from __future__ import annotations

import importlib
import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from commands import fsm

from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POOL: Final = Path(__file__).resolve().parent.parent.parent / "examples" / "pool"
README: Final = (POOL / "README.md").read_text(encoding="utf-8")
SHORTEST: Final = dict(re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([a-z; ]+) \|$", README, re.MULTILINE))


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    monkeypatch.syspath_prepend(str(POOL))
    monkeypatch.setattr(logging.getLogger("pool"), "disabled", True)
    before = {*sys.modules}
    yield importlib.import_module
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) and str(POOL) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_the_form_has_nine_lines() -> None:
    text = (POOL / "forms" / "pool.toml").read_text(encoding="utf-8")

    assert 9 == len(text.splitlines())
    assert max(map(len, text.splitlines())) <= 120
    page = (POOL.parent.parent / "docs" / "reference" / "log-forms.md").read_text(encoding="utf-8")
    assert f"```toml\n{text}```" in page


def test_the_log_shows_two_bugs() -> None:
    done = fsm("judge", "--form", "pool", "pool.log", cwd=POOL)

    assert 1 == done.returncode
    assert ["149", "172"] == re.findall(r"where +pool\.log:(\d+)", done.stdout)
    assert all(f"line {number}" in README.replace("\n", " ") for number in (149, 172))
    assert {"lines": 219, "lines that the form skips": 1} == judge(
        POOL / "pool.log", form=str(POOL / "forms" / "pool.toml")
    ).notes


def _log(*bugs: str, seed: int = 1) -> str:
    options = [word for bug in bugs for word in ("--bug", bug)]
    command = [sys.executable, str(POOL / "connection_pool.py"), *options, "--seed", str(seed)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_a_run_without_bugs_is_legal_and_others_are_not() -> None:
    legal = fsm("judge", "--form", "pool", "-", cwd=POOL, stdin=_log().encode())
    illegal = fsm("judge", "--form", "pool", "-", cwd=POOL, stdin=_log("close-twice").encode())

    assert (0, 1) == (legal.returncode, illegal.returncode), legal.stdout


def _tested(sut: str, *options: str) -> subprocess.CompletedProcess[str]:
    return fsm("test", "pool.toml", "--against", f"python:tested_connection:{sut}", *options, cwd=POOL)


def test_planned_bugs_are_found_by_the_shortest_tests(scripts: Callable[[str], Any]) -> None:
    assert {"revived", "dirty-return", "close-twice", "tired-check"} == set(SHORTEST)
    assert {*SHORTEST, "double-lending"} == {*scripts("connection_pool").BUGS}
    for bug in ("revived", "dirty-return", "close-twice"):
        done = _tested(bug.replace("-", "_"), "--examples", "0")
        assert (1, True) == (done.returncode, f"--replay '{SHORTEST[bug]}'" in done.stdout), done.stdout


@pytest.mark.slow
def test_the_other_bugs_are_found_and_the_class_without_bugs_holds(scripts: Callable[[str], Any]) -> None:
    tired = _tested("tired_check", "--examples", "500", "--seed", "3")
    double = _tested("double_lending", "--threads", "2")

    assert (1, True) == (tired.returncode, f"--replay '{SHORTEST['tired-check']}'" in tired.stdout), tired.stdout
    assert (1, True) == (double.returncode, "not linearizable: checkout: ok" in double.stdout), double.stdout
    assert 0 == _tested("PooledConnection").returncode
    assert scripts is not None


def test_the_comparison_runs(scripts: Callable[[str], Any]) -> None:
    compare = scripts("compare")
    bugs = {bug: compare.row(bug, range(1, 2), 10)[1:] for bug in ("", "close-twice")}

    assert [cell.startswith("0 of 1") for cell in bugs[""]] == [True, True]
    assert [cell.startswith("1 of 1") for cell in bugs["close-twice"]] == [True, True]


def test_readme_has_the_measured_lines(scripts: Callable[[str], Any]) -> None:
    count = scripts("compare").code_lines
    ours, theirs = re.findall(r"have (\d+) lines with text, the test by hand (\d+)\.", README.replace("\n", " "))[0]

    assert count("pool.toml") + count("tested_connection.py") == int(ours)
    assert count("by_hand.py") == int(theirs)
    assert 9 == len(tomllib.loads((POOL / "forms" / "pool.toml").read_text(encoding="utf-8")))
