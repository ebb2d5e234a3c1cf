"""Pictures show the kinds of states, the states that only profiles reach, counts, and ids for web pages."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from drawn import drawing_of
from machines import DOOR, edited, machine_of
from real_parts import program

from fsm.diagrams.compare import Where, compare
from fsm.diagrams.draw import dot as graphviz
from fsm.diagrams.draw import text_pictures
from fsm.diagrams.draw.dot import DARK, dot, svg
from fsm.diagrams.draw.picture import ANY, Marks, picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.language.library import load, names

if TYPE_CHECKING:
    from fsm.diagrams.draw.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"
ENOUGH = 4.5
"""The minimum contrast of text at level AA of the Web Content Accessibility Guidelines."""

NURSED = (
    DOOR.replace('shows = "OPEN"', 'shows = "OPEN", kind = "active"')
    .replace('closed.", shows = "CLOSED"', 'closed.", shows = "CLOSED", kind = "pending"')
    .replace('"Taken away."', '"Taken away.", kind = "final"')
)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


# -- kinds -----------------------------------------------------------------------


def test_letters_stand_out_in_light_and_dark() -> None:
    fills = [graphviz.HEAT, (each.fill for each in (text_pictures.UNSTATED, *text_pictures.LOOKS.values()))]
    pairs = [(graphviz.INK, fill) for each in fills for fill in each]
    pages = [(each, "#ffffff") for each in (graphviz.INK, graphviz.DIM, graphviz.RED, graphviz.OTHER, graphviz.BAD)]

    assert [pair for pair in (*pairs, *pages) if contrast(*pair) < ENOUGH] == []
    assert [pair for pair in (*pairs, *pages) if contrast(*map(DARK.__getitem__, pair)) < ENOUGH] == []
    assert contrast("#59636e", "#80ccff") < ENOUGH  # a combination that was used before


@pytest.mark.parametrize(
    "lines",
    [
        [(each.style, each.width, each.lines) for each in text_pictures.LOOKS.values()],
        [each.mermaid for each in text_pictures.LOOKS.values()],
        [each.plantuml for kind, each in text_pictures.LOOKS.items() if kind != "initial"],
    ],
    ids=["graphviz", "mermaid", "plantuml"],
)
def test_kinds_differ_without_colours(lines: list[object]) -> None:
    assert all(one != other for one, other in combinations(lines, 2))


@pytest.mark.parametrize("name", names())
def test_a_kind_looks_the_same_in_every_picture(name: str) -> None:
    drawing = picture(load(name))
    met = {node.kind for node in drawing.nodes} - {None}
    written = dot(drawing)

    for node in drawing.nodes:
        by_id = rf'fillcolor="(\S+)" fontcolor=\S+ id="{name}:state:{node.name}" penwidth=\S+ peripheries=(\d)'
        found = re.search(by_id, written)
        assert found
        assert (found[1], int(found[2])) == (text_pictures.look(node).fill, text_pictures.look(node).lines)
    for kind in text_pictures.LOOKS:
        assert (f"&#160;{kind}" in written) == (kind in met)
        assert (f"classDef {kind} " in mermaid(drawing)) == (kind in met)
        assert (f"> {kind} </back>" in plantuml(drawing)) == (kind in met)


def test_a_machine_without_kinds_has_no_legend() -> None:
    plain, told = picture(machine_of(DOOR)), picture(machine_of(NURSED))

    assert text_pictures.legend(plain) == ()
    assert "legend" not in plantuml(plain)
    assert text_pictures.legend(told) == ("initial", "pending", "active", "final")


# -- profiles ----------------------------------------------------------------------

ONLY = {
    "container-events": {"blocked"},
    "container-loading": {"watched", "watched-over", "dropped", "lost"},
    "event-monitor": {"panicked"},
    "runtime-handlers": {"panicked"},
    "service-construction": {"leaked", "leaked-watching", "panicked"},
    "stats-collector": {"doubled", "hung", "panicked"},
}
"""The states of each shipped machine that are reachable only under a profile."""


@pytest.mark.parametrize("name", names())
def test_what_only_a_profile_reaches_is_left_out_or_drawn_so(name: str) -> None:
    machine = load(name)
    only = ONLY.get(name, set())
    drawn, asked = picture(machine), picture(machine, show=["profiles"])

    assert {node.name for node in drawn.nodes} & only == set()
    assert ("only under upstream" in dot(drawn)) == bool(only)
    assert {node.name for node in asked.nodes if node.only} == only
    assert drawn.unreached == tuple((state, ("upstream",)) for state in machine.states if state in only)


def test_under_the_profile_its_states_are_dotted() -> None:
    drawing = picture(load("stats-collector").under("upstream"))

    assert {node.name for node in drawing.nodes if node.only} == ONLY["stats-collector"]
    assert [len(re.findall("only under upstream", form(drawing))) for form in (dot, mermaid, plantuml)] == [3, 3, 3]
    assert len(re.findall(r'style="[a-z,]*dotted"', dot(drawing))) == len(ONLY["stats-collector"])


def test_what_was_met_is_drawn() -> None:
    marks = Marks(counts={("read", "blocked"): 1})

    assert "blocked" in {node.name for node in picture(load("container-events"), marks=marks).nodes}


# -- lifecycles -----------------------------------------------------------------------


def leads(drawing: Picture) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in drawing.edges}


def test_a_life_can_be_followed() -> None:
    life = [("absent", "created"), ("created", "running"), ("running", "stopped"), ("stopped", "absent")]

    assert set(life) <= leads(picture(load("nri-container")))
    assert ("stopped", "absent") in leads(picture(load("cri-pod")))
    assert (ANY, "absent") in leads(picture(load("cri-pod")))
    assert not {("ready", "absent"), ("notready", "absent")} & leads(picture(load("cri-pod")))


@pytest.mark.parametrize(("name", "words"), [("plugin-container", 1), ("nri-container", 1), ("nri-pod", 2)])
def test_what_leads_from_any_state_is_gathered(name: str, words: int) -> None:
    assert len(re.findall("any state<", dot(picture(load(name))))) == words
    assert mermaid(picture(load(name))).count('"any state"') == words
    assert plantuml(picture(load(name))).count('"any state"') == words


# -- counts ------------------------------------------------------------------------


def test_a_call_is_counted_once() -> None:
    """The count of a call is shown at its start, and only at the first of several outcomes."""
    counts = {("start", "created"): 3, ("…start", "starting"): 3, ("stop", "running"): 5}
    drawing = picture(load("container-status"), marks=Marks(counts=counts))
    lines = {line for line in dot(drawing).splitlines() if "×" in line and "->" in line}  # noqa: RUF001  (times)

    assert sorted(line.split("[")[0].strip() for line in lines) == ["created -> starting", "running -> exited"]
    assert [each for line in lines for each in re.findall(r"\d+×[a-z ]*", line)] in (["3×", "5×"], ["5×", "3×"])  # noqa: RUF001
    assert not re.search(r"starting -> running.*dotted", dot(drawing))


def test_several_ways_share_a_number() -> None:
    marks = Marks(counts={("stop", "ready"): 5})
    written = dot(picture(load("cri-pod"), show=["outcomes"], marks=marks))

    assert len(re.findall(r"5× in all", written)) == 1  # noqa: RUF001
    assert "in all: with any outcome" in written


# -- ids ---------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _dot() -> None:
    program("dot")


@pytest.mark.parametrize("name", ["container-status", "cri-pod", "nri-container"])
def test_a_page_finds_every_part(name: str) -> None:
    drawing = picture(load(name))
    root = ET.fromstring(svg(drawing))  # noqa: S314
    groups = {each.attrib["id"]: each for each in root.iter() if "id" in each.attrib}

    assert all(each.startswith(f"{name}:") for each in groups)
    assert len(groups) == sum("id" in each.attrib for each in root.iter())
    for node in drawing.nodes:
        group = groups[f"{name}:state:{node.name}"]
        assert group.attrib["data-states"].split() == list(node.states)
        assert group.attrib["class"].split() == ["node", f"kind-{node.kind}"]
    for edge in drawing.edges:
        source = edge.source
        assert groups[f"{name}:edge:{source}:{edge.target}"].attrib["data-to"] == edge.target
        for number, label in enumerate(edge.labels):
            cell = groups[f"{name}:cell:{source}:{edge.target}:{number}"]
            assert (cell.attrib["data-event"], cell.attrib["data-state"]) == (label.event, source)
            assert label.event in "".join(cell.itertext())


def test_the_words_of_an_event_are_its_own() -> None:
    root = ET.fromstring(svg(picture(load("nri-container"))))  # noqa: S314
    cells = {
        each.attrib["id"]: "".join(each.itertext()) for each in root.iter(f"{SVG}g") if each.get("class") == "cell"
    }

    assert cells["nri-container:cell:running:absent:0"].split() == [
        *("remove-container", "/", "StopContainer,", "RemoveContainer")
    ]
    assert cells["nri-container:cell:*:running:1"].strip() == "sync-running"


LAMP = """\
[machine]
name    = "lamp"
title   = "A lamp"
about   = "It stands on a shelf."
source  = "a shelf"
initial = "on"
[states]
on     = { about = "It shines." }
broken = { about = "It lies on the floor." }
lost   = { about = "It is under the floor." }
[event.quake]
about      = "The shelf shakes."
interrupts = true
moves      = { on = [{ name = "falls", to = "broken" }, { name = "sinks", to = "lost" }] }
ignores    = ["broken", "lost"]
[event.flood]
about      = "The water rises."
interrupts = true
moves      = { on = "lost" }
ignores    = ["broken", "lost"]
"""


def test_events_that_are_not_drawn_stand_in_one_line() -> None:
    machine = machine_of(LAMP)
    written = svg(picture(machine))
    cells = {each.attrib["id"]: each for each in ET.fromstring(written).iter(f"{SVG}g") if each.get("class") == "cell"}  # noqa: S314

    assert {name: "".join(each.itertext()).strip() for name, each in cells.items()} == {
        "lamp:cell:…:broken:0": "quake",
        "lamp:cell:…:lost:0": "quake\n,",
        "lamp:cell:…:lost:1": "flood",
    }
    for form in (dot, mermaid, plantuml):
        found = compare(machine, drawing_of(form(picture(machine))))
        assert [move for move in found.moves if move.where is Where.SECOND] == []


def test_an_edge_without_a_cell_is_not_found() -> None:
    """The machine has no move from open to ajar, so there is no such edge."""
    written = svg(picture(machine_of(edited(DOOR, 'shows = "OPEN"', 'shows = "OPEN", kind = "active"')))).decode()

    assert 'id="door:edge:shut:open"' in written
    assert "door:edge:open:ajar" not in written
