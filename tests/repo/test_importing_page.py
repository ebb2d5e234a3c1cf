"""``docs/how-to/importing.md`` agrees with import and export: its example is imported, and its tables are correct."""

from __future__ import annotations

import re
from pathlib import Path

from fsm.interop.formats import FORMS, imported

TEXT = (Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "importing.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_example_is_what_is_imported() -> None:
    (given,) = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    (made,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)

    assert made == imported(given.encode(), path="lamp.yaml")


def test_every_form_is_listed() -> None:
    assert [row[0].strip("`") for row in _rows("What is read")] == list(FORMS)
    assert {row[0].strip("`") for row in _rows("What is written")} == set(FORMS)
