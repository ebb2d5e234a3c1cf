"""``docs/reference/exec-protocol.md`` defines the protocol of a child.

Its example runs, and its tables are correct.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from fsm.conformance.exec import KEPT, LONGEST, adapter

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "exec-protocol.md"
TEXT = PAGE.read_text(encoding="utf-8")


def _cells(heading: str) -> list[str]:
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    rows = [row.split("|")[1].strip().strip("`") for row in section.splitlines() if row.startswith("|")]
    return rows[2:]


def _keys(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind)]


def _script(folder: Path) -> str:
    (text,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    script = folder / "door.sh"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def _said(by: str) -> list[str]:
    return re.findall(rf"^{by} (.*)$", TEXT, re.MULTILINE)


def test_the_implementation_says_what_is_shown(tmp_path: Path) -> None:
    asked = "".join(f"{line}\n" for line in _said(">"))

    done = subprocess.run([_script(tmp_path)], input=asked, capture_output=True, text=True, check=True)

    assert _said("<") == done.stdout.splitlines()


def test_it_is_asked_what_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "asked"
    door = adapter.child(["sh", "-c", f"tee {log} | {_script(tmp_path)}"])
    door.reset()
    seen = [(door.do(event), door.shows()) for event in ("push", "pull")]
    door.close()

    assert [("ok", "OPEN"), ("ok", "SHUT")] == seen
    assert _said(">") == log.read_text().splitlines()


def test_the_keys_are_those_of_the_protocol() -> None:
    assert _keys(adapter.Greeting) == _cells("The greeting")
    assert _keys(adapter.ChildAnswer) == _cells("Answers")
    assert set(get_args(adapter.Ability)) == set(_cells("Abilities"))


@pytest.mark.parametrize("example", _cells("Requests"))
def test_requests_are_written_as_shown(example: str) -> None:
    assert example == msgspec.json.encode(msgspec.json.decode(example, type=adapter.ChildRequest)).decode()


def test_every_request_is_shown() -> None:
    assert set(_keys(adapter.ChildRequest)) == {key for each in _cells("Requests") for key in msgspec.json.decode(each)}


def test_the_limits_are_those_that_are_said() -> None:
    assert (adapter.START, adapter.TIMEOUT, adapter.GRACE) == (30, 5, 2)
    assert (LONGEST, KEPT) == (2**20, 5)
    for each in ("Within 30 seconds", "within 5 seconds", "two seconds later", "a mebibyte", "its last five lines"):
        assert each in " ".join(TEXT.split())
