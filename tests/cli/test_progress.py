"""A terminal shows the progress of a search at intervals."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace

import pytest

from fsm.cli import output
from fsm.cli.check_command import search_ending
from fsm.cli.output import PAUSE, CommandProgress
from fsm.interruption import OUT_OF_TIME
from fsm.machine.traversal import Explored


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("often", "lines"), [(0.5, 1), (PAUSE / 8, 0)], ids=["now and then", "at once"])
def test_states_rate_and_memory_are_shown(often: float, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(often * each for each in range(9))
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)

    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(output, "resident", lambda: 512 << 20)

    shown = CommandProgress("checking", 2)
    with shown.bar:
        shown.searched(Explored(0, 0, 0))
        shown.searched(Explored(1_000_000, 7, 9))

    rate = f"{round(1_000_000 / often):,}"
    assert lines == file.getvalue().count(f"checking 1,000,000 states, {rate}/s, 512 MiB")


def test_a_search_that_must_stop_learns_why() -> None:
    assert "out of time" == search_ending(CommandProgress("checking", 0), lambda: OUT_OF_TIME)(Explored(1, 0, 1))


@pytest.mark.parametrize(
    ("terminal", "shown"), [(False, "testing: 1 of 7 after 0 s\n"), (True, "testing 0 s")], ids=str
)
def test_work_that_takes_long_is_reported_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, shown: str, *, terminal: bool
) -> None:
    monkeypatch.setattr(output, "REPORTING", 0.02)
    for size in (7, 0):
        file = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stderr", file)
        with output.progress("testing", size) as bar:
            if size:
                bar.advance()
            time.sleep(0.2)

        assert (size > 0) == (shown in file.getvalue())
