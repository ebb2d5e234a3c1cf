"""What pages of ``fsm explore`` have in them, without a browser: the table, walks, and text that cannot be anything else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from machines import DOOR
from real_parts import program

from fsm.library import load, names
from fsm.machine.calls.rules import Rules
from fsm.machine.table import tabulate
from fsm.report.page.document import document
from fsm.report.page.machine_data import machine_data
from fsm.report.page.walk_data import walks

if TYPE_CHECKING:
    from pathlib import Path


class Elements(HTMLParser):
    """The elements of a page, and the text in its scripts, as any browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


def data_of(page: str) -> dict[str, Any]:
    """The data in *page*."""
    found: dict[str, Any] = json.loads(next(each for each in Elements(page).scripts if each.startswith("{")))
    return found


HOSTILE = "</script><script>alert(1)</script><!-- <script> ]]> \u2028 \u2029 \u202e \ud800"


def test_no_text_ends_the_data() -> None:
    """Of whatever is in it; a page without the escapes has more elements."""
    page = document(HOSTILE, {"text": HOSTILE, HOSTILE: [HOSTILE]})
    plain = document("", {})

    assert Elements(page).tags == Elements(plain).tags
    assert data_of(page) == {"text": HOSTILE, HOSTILE: [HOSTILE]}
    assert Elements(page.replace("\\u003c", "<")).tags != Elements(plain).tags


def test_nothing_is_loaded_from_elsewhere() -> None:
    """There is a policy that forbids it, and no address in the page but those of links and of XML."""
    page = document("title", {})
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)

    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"(?:src|href)=|url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", page)


@pytest.mark.parametrize("name", ["container-status", "cri-pod", "plugin-container"])
def test_the_cells_of_each_profile_are_those_of_its_table(name: str) -> None:
    program("dot")
    machine = load(name)
    data: Any = machine_data(machine)
    width = len(machine.states)

    for profile in data["profiles"]:
        table = tabulate(machine.under(profile["name"] or None))
        cells = data["profiles"][0]["cells"]
        cells = [profile.get("others", {}).get(str(number), cell) for number, cell in enumerate(cells)]
        for row in table.rows:
            for state in range(width):
                ways = table.step(state, row.index) or ()
                shown = cells[row.index * width + state]["ways"]
                if ways:
                    assert [(way.to, list(way.reply)) for way in ways] == [(e["to"], e.get("reply", [])) for e in shown]
                    assert len({each["key"] for each in shown}) == len(shown)
                else:
                    assert all(each["key"].startswith("unspecified") for each in shown)


@pytest.mark.parametrize("name", names())
def test_every_walk_leads_to_its_state(name: str) -> None:
    """A walk to another state does not."""
    rules = Rules(tabulate(load(name)))
    found: Any = walks(rules)

    for state, steps in found.items():
        assert _led(rules, steps) == state
    assert [state for state, steps in found.items() if _led(rules, [*steps, "nonsense/x"])] == []


def _led(rules: Rules, steps: list[str]) -> str:
    """The state that *steps* lead to by the table alone; empty if one of them is not in it."""
    table = rules.table
    at = table.initial
    for step in steps:
        row, _, key = step.partition("/")
        name, _, number = key.partition(".")
        index = next((each.index for each in table.rows if each.name == row), -1)
        ways = [way for way in (table.step(at, index) or () if index >= 0 else ()) if way.name == name]
        if not ways:
            return ""
        at = ways[int(number or 1) - 1].to
    return table.states[at]


def test_a_page_of_a_model_file_is_written(tmp_path: Path) -> None:
    """Of a model without properties too; it is whole or not there."""
    program("dot")
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    path = tmp_path / "door.html"

    ran = fsm("explore", "door.toml", "-o", "door.html", cwd=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert data_of(path.read_text(encoding="utf-8"))["machines"][0]["name"] == "door"
    piped = fsm("explore", "door.toml", cwd=tmp_path)
    assert piped.stdout == path.read_text(encoding="utf-8")


def test_without_graphviz_there_is_no_page(tmp_path: Path) -> None:
    """It is refused as ``fsm draw`` refuses it."""
    ran = fsm("explore", "cri-pod", "-o", str(tmp_path / "pod.html"), env={"PATH": str(tmp_path)})

    assert ran.returncode == 2
    assert "Graphviz's program 'dot' is not there, so there is no page" in ran.stderr
    assert not (tmp_path / "pod.html").exists()


def test_a_profile_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ran = fsm("explore", "cri-pod", "--profile", "containerd-9", "-o", str(tmp_path / "pod.html"))

    assert ran.returncode == 2
    assert "containerd-9" in ran.stderr
