"""``docs/reference/property-language.md`` defines the language: its example is proved, and its tables are correct."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fsm.checker import examine
from fsm.language.build import build
from fsm.language.build.grammar import WORDS
from fsm.language.build.specification import KINDS, specify
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.language.vocabularies import Stated, schema
from fsm.machine.evidence import Proved

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.claims import Specification

DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
TEXT = (DOCS / "property-language.md").read_text(encoding="utf-8")
TABLES = {
    "the file": None,
    "expect, [under]": "WrittenCounts",
    "[property.NAME]": "WrittenProperty",
    "a failure": "WrittenFailure",
}


def _rows(heading: str) -> list[list[str]]:
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _example(text: str) -> bytes:
    example, *_ = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(example).encode()


def _specification() -> Specification[Machine]:
    model = build(parse(_example((DOCS / "model-language.md").read_text(encoding="utf-8")), Written, path="job.toml"))
    assert model.name == "job"

    def find(_: str) -> Machine:
        return model

    return specify(parse(_example(TEXT), Stated, path="properties/job.toml"), find)


@pytest.mark.parametrize("profile", [None, "jobs-2"])
def test_the_example_is_proved(profile: str | None) -> None:
    examined = examine(_specification(), profile)

    assert not examined.resized
    assert examined.expected
    for each in examined.checked:
        assert not each.unexpected, each
        assert each.expected or isinstance(each.verdict, Proved), each
    assert [each.of.name for each in examined.checked if each.expected] == (["forget-is-idempotent"] if profile else [])


def test_every_claim_is_described() -> None:
    assert {claim.strip("`"): set(re.findall(r"`([A-Za-z-]+)`", words)) for claim, _, words in _rows("Claims")} == {
        kind: set(words) for kind, words in KINDS.items()
    }


def test_every_condition_is_described() -> None:
    section = TEXT.split("\n## Instants and conditions\n")[1].split("\n## ")[0]
    for word in (*WORDS, "nothing"):
        assert re.search(rf"`[^`]*\b{word}\b[^`]*`", section), word


@pytest.mark.parametrize("table", TABLES)
def test_the_words_are_those_of_the_schema(table: str) -> None:
    name = TABLES[table]
    definition: dict[str, Any] = schema(Stated)["$defs"][name] if name else schema(Stated)
    found: dict[str, dict[str, bool]] = {}
    where = ""
    for place, words, _ in _rows("Words"):
        where = place.replace("`", "") or where
        found.setdefault(where, {}).update(
            {word: bool(bold) for bold, word in re.findall(r"(\*\*)?`([A-Za-z-]+)`", words)}
        )

    assert set(found) == set(TABLES)
    assert {word: word in definition.get("required", []) for word in definition["properties"]} == found[table]


def test_the_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 190
