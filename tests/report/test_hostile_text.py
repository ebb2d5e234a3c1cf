"""Foreign text reaches every output unchanged, even with special characters, and the output can be parsed."""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import msgspec
import pytest
from commands import fsm
from readers import read_by_mermaid
from real_parts import program

from fsm.fleet import Summary
from fsm.fleet import written as written_summary

if TYPE_CHECKING:
    from pathlib import Path

TEXT: Final = (
    "<script>alert('&amp; &lt')</script> ]]> --> <!-- \"quoted\" 'too' \\n \\ back`tick` | pipe %0A%25 ::error file=a,line=1::b "
    "${HOME} $(id) #{x} # -- */ /* // %% @enduml }} {{ [link](javascript:x) *b* _i_ ~~s~~ 😀 é ; : = , \\u202e \\"
)
"""A text with special characters, except for those that models may not contain (controls and direction marks)."""

NAME: Final = "it's <b>&amp; ]]> %0A ::error $(x) `y` |\"#.jsonl"

MODEL: Final = f"""\
[machine]
name = "hostile"
title = {json.dumps(TEXT, ensure_ascii=False)}
about = {json.dumps(TEXT, ensure_ascii=False)}
source = {json.dumps(TEXT, ensure_ascii=False)}
initial = "off"
[states]
off = {{ about = {json.dumps(TEXT, ensure_ascii=False)} }}
end = {{ about = "" }}
[clause.class]
says = {json.dumps(TEXT, ensure_ascii=False)}
MUST = {json.dumps(TEXT, ensure_ascii=False)}
link = "https://example.org/?a=1&b=<2>"
[event.note]
kind = "call"
about = {json.dumps(TEXT, ensure_ascii=False)}
clause = "class"
moves.off = "end"
refuses.end = "NOT_FOUND"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("hostile") / "hostile.toml"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def written(*arguments: str) -> str:
    ran = fsm(*arguments)
    assert ran.returncode in {0, 1, 3}, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("form", ["dot", "scxml", "transitions", "python-statemachine", "json", "promela"])
def test_exports_are_well_formed(form: str, model: str) -> None:
    found = written("export", model, "--to", form)
    match form:
        case "scxml":
            root = ET.fromstring(found)  # noqa: S314  (we wrote it)
            assert {"off", "end"} == {each.get("id") for each in root.iter() if each.get("id")}
        case "promela":
            head, _, code = found.partition("*/")
            assert "alert" in head
            assert "alert" not in code
        case "dot":
            read = subprocess.run([program("dot"), "-Tjson"], input=found.encode(), capture_output=True, check=True)
            assert {"off", "end"} == {each["name"] for each in json.loads(read.stdout)["objects"]}
        case _:
            assert "hostile" in str(json.loads(found))


def test_a_model_written_as_toml_has_the_same_text(model: str) -> None:
    assert TEXT == tomllib.loads(MODEL)["machine"]["about"]
    assert TEXT == json.loads(written("show", model, "--format", "json"))["about"]


@pytest.mark.parametrize("form", ["svg", "mermaid", "plantuml", "markdown", "dot"])
def test_drawings_are_well_formed(form: str, model: str) -> None:
    found = written("draw", model, "--format", form)
    match form:
        case "svg":
            root = ET.fromstring(found)  # noqa: S314  (we wrote it)
            assert not [each for each in root.iter() if each.tag.endswith("script")]
        case "mermaid":
            (read,) = read_by_mermaid([found])
            assert 2 <= len(read["states"])
        case "markdown":
            rows = [line for line in found.splitlines() if line.startswith("|")]
            assert 1 == len({line.replace("\\|", "").count("|") for line in rows})
            assert "<script" not in found.replace("\\<", "")
        case "plantuml":
            assert 1 == found.count("@enduml")
            assert "<script" not in found
        case _:
            assert "digraph" in found


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github"])
def test_reports_are_well_formed(form: str, model: str, tmp_path: Path) -> None:
    entity = f"{TEXT}\u202e\x1b[31m\n::error::new line"
    lines = [{"trace": 1, "fresh": True}, {"entity": entity, "event": "note", "reply": "NOT_FOUND"}]
    recording = tmp_path / NAME
    recording.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")

    found = written("judge", "--model", model, "--format", form, str(recording))

    match form:
        case "json":
            assert json.dumps(entity)[1:-1] in json.dumps(json.loads(found))
        case "sarif":
            assert json.loads(found)["runs"][0]["results"]
        case "junit":
            assert any(each.tag == "failure" for each in ET.fromstring(found).iter())  # noqa: S314  (we wrote it)
        case "github":
            for line in found.splitlines():
                kind, _, rest = line.removeprefix("::").partition(" ")
                assert kind in {"error", "warning", "notice"}, line
                assert rest.partition("::")[0].count("file=") == 1
        case _:
            assert not [each for each in found if each in "\x1b\u202e"]
            assert not [line for line in found.splitlines() if line.startswith("::")]


OBEYED: Final = [
    chr(each)
    for each in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
]
"""All direction marks, and all control characters that terminals obey."""

WRITERS: Final = (
    *(f"judge -m cri-pod --format {form} trace" for form in ("text", "json", "junit", "sarif", "github", "summary")),
    *(f"judge --format {form} calls" for form in ("text", "json", "summary")),
    *(
        "cover trace",
        "cover calls",
        "draw --sequence calls -f svg",
        "draw --sequence calls -f mermaid",
        "mutate --recording calls --limit 2",
    ),
    *(
        "draw cri-pod -f dot --highlight trace",
        "draw cri-pod -f markdown --coverage trace",
    ),
    *(f"diff cri-pod drawing.mmd -f {form}" for form in ("text", "json", "dot", "svg")),
    *("merge summary.json", "merge summary.json --format json", "merge summary.json --by node"),
)


@pytest.mark.slow
@pytest.mark.parametrize("command", WRITERS)
def test_no_writer_passes_on_what_a_terminal_obeys(command: str, tmp_path: Path) -> None:
    """Control characters in ids, names, replies and details are not printed; only the writer adds tabs and newlines."""
    strange = "".join(OBEYED)
    seen = [{"trace": 1, "fresh": True, "machine": "cri-pod"}, {"entity": strange, "event": "run", "reply": "ok", "detail": strange},
            {"entity": strange, "event": "run", "reply": strange, "detail": strange},
            {"entity": strange, "event": strange}, {"entity": strange, "shows": strange}]  # fmt: skip
    call = {"id": strange, "pod": strange, "start": 1, "end": 2, "code": "OK", "detail": strange, "version": strange}
    calls = [call | {"op": "StartContainer"}, call | {"op": "StopContainer", "code": strange}]
    (tmp_path / "trace").write_text("".join(f"{json.dumps(each)}\n" for each in seen), encoding="utf-8")
    (tmp_path / "calls").write_text("".join(f"{json.dumps(each)}\n" for each in calls), encoding="utf-8")
    arrows = "".join(
        f"    a{ord(each)} --> b : go{each}on\n"
        for each in OBEYED
        if each not in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    )
    (tmp_path / "drawing.mmd").write_text(f"stateDiagram-v2\n{arrows}    c --> d : go\x1b[2Jon\n", encoding="utf-8")
    summary = fsm("judge", "--format", "summary", "calls", cwd=tmp_path).stdout
    (tmp_path / "summary.json").write_text(summary, encoding="utf-8")

    ran = fsm(*command.split(), cwd=tmp_path)

    assert ran.returncode in {0, 1, 3}, ran.stderr
    assert not ({*OBEYED} - {"\t", "\n"}) & {*ran.stdout, *ran.stderr}


def test_a_control_in_a_summary_is_read_back() -> None:
    found = Summary(notes=dict.fromkeys(OBEYED, 1), shares=())

    assert found == msgspec.json.decode(written_summary(found), type=Summary)
