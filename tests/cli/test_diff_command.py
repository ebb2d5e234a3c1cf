"""Tests for the command ``fsm diff``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from commands import fsm
from drawn import CONTAINER, POD
from machines import DOOR, edited
from real_parts import program

from fsm.cli.diff_command import command
from fsm.cli.output import put
from fsm.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "status.py"
    path.write_text(CONTAINER, encoding="utf-8")
    return path


def test_a_drawing_that_shows_the_machine(source: Path) -> None:
    ran = run("container-status", source)

    assert 0 == ran.return_value
    assert f"container-status and {source}:3: equal\n  in common: 5 states, 13 moves\n" in ran.output
    assert "not drawn, which does not count as a difference\n  start: CREATED → EXITED\n" in ran.output
    assert 0 == run(source, "container-status").return_value


def test_a_drawing_that_differs(source: Path) -> None:
    source.write_text(CONTAINER.replace("Exit/Stop", "Exit/Halt").replace("LogReopen", "         "), encoding="utf-8")

    ran = run("container-status", source)

    assert 1 == ran.return_value
    assert f"container-status and {source}:3: different\n" in ran.output
    assert "only in container-status\n  :14:42: stop: RUNNING → EXITED (stopped, stopped-late)\n" in ran.output
    assert "  :14:42: reopen-log: RUNNING → RUNNING (reopened, failed)\n" in ran.output
    assert f"only in {source}:3\n  :18:47: Halt: RUNNING → EXITED: no event of container-status" in ran.output
    assert run(source, "container-status").output.index("only in container-status") > 0


def test_a_drawing_that_cannot_be_read(source: Path) -> None:
    source.write_text(CONTAINER.replace("-----v-----+\n#       +", "-----------+\n#       +"), encoding="utf-8")

    assert isinstance(run("container-status", source).exception, InputError)


def test_as_data(source: Path) -> None:
    source.write_text(CONTAINER.replace("Load", "Lade"), encoding="utf-8")

    ran = run("container-status", source, "--format", "json")

    report = json.loads(ran.output)
    assert 1 == ran.return_value
    assert [False, "container-status", f"{source}:3"] == [report[key] for key in ("equal", "first", "second")]
    assert {
        "source": None,
        "event": "Lade",
        "target": "RUNNING",
        "in": "second",
        "label": "Lade",
        "outcomes": [],
        "reply": None,
        "emits": [],
        "begins": False,
        "silent": False,
        "why": "unknown event",
        "places": [None, {"line": 4, "column": 17}],
        "near": {"line": 4, "column": 17},
    } in [each | {"source": None} for each in report["moves"]]
    assert {"both", "first", "second", "not drawn"} == {each["in"] for each in report["moves"]}
    states = {each["name"]: each for each in report["states"]}
    assert ["created", "starting", "created-removing"] == states["CREATED"]["stands_for"]


def test_as_a_picture(source: Path, tmp_path: Path) -> None:
    source.write_text(CONTAINER.replace("Start |", "Stort |"), encoding="utf-8")

    text = run("container-status", source, "--format", "dot").output

    assert '"=CREATED" -> "=RUNNING" [label=Stort color="#1a7f37"' in text
    assert '"=CREATED" -> "=RUNNING" [label=start color="#cf222e"' in text
    assert '"=CREATED" -> "=DELETED" [label=remove' in text
    assert "style=dotted" in text

    program("dot")
    ran = run("container-status", source, "-o", tmp_path / "difference.svg")
    assert 1 == ran.return_value
    assert 'fill="#1a7f37"' in (tmp_path / "difference.svg").read_text(encoding="utf-8")


def test_without_dot_there_are_other_formats(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    ran = run("container-status", source, "--format", "svg")

    assert "use --format dot" in str(ran.exception)


def test_versions_of_a_model() -> None:
    ran = run("container-status", "--profile", "containerd-1.6", "--profile", "containerd-2.1")

    assert 1 == ran.return_value
    assert (
        "only in container-status as containerd-1.6\n  stop: absent → absent, skipped-created → skipped-created,"
        in ran.output
    )
    assert "only in container-status as containerd-1.6" in run("container-status", "-p", "containerd-1.6").output


def test_behaviour(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "new.toml").write_text(edited(DOOR, 'emits = ["Bang"]', 'emits = ["Bing"]'), encoding="utf-8")

    ran = run("--behaviour", tmp_path / "old.toml", tmp_path / "new.toml")

    assert 1 == ran.return_value
    assert ran.output.startswith("door (1) and door (2): different\n  a shortest trace that only door (1) has:\n")
    assert "1 push replies ok emits Creak" in ran.output
    assert "can only have slam emitting Bing" in ran.output
    data = json.loads(run("--behaviour", tmp_path / "old.toml", tmp_path / "new.toml", "-f", "json").output)
    assert ["push", "slam"] == [each["event"] for each in data["trace"]]
    same = run("--behaviour", "cri-pod", "cri-pod")
    assert 0 == same.return_value
    assert "the two machines are equivalent" in same.output
    assert "equal" == json.loads(run("--behaviour", "cri-pod", "cri-pod", "-f", "json").output)["verdict"]


@pytest.mark.parametrize("text", ["digraph {}", "stateDiagram-v2\n\n", "strict digraph x { node [shape=box] }"])
def test_a_drawing_of_nothing_equals_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "drawing").write_text(text, encoding="utf-8")

    ran = fsm("diff", str(tmp_path / "drawing"), "cri-pod")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "the text contains no drawing of states [FSM402]" in ran.stderr


def test_several_drawings_in_a_file(source: Path) -> None:
    source.write_text(f"{CONTAINER}\n{POD}", encoding="utf-8")

    ran = run("pod-sandbox", source)
    assert 0 == ran.return_value
    assert ran.output.startswith(
        f"{source} has 2 drawings; the drawing at {source}:{CONTAINER.count(chr(10)) + 7} is compared\n"
    )
    assert 0 == run("container-status", f"{source}:3").return_value
    assert 1 == run("pod-sandbox", f"{source}:10").return_value


MISUSES = [
    (["container-status"], "name two things to compare"),
    (["container-status", "no-such-file"], "this is neither the name of a model nor an existing file"),
    (["container-status", "no-such-file" * 30 + ":3"], "this is neither the name of a model nor an existing file"),
    (["container-stotus", "container-status"], "did you mean 'container-status'?"),
    (["container-status", "-p", "containerd-1.5"], "did you mean 'containerd-1.7'?"),
    (["container-status", "-p", "a", "-p", "b", "-p", "c"], "at most two profiles"),
    (
        ["FILE", "FILE", "-p", "containerd-1.6"],
        "a profile can be applied only to a model, and neither argument is a model",
    ),
    (["container-status", "FILE", "--behaviour"], "one of the arguments is a drawing"),
    (["cri-pod", "cri-pod", "--behaviour", "-f", "svg"], "use --format text or --format json"),
    (["container-status", "FILE:1"], "no drawing includes this line"),
]


@pytest.mark.parametrize(("arguments", "said"), MISUSES)
def test_misuse_says_what_to_do(arguments: list[str], said: str, source: Path) -> None:
    ran = run(*(each.replace("FILE", str(source)) for each in arguments))

    assert said in str(ran.exception) + str(getattr(ran.exception, "message", ""))


def test_a_sketch_is_complete_on_request(tmp_path: Path) -> None:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "door.mmd").write_text("stateDiagram\nCLOSED --> OPEN: push\n", encoding="utf-8")

    assert 0 == run(tmp_path / "door.toml", tmp_path / "door.mmd").return_value
    assert 1 == run(tmp_path / "door.toml", tmp_path / "door.mmd", "--complete").return_value


def test_a_terminal_is_given_no_png(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    with pytest.raises(click.UsageError, match=r"--output FILE\.png"):
        put(b"\x89PNG\r\n", None)
    put(b"<svg/>", None)
    put(b"\x89PNG\r\n", tmp_path / "a.png")

    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG\r\n"
