"""The data in the pages of ``fsm explore`` are correct. These tests need no browser."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commands import FAILING, fsm
from machines import DOOR, job
from real_parts import program

from fsm.language.library import load, load_system, names
from fsm.machine import Machine
from fsm.machine.calls import Rules
from fsm.machine.product import SystemTable
from fsm.machine.table import tabulate
from fsm.monitor.judgement.part import TOLD
from fsm.report.page import STEPS, document
from fsm.report.page.machine_data import machine_data, system_data, walks


class Elements(HTMLParser):
    """A parser that finds elements and the text of scripts as browsers do."""

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
    found: dict[str, Any] = json.loads(next(each for each in Elements(page).scripts if each.startswith("{")))
    return found


HOSTILE = "</script><script>alert(1)</script><!-- <script> ]]> \u2028 \u2029 \u202e \ud800"


def test_no_text_ends_the_data() -> None:
    page = document(HOSTILE, {"text": HOSTILE, HOSTILE: [HOSTILE]})
    plain = document("", {})

    assert Elements(page).tags == Elements(plain).tags
    assert data_of(page) == {"text": HOSTILE, HOSTILE: [HOSTILE]}
    assert Elements(page.replace("\\u003c", "<")).tags != Elements(plain).tags


def test_nothing_is_loaded_from_elsewhere() -> None:
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


@pytest.mark.parametrize("machine", [job(), load("cri-pod")], ids=lambda each: each.name)
def test_each_cell_has_its_clause(machine: Machine) -> None:
    program("dot")
    data: Any = machine_data(machine)
    clauses = {name: each["says"] for name, each in data["clauses"].items()}

    for profile in (None, *machine.profiles):
        for event in machine.under(profile).events.values():
            for cell in (*event.cells.values(), *event.ends.values()):
                assert clauses[cell.clause.name] == cell.clause.says
    shown = {each["clause"] for each in data["profiles"][0]["cells"] if each["clause"]}
    assert shown
    assert shown <= clauses.keys()


@pytest.mark.parametrize("name", names())
def test_every_walk_leads_to_its_state(name: str) -> None:
    rules = Rules(tabulate(load(name)))
    found: Any = walks(rules)

    for state, steps in found.items():
        assert _led(rules, steps) == state
    assert [state for state, steps in found.items() if _led(rules, [*steps, "nonsense/x"])] == []


def _led(rules: Rules, steps: list[str]) -> str:
    """Return the state after *steps*, or an empty string if the table lacks a step."""
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
    program("dot")
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    path = tmp_path / "door.html"

    ran = fsm("explore", "door.toml", "-o", "door.html", cwd=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert data_of(path.read_text(encoding="utf-8"))["machines"][0]["name"] == "door"
    piped = fsm("explore", "door.toml", cwd=tmp_path)
    assert piped.stdout == path.read_text(encoding="utf-8")


def test_without_graphviz_there_is_no_page(tmp_path: Path) -> None:
    ran = fsm("explore", "cri-pod", "-o", str(tmp_path / "pod.html"), env={"PATH": str(tmp_path)})

    assert ran.returncode == 2
    assert "a page needs Graphviz's program 'dot', which is not installed" in ran.stderr
    assert not (tmp_path / "pod.html").exists()


def test_a_profile_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ran = fsm("explore", "cri-pod", "--profile", "containerd-9", "-o", str(tmp_path / "pod.html"))

    assert ran.returncode == 2
    assert "containerd-9" in ran.stderr


def test_a_page_of_a_log_has_what_was_found_and_whose_story(tmp_path: Path) -> None:
    program("dot")
    path = tmp_path / "log.html"
    judged = fsm("judge", "--format", "html", FAILING, "-o", str(path))
    told = json.loads(fsm("judge", "--format", "json", FAILING).stdout)["recordings"][0]
    page = path.read_text(encoding="utf-8")
    (recording,) = data_of(page)["recordings"]

    assert judged.returncode == 1
    assert recording["verdict"] == told["verdict"] == "fails"
    findings = [each["first"] for judgement in recording["judgements"] for each in judgement["findings"]]
    expected = [each["first"][0] for machine in told["machines"] for each in machine["findings"]]
    assert [(each["line"], each["entity"]) for each in findings] == [(e["line"], e["entity"]) for e in expected]
    assert recording["stories"][0]["entity"] == findings[0]["entity"]
    assert sum(story["broken"] for story in recording["stories"]) == 28
    covered = [each["coverage"]["create"]["absent"] for each in recording["judgements"] if "create" in each["coverage"]]
    assert covered == [told["machines"][0]["cells"]["create"]["absent"]]
    assert fsm("explore", FAILING).stdout == page
    piped = fsm("explore", "-", stdin=Path(FAILING).read_bytes())
    assert "standard input" in data_of(piped.stdout)["title"]
    assert [s["all"] for s in data_of(piped.stdout)["recordings"][0]["stories"]] == [
        s["all"] for s in recording["stories"]
    ]


def test_each_step_of_a_story_says_why_its_states_are_possible() -> None:
    program("dot")
    (recording,) = data_of(fsm("explore", FAILING).stdout)["recordings"]
    story = next(each for each in recording["stories"] if each["entity"].startswith("d1d12d2e084c"))
    step = next(each for each in story["steps"] if each.get("broken"))
    printed = " ".join(fsm("judge", "--entity", "d1d12d2e084c", "--why", str(step["line"]), FAILING).stdout.split())

    assert all("why" in each for each in story["steps"])
    assert dict(step["why"])["ruled out"] == ["absent: StopContainer would reply ok [stop-is-idempotent]"]
    assert all(f"{label} {' '.join(texts)}" in printed for label, texts in step["why"])


def counted(recording: dict[str, Any], machine: dict[str, Any], *kinds: str) -> Counter[tuple[str, str]]:
    width, found = len(machine["states"]), Counter[tuple[str, str]]()
    for story in recording["stories"]:
        for step in story["steps"] if story["machine"] == machine["name"] else ():
            for cell, count in (each for kind in kinds for each in step.get(kind, {}).items()):
                row, state = divmod(int(cell), width)
                found[machine["rows"][row]["name"], machine["states"][state]["name"]] += count
    return found


def test_what_the_steps_of_stories_met_is_what_was_covered() -> None:
    program("dot")
    data = data_of(fsm("explore", FAILING).stdout)
    (recording,) = data["recordings"]
    for machine, judgement in zip(data["machines"], recording["judgements"], strict=True):
        covered = {(row, at): n for row, counts in judgement["coverage"].items() for at, n in counts.items() if n}
        assert counted(recording, machine, "met", "meanwhile") == covered
        story = next(each for each in recording["stories"] if each["machine"] == machine["name"])
        del next(each for each in story["steps"] if "met" in each)["met"]
        assert counted(recording, machine, "met", "meanwhile") != covered


def test_what_is_left_out_of_a_story_is_counted(tmp_path: Path) -> None:
    program("dot")
    lines = [json.dumps({"trace": 1, "machine": "container-status", "fresh": True})]
    lines += [_line("c", event="create", reply="ok"), *[_line("c", event="stop", reply="ok")] * 300]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")

    data = data_of(fsm("explore", str(path)).stdout)
    (recording,), (machine,) = data["recordings"], data["machines"]
    assert counted(recording, machine, "met") == {("create", "absent"): 1, ("stop", "created"): STEPS - 1}
    assert counted(recording, machine, "meanwhile") == {("stop", "created"): 301 - STEPS}


def test_a_large_recording_is_bounded_and_says_what_is_left_out(tmp_path: Path) -> None:
    program("dot")
    lines = [json.dumps({"trace": 1, "machine": "cri-container", "fresh": True})]
    for number in range(100):
        lines += [_line(f"c{number}", event="create", reply="ok")]
    lines += [_line("c99", event="status", reply="ok", shows="CONTAINER_CREATED") for _ in range(500)]
    lines += [_line("c99", event="remove", reply="ok"), _line("c99", event="stop", reply="NOT_FOUND")]
    lines += [_line("c99", event="stop", reply="ok") for _ in range(500)]
    path = tmp_path / "large.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")

    (recording,) = data_of(fsm("explore", str(path)).stdout)["recordings"]

    first = recording["stories"][0]
    assert (first["entity"], first["all"], first["broken"]) == ("c99", 1003, 1)
    assert len(first["steps"]) == STEPS
    assert [each["number"] for each in first["steps"] if "broken" in each] == [503]
    assert len(recording["stories"]) == TOLD
    assert recording["left"] == 100 - TOLD


def _line(entity: str, **seen: str) -> str:
    return json.dumps({"entity": entity, "of": "container", **seen})


def test_hostile_text_of_a_recording_is_only_data(tmp_path: Path) -> None:
    program("dot")
    path = tmp_path / "hostile.jsonl"
    text = HOSTILE.replace("\ud800", "")
    head = json.dumps({"trace": 1, "machine": "cri-container", "fresh": True})
    path.write_text(f"{head}\n{_line(text, event='start', reply=text, detail=text)}\n", encoding="utf-8")
    page = fsm("explore", str(path)).stdout

    assert Elements(page).tags == Elements(document("", {})).tags
    assert "\u202e" not in json.dumps(data_of(page)["recordings"], ensure_ascii=False)


def test_what_a_part_does_is_what_its_table_has() -> None:
    system = load_system("cri-service")
    data: Any = system_data(system)
    table = SystemTable(system)

    for row in table.joint:
        shown = data["steps"][""][row.joint.name]
        assert [way["name"] for way in shown["ways"]] == [path.way.name for path in row.paths]
        for way, path in zip(shown["ways"], row.paths, strict=True):
            for move, of in zip(way["moves"], path.moves, strict=True):
                offered = data["options"][move["options"]]
                assert [[each["to"] for each in local] for local in offered] == [
                    [each[0] for each in of.options(state)] for state in range(of.states)
                ]
    assert data["steps"]["mended"]["container-exits"] is None
