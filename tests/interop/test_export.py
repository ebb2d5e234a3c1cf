"""Exported machines can be read by other tools, and by simple readers in these tests."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from commands import FSM, fsm
from exported import SCXML, bare, from_json
from machines import DOOR, LEASE, counter, door, edited, job, machine_of
from random_claims import stated
from random_machines import random_machine
from real_parts import program
from statemachine.io import load as chart_of

from fsm.interop.charts import scxml
from fsm.interop.formats import dot
from fsm.interop.promela import promela
from fsm.interop.promela.vocabulary import CannotExportError
from fsm.language.library import load, names
from fsm.machine import outcomes
from fsm.report import machine_report

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine import Machine

SHIPPED = [(name, profile) for name in names() for profile in (None, *load(name).profiles)]


def machine_under(name: str, profile: str | None) -> Machine:
    return load(name).under(profile)


def everything(machine: Machine) -> str:
    return machine_report.json(machine, events=frozenset(machine.events), states=frozenset(machine.states))


def toys() -> list[Machine]:
    chance = random.Random(7)
    odd = machine_of(edited(DOOR, 'title   = "A door"', 'title = "*/ <&\\" %d"'))
    return [door(), door().under("old"), job(), counter(), odd, *(random_machine(chance) for _ in range(30))]


# -- nothing is lost -------------------------------------------------------------


@pytest.mark.parametrize(("name", "profile"), SHIPPED)
def test_shipped_machines_are_read_back(name: str, profile: str | None) -> None:
    machine = machine_under(name, profile)

    assert from_json(json.loads(everything(machine))) == bare(machine)


def test_toys_are_read_back() -> None:
    for machine in toys():
        assert from_json(json.loads(everything(machine))) == bare(machine)


def test_orders_are_kept() -> None:
    for machine in toys():
        back = from_json(json.loads(everything(machine)))
        assert list(back.states) == list(machine.states)
        assert list(back.events) == list(machine.events)
        assert list(back.profiles) == list(machine.profiles)


# -- SCXML -----------------------------------------------------------------------

EVENT = r"(\w|-)+(\.(\w|-)+)*"
"""A regular expression for event names that are valid in SCXML."""
ID = r"[A-Za-z_][\w.-]*"


def test_names_are_those_of_the_schema() -> None:
    for machine in [*toys(), *(load(name) for name in names())]:
        root = ET.fromstring(scxml(machine))  # noqa: S314  (we wrote it)
        ids = [each.attrib["id"] for each in root.iter(f"{SCXML}state")]
        assert len(set(ids)) == len(ids) == len(machine.states)
        assert all(re.fullmatch(ID, each) for each in ids)
        assert {each.get("target", ids[0]) for each in root.iter(f"{SCXML}transition")} <= {*ids}
        assert all(re.fullmatch(EVENT, each.attrib["event"]) for each in root.iter() if "event" in each.attrib)
        for state in root.iter(f"{SCXML}state"):
            events = [each.attrib["event"] for each in state.iter(f"{SCXML}transition")]
            assert not [(a, b) for a in events for b in events if a != b and f"{b}.".startswith(f"{a}.")]
            assert len(set(events)) == len(events)


@pytest.mark.parametrize("machine", [door(), job(), *(load(name) for name in names())], ids=lambda each: each.name)
def test_another_processor_takes_the_same_steps(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "chart.scxml"
    path.write_text(scxml(machine), encoding="utf-8")
    chart = chart_of(path)
    ids = {each: state for state, each in zip(machine.states, _ids(path), strict=True)}
    chance = random.Random(1)
    running = chart()
    state = machine.initial
    for _ in range(150):
        event = machine.events[chance.choice([*machine.events])]
        choices = [("", each) for each in outcomes(event.cells[state], state, event.kind) or ()]
        choices += [("-ends", each) for each in (event.ends[state].outcomes if state in event.ends else ())]
        if choices:
            ends, way = chance.choice(choices)
            running.send(f"{event.name}{ends}.{way.name}")
            state = way.to
        else:
            running.send(f"{event.name}.done")
        assert [ids[each.id] for each in running.configuration] == [state]


def _ids(path: Path) -> list[str]:
    return [each.attrib["id"] for each in ET.parse(path).iter(f"{SCXML}state")]  # noqa: S314  (we wrote it)


# -- DOT -------------------------------------------------------------------------


def test_graphviz_reads_every_edge() -> None:
    graphviz = program("dot")
    for machine in [*toys(), *(load(name) for name in names())]:
        ran = subprocess.run([graphviz, "-Tdot_json"], input=dot(machine), capture_output=True, text=True, check=True)
        read = json.loads(ran.stdout)
        nodes = [each["name"] for each in read["objects"]]
        edges = Counter(
            (nodes[each["tail"]], nodes[each["head"]], each["label"], each["outcome"], each.get("emits", ""))
            for each in read["edges"]
        )
        ways = Counter(
            (state, way.to, f"{'…' if ends else ''}{event.name}", way.name, ", ".join(way.emits))
            for event in machine.events.values()
            for ends, cells in ((False, event.cells), (True, event.ends))
            for state, cell in cells.items()
            for way in outcomes(cell, state, event.kind) or ()
        )
        assert nodes == list(machine.states)
        assert edges == ways


# -- Promela (SPIN's answers are in test_spin) ---------------------------------------


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        ('refines = "door"', "refinement of door cannot be expressed in Promela; use 'fsm check' instead"),
        ('matches-diagram = "door.txt"', "no run can violate a drawing: see 'fsm check'"),
    ],
)
def test_what_promela_cannot_express(claim: str, what: str) -> None:
    with pytest.raises(CannotExportError) as caught:
        promela(door(), stated(door(), claim))
    assert str(caught.value).startswith(what)


# -- the command -------------------------------------------------------------------


def export(*arguments: str) -> subprocess.CompletedProcess[str]:
    return fsm("export", *arguments)


@pytest.mark.parametrize("form", ["promela", "dot", "json", "scxml"])
def test_a_file_and_standard_output_are_the_same(form: str, tmp_path: Path) -> None:
    path = tmp_path / "cri-pod.pml"
    printed, written = export("cri-pod", "--to", form), export("cri-pod", "--to", form, "-o", str(path))

    assert (printed.returncode, written.returncode, written.stdout) == (0, 0, "")
    assert printed.stdout == path.read_text(encoding="utf-8")
    assert [path] == list(tmp_path.iterdir())
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_export_and_show_have_one_json() -> None:
    shown = fsm("show", "cri-pod", "--format", "json")

    assert shown.stdout == export("cri-pod", "--to", "json").stdout


WRONG = [
    (["no-such"], "is not the name of a model"),
    (["cri-pod", "--profile", "no"], "'no': profiles: "),
    (["cri-pod", "--property", "no", "--to", "json"], "--property has no meaning with --to json"),
    (["cri-pod", "-o", "no/such/folder"], "no such file or directory"),
    (["cri-pod", "-o", "/"], "is a directory"),
    (["{door}", "--property", "no"], "'no': properties: never, same"),
    (["{door}", "--property", "same"], "refinement of door cannot be expressed in Promela"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message for _, message in WRONG])
def test_mistakes_have_a_way_out(arguments: list[str], message: str, tmp_path: Path) -> None:
    path = str(properties(tmp_path))
    if "--to" not in arguments:
        arguments = [*arguments, "--to", "promela"]
    ran = export(*(each.format(door=path) for each in arguments))

    assert ran.returncode == 2
    assert message in " ".join(ran.stderr.split())
    assert ran.stdout == ""


def properties(folder: Path) -> Path:
    (folder / "models").mkdir()
    (folder / "properties").mkdir()
    (folder / "models" / "door.toml").write_text(DOOR, encoding="utf-8")
    path = folder / "properties" / "door.toml"
    head = 'says = "It."\nMUST  = "none"\n'
    claims = {"never": 'never = "gone then open"', "same": 'refines = "door"'}
    stated = "".join(f"[property.{name}]\n{head}{claim}\n" for name, claim in claims.items())
    path.write_text(f'machine = "door"\n{stated}', encoding="utf-8")
    return path


def test_a_property_is_exported_from_its_file_or_its_model(tmp_path: Path) -> None:
    path = properties(tmp_path)
    own, beside = (
        export(str(each), "--to", "promela", "-P", "never") for each in (path, tmp_path / "models" / "door.toml")
    )

    assert own.returncode == 0
    assert "never (MUST): It." in own.stdout
    assert own.stdout == beside.stdout


def test_an_interrupted_export_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "door.scxml"
    for wait in (0.0, 0.1, 0.2, 0.3, 0.4, 0.6):
        path.write_text("old", encoding="utf-8")
        ran = subprocess.Popen(
            [FSM, "export", "cri-container", "--to", "scxml", "-o", str(path)], stderr=subprocess.DEVNULL
        )
        time.sleep(wait)
        ran.send_signal(signal.SIGINT)
        ran.wait(30)
        text = path.read_text(encoding="utf-8")
        assert text == "old" or text.endswith("</scxml>\n")
        assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("form", "lost"),
    [
        ("promela", ""),
        ("json", ""),
        ("scxml", "timers"),
        ("dot", "timers"),
        ("transitions", "conditions on data and no updates of data and no timers"),
        ("python-statemachine", "conditions on data and no updates of data and no timers"),
    ],
)
def test_an_export_says_what_the_language_does_not_have(form: str, lost: str, tmp_path: Path) -> None:
    data = "[data]\nrenewals = { from = 0, to = 9, saturates = true }\n\n[event.acquire]"
    renewed = 'held = { stays = true, when = "renewals <= 9", set = { renewals = "renewals + 1" } }'
    model = edited(edited(LEASE, "[event.acquire]", data), "held = { stays = true }", renewed)
    (tmp_path / "lease.toml").write_text(model, encoding="utf-8")

    exported = fsm("export", str(tmp_path / "lease.toml"), "--to", form)

    assert exported.returncode == 0
    assert exported.stderr == (f"note: {form} has no {lost}; they are left out\n" if lost else "")
