"""The pages in ``docs/findings`` are the output of ``fsm findings``, and their claims are proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fsm.checker.known_defects import known_defects
from fsm.diagrams.draw import sequence, sequence_svg
from fsm.machine.product.system import System
from fsm.report import findings_report as report

if TYPE_CHECKING:
    from fsm.checker.known_defects import KnownDefect

PAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "findings"


@pytest.fixture(scope="module")
def found() -> list[KnownDefect]:
    return list(known_defects())


@pytest.mark.slow
def test_each_is_proved(found: list[KnownDefect]) -> None:
    assert found
    for each in found:
        assert each.proved, each.stated.name


@pytest.mark.slow
def test_the_pages_are_up_to_date(found: list[KnownDefect]) -> None:
    """``fsm findings -o docs/findings`` updates the pages."""
    expected: dict[str, bytes] = {name: text.encode() for name, text in report.pages(found).items()}
    for each in found:
        if each.run is not None and isinstance(each.of.machine, System):
            expected[report.picture(each)] = sequence_svg.svg(sequence.chart(each.run, each.of.machine, each.stated))

    assert {path.name: path.read_bytes() for path in PAGES.iterdir()} == expected


def test_the_head_says_what_fails_and_the_first_sentence_why() -> None:
    heads = 0
    for path in PAGES.glob("*.md"):
        _, *stories = path.read_text(encoding="utf-8").split("\n## ")
        heads += len(stories)
        for story in stories:
            name, _, why, _, stated, *_ = story.split("\n")
            assert name.endswith(" fails"), path.name
            assert not why.startswith(("**", "Broken property")), name
            assert stated.startswith("Broken property, **"), name

    assert heads
