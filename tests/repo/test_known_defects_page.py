"""The properties and tests that ``docs/reference/known-defects.md`` names exist, and fail or hold as stated there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsm.language.library import claims

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "known-defects.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| what is wrong |", "| conjecture |"))
]
STATED = re.compile(r"`([a-z-]+): ([a-z-]+)`")
TESTED = re.compile(r"`(tests/[a-z_/]+\.py)(?:::(test_[a-z_]+))?`")


def test_every_entry_is_complete() -> None:
    assert len(ROWS) > 80
    assert all(len(row) == 2 and all(row) for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("model", "name", "holds"),
    sorted({(*found, "proved" in row[1] or "struck" in row[1]) for row in ROWS for found in STATED.findall(row[1])}),
)
def test_the_properties_fail_or_hold(model: str, name: str, *, holds: bool) -> None:
    stated = next(each for each in claims(model).properties if each.name == name)

    assert holds or stated.fails


@pytest.mark.parametrize(("file", "name"), sorted({found for row in ROWS for found in TESTED.findall(row[1])}))
def test_the_tests_exist(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") or not name
