"""The example of an asyncio connection: its defects are found, and its page and README show what really happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from commands import fsm as command
from guide import ROOT, blocks, follow

import fsm
from fsm.conformance.plan import steps
from fsm.conformance.suite import replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from fsm.conformance.tested import Tested

CONNECTION: Final = ROOT / "examples" / "connection"
README: Final = (CONNECTION / "README.md").read_text(encoding="utf-8")
MODEL: Final = str(CONNECTION / "models" / "connection.toml")

FOUND: Final = {
    "LateReconnect": ("connect=begins-connecting,opened; lost", "Connection.connect_again has not ended"),
    "CloseWhileConnecting": ("begin connect; close; end connect=opened", ""),
    "StuckAfterCancel": ("connect=begins-connecting,cancelled", ""),
    "GivesUp": ("connect=begins-connecting,opened; lost; time; answer=refused", ""),
    "LeakedHeartbeat": ("connect=begins-connecting,opened", "LeakedHeartbeat.beat has not ended"),
    "DoubleReconnect": ("connect=begins-connecting,opened; lost", "Connection.connect_again has not ended"),
}
"""For each defect, the shortest test that finds it, and a part of the message if the defect shows after the test."""


@pytest.fixture
def defects(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(CONNECTION))
    yield __import__("defects")
    for name in ("connection", "tested", "defects"):  # The tutorial has modules of the same names.
        sys.modules.pop(name, None)


def outcome(defects: ModuleType, name: str, seed: int = 0) -> Tested:
    kind = getattr(defects, name)
    return fsm.conform(fsm.load(MODEL), lambda: defects.Tested(kind), seed=seed)


def test_the_connection_conforms_and_has_its_property(defects: ModuleType) -> None:
    found = outcome(defects, "Connection")

    assert isinstance(found.verdict, fsm.Holds)
    assert len(found.reached) == len(found.reachable)
    assert command("check", str(CONNECTION / "properties" / "connection.toml")).returncode == 0


@pytest.mark.parametrize("name", FOUND)
def test_each_defect_has_its_shortest_test(defects: ModuleType, name: str) -> None:
    test, says = FOUND[name]
    found = outcome(defects, name)

    shown = {"; ".join(map(str, each.steps)): each.broken for each in found.failures}
    assert test in shown
    assert says in shown[test]
    assert f"`{name}`" in README
    assert not replay(fsm.load(MODEL), defects.Tested, steps(test)).failures  # of the right class


def test_all_defects_are_listed(defects: ModuleType) -> None:
    assert [*FOUND] == [each.__name__ for each in defects.DEFECTS]


@pytest.mark.slow
def test_the_tutorial_leads_to_the_example(tmp_path: Path) -> None:
    """The last section then adds a timer, which the example does not have."""
    page = (ROOT / "docs" / "tutorial" / "7-async.md").read_text(encoding="utf-8")
    before, heading, times = page.partition("## Times\n")
    assert heading

    follow([before], tmp_path)

    for name in ("connection.py", "tested.py", "models/connection.toml"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (CONNECTION / name).read_text(encoding="utf-8")

    follow([times], tmp_path)


@pytest.mark.slow
def test_the_comparison_prints_what_the_readme_shows() -> None:
    (shown,) = [block for block in blocks(README) if block.kind == "console"]
    ran = subprocess.run(
        [sys.executable, "compare.py"], cwd=CONNECTION, capture_output=True, text=True, check=True
    ).stdout

    ((typed, printed),) = shown.steps
    assert typed == "python compare.py"
    # Which defects the test by hand finds depends on the version of Hypothesis.
    assert [line.split()[:-1] for line in printed.splitlines()] == [line.split()[:-1] for line in ran.splitlines()]
    assert "no defect                               0        0" in ran
