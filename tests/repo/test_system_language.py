"""``docs/reference/system-language.md`` defines the language: its example is built, and its tables are correct."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fsm.language.build import build
from fsm.language.build.system_grammar import PART_WORDS
from fsm.language.build.systems import build_system
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.vocabularies import WrittenSystem, schema
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable

if TYPE_CHECKING:
    from fsm.machine import Machine

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
TEXT = (DOCS / "system-language.md").read_text(encoding="utf-8")
TABLES = {
    "the file": None,
    "[system]": "SystemHeader",
    "[part.NAME]": "WrittenPart",
    "[event.NAME]": "WrittenJoint",
    "a way": "WrittenWay",
    "a step": "WrittenStep",
    "[clause.NAME]": "WrittenClause",
    "[profile.NAME]": "WrittenVariant",
    "[profile.NAME.event.NAME]": "WrittenChange",
}
DESK = """
[machine]
name = "desk"
title = "A desk"
about = "Open or not."
source = "nobody"
initial = "open"
[states]
open = { about = "Open." }
shut = { about = "Shut." }
[event.close]
kind = "call"
about = "Close it."
moves = { open = "shut" }
ignores = ["shut"]
"""


def _rows(heading: str) -> list[list[str]]:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _example(text: str) -> bytes:
    example, *_ = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(example).encode()


def test_the_example_is_a_system() -> None:
    job = _example((DOCS / "model-language.md").read_text(encoding="utf-8"))

    def find(name: str) -> Machine:
        return build(parse({"job": job, "desk": DESK.encode()}[name], Written, path=name))

    system = build_system(parse(_example(TEXT), WrittenSystem, path="office.toml"), find)

    for each in (system, *map(system.under, system.profiles)):
        graph = explore(SystemTable(each))
        met = {graph.table.rows[step.row].name for step in graph.transitions}
        assert met == set(each.events)


def test_every_condition_is_described() -> None:
    section = TEXT.split("\n## Conditions\n")[1].split("\n## ")[0]
    for word in (*PART_WORDS, "nothing"):
        assert re.search(rf"`[^`]*\b{word}\b[^`]*`", section), word


@pytest.mark.parametrize("table", TABLES)
def test_the_words_are_those_of_the_schema(table: str) -> None:
    name = TABLES[table]
    root = schema(WrittenSystem)
    definition: dict[str, Any] = root["$defs"][name] if name else root
    found: dict[str, dict[str, bool]] = {}
    where = ""
    for place, words, _ in _rows("Words"):
        where = place.replace("`", "") or where
        found.setdefault(where, {}).update(
            {word: bool(bold) for bold, word in re.findall(r"(\*\*)?`([A-Za-z-]+)`", words)}
        )

    assert set(found) == set(TABLES)
    assert {word: word in definition.get("required", []) for word in definition["properties"]} == found[table]
