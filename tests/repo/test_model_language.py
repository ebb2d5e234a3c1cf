"""``docs/reference/model-language.md`` defines the language: its example is built, and its tables are correct."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fsm.language.build import build
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.vocabularies import schema
from fsm.machine.table import tabulate

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "model-language.md"
TEXT = PAGE.read_text(encoding="utf-8")

# Maps the name of each TOML table on the page to the name of the schema definition that defines its words.
TABLES = {
    "the file": None,
    "[machine]": "Header",
    "[states]": "WrittenState",
    "[event.NAME]": "WrittenEvent",
    "[data]": "WrittenVariable",
    "[timer.NAME]": "WrittenTimer",
    "an argument": "WrittenDomain",
    "an outcome": "WrittenOutcome",
    "[event.NAME.clauses.NAME]": "WrittenRest",
    "[clause.NAME]": "WrittenClause",
    "[fields]": "WrittenFields",
    "[requires.NAME]": "WrittenRequirement",
    "[profile.NAME]": "WrittenProfile",
    "[profile.NAME.cell.NAME]": "WrittenOverride",
    "[profile.NAME.exempt.NAME]": "WrittenExemption",
    "[drawing]": "WrittenDrawing",
    "[drawing.omits.NAME]": "WrittenOmission",
}


def _rows(heading: str) -> list[list[str]]:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _words() -> dict[str, dict[str, bool]]:
    found: dict[str, dict[str, bool]] = {}
    where = ""
    for place, words, _ in _rows("Words"):
        where = place.strip("`") or where
        for bold, word in re.findall(r"(\*\*)?`([\w-]+)`", words):
            assert word not in found.setdefault(where, {}), f"{word} stands twice in {where}"
            found[where][word] = bool(bold)
    return found


def _example() -> str:
    parts: list[str] = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return "\n".join(parts)


def test_the_example_is_a_machine() -> None:
    machine = build(parse(_example().encode(), Written, path=str(PAGE)))

    assert machine.profiles
    for profile in machine.profiles:
        assert tabulate(machine).states == tabulate(machine.under(profile)).states


def test_the_example_shows_every_group_of_cells() -> None:
    for word in (
        "moves",
        "ignores",
        "refuses",
        "cannot",
        "silent",
        "begins",
        "ends",
        "shows",
        "profile",
        "clauses",
        "like",
        "define",
        "fields",
        "requires",
    ):
        assert re.search(rf"\b{word}\b", _example()), word


def test_every_table_is_described() -> None:
    assert set(TABLES) == set(_words())
    assert set(schema()["$defs"]) == {name for name in TABLES.values() if name}


@pytest.mark.parametrize("table", TABLES)
def test_the_words_are_those_of_the_schema(table: str) -> None:
    name = TABLES[table]
    definition: dict[str, Any] = schema()["$defs"][name] if name else schema()
    required = definition.get("required", [])

    assert {word: word in required for word in definition["properties"]} == _words()[table]


def test_the_page_is_short() -> None:
    """The page is short, because authors of models have to read all of it."""
    assert len(TEXT.splitlines()) <= 310
