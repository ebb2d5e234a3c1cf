"""Tests for the command ``fsm cover``."""

from __future__ import annotations

import gzip
import html
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from commands import RECORDINGS, Terminal, fsm

from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps
from fsm.language.library import load
from fsm.machine import Machine
from fsm.monitor.judgement import judge

CALLS = [str(RECORDINGS / f"cri-calls-{version}.jsonl") for version in ("1.6.20", "1.7.24", "2.1.9")]
LOG = str(RECORDINGS / "containerd-2.1.9.log")
MACHINES = ("cri-container", "cri-pod", "container-status", "pod-sandbox")
HOSTILE: Final = "a <b>&amp; \"'|`*[x](http://example.org).jsonl"


def covered(*arguments: str) -> dict[str, Any]:
    ran = fsm("cover", "--format", "json", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def cells(document: dict[str, Any], standing: str, machine: str = "") -> set[tuple[str, str, str]]:
    return {
        (each["machine"], row["event"], row["state"])
        for each in document["machines"]
        for row in each["rows"]
        if row["standing"] == standing and machine in {"", each["machine"]}
    }


def test_the_union_is_covered() -> None:
    document = covered(*CALLS, LOG)

    met = {
        (judgement.machine.name, *cell, name, count)
        for name in (*CALLS, LOG)
        for judgement in judge(name).judgements
        for cell, count in judgement.covered.cells.items()
        if count
    }
    assert {
        (machine["machine"], row["event"], row["state"], name, count)
        for machine in document["machines"]
        for row in machine["rows"]
        for name, count in row["recordings"].items()
    } == met
    assert [each["covered"] for each in document["machines"]] == [
        len({cell[1:3] for cell in met if cell[0] == each["machine"]}) for each in document["machines"]
    ]


def test_a_recording_twice_is_one() -> None:
    assert covered(CALLS[0], CALLS[0]) == covered(CALLS[0])


def played(machine: Machine, texts: dict[str, str]) -> str:
    lines = [json.dumps({"trace": 1, "machine": machine.name})]
    for entity, text in texts.items():
        sut = Simulated(machine)
        for step in steps(text):
            for outcome in step.expected:
                sut.arrange(step.event, outcome)
            reply = sut.do(step.event)
            about = {"entity": entity, "event": step.event}
            met = {"met": sut.shows()} if step.event == "status" and reply == "ok" else {}
            lines += [json.dumps({**about, "phase": "request"})] if reply else []
            lines.append(json.dumps({**about, "phase": "reply", "reply": reply, **met} if reply else about))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_proposed_covers_what_is_missing(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(played(load(name), {"e": "status"}))
    before = covered(str(trace))
    (machine,) = before["machines"]
    proposed = {" in ".join((row["event"], row["state"])): "; ".join(row["steps"]) for row in machine["rows"] if row["standing"] == "not covered"}  # fmt: skip
    assert len(proposed) == machine["by_calls"] - machine["covered_by_calls"] > 0

    trace.write_text(played(load(name), {"e": "status", **proposed}))
    after = covered(str(trace))

    assert cells(after, "not covered") == set()
    assert after["recordings"][0]["verdict"] == "holds"


@pytest.mark.parametrize("cell", ["stats in exited", "stop in absent", "exec-sync in running"])
def test_without_its_proposal_a_cell_is_missing(cell: str, tmp_path: Path) -> None:
    """If the proposed steps for a cell are left out, only this cell stays uncovered."""
    machine, trace = load("container-status"), tmp_path / "trace.jsonl"
    trace.write_text(played(machine, {"e": "status"}))
    (before,) = covered(str(trace))["machines"]
    proposed = {" in ".join((row["event"], row["state"])): "; ".join(row["steps"]) for row in before["rows"] if row["standing"] == "not covered"}  # fmt: skip
    del proposed[cell]

    trace.write_text(played(machine, {"e": "status", **proposed}))

    event, state = cell.split(" in ")
    assert cells(covered(str(trace)), "not covered") == {("container-status", event, state)}


def test_two_sets_are_compared() -> None:
    document = covered(CALLS[2], "--against-suite", CALLS[0], "--against-suite", CALLS[1])
    alone = {name: cells(covered(name), "covered") for name in CALLS}

    rows = {(each["machine"], row["event"], row["state"]): row for each in document["machines"] for row in each["rows"]}
    first = {cell for cell, row in rows.items() if row["recordings"]}
    second = {cell for cell, row in rows.items() if row["against"]}
    assert (first, second) == (alone[CALLS[2]], alone[CALLS[0]] | alone[CALLS[1]])
    assert [each["set"] for each in document["recordings"]] == ["first", "second", "second"]

    said = fsm("cover", CALLS[2], "--against-suite", CALLS[0], "--against-suite", CALLS[1]).stdout
    of_containers = {cell for cell in first - second if cell[0] == "cri-container"}
    assert f"only in the first set: {len(of_containers)}: " in said
    assert "second set\n  2  " in said


def test_a_set_of_other_machines() -> None:
    document = covered(CALLS[0], "--against-suite", LOG)

    assert [each["machine"] for each in document["machines"]] == list(MACHINES)
    assert not cells(document, "covered", "container-status")
    assert any(row["against"] for row in document["machines"][2]["rows"])


def test_what_recordings_of_calls_do_not_show() -> None:
    """A recording of calls cannot show an exit, which is not a call, but a log can."""
    assert ("cri-container", "exit", "running") in cells(covered(*CALLS), "beyond calls")
    assert ("cri-container", "exit", "running") in cells(covered(*CALLS, "-m", "cri-container", LOG), "not shown")


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json", "sh"])
def test_the_shell_reads_the_lines(form: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    ran = fsm("cover", "--format", form, "-o", str(target), *CALLS)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")

    written = target.read_text()
    plain = html.unescape(written) if form == "html" else written
    lines = [json.dumps(each)[1:-1] if form == "json" else each for each in ('crictl stop "$CONTAINER"', "NOBODY=")]

    assert lines[0] in plain
    assert plain.count(lines[1]) == 1
    if form == "sh":
        subprocess.run(["sh", "-n", target], check=True)  # noqa: S607  (any shell will do)


class _Reader(HTMLParser):
    """An HTML parser that collects requests and text, and asserts that elements are properly nested."""

    OPTIONAL: Final = {"td", "th", "tr", "meta", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.asks: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asks += [
            (name, value) for name, value in attrs if name in {"src", "href", "srcset", "action", "data", "style"}
        ]
        self.asks += [(tag, None)] if tag in {"script", "link", "iframe", "img", "object", "embed", "b"} else []
        if tag not in self.OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPTIONAL:
            assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def read(document: str) -> _Reader:
    reader = _Reader()
    reader.feed(document)
    reader.close()
    return reader


def test_the_page_asks_for_nothing(tmp_path: Path) -> None:
    hostile = tmp_path / HOSTILE.replace("/", "_")
    hostile.write_bytes(Path(CALLS[0]).read_bytes())

    page = read(fsm("cover", "--format", "html", str(hostile)).stdout)

    assert (page.asks, page.open) == ([], [])
    assert hostile.name in page.text
    assert "default-src 'none'" in fsm("cover", "--format", "html", CALLS[0]).stdout


@pytest.mark.parametrize("markup", ["<script>1</script>", '<img src="http://example.org">', "<b></b>"])
def test_a_page_that_asks_is_found(markup: str) -> None:
    """The parser detects scripts, images and markup in a page."""
    assert read(f"<p>{markup}</p>").asks


def test_markdown_has_no_markup_of_a_name(tmp_path: Path) -> None:
    hostile = tmp_path / HOSTILE.replace("/", "_")
    hostile.write_bytes(Path(CALLS[0]).read_bytes())

    row = next(
        line for line in fsm("cover", "--format", "markdown", str(hostile)).stdout.splitlines() if "jsonl" in line
    )

    assert len(re.findall(r"(?<!\\)\|", row)) == 5  # the borders of four columns
    assert r"\[x\]\(http" in row
    assert not re.search(r"(?<!\\)[`<*\[]", row)


def test_what_cannot_be_judged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    missing, notes, output = (str(tmp_path / name) for name in ("missing.log", "notes.txt", "out.html"))

    ran = fsm("cover", CALLS[0], missing, notes, "--format", "html", "-o", output)

    assert (ran.returncode, ran.stdout, Path(output).exists()) == (2, "", False)
    assert [line.rpartition(" ")[2] for line in ran.stderr.splitlines() if not line.startswith(" ")] == [
        "[FSM201]",
        "[FSM215]",
    ]
    assert missing in ran.stderr
    assert notes in ran.stderr
    wrong = fsm("cover", CALLS[0], "--profile", "containerd-9")
    assert (wrong.returncode, "containerd-9" in wrong.stderr) == (2, True)
    assert fsm("cover").returncode == 2


def test_what_breaks_off_is_unknown(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    packed = gzip.compress(Path(CALLS[1]).read_bytes())
    cut.write_bytes(packed[: len(packed) // 2])

    document = covered(str(cut))

    assert document["recordings"][0]["verdict"] == "unknown"
    assert cells(document, "covered") < cells(covered(CALLS[1]), "covered")


def test_a_profile_changes_the_cells() -> None:
    plain, old = (covered(LOG, *options) for options in ((), ("--profile", "containerd-1.6")))

    assert [each["cells"] for each in plain["machines"]] == [each["cells"] for each in old["machines"]]
    assert fsm("cover", LOG, "--profile", "containerd-1.6", "-m", "container-status").returncode == 0


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    large = tmp_path / "large.jsonl"
    large.write_bytes(Path(CALLS[0]).read_bytes() + b"x" * (4 << 20))
    terminal = Terminal("cover", str(large))

    assert terminal.end() == 0
    assert "judging" in terminal.shown
    assert "\x1b[1mcri-container\x1b[0m" in terminal.shown


def test_machines_of_other_calls() -> None:
    document = covered(str(RECORDINGS / "nri-events-2.1.9.jsonl"))
    said = fsm("cover", str(RECORDINGS / "nri-events-2.1.9.jsonl")).stdout

    rows = [row for each in document["machines"] for row in each["rows"]]
    assert not any(row["lines"] for row in rows)
    missing = [row for row in rows if row["standing"] == "not covered"]
    assert missing
    assert all("; ".join(row["steps"]) in said for row in missing)
    assert "crictl" not in said


@pytest.mark.parametrize(("at_least", "code"), [("5", 0), ("50", 1)])
def test_recordings_that_meet_too_little_fail(at_least: str, code: int) -> None:
    ran = fsm("judge", "-m", "cri-pod", *CALLS, "--profile", "containerd-1.6", "--at-least", at_least)

    assert (code, "verdict: holds" in ran.stdout) == (ran.returncode, True), ran.stderr
    assert ("of 36 (event, state) pairs, which is less than the 50 % that --at-least requires" in ran.stderr) == bool(
        code
    )
