"""The formats in ``docs/how-to/linearizability.md`` are equivalent, and its tables and code are correct."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from fsm.recordings.histories import Title, read, recognised

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "linearizability.md"
TEXT = PAGE.read_text(encoding="utf-8")
FORMS = re.findall(r"^```(?:edn|json)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[:20])
def test_the_forms_say_the_same(form: str) -> None:
    assert recognised(form.encode())

    ((seen, *_),) = read("page", form.encode()).operations

    assert ("c1", "start", "not-found", 3) == (seen.entity, seen.event, seen.reply, seen.process)


def test_there_are_forms() -> None:
    assert 4 == len(FORMS)


def test_the_header_is_complete() -> None:
    (section,) = re.findall(r"may be a header:\n(.*?)(?=^The other forms)", TEXT, re.MULTILINE | re.DOTALL)

    assert [field.name for field in msgspec.structs.fields(Title)] == re.findall(r"^\| `(\w+)`", section, re.MULTILINE)


def test_the_python_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)

    exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102  (what the page shows)
