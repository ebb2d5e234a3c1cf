"""Tests for the exit codes, text and JSON output of ``fsm test``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Terminal, fsm, process
from door_project import IMPLEMENTATION
from jsonschema import validate
from machines import DOOR

from fsm.conformance.lookup import references
from fsm.language.codes import RULES
from fsm.language.library import is_system, load, load_system

ADAMANT = """
[profile.adamant]
about = "Doors that stay as they are."
[profile.adamant.cell.stays]
event = "push"
about = "Stays ajar."
moves = { ajar = { to = "shut", reply = "STUCK" } }
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")
    return tmp_path


def test_a_sut_that_conforms(workshop: Path) -> None:
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Door", cwd=workshop)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "reached 10 of 15 reachable (event, state) pairs" in ran.stdout  # a shut door may warp unobserved
    assert ran.stdout.endswith("verdict: holds\n")


def test_a_sut_that_does_not(workshop: Path) -> None:
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Silent", "--fail-on", "observed", cwd=workshop)

    assert ran.returncode == 1
    assert "violation: nothing was emitted after slam" in ran.stdout
    assert "1. push=opened  ok; emits Creak; shows OPEN" in ran.stdout
    assert "2. slam         shows CLOSED" in ran.stdout
    assert "clause     slam (observed)" in ran.stdout
    again = "fsm test door.toml --against python:carpenter:Silent --replay 'push=opened; slam'"
    assert again in ran.stdout

    repeating = ("--replay", "push=opened; slam", "--fail-on", "observed")
    repeated = fsm("test", "door.toml", "--against", "python:carpenter:Silent", *repeating, cwd=workshop)
    assert repeated.returncode == 1
    assert again in repeated.stdout


@pytest.mark.parametrize(
    ("steps", "hint"),
    [
        ("push=opend", "did you mean 'opened'?"),
        ("push; psh", "did you mean 'push'?"),
        ("push; end push", "push takes no time"),
    ],
)
def test_steps_that_the_machine_does_not_have_are_not_taken(workshop: Path, steps: str, hint: str) -> None:
    """A misspelt step is an error, because otherwise it would have no effect, and nobody would notice."""
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Door", "--replay", steps, cwd=workshop)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert hint in ran.stderr
    assert "--replay" in ran.stderr


@pytest.mark.parametrize("command", [["test", "--against", "model:door.toml"], ["show"]])
def test_profiles_combine_where_they_do_not_conflict(workshop: Path, command: list[str]) -> None:
    """Several profiles can be combined. If two of them replace a cell differently, the error names the cell."""
    new = """
[profile.new]
about = "Doors of today."
[profile.new.cell.oiled]
event = "push"
about = "Opens whenever it is closed."
moves = { shut = { to = "open", emits = ["Creak"] } }
"""
    (workshop / "door.toml").write_text(DOOR + new + ADAMANT, encoding="utf-8")

    both = fsm(*command, "door.toml", "-p", "old", "-p", "new", cwd=workshop)
    refused = fsm(*command, "door.toml", "-p", "old", "-p", "adamant", cwd=workshop)

    assert both.returncode == 0, both.stderr
    assert (2, "") == (refused.returncode, refused.stdout)
    assert "'adamant' and 'old' define 'push' in 'ajar' differently [FSM105]" in refused.stderr
    assert "door.toml:" in refused.stderr


SUTS = Path(__file__).resolve().parent.parent / "suts"
POD = ("test", "nri-pod", "--against", f"exec:sh {SUTS / 'nri_pod.sh'} {{}}", "--examples", "0", "--properties")


def pod(variant: str, *options: str) -> subprocess.CompletedProcess[str]:
    return fsm(*(each.format(variant) for each in POD), *options)


def test_a_sut_that_has_the_properties() -> None:
    ran = pod("", "--format", "json")

    found = json.loads(ran.stdout)
    assert (0, "", "holds") == (ran.returncode, ran.stderr, found["verdict"])
    statuses = {each["status"] for each in found["properties"]}
    assert {"holds"} <= statuses <= {"holds", "known", "not exercised", "not watched"}
    assert all(each["why"] for each in found["properties"] if each["status"].startswith("not"))


def test_a_sut_that_has_not() -> None:
    ran = pod("forgets-stops")

    assert (1, "") == (ran.returncode, ran.stderr)
    assert re.search(r"FAILS +one-stop-per-run \((MUST|SHOULD)\)", ran.stdout)
    assert "broken by" in ran.stdout
    assert "2. stop-pod-sandbox=ok  ok; emits" in ran.stdout
    assert "3. stop-pod-sandbox     ok; emits" in ran.stdout  # the step has no alternatives
    assert ran.stdout.endswith("verdict: fails\n")


def test_one_property_alone() -> None:
    ran = pod("forgets-stops", "--property", "one-stop-per-run", "--format", "json")

    assert ["one-stop-per-run"] == [each["name"] for each in json.loads(ran.stdout)["properties"]]
    assert 1 == ran.returncode


def test_a_weak_property_is_a_surprise_where_more_is_asked() -> None:
    ran = pod("forgets-stops", "--property", "one-stop-per-run", "--fail-on", "MUST")

    assert 0 == ran.returncode
    assert "surprise" in ran.stdout


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--property", "one-stop-per-rum"), "did you mean 'one-stop-per-run'?"),
        (("--replay", "run-pod-sandbox"), "--replay and --threads do not apply to tests of properties"),
        (("--threads", "2"), "--replay and --threads do not apply to tests of properties"),
    ],
)
def test_what_does_not_go_with_properties(options: tuple[str, ...], what: str) -> None:
    ran = pod("", *options)

    assert 2 == ran.returncode
    assert what in ran.stderr


def test_what_cannot_be_tested_does_not_pass(workshop: Path) -> None:
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Nothing", cwd=workshop)

    assert ran.returncode == 3
    assert ran.stdout.endswith("verdict: unknown, because nothing could be tested\n")


def test_races_need_random_tests(workshop: Path) -> None:
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Slow", "--threads", "2", "-n", "0", cwd=workshop)

    assert 2 == ran.returncode
    assert "but -n 0 asks for no random tests" in ran.stderr


def test_races_are_looked_for_when_asked(workshop: Path) -> None:
    """A thread that checks before it acts brings back a door that another thread has removed in the meantime."""
    command = ("test", "door.toml", "--against", "python:carpenter:Slow", "--examples", "20")

    alone = fsm(*command, "--replay", "push; remove", cwd=workshop)
    together = fsm(*command, "--threads", "2", "--format", "json", cwd=workshop)

    assert alone.returncode == 3, alone.stdout
    assert "because only a part of the plan was requested" in alone.stdout
    assert together.returncode == 1, together.stdout
    assert "push" in json.loads(together.stdout)["race"]


def test_what_is_weaker_than_asked_for_fails_nobody(workshop: Path) -> None:
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Silent", "--fail-on", "MUST", cwd=workshop)

    assert ran.returncode == 0
    assert "surprise: nothing was emitted after slam" in ran.stdout


def _profiles(model: str) -> list[str]:
    """Return the names of the profiles to test.

    A system is tested without a profile and with each of its profiles, and a machine under its last recorded release.
    """
    if is_system(model):
        return ["", *load_system(model).profiles]
    recorded = [name for name in load(model).profiles if name in {"containerd-1.7", "containerd-2.1"}]
    return [max(recorded, default="")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "profile"), [(model, profile) for model in references() for profile in _profiles(model)]
)
def test_the_reference_conforms(model: str, profile: str) -> None:
    tolerant = ["--profile", profile] if profile else []
    ran = fsm("test", model, "--against", "reference", "--examples", "5", "--format", "json", *tolerant)

    found = json.loads(ran.stdout)
    assert (found["verdict"], ran.returncode) == ("holds", 0), ran.stdout
    assert all(each["met"] for each in found["cells"])
    assert not found["unreached"].get("none")


WRONG = [
    ("nowhere", "this does not name a system under test", "python:MODULE:FACTORY"),
    ("reference", "there is no reference implementation of door", "python:MODULE:FACTORY"),
    ("python:carpenter", "does not name a factory", "python:MODULE:FACTORY"),
    ("python:nowhere:make", "cannot be imported: ModuleNotFoundError", "modules are searched for in "),
    ("python:carpenter:Dor", "has no Dor", "did you mean 'Door'"),
    ("python:carpenter:number", "this is neither a function nor a class", "returns the system under test"),
    ("python:carpenter:broken", "raised RuntimeError: no door today", "takes no arguments"),
    ("exec:/no/such/door", "cannot be started: no command that can be run", "that can be run"),
    ("exec:echo hello", "the process must first write and flush the line", "reference/exec-protocol.html"),
    (
        "python:carpenter:Half",
        "the factory returned a Half, which has no do and no shows and no close",
        "how-to/conformance.html",
    ),
]


@pytest.mark.parametrize(("sut", "says", "hint"), WRONG)
def test_what_cannot_be_tested_is_refused(workshop: Path, sut: str, says: str, hint: str) -> None:
    ran = fsm("test", "door.toml", "--against", sut, cwd=workshop)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert hint in ran.stderr
    assert "[FSM601]" in ran.stderr


def test_a_system_that_is_too_large_is_refused() -> None:
    ran = fsm("test", "node", "--against", "reference")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "more than 2000 states" in ran.stderr
    assert "the machine of one part" in ran.stderr
    assert "[FSM602]" in ran.stderr


@pytest.mark.parametrize(
    ("replay", "problem"),
    [
        ("enter", "enter needs code; write enter(code=…)"),
        ("enter(code=x)", "code is 'x', but it must be an integer"),
        ("enter(cod=1)", "enter has no argument 'cod'"),
    ],
)
def test_wrong_arguments_of_a_replay_are_refused(replay: str, problem: str) -> None:
    ran = fsm("test", "examples/models/safe.toml", "--against", "model:examples/models/safe.toml", "--replay", replay)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr


def test_races_of_a_machine_with_data_are_refused() -> None:
    ran = fsm("test", "examples/models/safe.toml", "--against", "model:examples/models/safe.toml", "--threads", "2")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert "[FSM630]" in ran.stderr


def test_every_rule_of_systems_has_a_case() -> None:
    """Each of the codes FSM601 to FSM607 and FSM630 has a test case.

    The codes about sockets and about async methods (FSM620 to FSM623) are tested elsewhere.
    """
    expected = [*range(601, 608), *range(620, 624), 630]
    assert sorted(code for code in RULES if "FSM6" < code < "FSM7") == [f"FSM{number}" for number in expected]


def test_a_system_is_tested_as_one_machine() -> None:
    same = fsm("test", "plugin-sync", "--against", "model:plugin-sync", "-n", "0")
    other = fsm("test", "plugin-sync", "--profile", "mended", "--against", "model:plugin-sync", "-n", "0")
    wrong = fsm("test", "plugin-sync", "--profile", "mendet", "--against", "model:plugin-sync")

    assert (same.returncode, other.returncode, wrong.returncode) == (0, 0, 2), other.stdout
    assert "profiles: mended" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--replay", "push opened"], "is not a step"),
        (["--replay", "pusch"], "did you mean 'push'"),
        (["--profile", "elder"], "profiles: old"),
        (["--examples", "-1"], "-1"),
    ],
)
def test_wrong_arguments_are_told_of(workshop: Path, arguments: list[str], says: str) -> None:
    """A wrong argument is an error with a hint, and no test runs."""
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Door", *arguments, cwd=workshop)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr


def test_a_program_reads_it(workshop: Path) -> None:
    options = ("--format", "json", "--fail-on", "observed")
    ran = fsm("test", "door.toml", "--against", "python:carpenter:Silent", *options, cwd=workshop)

    found: dict[str, Any] = json.loads(ran.stdout)
    validate(found, {"required": ["machine", "sut", "verdict", "steps", "failures", "cells", "unreached"]})
    assert (found["verdict"], ran.returncode) == ("fails", 1)
    assert [each["step"] for each in found["failures"][0]["test"]] == ["push=opened", "slam"]
    assert found["failures"][0]["clause"]["name"] == "slam"
    assert found["failures"][0]["replay"] == "push=opened; slam"


def test_progress_is_shown_on_a_terminal_only(workshop: Path) -> None:
    command = ["test", str(workshop / "door.toml"), "--against", "model:cri-pod"]
    piped = fsm(*command)
    terminal = Terminal("test", "cri-pod", "--against", "model:cri-pod", "-n", "10")

    assert terminal.end() == 0
    assert "testing" not in piped.stderr
    assert "testing" in terminal.shown


def test_a_process_that_hangs_is_given_up(workshop: Path) -> None:
    (workshop / "slow.sh").write_text('echo \'{"fsm": 1, "can": []}\'; read x; sleep 60\n', encoding="utf-8")

    ran = fsm("test", "door.toml", "--against", "exec:sh slow.sh", "--timeout", "0.2", cwd=workshop)

    assert ran.returncode == 1
    assert "the SUT cannot be reset" in ran.stdout
    assert "within 0.2 s" in " ".join(ran.stdout.split())


@pytest.mark.parametrize("caught", ["", "Exception"])
def test_code_in_python_that_hangs_is_given_up(workshop: Path, caught: str) -> None:
    code = f"""\
import contextlib, threading, carpenter

class Stuck(carpenter.Door):
    def do(self, event):
        with contextlib.suppress({caught}):
            if event == "slam":
                threading.Event().wait()
        return super().do(event)
"""
    (workshop / "stuck.py").write_text(code, encoding="utf-8")

    ran = fsm("test", "door.toml", "--against", "python:stuck:Stuck", "--timeout", "0.2", "-n", "0", cwd=workshop)

    assert ran.returncode == 1
    assert "violation: do did not return within 0.2 s" in ran.stdout
    assert "slam" in ran.stdout


@pytest.mark.slow
def test_nothing_is_left_behind(workshop: Path) -> None:
    (workshop / "temporary").mkdir()
    before = sorted(workshop.rglob("*"))
    environment = {"TMPDIR": str(workshop / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}

    for model, sut in [("door.toml", "python:carpenter:Door"), ("nri-pod", "reference"), ("nri-pod", "model:nri-pod")]:
        assert (
            0 == process("test", model, "--against", sut, "--examples", "5", cwd=workshop, env=environment).returncode
        )

    assert before == sorted(workshop.rglob("*"))


def test_nothing_heavy_is_imported_for_help() -> None:
    code = (
        "import sys, fsm.cli; print({'hypothesis', 'transitions', 'pytest', 'importlib.metadata'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "set()\n"
