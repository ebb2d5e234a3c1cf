"""Reports of ``fsm check`` and ``fsm test`` are valid in the formats of other tools."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from commands import fsm
from door_project import IMPLEMENTATION
from junitparser import Failure, JUnitXml, Skipped
from machines import DOOR, edited
from report_readers import COMMAND, check_github, check_junit, check_sarif, sarif_validator

if TYPE_CHECKING:
    from pathlib import Path

    from jsonschema import Draft4Validator

STATED = """\
machine = "door"
expect  = { states = 4, transitions = 13, depth = 1 }

[property.gone-for-good]
says   = "A door that was taken away: does not come back, 100%."
MUST   = "handbook, section 5"
never  = "gone then open"
catches = ["push in gone: to open"]

[property.silent-hinges]
says   = "It does not creak <&>."
SHOULD = "the neighbours"
link   = "https://example.org/doors#hinges"
never  = "emits Creak"

[property.known-to-creak]
says   = "It does not creak, as is known not to hold."
MAY    = "the neighbours"
never  = "emits Creak"
fails  = { about = "It was never oiled.", length = 1 }

[property.nothing]
says   = "What never comes about."
MAY    = "nobody"
always = "open"
when   = "shut and open"
"""
RIGHT = edited(STATED, 'never  = "emits Creak"\n\n[property.known', 'reachable = "emits Creak"\n\n[property.known')
FORGETFUL = """

class Forgetful(Door):
    def do(self, event):
        return "ok" if event == "push" and self.at == "gone" else super().do(event)
"""
FORMATS = {"junit": check_junit, "sarif": check_sarif, "github": check_github}


@pytest.fixture(scope="module")
def schema() -> Draft4Validator:
    return sarif_validator()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder, text in (("models", DOOR), ("properties", STATED)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    (tmp_path / "doors.py").write_text(IMPLEMENTATION + FORGETFUL, encoding="utf-8")
    return tmp_path


def line_of(text: str, what: str) -> int:
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(what)]
    return found


def told(project: Path, form: str, *arguments: str, code: int) -> str:
    ran = fsm(*arguments, "--format", form, cwd=project)
    assert (code, "") == (ran.returncode, ran.stderr)
    FORMATS[form](ran.stdout)
    return ran.stdout


CHECK = ("check", "models/door.toml", "--profile", "none")
TESTS = {
    "right": ("test", "models/door.toml", "--against", "model:models/door.toml", "--examples", "0"),
    "wrong": (
        "test",
        "models/door.toml",
        "--against",
        "python:doors:Forgetful",
        "--examples",
        "0",
        "--fail-on",
        "SHOULD",
    ),
}


def test_check_as_junit(project: Path) -> None:
    root = JUnitXml.fromstring(told(project, "junit", *CHECK, code=1).encode())

    cases = {case.name: case for suite in root for case in suite}
    results = {name: [type(each) for each in case.result] for name, case in cases.items()}
    assert [Failure] == results["silent-hinges (SHOULD)"]
    assert [] == results["gone-for-good (MUST)"] == results["known-to-creak (MAY)"]
    assert [Skipped] == results["nothing (MAY)"]
    assert "It was never oiled." in str(cases["known-to-creak (MAY)"].system_out)
    failure = cases["silent-hinges (SHOULD)"].result[0]
    assert f"properties/door.toml:{line_of(STATED, '[property.silent')}" in failure.text
    assert "push replies ok emits Creak" in failure.text


def test_check_as_sarif(project: Path, schema: Draft4Validator) -> None:
    log = json.loads(told(project, "sarif", *CHECK, code=1))

    assert [] == [error.message for error in schema.iter_errors(log)]
    (run,) = log["runs"]
    places = {
        each["ruleId"]: (
            each["level"],
            each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            each["locations"][0]["physicalLocation"]["region"]["startLine"],
            "suppressions" in each,
        )
        for each in run["results"]
    }
    at = "properties/door.toml"
    assert places == {
        "door/silent-hinges": ("error", at, line_of(STATED, "[property.silent"), False),
        "door/known-to-creak": ("note", at, line_of(STATED, "[property.known"), True),
    }
    rules = {each["id"]: each for each in run["tool"]["driver"]["rules"]}
    assert rules["door/silent-hinges"]["helpUri"] == "https://example.org/doors#hinges"
    notes = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert ["nothing (MAY): vacuous: What never comes about."] == [each for each in notes if each.startswith("nothing")]
    assert run["invocations"][0]["exitCode"] == 1


def test_check_for_github(project: Path) -> None:
    lines = told(project, "github", *CHECK, code=1).splitlines()

    (error,) = [line for line in lines if line.startswith("::error")]
    at = f"file=properties/door.toml,line={line_of(STATED, '[property.silent')}"
    assert error.startswith(f"::error {at},title=SHOULD door/silent-hinges::")
    assert any(line.startswith("::notice ") and "known-to-creak" in line for line in lines)
    assert not any("gone-for-good" in line for line in lines)


def test_another_size_is_a_case(project: Path) -> None:
    path = project / "properties" / "door.toml"
    path.write_text(edited(STATED, "states = 4", "states = 5"), encoding="utf-8")

    assert "title=MUST door/expect::the file expects 5 states" in told(project, "github", *CHECK, code=1)


def test_what_holds_is_said(project: Path, schema: Draft4Validator) -> None:
    path = project / "properties" / "door.toml"
    path.write_text(RIGHT.partition("[property.known")[0], encoding="utf-8")

    assert told(project, "github", *CHECK, code=0) == "::notice title=fsm::holds\n"
    log = json.loads(told(project, "sarif", *CHECK, code=0))
    assert schema.is_valid(log)
    assert log["runs"][0]["results"] == []
    (root,) = [ET.fromstring(told(project, "junit", *CHECK, code=0))]  # noqa: S314  (ours)
    assert ("2", "0", "0") == (root.attrib["tests"], root.attrib["failures"], root.attrib["skipped"])


def test_each_profile_is_a_suite(project: Path) -> None:
    root = JUnitXml.fromstring(told(project, "junit", "check", "models/door.toml", code=1).encode())

    assert ["door", "door, old"] == [suite.name for suite in root]


@pytest.mark.parametrize("form", FORMATS)
def test_an_implementation_that_conforms(form: str, project: Path, schema: Draft4Validator) -> None:
    written = told(project, form, *TESTS["right"], code=0)

    if form == "junit":
        cases = [case for suite in JUnitXml.fromstring(written.encode()) for case in suite]
        assert {"push-opens (MUST)", "gone-is-gone (SHOULD)"} <= {case.name for case in cases if not case.result}
        assert not any(isinstance(each, Failure) for case in cases for each in case.result)
    if form == "sarif":
        assert schema.is_valid(json.loads(written))
        assert json.loads(written)["runs"][0]["results"] == []


@pytest.mark.parametrize("form", FORMATS)
def test_an_implementation_that_does_not(form: str, project: Path, schema: Draft4Validator) -> None:
    written = told(project, form, *TESTS["wrong"], code=1)

    line = line_of(DOOR, "clauses = { gone-is-gone")
    match form:
        case "junit":
            cases = {case.name: case for suite in JUnitXml.fromstring(written.encode()) for case in suite}
            (failure,) = cases["gone-is-gone (SHOULD)"].result
            assert f"models/door.toml:{line}" in failure.text
            assert "1. remove" in failure.text
        case "sarif":
            assert [] == [error.message for error in schema.iter_errors(json.loads(written))]
            places = [each["locations"][0]["physicalLocation"] for each in json.loads(written)["runs"][0]["results"]]
            assert {("models/door.toml", line)} <= {
                (each["artifactLocation"]["uri"], each["region"]["startLine"]) for each in places
            }
        case _:
            kinds = [match[1] for match in COMMAND.finditer(written)]
            assert "error" in kinds
            assert re.search(rf"file=models/door.toml,line={line},title=SHOULD door/gone-is-gone", written)


@pytest.mark.parametrize("form", FORMATS)
def test_properties_that_are_tested(form: str, project: Path, schema: Draft4Validator) -> None:
    only = ("--property", "silent-hinges", "--property", "gone-for-good", "--fail-on", "SHOULD")
    written = told(project, form, *TESTS["right"], *only, code=1)

    assert "silent-hinges" in written
    assert "1. push=opened" in written
    if form == "sarif":
        assert schema.is_valid(json.loads(written))
    if form == "github":
        at = f"file=properties/door.toml,line={line_of(STATED, '[property.silent')}"
        assert f"::error {at},title=SHOULD door/silent-hinges::It does not creak" in written


@pytest.mark.parametrize("form", FORMATS)
def test_a_race_is_a_case(form: str, project: Path) -> None:
    threads = ("--threads", "2", "--fail-on", "SHOULD")
    written = told(project, form, "test", "models/door.toml", "--against", "python:doors:Slow", *threads, code=1)

    assert "the results of calls from several threads are not legal" in written or "not linearizable" in written
