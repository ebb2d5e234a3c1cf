"""``fsm draw`` draws a system as regions, one for each part."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from commands import fsm
from machines import DOOR, JOB, machine_of
from random_systems import system_of
from readers import read_by_mermaid, read_by_plantuml
from toy_systems import OFFICE

from fsm.diagrams.draw.dot import dot, svg
from fsm.diagrams.draw.picture import ANY, Picture
from fsm.diagrams.draw.regions import regions, system_markdown, system_picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.language.library import load_system, systems

HOUSE = "examples/models/systems/house.toml"


def arrows(drawing: Picture) -> dict[tuple[str, str], list[str]]:
    return {(edge.source, edge.target): [label.event for label in edge.labels] for edge in drawing.edges}


def test_a_region_has_the_joint_events_that_move_its_part() -> None:
    """A condition on the part itself decides where the arrow begins; other conditions are in brackets."""
    drawing = system_picture(load_system(HOUSE))

    assert [each.title for each in drawing.regions] == ["door, 2 copies", "alarm"]
    assert arrows(drawing.regions[0]) == {
        ("door shut", "door open"): ["push"],
        ("door open", "door shut"): ["pull"],
        (ANY, "door gone"): ["remove"],
    }
    assert arrows(drawing.regions[1]) == {
        ("alarm off", "alarm arming"): ["switch-on"],
        ("alarm arming", "alarm armed"): ["arm [no door is open]"],
        ("alarm armed", "alarm ringing"): ["push"],
        (ANY, "alarm off"): ["switch-off"],
    }


def test_a_profile_changes_the_regions() -> None:
    """Under this profile, the alarm does not hear the doors."""
    alarm = regions(load_system(HOUSE).under("deaf"))[1]

    assert "push" not in alarm.events
    assert "ringing" not in alarm.states


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("door is open", "door is open"),
        ("door is not open", "door is not open"),
        ("every job is waiting and not some job is ended", "every job is waiting and no job is ended"),
        ("some job is running or no job is ended", "some job is running or no job is ended"),
        ("not every job is waiting", "not (every job is waiting)"),
        (
            "door is open and (some job is ended or door is gone)",
            "door is open and (some job is ended or door is gone)",
        ),
    ],
)
def test_conditions_are_written_as_in_the_system_language(when: str, text: str) -> None:
    """The condition is that of the event of another part, so nothing of it is decided by the part's own state."""
    machines = {"door": machine_of(DOOR), "job": machine_of(JOB), "lamp": machine_of(JOB)}
    lamp = f'[part.lamp]\nmachine = "job"\n[event.light]\nkind = "call"\nabout = "L"\nwhen = "{when}"\nsteps = ["lamp.make"]'
    system = system_of(f"{OFFICE}{lamp}\n", machines)

    assert [*regions(system)[2].events] == [f"light [{text}]"]


@pytest.mark.parametrize("name", [HOUSE, "nri-plugin-contract", "two-plugins", "node"])
def test_every_format_reads_the_picture(name: str) -> None:
    """Names are unique across regions, and SVG has the groups of all regions."""
    drawing = system_picture(load_system(name))
    states = sum(len(region.nodes) for region in drawing.regions)

    root = ET.fromstring(svg(drawing))  # noqa: S314
    assert len({each.get("id") for each in root.iter() if each.get("data-states")}) >= states
    assert dot(drawing).count("subgraph cluster_") == len(drawing.regions)
    assert mermaid(drawing).count("    state ") >= states
    assert plantuml(drawing).count("_region {") == len(drawing.regions)


@pytest.mark.parametrize("name", systems())
def test_shipped_systems_have_a_region_for_each_part(name: str) -> None:
    system = load_system(name)
    assert [each.name for each in regions(system)] == [*system.parts]
    assert system_picture(system).edges


@pytest.mark.parametrize("name", [HOUSE, "two-plugins"])
def test_mermaid_and_plantuml_accept_regions(tmp_path: Path, name: str) -> None:
    drawing = system_picture(load_system(name))
    [found] = read_by_mermaid([mermaid(drawing)])
    assert [state["id"] for state in found["states"] if state["descriptions"]] == [
        f"{region.name.replace('.', '_').replace('-', '_')}_region" for region in drawing.regions
    ]
    read_by_plantuml(tmp_path, [plantuml(drawing)])


def test_a_table_has_the_joint_states_if_they_are_few() -> None:
    """House has 31 joint states, and ``nri-plugin-contract`` has more than are readable."""
    assert "door.1=shut door.2=shut alarm=off" in system_markdown(load_system(HOUSE))
    assert "pod=absent" not in system_markdown(load_system("nri-plugin-contract"))
    assert "state" not in system_markdown(load_system("node"))[:10]


def test_chosen_events_are_drawn_without_the_rest() -> None:
    drawing = system_picture(load_system(HOUSE), chosen={"arm"})
    assert [each.name for each in drawing.regions] == ["house.alarm"]
    assert [node.states for node in drawing.nodes] == [("arming",), ("armed",)]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("-f dot", 0, "subgraph cluster_0"),
        ("-f mermaid --event arm", 0, "no door is open"),
        ("-f mermaid --event lock", 2, "events: push, pull, remove"),
        ("-f ascii", 2, "a system is drawn as regions of its parts"),
        ("-f dot --coverage trace.jsonl", 2, "a system is drawn as regions of its parts"),
        ("-f markdown --profile deaf", 0, "alarm"),
    ],
)
def test_the_command(arguments: str, code: int, says: str) -> None:
    ran = fsm("draw", HOUSE, *arguments.split())
    assert ran.returncode == code
    assert says in " ".join((ran.stdout + ran.stderr).split())


def test_a_folder_gets_every_format_but_ascii(tmp_path: Path) -> None:
    assert fsm("draw", HOUSE, "-o", str(tmp_path)).returncode == 0
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".dot", ".md", ".mmd", ".png", ".puml", ".svg"]
