"""``docs/reference/power.md`` contains the measured figures."""

from __future__ import annotations

import pytest
from power_page import PAGE, line, page
from thorough import TIMES

SAMPLE = [
    ("cri-calls-2.1.9.jsonl", ""),
    ("containerd-1.7.24.log", ""),
    ("nri-events-2.1.9.jsonl", "cri-calls-with-nri-2.1.9.jsonl"),
    ("concurrent/2.1.9-six-clients-deadlines.nri.jsonl.gz", "concurrent/2.1.9-six-clients-deadlines.calls.jsonl.gz"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "calls"), SAMPLE)
def test_the_page_is_true(name: str, calls: str) -> None:
    """``python tests/support/power_page.py --write`` updates the page."""
    row, measured = line((name, calls, "maybe"))

    assert row in PAGE.read_text(encoding="utf-8").splitlines()
    assert measured.planted


def test_at_night_the_whole_page_is_true() -> None:
    """The whole page is checked only at night, because measuring all of its numbers takes minutes."""
    if TIMES > 1:
        assert page() == PAGE.read_text(encoding="utf-8")
