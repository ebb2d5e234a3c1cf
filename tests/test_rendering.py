"""Models as pictures: what is drawn, in every format, and the command as people meet it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from machines import DOOR, JOB, edited, machine_of
from random_machines import machines
from test_cli import FAILING, FSM, HOLDING, fsm

from fsm.library import load, names
from fsm.rendering.dot import dot
from fsm.rendering.image import digest, svg
from fsm.rendering.markdown import markdown
from fsm.rendering.mermaid import mermaid
from fsm.rendering.picture import ANY, Marks, picture
from fsm.rendering.plantuml import plantuml

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine import Machine
    from fsm.rendering.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="session", autouse=True)
def _dot() -> None:
    """Pictures are made by the real program."""
    if shutil.which("dot") is None:
        message = "Graphviz's dot is missing; install it: apt-get install graphviz"
        if os.environ.get("FSM_FORBID_SKIPS") == "1":
            pytest.fail(message)
        pytest.skip(message)


def arrows(drawing: Picture) -> dict[tuple[str, str], list[str]]:
    """The events on each edge."""
    return {(edge.source, edge.target): [label.event for label in edge.labels] for edge in drawing.edges}


# -- what is drawn ---------------------------------------------------------------


def test_moves_are_drawn_and_the_rest_is_named() -> None:
    """Between two states there is one edge, whatever leads along it."""
    drawing = picture(machine_of(DOOR))

    assert arrows(drawing) == {
        ("shut", "open"): ["push"],
        ("ajar", "open"): ["push"],
        ("ajar", "shut"): ["push"],
        ("shut", "ajar"): ["warp"],
        ("open", "shut"): ["slam"],
        (ANY, "gone"): ["remove"],
    }
    assert drawing.left_out == ("knock",)


def test_what_is_the_same_in_every_state_is_drawn_once() -> None:
    """From any state, and from no other."""
    drawn = arrows(picture(machine_of(DOOR)))

    assert drawn[ANY, "gone"] == ["remove"]
    assert not [pair for pair in drawn if pair[1] == "gone" and pair[0] != ANY]


SHOWN = [
    # What is asked for, and an edge that is there then and only then.
    ("ignores", "open", "open", "push"),
    ("refuses", "gone", "gone", "push"),
    ("silent", "gone", "gone", "knock"),
    ("stays", "shut", "shut", "push"),
]


@pytest.mark.parametrize(("part", "source", "target", "event"), SHOWN, ids=[each[0] for each in SHOWN])
def test_the_rest_is_drawn_on_request(part: Any, source: str, target: str, event: str) -> None:  # noqa: ANN401
    """Each part by itself."""
    machine = machine_of(DOOR)

    assert event not in arrows(picture(machine)).get((source, target), [])
    assert event in arrows(picture(machine, show=[part]))[source, target]


def test_interruptions_are_drawn_on_request() -> None:
    """A crash leads from everywhere to everywhere."""
    machine = machine_of(JOB)

    assert "crash" in picture(machine).left_out
    assert arrows(picture(machine, show=["interrupts"]))["running", "ended"] == ["exit", "crash"]
    assert arrows(picture(machine, events=["crash"]))["running", "ended"] == ["crash"]


def test_an_error_is_drawn_where_nothing_else_leads() -> None:
    """And beside what does only on request."""
    machine = machine_of(JOB)
    failed = {label.error for edge in picture(machine).edges for label in edge.labels if edge.source == "starting"}

    assert failed == {"", "error"}


@given(machines())
def test_every_move_is_on_an_edge(machine: Machine) -> None:
    """All that moves a random machine is drawn, if everything is asked for."""
    parts: Any = ("failures", "stays", "ignores", "refuses", "silent", "interrupts")
    drawn = arrows(picture(machine, show=parts))
    for event in machine.events.values():
        for cells in (event.cells, event.ends):
            for state, cell in cells.items():
                for way in getattr(cell, "outcomes", ()):
                    assert event.name in drawn.get((state, way.to), []) + drawn.get((ANY, way.to), [])


# -- formats -----------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_dot_takes_it(name: str) -> None:
    """Graphviz reads it back, with as many nodes as there are states, and warns of nothing."""
    drawing = picture(load(name))
    ran = subprocess.run(["dot", "-Tjson"], input=dot(drawing).encode(), capture_output=True, check=True)  # noqa: S607
    document: Any = json.loads(ran.stdout)

    assert ran.stderr == b""
    assert {each["name"].removesuffix(" again") for each in document["objects"]} == {
        "start",
        *(node.name for node in drawing.nodes),
    }
    assert len(document["edges"]) == len(drawing.edges) + 1


@pytest.mark.parametrize("name", names())
def test_svg_is_small_and_suits_the_dark(name: str) -> None:
    """It fits a README, has no white page behind it, and its words are its states'."""
    drawing = picture(load(name))
    root = ET.fromstring(svg(drawing))  # noqa: S314

    width = float(root.attrib["viewBox"].split()[2])
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert width < 1_000
    assert set(load(name).states) <= words
    assert root.attrib["data-source"] == digest(dot(drawing))
    assert "prefers-color-scheme:dark" in str(next(root.iter(f"{SVG}style")).text)
    assert not [each for each in root.iter(f"{SVG}polygon") if each.get("fill") in {"white", "#ffffff"}]
    assert b"<!--" not in svg(drawing)


def test_every_colour_has_a_dark_one() -> None:
    """None is left that a dark page would swallow, with whatever marks."""
    counts = {("stop", state): 10**number for number, state in enumerate(load("container-status").states)}
    steps, states = frozenset({("create", "absent", "created")}), frozenset({"created"})
    marks = Marks(counts=counts, steps=steps, states=states, failed=frozenset({"absent"}))
    made = svg(picture(load("container-status"), marks=marks)).decode()
    style = made[made.index("<style>") : made.index("</style>")]
    colours = r'="(#[0-9a-f]{6})"'

    used = set(re.findall(colours, made.replace(style, "")))
    assert len(used) > 6
    assert used <= set(re.findall(colours, style))


@given(machines())
def test_text_forms_are_the_same_on_every_run(machine: Machine) -> None:
    """And speak of every state."""
    for form in (dot, mermaid, plantuml):
        written = form(picture(machine))
        assert written == form(picture(machine))
        assert all(state in written for state in machine.states)


def test_odd_names_do_not_end_a_label() -> None:
    """Quotes, angle brackets and the like are written so that they stay text."""
    odd = machine_of(edited(DOOR, 'shows = "OPEN"', "shows = '<b>&\"OPEN\"'"))
    ran = subprocess.run(["dot", "-Tjson"], input=dot(picture(odd)).encode(), capture_output=True, check=True)  # noqa: S607

    assert ran.stderr == b""
    assert "&lt;b&gt;&amp;&quot;OPEN&quot;" in dot(picture(odd))


def test_the_table_has_every_cell() -> None:
    """As many columns as states, and a row more for calls that take time."""
    machine = machine_of(JOB)
    rows = [line for line in markdown(machine).splitlines() if line.startswith("|")]

    assert len(rows) == 2 + len(machine.events) + sum(bool(event.ends) for event in machine.events.values())
    assert {line.count("|") for line in rows} == {len(machine.states) + 2}
    assert "| **…start** |  |  | … checking<br>→ waiting, ✗ | → running / started |  |  |" in rows


# -- the command ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("svg", "<?xml"),
        ("dot", "digraph"),
        ("mermaid", "stateDiagram-v2"),
        ("plantuml", "@startuml"),
        ("markdown", "# "),
    ],
)
def test_to_standard_output(form: str, begins: str) -> None:
    """One picture."""
    ran = fsm("draw", "cri-pod", "--format", form)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(begins)


def test_into_a_folder(tmp_path: Path) -> None:
    """Every model in every format asked for."""
    ran = fsm("draw", "-o", str(tmp_path / "new"), "-f", "dot", "-f", "png")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"{name}.{suffix}" for name in names() for suffix in ("dot", "png")
    }
    assert (tmp_path / "new" / "cri-pod.png").read_bytes().startswith(b"\x89PNG")


def test_the_suffix_says_the_format(tmp_path: Path) -> None:
    """And an unknown one is a mistake."""
    assert fsm("draw", "cri-pod", "-o", str(tmp_path / "pod.mmd")).returncode == 0
    assert (tmp_path / "pod.mmd").read_text(encoding="utf-8").startswith("stateDiagram-v2")
    ran = fsm("draw", "cri-pod", "-o", str(tmp_path / "pod.gif"))
    assert ran.returncode == 2
    assert "does not say in which format" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pod.mmd"]


WRONG = [
    (["draw"], "say which model to draw"),
    (["draw", "cri-pods"], "did you mean 'cri-pod'?"),
    (["draw", "cri-pod", "cri-container"], "several pictures need --output FOLDER"),
    (["draw", "cri-pod", "-p", "containerd-1"], "profiles: containerd-1.6"),
    (["draw", "cri-pod", "-e", "stopp"], "did you mean 'stop'?"),
    (["draw", "cri-pod", "--highlight", "x", "--coverage", "y"], "ask for one at a time"),
    (["draw", "cri-pod", "--highlight", "no/such.log"], "cannot be opened"),
    (["draw", "cri-pod", "--coverage", "no/such.log"], "cannot be opened"),
    (["draw", "cri-pod", "-o", "/proc/none/pod.svg"], "/proc/none"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_input(arguments: list[str], said: str) -> None:
    """A sentence with the way out, and exit code 2."""
    ran = fsm(*arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_dot(tmp_path: Path) -> None:
    """How to get it is told, and the text forms are written."""
    env = {**os.environ, "PATH": str(tmp_path)}
    alone = subprocess.run([FSM, "draw", "cri-pod"], env=env, capture_output=True, text=True, check=False)
    both = subprocess.run(
        [FSM, "draw", "cri-pod", "-f", "svg", "-f", "dot", "-o", str(tmp_path / "out")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert alone.returncode == 2
    assert "apt-get install graphviz" in alone.stderr
    assert both.returncode == 2
    assert "cri-pod.svg is not written" in both.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cri-pod.dot"]


def test_a_way_through_a_log_is_marked() -> None:
    """The steps that the first container of a real log took."""
    ran = fsm("draw", "container-status", "-f", "dot", "--highlight", HOLDING)
    marked = re.findall(r'"?([\w-]+)"? -> "?([\w -]+?)"? \[.*color="#0969da"', ran.stdout)

    assert ran.returncode == 0
    assert ("absent", "created") in marked
    assert ("created", "created-removing") in marked


def test_where_a_run_failed_is_marked() -> None:
    """In red, the state in which what followed is not legal."""
    ran = fsm("draw", "container-status", "-f", "dot", "--highlight", FAILING)

    assert ran.returncode == 0
    assert re.search(r'absent \[.*color="#cf222e"', ran.stdout)


def test_a_counterexample_is_marked(tmp_path: Path) -> None:
    """As the checker writes it."""
    for folder, text in (
        ("models", DOOR),
        (
            "properties",
            'machine = "door"\n[property.p]\nsays = ""\nlevel = "MUST"\nsource = ""\nnever = "open then gone"\n',
        ),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    report = tmp_path / "report.json"
    report.write_text(fsm("check", str(tmp_path / "models" / "door.toml"), "--format", "json").stdout, encoding="utf-8")
    ran = fsm("draw", str(tmp_path / "models" / "door.toml"), "-f", "dot", "--highlight", str(report))

    assert ran.returncode == 0, ran.stderr
    assert re.search(r'shut -> open \[.*color="#0969da"', ran.stdout)
    assert re.search(r'gone \[.*color="#0969da"', ran.stdout)


def test_coverage_shades_what_was_met() -> None:
    """And says how often, in the picture and in the table."""
    drawn = fsm("draw", "container-status", "-f", "dot", "--coverage", HOLDING, "--coverage", FAILING).stdout
    table = fsm("draw", "container-status", "-f", "markdown", "--coverage", HOLDING).stdout

    assert re.search(r"exited \[.*met [1-9]", drawn)
    assert re.search(r"\d+ times", table)
    assert "dotted" in drawn
