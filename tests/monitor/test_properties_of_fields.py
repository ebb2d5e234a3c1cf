"""Properties of fields in shown states are checked in recordings and tests, but not by the checker."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from commands import RECORDINGS, fsm
from door_project import repository
from machines import DOOR, edited

from fsm.checker import check
from fsm.conformance.suite import run_property_test
from fsm.errors import InputError
from fsm.language.library import load, specification
from fsm.machine.evidence import Undecided
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.verdict import Holds

FIELDS = '[fields]\ntime = ["at"]\ntext = ["by"]\n\n[profile.old]'
SIGNED = """\
machine = "door"
[define]
ever-pushed = ["open"]
[property.gone-for-good]
says  = "A door that was taken away does not come back."
MUST  = "handbook, section 5"
never = "gone then open"
[property.signed]
says     = "Who opened the door is known, and stays so."
MUST     = "handbook, section 6"
requires = { in = ["ever-pushed"], set = ["by"], keeps = ["at"] }
fails    = { under = "old", about = "Old doors do not say.", length = 0 }
"""
WRONG = """
[property.wrong]
says     = ""
MAY      = ""
requires = { in = ["opne"], unset = ["bye"], values = { by = [7] } }
"""


@pytest.fixture
def door(tmp_path: Path) -> str:
    at = repository(tmp_path, properties=SIGNED)
    (at / "models" / "door.toml").write_text(edited(DOOR, "[profile.old]", FIELDS), encoding="utf-8")
    return str(at / "properties" / "door.toml")


def model(door: str) -> str:
    return door.replace("properties", "models")


@pytest.mark.parametrize("profile", ["none", "old"])
def test_the_checker_leaves_it_open(door: str, profile: str) -> None:
    both, alone = fsm("check", door, "-p", profile), fsm("check", door, "-p", profile, "-P", "signed")
    (found,) = check(load(model(door)), "signed").checked

    assert isinstance(found.verdict, Undecided)
    assert (both.returncode, alone.returncode) == (0, 3)
    assert "    undecided signed (MUST): " in both.stdout
    assert (
        "a run of the model has no fields; 'fsm judge --properties' and 'fsm test --properties' can decide the property"
        in " ".join(both.stdout.split())
    )
    assert both.stdout.startswith("holds: 1 property holds, 1 undecided\n")
    assert alone.stdout.startswith("unknown: 1 property undecided\n")


def test_it_has_no_form_in_promela_and_kills_no_mutant(door: str) -> None:
    exported = fsm("export", door, "--to", "promela", "-P", "signed")
    mutated = fsm("mutate", door, "-P", "signed")

    assert (exported.returncode, exported.stdout) == (2, "")
    assert "no run can show fields" in exported.stderr
    assert mutated.returncode == 1
    assert "  kills no  signed" in mutated.stdout


SHOWN = [
    # The fields shown by two looks at an open door, the expected status of the property, and the expected findings.
    ([{"by": "Ann", "at": 7}, {"by": "Ann", "at": 7}], "holds", []),
    ([{"by": "", "at": 7}, {"by": "Ann", "at": 7}], "violated", ["by empty"]),
    ([{"by": "Ann", "at": 7}, {"by": "Ann", "at": 8}], "violated", ["at 8"]),
    ([{}, {}], "not exercised", []),
]


@pytest.mark.parametrize(("shown", "status", "wrong"), SHOWN)
def test_a_recording_is_held_to_it(door: str, shown: list[dict[str, object]], status: str, wrong: list[str]) -> None:
    look = {"entity": "d1", "shows": "OPEN"}
    lines: list[dict[str, object]] = [
        {"trace": 1, "fresh": True},
        {"entity": "d1", "event": "push", "reply": "ok"},
    ]
    trace = Path(f"{door}.jsonl")
    lines += [{**look, "fields": each} for each in shown]
    lines += [
        {"entity": "d1", "event": "push", "reply": "ok"}
    ]  # it is unknown whether the door was ajar at the first look
    trace.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
    (alone,) = judge(trace, models=[model(door)]).judgements
    (held,), (old,) = (
        judge(trace, models=[model(door)], properties=["signed"], profile=each).judgements for each in (None, "old")
    )

    assert isinstance(alone.verdict, Holds)
    assert [each.status for each in held.properties] == [status]
    findings = held.verdict.findings if isinstance(held.verdict, Illegal) else ()
    assert wrong == [each.first[0].found for each in findings]
    assert [each.status for each in old.properties] == ["known" if wrong else status]
    assert len(wrong) == len(old.tolerated)


class Door:
    """A door that reports who opened it, if anyone."""

    def __init__(self, by: str) -> None:
        self._by = by

    def reset(self) -> None:
        self._at = "CLOSED"

    def do(self, event: str) -> str:
        self._at = {"push": "OPEN", "remove": "gone"}.get(event, self._at)
        return "ok"

    def shows(self) -> str:
        return self._at

    def close(self) -> None: ...


class SignedDoor(Door):
    """A door that reports the shown state and who opened it."""

    def fields(self) -> dict[str, int | str]:
        return {"by": self._by}


@pytest.mark.parametrize(
    ("made", "broken", "untested"),
    [
        (SignedDoor("Ann"), "", ""),
        (SignedDoor(""), "push=opened", ""),
        (Door("Ann"), "", "no test has put the property to the test"),
    ],
)
def test_an_implementation_is_held_to_it(door: str, made: Door, broken: str, untested: str) -> None:
    of = specification(door)
    stated = next(each for each in of.properties if each.name == "signed")
    found = run_property_test(of.machine, stated, lambda: made, examples=3)

    assert untested == found.untested
    assert broken == ("; ".join(map(str, found.failure.steps)) if found.failure else "")
    if found.failure:
        assert found.failure.violation is not None
        assert found.failure.violation.clause.name == "signed"


def test_what_it_speaks_of_exists(door: str) -> None:
    path = Path(door)
    path.write_text(path.read_text(encoding="utf-8") + WRONG, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        specification(door)

    last = len(path.read_text(encoding="utf-8").splitlines())
    assert {(each.code, each.line, each.what) for each in caught.value.problems} == {
        ("FSM102", last, "unknown state 'opne'"),
        ("FSM132", last, "unknown field 'bye'"),
        ("FSM133", last, "field 'by' has the kind text and cannot be 7"),
    }


@pytest.mark.parametrize(
    "name", ["1.6.20-contexts", "1.7.24-corrupt-checkpoints", "2.1.9-killed-containers", "2.1.9-restart-kill9"]
)
def test_real_ends_have_reasons(name: str) -> None:
    (containers, _) = judge(RECORDINGS / f"{name}.calls.jsonl.gz", properties=["every-end-has-a-reason"]).judgements

    assert [each.status for each in containers.properties] == ["holds"]


def test_an_end_without_a_reason_is_seen(tmp_path: Path) -> None:
    text = gzip.decompress((RECORDINGS / "2.1.9-killed-containers.calls.jsonl.gz").read_bytes()).decode()
    assert '"reason": "Error"' in text
    (tmp_path / "calls.jsonl").write_text(text.replace('"reason": "Error"', '"reason": ""', 1), encoding="utf-8")
    (containers, _) = judge(tmp_path / "calls.jsonl", properties=["every-end-has-a-reason"]).judgements

    assert isinstance(containers.verdict, Illegal)
    (found,) = [
        each.first[0] for each in containers.verdict.findings if each.first[0].clause.name == "every-end-has-a-reason"
    ]
    assert (found.illegal, found.found) == ("reason", "reason empty")
