"""Functions for a single machine refuse a system. If several models are judged, the worst verdict counts."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import fsm as run

import fsm
from fsm.errors import InputError
from fsm.machine.driver import Driver
from fsm.report import ExitCode, Report

ORDER = """
[system]
name = "order"
title = "An order"
about = "What was paid is shipped."
source = "note"
[part.payment]
machine = "payment.toml"
[part.shipment]
machine = "shipment.toml"
[event.pay]
kind = "call"
about = "Pay."
steps = ["payment.pay"]
[event.ship]
kind = "call"
about = "Ship what is paid."
when = "payment is paid"
steps = ["shipment.ship"]
"""

PART = """
[machine]
name = "{0}"
title = "A {0}"
about = "It happens once."
source = "note"
initial = "due"
[states]
due = {{ about = "Not yet." }}
{1} = {{ about = "Done." }}
[event.{2}]
kind = "call"
about = "Do it."
moves = {{ due = "{1}" }}
refuses = {{ {1} = "CONFLICT" }}
"""

SHIPPED_UNPAID = '{"trace": 1%s, "fresh": true}\n{"entity": "o", "event": "ship", "reply": "ok"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "order.toml").write_text(ORDER)
    (tmp_path / "payment.toml").write_text(PART.format("payment", "paid", "pay"))
    (tmp_path / "shipment.toml").write_text(PART.format("shipment", "sent", "ship"))
    (tmp_path / "named.jsonl").write_text(SHIPPED_UNPAID % ', "machine": "order.toml"')
    (tmp_path / "plain.jsonl").write_text(SHIPPED_UNPAID % "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "judge named.jsonl",
        "judge -m order.toml plain.jsonl",
        "judge -m node plain.jsonl",
        "judge --follow -m order.toml plain.jsonl",
        "cover named.jsonl",
        "explore named.jsonl",
        "simulate order.toml",
        "draw -f dot order.toml",
        "draw -f dot node",
    ],
)
@pytest.mark.usefixtures("folder")
def test_commands_for_a_machine_refuse_a_system(command: str) -> None:
    ran = run(*command.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "this model is a system, but a machine is needed [FSM001]" in ran.stderr


@pytest.mark.parametrize(
    "use",
    [
        fsm.Monitor,
        Driver,
        fsm.simulate,
        lambda system: fsm.linearize(system, fsm.History(operations=())),
        lambda system: fsm.stateful(system, "reference"),
        lambda system: fsm.judge("plain.jsonl", models=[system]),
    ],
)
@pytest.mark.usefixtures("folder")
def test_functions_for_a_machine_refuse_a_system(use: Callable[..., object]) -> None:
    """The functions raise the error that commands print, and not an AttributeError."""
    with pytest.raises(InputError, match=r"order: this model is a system, but a machine is needed \[FSM001\]"):
        use(fsm.load_system("order.toml"))


@pytest.mark.parametrize(
    ("models", "answer"), [(["shipment.toml"], ExitCode.HOLDS), (["payment.toml", "shipment.toml"], ExitCode.UNKNOWN)]
)
@pytest.mark.usefixtures("folder")
def test_the_verdict_is_that_of_the_worst_machine(models: list[str], answer: ExitCode) -> None:
    judged = fsm.judge("plain.jsonl", models=models)
    report = Report(judged=(judged,))
    assert report.total() is answer
    assert report.total() is max((report.answer(each) for each in judged.judgements), key=lambda each: each.value)
