"""Commands and functions take a small system as one machine, and refuse one that is too large.

If several models are judged, the worst verdict counts.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from commands import RECORDINGS
from commands import fsm as run
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import fsm
from fsm.errors import InputError
from fsm.machine.driver import Driver
from fsm.machine.product.flatten import machine_of
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
    ["judge named.jsonl", "judge -m order.toml plain.jsonl", "explore named.jsonl", "judge --format json named.jsonl"],
)
@pytest.mark.usefixtures("folder")
def test_a_joint_condition_is_enforced(command: str) -> None:
    """A shipment without a payment breaks the condition of the joint event."""
    ran = run(*command.split())
    assert ran.returncode == (0 if "explore" in command else 1)
    assert "payment=due shipment=due" in ran.stdout
    assert "Ship what is paid." in ran.stdout


@pytest.mark.usefixtures("folder")
def test_without_the_condition_the_same_trace_is_legal(folder: Path) -> None:
    (folder / "order.toml").write_text(ORDER.replace('when = "payment is paid"\n', ""))
    assert run("judge", "named.jsonl").returncode == 0


@pytest.mark.parametrize(
    ("shows", "code"),
    [
        ('{"payment": "paid", "shipment": "due"}', 0),
        ('{"shipment": "due", "payment": "paid"}', 0),
        ('"payment=paid shipment=due"', 0),
        ('"shipment=due payment=paid"', 0),
        ('{"shipment": "due"}', 0),
        ('{"payment": "paid"}', 0),
        ("{}", 0),
        ('{"shipment": "sent"}', 1),
        ('{"payment": "due"}', 1),
        ('"paid"', 1),
        ('{"shipmnt": "due"}', 3),
        ('{"payment": 1}', 2),
        ('["paid"]', 2),
        ('{"a part": "paid"}', 2),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_trace_may_show_some_of_the_parts(folder: Path, shows: str, code: int) -> None:
    """A mapping and its text are the same, in any order. An unknown part makes the verdict unknown."""
    line = f'{{"entity": "o", "event": "pay", "reply": "ok", "shows": {shows}}}\n'
    (folder / "shown.jsonl").write_text('{"trace": 1, "machine": "order.toml", "fresh": true}\n' + line)
    ran = run("judge", "shown.jsonl")
    assert ran.returncode == code
    assert ("did you mean 'shipment'?" in " ".join(ran.stdout.split())) is (code == 3)


@pytest.mark.usefixtures("folder")
def test_what_parts_show_narrows_what_is_possible(folder: Path) -> None:
    """If the trace does not begin with the order, the payment may have been made; a look tells that it was not."""
    ship = '{"entity": "o", "event": "ship", "reply": "ok"}\n'
    (folder / "late.jsonl").write_text(ship)
    assert run("judge", "-m", "order.toml", "late.jsonl").returncode == 0
    (folder / "late.jsonl").write_text('{"entity": "o", "shows": {"payment": "due"}}\n' + ship)
    assert run("judge", "-m", "order.toml", "late.jsonl").returncode == 1


@pytest.mark.usefixtures("folder")
def test_the_monitor_accepts_mappings_and_refuses_unknown_parts() -> None:
    monitor = fsm.Monitor(fsm.load_system("order.toml"), fresh=True)
    shows: Any = {"payment": "paid"}
    assert monitor.observe(fsm.Observation(entity="o", event="pay", reply="ok", shows=shows)) == ()
    assert monitor.observe(fsm.Observation(entity="o", event="ship", reply="ok", shows="payment=due"))
    with pytest.raises(ValueError, match="order has no part 'door'; it has payment, shipment"):
        monitor.observe(fsm.Observation(entity="o", event="pay", reply="ok", shows="door=open"))


class Order:
    """An order that is shipped only if it was paid."""

    def reset(self) -> None:
        self.paid = self.sent = False

    def do(self, event: str) -> str:
        if event == "pay":
            before, self.paid = self.paid, True
            return "CONFLICT" if before else "ok"
        if not self.paid:
            raise fsm.UnsupportedError(event)
        before, self.sent = self.sent, True
        return "CONFLICT" if before else "ok"

    def shows(self) -> dict[str, str]:
        return {"payment": "paid" if self.paid else "due", "shipment": "sent" if self.sent else "due"}

    def close(self) -> None: ...


class Forgetful(Order):
    """An order that forgets its payment when it is shipped, which only the shown states tell."""

    def shows(self) -> dict[str, str]:
        return {"payment": "due"} if self.sent else super().shows()


@pytest.mark.parametrize(("sut", "legal"), [(Order, True), (Forgetful, False)])
@pytest.mark.usefixtures("folder")
def test_stateful_tests_of_a_system(sut: type[Order], *, legal: bool) -> None:
    """The states that a SUT shows may be a mapping. ``fsm.conform`` and ``fsm.stateful`` find the same."""
    system = fsm.load_system("order.toml")
    assert isinstance(fsm.conform(system, sut, examples=5).verdict, fsm.Holds) is legal
    kind = fsm.stateful(system, sut)
    with nullcontext() if legal else pytest.raises(AssertionError, match="payment=due"):
        run_state_machine_as_test(kind, settings=settings(max_examples=20, database=None, deadline=None))


@pytest.mark.parametrize(
    ("shown", "expected"), [(dict, "payment=paid shipment=sent"), (str, "payment paid, shipment sent")]
)
@pytest.mark.usefixtures("folder")
def test_what_was_expected_has_the_form_of_what_was_shown(
    shown: type[dict[str, str]] | type[str], expected: str
) -> None:
    system = fsm.load_system("order.toml")

    class Shown(Forgetful):
        def shows(self) -> Any:  # noqa: ANN401
            found = {"payment": "due", "shipment": "due"} | super().shows()
            return found if shown is dict else system.shows(found)

    (failure,) = fsm.conform(system, Shown, examples=0).failures
    assert failure.violation is not None
    assert [(expected,)] == [each.what for each in failure.violation.permitted]


@pytest.mark.usefixtures("folder")
def test_a_driver_enforces_joint_conditions() -> None:
    order = Driver(fsm.load_system("order.toml")).position()
    with pytest.raises(fsm.CannotHappenError):
        order.take("ship")
    order.take("pay")
    assert (order.take("ship").reply, order.state, order.shows) == (("ok",), *["payment=paid shipment=sent"] * 2)


@pytest.mark.usefixtures("folder")
def test_a_history_is_judged_against_a_system() -> None:
    system = fsm.load_system("order.toml")
    pay = fsm.Operation(called=1, returned=3, event="pay", reply="ok", thread=1)
    ship = fsm.Operation(called=2, returned=4, event="ship", reply="ok", thread=2)
    late = fsm.Operation(called=5, returned=6, event="pay", reply="ok", thread=1)
    assert isinstance(fsm.linearize(system, fsm.History(operations=(pay, ship))), fsm.Holds)
    assert isinstance(fsm.linearize(system, fsm.History(operations=(ship, late))), fsm.Fails)


BROAD = (
    ORDER.replace('machine = "payment.toml"', 'machine = "payment.toml"\ncount = 30')
    .replace("[event.ship]", '[event.pay-all]\nabout = "Pay all."\nsteps = ["every payment.settle"]\n[event.ship]')
    .replace('["payment.pay"]', '["every payment.pay"]')
    .replace('"payment is paid"', '"every payment is paid"')
)
SETTLE = """
[event.settle]
about = "Pay or not."
moves = { due = [{ name = "paid", to = "paid" }, { name = "later", to = "due" }] }
cannot = ["*"]
"""


@pytest.mark.parametrize("model", ["node", "broad.toml"])
@pytest.mark.parametrize("command", ["judge -m {} plain.jsonl", "judge --follow -m {} plain.jsonl", "simulate {}"])
def test_a_system_that_is_too_large_is_refused(folder: Path, command: str, model: str) -> None:
    """A system with a single step that has too many results to compute is refused too."""
    (folder / "broad.toml").write_text(BROAD)
    (folder / "payment.toml").write_text(PART.format("payment", "paid", "pay") + SETTLE)
    ran = run(*command.format(model).split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "more than 5,000 joint states, which are too many for one machine [FSM720]" in ran.stderr


@pytest.mark.parametrize("use", [fsm.Monitor, Driver, fsm.simulate, lambda system: fsm.stateful(system, "reference")])
def test_functions_refuse_a_system_that_is_too_large(use: Callable[..., object]) -> None:
    with pytest.raises(InputError, match=r"more than 5,000 joint states, .* \[FSM720\]"):
        use(fsm.load_system("node"))


@pytest.mark.usefixtures("folder")
def test_a_log_has_no_joint_events() -> None:
    with pytest.raises(InputError, match=r"has no joint events of the system 'order' \[FSM721\]"):
        fsm.judge(RECORDINGS / "containerd-1.7.24.log", models=[fsm.load_system("order.toml")])


def test_a_deviation_of_a_part_is_tolerated_under_a_profile_of_the_system(folder: Path) -> None:
    """A tolerated deviation does not pass silently, and is a violation without the profile."""
    deviation = """
[profile.old]
about = "An old shop."
[profile.old.cell.twice]
event    = "pay"
about    = "Takes money twice."
deviates = "once"
moves    = { paid = { to = "paid" } }
"""
    refused = 'about = "Do it."\nclause = "once"\nsays = "A payment is made once."\nMUST = "a shop"'
    part = PART.format("payment", "paid", "pay").replace('about = "Do it."', refused)
    (folder / "payment.toml").write_text(part + deviation)
    (folder / "order.toml").write_text(ORDER + '[profile.old]\nabout = "An old shop."\n')
    pay = '{"entity": "o", "event": "pay", "reply": "ok"}\n'
    (folder / "twice.jsonl").write_text('{"trace": 1, "machine": "order.toml", "fresh": true}\n' + 2 * pay)
    old, new = run("judge", "--profile", "old", "twice.jsonl"), run("judge", "twice.jsonl")
    assert (old.returncode, new.returncode) == (0, 1)
    assert "twice" in old.stdout
    assert run("judge", "--profile", "old", "--format", "html", "twice.jsonl").returncode == 0


def test_a_cell_has_the_weakest_clause_that_it_rests_on(folder: Path) -> None:
    text = PART.format("payment", "paid", "pay").replace('about = "Do it."', 'about = "Do it."\nobserved = "a shop"')
    (folder / "payment.toml").write_text(text)
    machine = machine_of(fsm.load_system("order.toml"))
    levels = {name: {cell.clause.level for cell in event.cells.values()} for name, event in machine.events.items()}
    assert levels == {"pay": {"observed"}, "ship": {"MUST"}}


@pytest.mark.parametrize(
    ("models", "answer"), [(["shipment.toml"], ExitCode.HOLDS), (["payment.toml", "shipment.toml"], ExitCode.UNKNOWN)]
)
@pytest.mark.usefixtures("folder")
def test_the_verdict_is_that_of_the_worst_machine(models: list[str], answer: ExitCode) -> None:
    judged = fsm.judge("plain.jsonl", models=models)
    report = Report(judged=(judged,))
    assert report.total() is answer
    assert report.total() is max((report.answer(each) for each in judged.judgements), key=lambda each: each.value)


FUNCTIONS: tuple[Callable[[Any], object], ...] = (
    fsm.Monitor,
    fsm.Driver,
    fsm.simulate,
    lambda path: fsm.stateful(path, "model:door"),
    lambda path: fsm.conform(path, "model:door"),
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_path_is_not_a_machine(function: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"'door.toml' is not a machine or a system; read a file with fsm.load"):
        function("door.toml")
