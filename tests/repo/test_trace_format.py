"""``docs/reference/trace-format.md`` defines traces: its example is judged, and its tables are correct."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from fsm.monitor.judgement import judge
from fsm.recordings.json_lines import TraceHeader
from fsm.trace import Observation, Phase
from fsm.verdict import Holds

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "trace-format.md"
TEXT = PAGE.read_text(encoding="utf-8")


def _rows(heading: str) -> list[str]:
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return [row.split("|")[1].strip() for row in section.splitlines() if row.startswith("|") and "---" not in row]


def _words(rows: list[str]) -> list[str]:
    return [word for row in rows for word in re.findall(r"`(\w+)`", row)]


def test_the_example_is_legal(tmp_path: Path) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    trace = tmp_path / "example.jsonl"
    trace.write_text(example, encoding="utf-8")

    judged = judge(str(trace))

    (judgement,) = judged.judgements
    assert Holds() == judgement.verdict
    assert {"lines": len(example.splitlines())} == judged.notes


def test_the_keys_are_those_of_an_observation() -> None:
    keys = {field.name for field in msgspec.structs.fields(Observation)}
    phases = set(get_args(Phase)) - {""}

    assert keys | phases | {"phase"} == set(_words(_rows("An observation")))


def test_the_header_is_complete() -> None:
    assert [field.name for field in msgspec.structs.fields(TraceHeader)] == _words(_rows("The header"))
