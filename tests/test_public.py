"""The public interface works with ``import fsm`` and no other module."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import fsm

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDINGS = Path(__file__).parent / "recordings"

LAMP = """\
[machine]
name    = "lamp"
title   = "A lamp"
about   = "Is lit and put out, and burns out in the end."
source  = "the box that it came in"
initial = "dark"

[states]
dark   = { about = "Off.", shows = "OFF" }
lit    = { about = "On.", shows = "ON" }
burnt  = { about = "Broken.", shows = "OFF" }

[clause.no-second-light]
says = "What is lit is not lit again."
MUST = "the box"

[event.light]
kind    = "call"
about   = "Light it."
clause  = "no-second-light"
moves   = { dark = [{ name = "lights", to = "lit", emits = ["Click"] }, { name = "pops", to = "burnt", reply = "BURNT" }] }
refuses = { lit = "ALREADY", burnt = "BURNT" }

[event.put-out]
kind    = "call"
about   = "Put it out."
SHOULD  = "the box"
moves   = { lit = "dark" }
ignores = ["dark", "burnt"]
"""

PROPERTIES = """\
machine = "lamp"

[property.burnt-for-good]
says  = "What is burnt stays burnt."
MUST  = "the box"
never = "burnt then lit"

[property.never-dark-again]
says  = "Once lit, it is never dark."
MAY   = "an advertisement"
never = "lit then dark"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder, text in (("models", LAMP), ("properties", PROPERTIES)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lamp.toml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def lamp(home: Path) -> fsm.Machine:
    return fsm.load(home / "models" / "lamp.toml")


def fails(verdict: fsm.Verdict) -> bool:
    """Return whether a verdict is a failure.

    An unknown verdict makes the test itself fail.
    """
    match verdict:
        case fsm.Holds():
            return False
        case fsm.Fails():
            return True
        case fsm.Unknown(why=why):
            raise AssertionError(why)


# -- machines ----------------------------------------------------------------


def test_a_model_is_loaded_and_stepped(lamp: fsm.Machine) -> None:
    assert ("dark", ["dark", "lit", "burnt"]) == (lamp.initial, list(lamp.states))
    assert "ON" == lamp.states["lit"].shows
    assert [("lights", "lit"), ("pops", "burnt")] == [(each.name, each.to) for each in lamp.step("dark", "light") or ()]


def test_a_shipped_model_is_loaded_by_name() -> None:
    machine = fsm.load("cri-pod")

    assert "absent" == machine.initial
    assert "MUST" == machine.events["stop"].cells["stopped"].clause.level


def test_a_profile_changes_what_a_machine_does() -> None:
    machine = fsm.load("container-status")

    replies = [
        {reply for outcome in each.step("absent", "stop") or () for reply in outcome.reply}
        for each in (machine, machine.under("containerd-1.6"))
    ]

    assert [{"ok"}, {"ok", "NOT_FOUND"}] == replies
    with pytest.raises(ValueError, match=r"no profile 'containerd-1\.5'; profiles: containerd-1\.6"):
        machine.under("containerd-1.5")


def test_all_mistakes_of_a_file_are_told_at_once(home: Path) -> None:
    path = home / "models" / "lamp.toml"
    path.write_text(
        LAMP.replace('to = "lit"', 'to = "light"').replace('["dark", "burnt"]', '["drak", "burnt"]'), "utf-8"
    )

    with pytest.raises(fsm.InputError) as caught:
        fsm.load(path)

    assert [("FSM104", 21), ("FSM103", 24), ("FSM102", 29)] == [
        (each.code, each.line) for each in caught.value.problems
    ]
    assert "did you mean 'dark'?" in str(caught.value)


# -- properties --------------------------------------------------------------


def test_properties_are_decided(lamp: fsm.Machine) -> None:
    found = fsm.check(lamp)

    assert {"burnt-for-good": False, "never-dark-again": True} == {
        each.of.name: fails(each.verdict) for each in found.checked
    }
    assert "light replies ok emits Click" in fsm.describe(found)
    assert "put-out replies ok" in fsm.describe(found)


def test_a_shipped_property_is_decided_in_a_profile() -> None:
    (without,) = fsm.check(fsm.load("container-status"), "stop-is-idempotent").checked
    (within,) = fsm.check(fsm.load("container-status"), "stop-is-idempotent", profile="containerd-1.6").checked

    assert (False, True) == (fails(without.verdict), fails(within.verdict))


def test_a_system_is_checked() -> None:
    found = fsm.check(fsm.load_system("plugin-sync"), profile="calls-first")

    assert not any(each.unexpected for each in found.checked)


# -- traces ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lamp", "cri-container", "nri-pod"])
def test_what_is_simulated_is_legal(name: str, lamp: fsm.Machine) -> None:
    machine = lamp if name == "lamp" else fsm.load(name)
    monitor = fsm.Monitor(machine, fresh=True)

    for seen in fsm.simulate(machine, seed=3, length=200, entities=3, overlap=2):
        assert not monitor.observe(seen), seen
    assert not fails(monitor.judgement().verdict)


def test_events_are_fed_one_by_one_and_what_is_wrong_is_known_at_once(lamp: fsm.Machine) -> None:
    monitor = fsm.Monitor(lamp, fresh=True)
    steps = [("light", "ok"), ("light", "ALREADY"), ("light", "ok"), ("put-out", "ok")]

    wrong = [monitor.observe(fsm.Observation(entity="desk", event=event, reply=reply)) for event, reply in steps]

    assert [0, 0, 1, 0] == [len(each) for each in wrong]
    (violation,) = wrong[2]
    assert ("no-second-light", 3, ("lit",)) == (violation.clause.name, violation.line, violation.before)
    assert fsm.describe(violation).startswith("light replied ok")
    assert "desk" in fsm.describe(monitor.judgement())
    assert fails(monitor.judgement().verdict)


def test_a_recording_of_a_runtime_is_judged() -> None:
    judged = [fsm.judge(RECORDINGS / f"containerd-{version}.log") for version in ("1.6.20", "2.1.9")]

    assert [True, False] == [any(fails(each.verdict) for each in one.judgements) for one in judged]
    assert "StopContainer replied NOT_FOUND" in fsm.describe(judged[0])


def test_a_recording_of_ones_own_is_judged_by_ones_own_machine(lamp: fsm.Machine, tmp_path: Path) -> None:
    lines = [{"entity": "desk", "event": "light", "reply": "ok"}, {"entity": "desk", "event": "light", "reply": "ok"}]
    path = tmp_path / "lamp.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"trace": 1, "machine": "lamp", "fresh": True}, *lines])), "utf-8")

    (judgement,) = fsm.judge(path, models=[lamp]).judgements

    match judgement.verdict:
        case fsm.Fails(findings=[finding]):
            assert 3 == finding.first[0].line
        case other:
            pytest.fail(str(other))


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fsm.InputError, match="cannot be opened"):
        fsm.judge(tmp_path / "gone.log")


# -- histories ---------------------------------------------------------------


@pytest.mark.parametrize(("second", "legal"), [("ALREADY", True), ("ok", False)])
def test_a_history_is_linearized(second: str, legal: bool, lamp: fsm.Machine) -> None:  # noqa: FBT001  (a table)
    operations = (
        fsm.Operation(called=1, returned=4, event="light", reply="ok", thread=1),
        fsm.Operation(called=2, returned=3, event="light", reply=second, thread=2),
    )

    verdict = fsm.linearize(lamp, fsm.History(operations=operations))

    assert legal is not fails(verdict)
    assert ("" if legal else "not ") + "linearizable" == fsm.describe(verdict).partition(":")[0]


# -- an implementation -------------------------------------------------------


class Lamp:
    def reset(self) -> None:
        self.lit = False
        self.heard = list[str]()

    def do(self, event: str) -> str:
        if event == "light" and self.lit:
            return self.again()
        return self.turn(event)

    def turn(self, event: str) -> str:
        self.lit = event == "light"
        self.heard += ["Click"] * self.lit
        return "ok"

    def outputs(self) -> list[str]:
        heard, self.heard = self.heard, []
        return heard

    def again(self) -> str:
        return "ALREADY"

    def shows(self) -> str:
        return "ON" if self.lit else "OFF"

    def close(self) -> None: ...


class Eager(Lamp):
    """A lamp that replies wrongly if it is lit again."""

    def again(self) -> str:
        return "ok"


class Racy(Lamp):
    """A lamp that pauses between reading and changing its state."""

    def do(self, event: str) -> str:
        lit = self.lit
        time.sleep(1e-4)
        if event == "light" and lit:
            return self.again()
        return self.turn(event)


class Half(Lamp):
    """A lamp that cannot be put out."""

    def do(self, event: str) -> str:
        if event == "put-out":
            raise fsm.UnsupportedError(event)
        return super().do(event)


@pytest.mark.parametrize("kind", [Lamp, Half])
def test_an_implementation_conforms(kind: Callable[[], fsm.SUT], lamp: fsm.Machine) -> None:
    tested = fsm.conform(lamp, kind, examples=20)

    assert not fails(tested.verdict), fsm.describe(tested)


def test_an_implementation_with_a_bug_does_not(lamp: fsm.Machine) -> None:
    tested = fsm.conform(lamp, Eager, examples=20)

    assert fails(tested.verdict)
    assert ["light=lights; light"] == ["; ".join(map(str, each.steps)) for each in tested.failures]
    assert "violation: light replied ok" in fsm.describe(tested)


def test_a_race_is_found_with_threads(lamp: fsm.Machine) -> None:
    alone = fsm.conform(lamp, Racy, examples=0)
    together = fsm.conform(lamp, Racy, examples=5, threads=2)

    assert [False, True] == [fails(each.verdict) for each in (alone, together)]
    assert "not linearizable: light: ok in thread" in fsm.describe(together)


def test_a_sut_that_is_not_there_is_refused(lamp: fsm.Machine) -> None:
    with pytest.raises(fsm.InputError, match="there is no reference implementation of lamp"):
        fsm.conform(lamp, "reference")


def test_an_implementation_is_tested_by_hypothesis(lamp: fsm.Machine) -> None:
    quick = settings(max_examples=50, database=None, deadline=None)

    run_state_machine_as_test(fsm.stateful(lamp, Lamp), settings=quick)
    with pytest.raises(AssertionError, match="violation: light replied ok"):
        run_state_machine_as_test(fsm.stateful(lamp, Eager), settings=quick)


# -- a user's own program --------------------------------------------------


class Desk:
    """A desk whose lamp is driven by the machine, and whose bulb may pop."""

    def __init__(self, driver: fsm.Driver, *, good: bool) -> None:
        self.good = good
        self.notes: list[str] = []
        self.lamp = driver.position(enter={"burnt": self.mourn}, leave=self.note)

    def light(self) -> tuple[str, ...]:
        return self.lamp.take("light", "lights" if self.good else "pops").reply

    def mourn(self, change: fsm.Change) -> None:
        self.notes.append(f"{change.target} by {change.event}")

    def note(self, change: fsm.Change) -> None:
        self.notes.append(f"no more {change.source}")


def test_a_class_is_driven_by_a_model(lamp: fsm.Machine) -> None:
    driver = fsm.Driver(lamp)
    good, bad = Desk(driver, good=True), Desk(driver, good=False)

    assert [("ok",), ("ALREADY",), ("BURNT",), ("BURNT",)] == [each.light() for each in (good, good, bad, bad)]
    assert (["no more dark"], ["no more dark", "burnt by light"]) == (good.notes, bad.notes)
    assert ("ON", "OFF") == (good.lamp.shows, bad.lamp.shows)


def test_what_cannot_happen_is_an_error() -> None:
    container = fsm.Driver(fsm.load("container-status")).position("created")

    with pytest.raises(fsm.CannotHappenError, match="exit cannot happen in state created"):
        container.take("exit")
    assert "created" == container.state
