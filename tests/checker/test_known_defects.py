"""``fsm findings`` lists known defects and draws charts of their runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from commands import fsm
from readers import participants_by_mermaid

from fsm.checker.known_defects import known_defects
from fsm.diagrams.draw.sequence import ChartRow, chart, mermaid
from fsm.diagrams.draw.sequence_svg import svg
from fsm.language.library import load_system

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.checker.known_defects import KnownDefect


@pytest.fixture(scope="module")
def stopped() -> KnownDefect:
    return next(each for each in known_defects("node") if each.stated.name == "no-start-after-stop")


def test_a_chart_shows_senders_and_receivers(stopped: KnownDefect) -> None:
    assert stopped.run is not None
    shown = chart(stopped.run, load_system("node"))

    assert shown.participants == ("caller", "plugin", "pod.1", "container.1.1", "nri-container.1.1")
    assert [row.text for row in shown.rows if row.kind == "step"][-2:] == [
        "4. StopContainer (nothing-to-stop)",
        "5. StartContainer (started)",
    ]
    assert [(row.text, row.source, row.target) for row in shown.rows if row.kind == "output"][2:4] == [
        ("StopContainer", "nri-container.1.1", "plugin"),
        ("StartContainer", "nri-container.1.1", "plugin"),
    ]
    assert ChartRow(kind="call", text="stop-container.1.1", source="caller", target="container.1.1") in shown.rows
    assert ChartRow(kind="note", text="created → stopped", source="nri-container.1.1") in shown.rows


def test_mermaid_reads_the_chart(stopped: KnownDefect) -> None:
    assert stopped.run is not None
    shown = chart(stopped.run, load_system("node"))

    assert participants_by_mermaid(mermaid(shown)) == list(shown.participants)


def test_the_picture_has_every_row(stopped: KnownDefect) -> None:
    assert stopped.run is not None
    shown = chart(stopped.run, load_system("node"))

    root = ET.fromstring(svg(shown))  # noqa: S314  (ours)

    texts = [str(each.text) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [*shown.participants, *(row.text for row in shown.rows)]


def test_the_command_lists_them() -> None:
    ran = fsm("findings", "event-backoff")
    document: Any = json.loads(fsm("findings", "event-backoff", "--format", "json").stdout)

    assert ran.returncode == 0
    assert "1 finding, 1 proved to fail and to be fixed" in ran.stdout
    assert [(each["property"], each["proved"], len(each["run"]["steps"])) for each in document["findings"]] == [
        ("nothing-is-lost", True, 4)
    ]


def test_pages_are_written(tmp_path: Path) -> None:
    assert fsm("findings", "event-backoff", "-o", str(tmp_path / "new")).returncode == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"README.md", "event-backoff.md"}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = fsm("findings", "event-backoff", "-o", str(tmp_path / "file"))

    assert ran.returncode == 2
    assert "--output" in ran.stderr


def test_no_defects_are_reported_as_such() -> None:
    assert fsm("findings", "cri-pod").stdout == "0 findings, 0 proved to fail and to be fixed\n"


def test_a_system_is_shown() -> None:
    whole, one = fsm("show", "node"), fsm("show", "node", "--event", "StopContainer", "--profile", "mended")

    assert (whole.returncode, one.returncode) == (0, 0)
    assert "container-status, 4 copies, begins absent" in whole.stdout
    assert "not-started, if container is created: container.1.1.stop/ignored" in one.stdout
    assert "not-started" not in whole.stdout
    assert "RunPodSandbox" not in one.stdout


def test_commands_for_machines_refuse_systems() -> None:
    """The message names commands for systems."""
    ran = fsm("show", "node", "--state", "ready")

    assert ran.returncode == 2
    assert "node: this model is a system, but a machine is needed [FSM001]" in ran.stderr
    assert "fsm check" in ran.stderr


def test_an_unknown_name_in_a_system_is_an_error() -> None:
    assert "mended" in fsm("show", "node", "--profile", "mend").stderr
    assert "stop-pod" in fsm("show", "node", "--event", "stop-pood").stderr
