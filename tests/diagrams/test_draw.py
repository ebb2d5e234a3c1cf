"""``fsm draw`` draws pictures of models in every format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zlib
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from commands import FAILING, HOLDING, fsm, shell
from hypothesis import given
from machines import DOOR, JOB, edited, machine_of
from random_machines import machines
from readers import read_by_mermaid, read_by_plantuml
from real_parts import program

from fsm.diagrams.draw.dot import digest, dot, png, svg
from fsm.diagrams.draw.markdown_table import markdown
from fsm.diagrams.draw.picture import ANY, ELSEWHERE, Marks, picture
from fsm.diagrams.draw.text_pictures import footer, mermaid, origin, plantuml
from fsm.language.library import load, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.diagrams.draw.picture import Picture
    from fsm.machine import Machine

PARTS: Any = ("outcomes", "stays", "ignores", "refuses", "silent", "interrupts", "profiles")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="session", autouse=True)
def _dot() -> None:
    program("dot")


def arrows(drawing: Picture) -> dict[tuple[str, str], list[str]]:
    return {(edge.source, edge.target): [label.event for label in edge.labels] for edge in drawing.edges}


# -- the elements of a picture ---------------------------------------------------


COUNTING = """
[machine]
name = "breaker"
title = "A breaker"
about = "Opens after two failures."
source = "none"
initial = "closed"

[states]
closed = { about = "Calls pass." }
probing = { about = "One call is tried." }
open = { about = "Calls fail." }

[data]
failures = { from = 0, to = 1, about = "Failures in a row." }

[event.call]
kind = "call"
about = "Call the service."
moves = { closed = { begins = "closed" }, open = { begins = "probing" } }
refuses = { probing = "OPEN" }

[event.call.ends]
closed = [
  { name = "good", stays = true, chosen = true, set = { failures = 0 } },
  { name = "late", stays = true, chosen = true, reply = "LATE" },
  { name = "bad", stays = true, chosen = true, when = "failures == 0", reply = "FAILED", set = { failures = 1 } },
  { name = "second", to = "open", chosen = true, when = "failures == 1", reply = "FAILED" },
]
probing = [{ name = "good", to = "closed" }, { name = "bad", to = "open", reply = "FAILED" }]
open = [{ name = "good", stays = true }]
"""


def test_an_error_that_changes_a_variable_is_drawn() -> None:
    loop = next(each for each in picture(machine_of(COUNTING)).edges if each.source == each.target == "closed")

    assert [(label.error, label.effect) for label in loop.labels] == [
        ("", "failures := 0"),
        ("FAILED", "failures := 1"),
    ]


def test_only_states_in_which_a_call_begins_are_dashed() -> None:
    """In *open*, a call that began before may end, which says nothing about the state."""
    passing = {each.name for each in picture(machine_of(COUNTING)).nodes if each.passing}

    assert passing == {"closed", "probing"}


def test_moves_are_drawn_and_the_rest_is_named() -> None:
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
    drawn = arrows(picture(machine_of(DOOR)))

    assert drawn[ANY, "gone"] == ["remove"]
    assert not [pair for pair in drawn if pair[1] == "gone" and pair[0] != ANY]


SHOWN = [
    # An option, and an edge that is drawn only with this option.
    ("ignores", "open", "open", "push"),
    ("refuses", "gone", "gone", "push"),
    ("silent", "gone", "gone", "knock"),
    ("stays", "shut", "shut", "push"),
]


@pytest.mark.parametrize(("part", "source", "target", "event"), SHOWN, ids=[each[0] for each in SHOWN])
def test_the_rest_is_drawn_on_request(part: Any, source: str, target: str, event: str) -> None:  # noqa: ANN401
    machine = machine_of(DOOR)

    assert event not in arrows(picture(machine)).get((source, target), [])
    assert event in arrows(picture(machine, show=[part]))[source, target]


def test_interruptions_are_drawn_on_request() -> None:
    machine = machine_of(JOB)

    assert "crash" in picture(machine).left_out
    assert arrows(picture(machine, show=["interrupts"]))["running", "ended"] == ["exit", "crash"]
    assert arrows(picture(machine, events=["crash"]))["running", "ended"] == ["crash"]


def test_an_error_is_drawn_where_nothing_else_leads() -> None:
    machine = machine_of(edited(JOB, 'name = "too-early", to = "waiting"', 'name = "too-early", to = "starting"'))
    both = ("waiting", "starting")

    assert arrows(picture(machine))[both] == ["start"]
    assert arrows(picture(machine))["starting", "waiting"] == ["start"]
    assert arrows(picture(machine, show=["outcomes"]))[both] == ["start", "start"]


def test_short_cuts_are_drawn_on_request() -> None:
    at_once = '{ name = "begins", begins = "starting" },\n  { name = "at-once", to = "running" },'
    machine = machine_of(edited(JOB, '{ name = "begins", begins = "starting" },', at_once))

    assert ("waiting", "running") not in arrows(picture(machine))
    assert arrows(picture(machine, show=["outcomes"]))["waiting", "running"] == ["start"]


def test_states_that_differ_in_nothing_drawn_are_one() -> None:
    """Three unknown states differ only in the effects of a restart, so they share a node unless restarts are drawn."""
    machine = load("container-status")
    together = ("unknown-created", "unknown-running", "unknown-exited")

    assert together in [node.states for node in picture(machine).nodes]
    assert (ELSEWHERE, "unknown-created") in arrows(picture(machine))
    assert [(each,) for each in together] == [
        node.states for node in picture(machine, show=["interrupts"]).nodes if "unknown" in node.name
    ]


@pytest.mark.parametrize("name", names())
def test_what_has_an_arrow_is_not_said_to_have_none(name: str) -> None:
    drawn = picture(load(name))
    events = {label.event for edge in drawn.edges for label in edge.labels}
    undrawn, _, partly = " ".join(footer(drawn)).partition("not drawn: ")[2].partition(" drawn only to states ")

    assert not events & {*undrawn.split(", ")}
    assert bool(events & {*drawn.left_out}) == bool(partly)


@given(machines())
def test_states_drawn_as_one_have_the_same_arrows(machine: Machine) -> None:
    """States that are drawn as one node have the same edges to and from other nodes."""
    whole = arrows(picture(machine, show=["interrupts"]))
    for node in picture(machine, show=["interrupts"]).nodes:
        assert {machine.states[state].shows for state in node.states} in ({node.shows}, {node.name})
        if len(node.states) > 1:
            assert not [pair for pair in whole if set(pair) & set(node.states[1:])]
            alone = [_alone(machine, state, set(node.states)) for state in node.states]
            assert all(each == alone[0] for each in alone)


def _alone(machine: Machine, state: str, among: set[str]) -> set[tuple[str, str, str]]:
    found = set()
    for event in machine.events.values():
        for cells in (event.cells, event.ends):
            for source, cell in cells.items():
                for way in getattr(cell, "outcomes", ()):
                    if source == state and way.to not in among:
                        found.add((event.name, "to", way.to))
    return found


def test_deviations_are_always_drawn() -> None:
    machine = machine_of(DOOR)
    drawing = picture(machine.under("old"))

    assert ("shut", "shut") not in arrows(picture(machine))
    assert [label.deviates for edge in drawing.edges if edge.source == edge.target for label in edge.labels] == [True]
    assert drawing.profiles == ("old",)
    assert "deviations of old included" in dot(drawing)


def test_only_what_an_event_touches_is_drawn() -> None:
    drawing = picture(machine_of(DOOR), events=["slam"])

    assert [node.name for node in drawing.nodes] == ["shut", "open"]
    assert arrows(drawing) == {("open", "shut"): ["slam"]}
    assert picture(machine_of(JOB), events=["exit"]).initial == ""


@given(machines())
def test_every_move_is_on_an_edge(machine: Machine) -> None:
    """Successful moves between nodes are always drawn; if all parts are shown, the other moves are drawn too."""
    for drawing, every in ((picture(machine, show=PARTS), True), (picture(machine, show=["interrupts"]), False)):
        drawn = arrows(drawing)
        names = {state: node.name for node in drawing.nodes for state in node.states}
        left_out = {state for state, _ in drawing.unreached}
        assert names.keys() == machine.states.keys() - left_out
        for event in machine.events.values():
            for ends, cells in ((False, event.cells), (True, event.ends)):
                for state, cell in cells.items():
                    for way in getattr(cell, "outcomes", ()):
                        if {state, way.to} & left_out:
                            continue
                        target = names[way.to]
                        on = drawn.get((names[state], target), []) + drawn.get((ANY, target), [])
                        leads = names[state] != target and "ok" in way.reply and (ends or not event.ends)
                        assert event.name in on or not (every or leads)


# -- formats -----------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_dot_takes_it(name: str) -> None:
    drawing = picture(load(name))
    ran = subprocess.run(["dot", "-Tjson"], input=dot(drawing).encode(), capture_output=True, check=True)  # noqa: S607
    document: Any = json.loads(ran.stdout)

    assert ran.stderr == b""
    boxes = [each["name"] for each in document["objects"] if each.get("shape") == "box"]
    assert {each.removesuffix(" (again)") for each in boxes} == {node.name for node in drawing.nodes}
    assert len(document["edges"]) == len(drawing.edges) + 1


@pytest.mark.parametrize("name", names())
def test_svg_is_small_and_suits_the_dark(name: str) -> None:
    drawing = picture(load(name))
    made = svg(drawing)
    root = ET.fromstring(made)  # noqa: S314

    width = float(root.attrib["width"])
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert width < 948  # GitHub shrinks wider pictures in a README
    assert abs(width - float(root.attrib["viewBox"].split()[2])) <= 1
    assert {state for node in drawing.nodes for state in node.states} <= words
    assert root.attrib["data-source"] == digest(dot(drawing))
    assert "prefers-color-scheme:dark" in str(next(root.iter(f"{SVG}style")).text)
    assert not [each for each in root.iter(f"{SVG}polygon") if each.get("fill") in {"white", "#ffffff"}]
    assert b"<!--" not in made
    assert made == svg(drawing)


def test_png_is_sharp_and_opaque() -> None:
    drawing = picture(load("cri-pod"))
    made = png(drawing)
    width, depth, kind = int.from_bytes(made[16:20]), made[24], made[25]
    corner = zlib.decompress(b"".join(_parts(made, b"IDAT")))[1:4]

    assert (depth, kind & 2) == (8, 2)
    assert abs(width - 2 * float(ET.fromstring(svg(drawing)).attrib["width"])) <= 4  # noqa: S314
    assert corner == b"\xff\xff\xff"


def _parts(made: bytes, kind: bytes) -> Iterator[bytes]:
    start = 8
    while start < len(made):
        size = int.from_bytes(made[start : start + 4])
        if made[start + 4 : start + 8] == kind:
            yield made[start + 8 : start + 8 + size]
        start += size + 12


def test_every_colour_has_a_dark_one() -> None:
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
    """They contain every state."""
    for form in (dot, mermaid, plantuml):
        written = form(picture(machine))
        assert written == form(picture(machine))
        assert all(state in written for state in machine.states)


ODD = '<b>&"OPEN"\'; state x : #9; %% [*] --> y\\n @enduml } end'


def odd() -> Machine:
    shown = edited(DOOR, 'shows = "OPEN"', f"shows = {json.dumps(ODD)}")
    titled = edited(shown, 'title   = "A door"', f"title   = {json.dumps(f'{ODD} {ODD}')}")
    return machine_of(titled.replace("ajar", "a-jar").replace("gone", "a_jar").replace("shut", "state"))


def test_odd_words_stay_words_to_dot() -> None:
    ran = subprocess.run(["dot", "-Tsvg"], input=dot(picture(odd())).encode(), capture_output=True, check=True)  # noqa: S607
    words = [text.text for text in ET.fromstring(svg(picture(odd()))).iter(f"{SVG}text")]  # noqa: S314

    assert ran.stderr == b""
    assert ODD in words


@pytest.mark.slow
def test_mermaid_takes_it() -> None:
    drawings = [*(picture(load(name), show=part) for name in names() for part in ((), PARTS)), picture(odd())]
    drawings.append(picture(machine_of(DOOR).under("old"), marks=Marks(states=frozenset({"open"}))))
    found_by_mermaid = read_by_mermaid(list(map(mermaid, drawings)))
    for drawing, found in zip(drawings, found_by_mermaid, strict=True):
        pseudo = len({origin(edge, drawing) for edge in drawing.edges if edge.source in {ANY, ELSEWHERE}})
        assert len(drawing.nodes) + pseudo == len(found["states"]) - 1  # without the initial pseudo-state
        assert len(drawing.edges) + 1 == len(found["arrows"])
        described = {word for state in found["states"] for text in state["descriptions"] for word in text.split("<br>")}
        assert {state for node in drawing.nodes for state in node.states} <= described
        ended = [arrow["relationTitle"].count("<br>") for arrow in found["arrows"] if arrow["relationTitle"]]
        assert sum(ended) + len(ended) == sum(len(edge.labels) for edge in drawing.edges if edge.source != ELSEWHERE)


def test_words_of_mermaid_can_be_states() -> None:
    words = ("state", "State", "note", "end", "class", "default", "scale", "click", "as", "style", "href", "accTitle")
    drawings = [picture(machine_of(DOOR.replace("shut", word))) for word in words]

    for drawing, found in zip(drawings, read_by_mermaid(list(map(mermaid, drawings))), strict=True):
        assert len(drawing.edges) + 1 == len(found["arrows"])


@pytest.mark.slow
def test_plantuml_takes_it(tmp_path: Path) -> None:
    drawings = [*(picture(load(name), show=part) for name in names() for part in ((), PARTS)), picture(odd())]

    read_by_plantuml(tmp_path, list(map(plantuml, drawings)))
    with pytest.raises(AssertionError):
        read_by_plantuml(tmp_path, ["@startuml\nstate a\na --> --> b\n@enduml\n"])


@pytest.mark.parametrize(
    ("name", "words"), [("container-status", ["restart"] * 2), ("cri-pod", ["any state"]), ("plugin-pod", [])]
)
def test_plantuml_draws_words_without_a_box(name: str, words: list[str]) -> None:
    written = plantuml(picture(load(name)))

    assert words == re.findall(r'^state "(.*)" as \w+ <<word>>$', written, re.MULTILINE)
    assert bool(words) == ("BorderColor<<word>> transparent" in written)
    assert "any state" not in re.sub(r'".*<<word>>', "", written)


def test_the_table_has_every_cell() -> None:
    machine = machine_of(JOB)
    rows = [line for line in markdown(machine).splitlines() if line.startswith("|")]

    assert len(rows) == 2 + len(machine.events) + sum(bool(event.ends) for event in machine.events.values())
    assert {line.count("|") for line in rows} == {len(machine.states) + 2}
    assert "| **…start** |  |  | … checking<br>→ waiting, ✗ | → running / started |  |  |" in rows


def test_odd_words_do_not_break_the_table() -> None:
    wide = machine_of(edited(DOOR, 'shows = "OPEN"', "shows = 'a | <b> *c* \\'"))
    rows = [line for line in markdown(wide).splitlines() if line.startswith("|")]

    assert r"**open**<br>a \| \<b\> \*c\* \\ |" in rows[0]
    assert {len(re.split(r"(?<!\\)\|", row.replace(r"\\", ""))) for row in rows} == {len(wide.states) + 3}


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
    ran = fsm("draw", "cri-pod", "--format", form)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(begins)


@pytest.mark.slow
def test_into_a_folder(tmp_path: Path) -> None:
    ran = fsm("draw", "-o", str(tmp_path / "new"), "-f", "dot", "-f", "png")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"{name}.{suffix}" for name in names() for suffix in ("dot", "png")
    }
    assert (tmp_path / "new" / "cri-pod.png").read_bytes().startswith(b"\x89PNG")


def test_the_suffix_selects_the_format(tmp_path: Path) -> None:
    assert fsm("draw", "cri-pod", "-o", str(tmp_path / "pod.mmd")).returncode == 0
    assert (tmp_path / "pod.mmd").read_text(encoding="utf-8").startswith("stateDiagram-v2")
    ran = fsm("draw", "cri-pod", "-o", str(tmp_path / "pod.gif"))
    assert ran.returncode == 2
    assert "is not that of a format" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pod.mmd"]


WRONG = [
    (["draw"], "name a model to draw"),
    (["draw", "cri-pods"], "did you mean 'cri-pod'?"),
    (
        ["draw", "cri-pod", "cri-container"],
        "several pictures cannot be written to standard output; use --output FOLDER",
    ),
    (["draw", "cri-pod", "-p", "containerd-1"], "several profiles match; use one of containerd-1.6, containerd-1.7"),
    (["draw", "cri-pod", "-e", "stopp"], "did you mean 'stop'?"),
    (["draw", "cri-pod", "--highlight", "x", "--coverage", "y"], "make different pictures"),
    (["draw", "cri-pod", "--highlight", "no/such.log"], "cannot be opened"),
    (["draw", "cri-pod", "--coverage", "no/such.log"], "cannot be opened"),
    (["draw", "cri-pod", "--coverage", __file__], "the recordings have no event of cri-pod [FSM204]"),
    (["draw", "cri-pod", "--highlight", __file__], "contains no pod [FSM204]"),
    (["draw", "cri-pod", "-o", "/proc/none/pod.svg"], "/proc/none"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_input(arguments: list[str], message: str) -> None:
    ran = fsm(*arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_dot(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path)}
    alone, every = fsm("draw", "cri-pod", env=env), fsm("draw", "-o", str(tmp_path / "out"), env=env)

    assert (alone.returncode, alone.stdout) == (2, "")
    assert "so svg cannot be written: apt-get install graphviz" in alone.stderr
    assert "; the formats ascii, dot, mermaid, plantuml and markdown do not need 'dot'" in alone.stderr
    assert fsm("draw", "cri-pod", "-f", "ascii", env=env).returncode == 0
    assert every.returncode == 2
    assert every.stderr.count("so svg and png cannot be written: apt-get install graphviz") == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"{name}.{suffix}" for name in names() for suffix in ("dot", "mmd", "puml", "md", "txt")
    }


def test_when_dot_fails(tmp_path: Path) -> None:
    (tmp_path / "dot").write_text("#!/bin/sh\necho it has no such format >&2; exit 1\n", encoding="utf-8")
    (tmp_path / "dot").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = fsm("draw", "cri-pod", env=env)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'dot' could not make svg: it has no such format" in ran.stderr


def test_a_run_in_a_log_is_marked() -> None:
    ran = fsm("draw", "container-status", "-f", "dot", "--highlight", HOLDING)
    marked = re.findall(r'"?([\w-]+)"? -> "?([\w -]+?)"? \[.*color="#0969da"', ran.stdout)

    assert ran.returncode == 0
    assert ("absent", "created") in marked
    assert ("created", "created-removing") in marked


def test_where_a_run_failed_is_marked() -> None:
    ran = fsm("draw", "container-status", "-f", "dot", "--highlight", FAILING)
    failed = [line for line in ran.stdout.splitlines() if "#cf222e" in line]

    assert ran.returncode == 0
    assert [re.split(r" \[| ->", line.strip())[0].strip('"') for line in failed] == [
        "absent",
        "absent (again)",
        "absent",
    ]
    assert "stop ✗ NOT_FOUND" in failed[-1]


def test_a_counterexample_is_marked(tmp_path: Path) -> None:
    for folder, text in (
        ("models", DOOR),
        (
            "properties",
            'machine = "door"\n[property.p]\nsays = ""\nMUST  = ""\nnever = "open then gone"\n',
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


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"machines":[{"machine":"cri-pod","properties":[{"counterexample":{"x":1}}]}]}', "\udcff"],
)
def test_what_is_no_run_is_refused(content: str, tmp_path: Path) -> None:
    """A file is refused if it is nested too deeply, has the wrong structure, or is not text."""
    (tmp_path / "run.json").write_bytes(content.encode(errors="surrogateescape"))

    ran = fsm("draw", "cri-pod", "--highlight", "run.json", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "run.json: the recording contains no pod [FSM204]" in ran.stderr


@pytest.mark.slow
def test_a_run_can_come_through_a_pipe() -> None:
    """A run can be read from a pipe, which is read only once.

    Endless input is refused when it exceeds a limit.
    """
    command = "fsm draw container-status -f dot --highlight"
    drawn = [shell(f"{command} {each}", FAILING) for each in ('"$1"', '<(cat "$1")')]
    endless = shell(f"{command} /dev/zero")

    assert (0, drawn[0].stdout) == (drawn[1].returncode, drawn[1].stdout)
    assert "#0969da" in drawn[0].stdout
    assert (2, "/dev/zero: the input has more than 64 MiB and can be read only once") == (
        endless.returncode,
        endless.stderr.partition(" [")[0],
    )


def test_coverage_shades_visited_states() -> None:
    drawn = fsm("draw", "container-status", "-f", "dot", "--coverage", HOLDING, "--coverage", FAILING).stdout
    table = fsm("draw", "container-status", "-f", "markdown", "--coverage", HOLDING).stdout

    assert re.search(r"exited \[.*met [1-9]", drawn)
    assert re.search(r"absent -> created \[.*create.*[1-9]×", drawn)  # noqa: RUF001  (the sign for times)
    assert re.search(r"\d+ times", table)
    assert "dotted" in drawn
