"""A property can require that a machine matches a drawing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from drawn import CONTAINER

from fsm.checker import decide
from fsm.cli.check_command import command
from fsm.errors import InputError
from fsm.language.library import load
from fsm.machine.claims import MatchesDiagram, Property
from fsm.machine.evidence import DrawnItem, Misdrawn, Proved, Refuted
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine.evidence import Checked


def checked(text: str, folder: Path) -> Checked:
    (folder / "drawing.txt").write_text(text, encoding="utf-8")
    claim = MatchesDiagram(path=str(folder / "drawing.txt"))
    stated = Property(name="drawn", says="As drawn.", level="MUST", source="the drawing", claim=claim)
    return decide(stated, tabulate(load("container-status")))


def test_a_machine_does_what_is_drawn(tmp_path: Path) -> None:
    found = checked(CONTAINER, tmp_path)

    assert Proved() == found.verdict
    assert 5 == found.searched.states


def test_a_machine_does_not_do_what_is_drawn(tmp_path: Path) -> None:
    found = checked(CONTAINER.replace("Start |", "Stort |"), tmp_path)

    assert Refuted(
        evidence=Misdrawn(
            place=f"{tmp_path}/drawing.txt:3",
            lacks=(DrawnItem(source="CREATED", event="start", target="RUNNING"),),
            adds=(DrawnItem(source="CREATED", event="Stort", target="RUNNING", line=10, column=39),),
        )
    ) == (found.verdict)


def test_a_drawing_that_cannot_be_read_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no drawing"):
        checked("nothing here\n", tmp_path)


def test_the_difference_is_in_the_report_and_in_the_data(tmp_path: Path) -> None:
    (tmp_path / "drawing.txt").write_text(CONTAINER.replace("Start |", "Stort |"), encoding="utf-8")
    (tmp_path / "container-status.toml").write_text(
        """\
machine = "container-status"
expect  = { states = 11, transitions = 243, depth = 4 }

[property.drawn]
says            = "As drawn."
MUST            = "the drawing"
matches-diagram = "drawing.txt"
""",
        encoding="utf-8",
    )

    text = CliRunner().invoke(command, [str(tmp_path / "container-status.toml")], standalone_mode=False)
    data = CliRunner().invoke(
        command, [str(tmp_path / "container-status.toml"), "--format", "json"], standalone_mode=False
    )

    assert 1 == text.return_value
    output = " ".join(text.output.split())
    assert "drawing.txt:3 lacks start: CREATED → RUNNING" in output
    assert "drawing.txt:10:39 has Stort: CREATED → RUNNING, which the machine does not have" in output
    (why, *_) = [one["why"] for each in json.loads(data.output)["machines"] for one in each["properties"]]
    assert "Stort" == why["adds"][0]["event"]
    assert "start" == why["lacks"][0]["event"]
