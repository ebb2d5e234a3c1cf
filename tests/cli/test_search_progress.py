"""The progress of a search is shown on a terminal at intervals."""

from __future__ import annotations

import io
import sys
import time

import click
import pytest

from fsm.cli import options
from fsm.cli.search_progress import PAUSE, SearchProgress
from fsm.machine.traversal import Explored


class Terminal(io.StringIO):
    """A terminal, as far as a progress bar can tell."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("often", "lines"), [(0.5, 1), (PAUSE / 8, 0)], ids=["now and then", "at once"])
def test_states_rate_and_memory_are_shown(often: float, lines: int) -> None:
    """The rate is that of the current search; updates in quick succession are not shown."""
    seconds = iter(often * each for each in range(9))
    file = Terminal()

    with click.progressbar(length=2, label="checking", file=file) as bar:
        looking = SearchProgress(bar, lambda: "", clock=lambda: next(seconds), memory=lambda: 512 << 20)
        looking(Explored(0, 0, 0))
        answer = looking(Explored(1_000_000, 7, 9))

    rate = f"{round(1_000_000 / often):,}"
    assert not answer
    assert lines == file.getvalue().count(f"checking 1,000,000 states, {rate}/s, 512 MiB")


def test_the_answer_is_whether_it_is_over() -> None:
    """Also if nothing is shown."""
    with click.progressbar(length=2, label="checking", file=io.StringIO()) as bar:
        looking = SearchProgress(bar, lambda: "out of time", clock=lambda: 0.0)

        assert "out of time" == looking(Explored(1, 0, 1))


@pytest.mark.parametrize(
    ("terminal", "shown"), [(False, "testing: 1 of 7 after 0 s\n"), (True, "testing 0 s")], ids=str
)
def test_work_that_takes_long_is_reported_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, shown: str, *, terminal: bool
) -> None:
    """A pipe gets a line, a terminal the time, even while no piece of work ends; without work nothing is shown."""
    monkeypatch.setattr(options, "REPORTING", 0.02)
    for size in (7, 0):
        file = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stderr", file)
        with options.progress("testing", size) as bar:
            if size:
                bar.update(1)
            time.sleep(0.2)

        assert (size > 0) == (shown in file.getvalue())
