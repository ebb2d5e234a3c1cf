"""Tests for the exit codes, text and JSON output of ``fsm check``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from commands import Terminal, fsm
from door_project import CLAIM, door

if TYPE_CHECKING:
    from pathlib import Path

STATED = [
    # The claim, the exit code, and a text that the output contains.
    (CLAIM, 0, "holds    gone-for-good (SHOULD): A door that was taken away"),
    ('never = "open then gone"', 1, "FAILS    gone-for-good"),
    (
        'never = "knock and gone"',
        3,
        "nothing puts the property to the test, because a part of 'knock and gone' never holds",
    ),
    (f'{CLAIM}\nfails = {{ about = "Ghosts.", length = 2 }}', 1, "MENDED   gone-for-good"),
    (
        'never = "open then gone"\nfails = { under = "*", about = "It may go.", length = 2 }',
        0,
        "known    gone-for-good",
    ),
    (
        'never = "open then gone"\nfails = { under = "*", about = "It may go.", length = 3 }',
        1,
        "known failure, 3 steps: It may go.",
    ),
]


COUNTER = """
machine = {{ name = "counter", title = "A counter", about = "Counts.", source = "none", initial = "on" }}
states = {{ on = {{ about = "It counts." }}, off = {{ about = "It is off." }} }}
data.n = {{ from = 0, to = 2, scope = true, about = "The count." }}
event.count = {{ kind = "call", about = "Count.", moves.on = {{ to = "on", {0} }}, refuses = {{ off = "OFF" }} }}
event.more = {{ kind = "call", about = "Count differently.", moves.on = {{ to = "on", set.n = "{1}" }}, refuses = {{ off = "OFF" }} }}
event.stop = {{ about = "Stop.", moves = {{ on = "off" }}, ignores = ["off"] }}
"""
TIMER = 'timer.end = { in = ["on", "off"], event = "stop", after = "1 h", tolerance = "1 s" }'


@pytest.mark.parametrize(
    ("count", "more", "said"),
    [
        ('set.n = "min(n + 1, 2)"', "0", "no step beyond was found"),
        ('set.n = "n + 1"', "0", "1 step beyond was not followed"),
        ('set.n = "n + 1"', "n + 2", "3 steps beyond were not followed"),
    ],
)
def test_the_number_of_steps_beyond_the_scope(count: str, more: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "properties").mkdir()
    (tmp_path / "models" / "counter.toml").write_text(COUNTER.format(count, more), encoding="utf-8")
    claim = '[property.counts]\nsays = "It counts."\nMUST = "none"\nalways = "n >= 0"\n'
    (tmp_path / "properties" / "counter.toml").write_text(f'machine = "counter"\n{claim}', encoding="utf-8")

    done = fsm("check", "models/counter.toml", cwd=tmp_path)
    assert f"scope: only for n from 0 to 2; {said}" in done.stdout, done.stdout + done.stderr


def test_where_a_timer_runs(tmp_path: Path) -> None:
    (tmp_path / "counter.toml").write_text(COUNTER.format('set.n = "0"', "0") + TIMER, encoding="utf-8")

    done = fsm("show", "counter.toml", cwd=tmp_path)
    said = "end fires stop 1 h (give or take 1 s) after on or off is entered from elsewhere."
    assert said in " ".join(done.stdout.split()), done.stdout + done.stderr


def test_a_run_that_stops_for_want_of_fairness(tmp_path: Path) -> None:
    alone = fsm("check", door(tmp_path, 'leads-to = "ajar"\nfrom = "shut"'), "--profile", "none")
    (fair,) = re.findall(r"fair = \[.*\]", alone.stdout)
    (tmp_path / "fair").mkdir()
    with_it = fsm(
        "check", door(tmp_path / "fair", f'leads-to = "not shut"\nfrom = "shut"\n{fair}'), "--profile", "none"
    )

    assert "a run may stop at any time, unless something is fair" in " ".join(alone.stdout.split())
    assert "fair = [" not in with_it.stdout
    assert "nothing more happens" not in with_it.stdout


@pytest.mark.parametrize(("claim", "code", "said"), STATED, ids=[each[2][:7] for each in STATED])
def test_what_is_said_and_the_exit_code(claim: str, code: int, said: str, tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, claim), "--profile", "none")

    assert ran.returncode == code, ran.stdout + ran.stderr
    assert said in ran.stdout


def test_a_counterexample_is_told_step_by_step(tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, 'never = "open then gone"'), "--profile", "none")

    assert "starts shut\n" in ran.stdout
    assert "1 push replies ok emits Creak  shut → open\n" in ran.stdout
    assert "2 remove replies ok            open → gone\n" in ran.stdout


def test_another_size_fails(tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, CLAIM, "expect = { states = 5, transitions = 1, depth = 2 }\n"), "-p", "none")

    assert ran.returncode == 1
    assert "the file expects 5 states, 1 transition, depth 2" in " ".join(ran.stdout.split())


def test_a_limit_is_no_pass(tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, CLAIM), "--limit", "2", "-p", "none")

    assert ran.returncode == 3
    assert "the search has more than 2 states" in ran.stdout


def test_what_a_program_reads(tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, 'never = "open then gone"'), "--format", "json")
    document: Any = json.loads(ran.stdout)

    assert document["verdict"] == "fails"
    assert [each["profile"] for each in document["machines"]] == [None, "old"]
    (stated,) = document["machines"][0]["properties"]
    assert (stated["status"], stated["why"], stated["witnesses"]) == ("fails", None, None)
    assert [(each["event"], each["target"]) for each in stated["counterexample"]["steps"]] == [
        ("push", "open"),
        ("remove", "gone"),
    ]


JOB = """\
[machine]
name = "job"
title = "A job"
about = "A start takes time, and the job may be lost meanwhile."
source = "handbook"
initial = "idle"
[states]
idle = { about = "At rest." }
starting = { about = "A start is in progress." }
lost = { about = "Nobody knows." }
[event.start]
kind = "call"
about = "Start it."
moves = { idle = { begins = "starting" } }
ends = { starting = "idle" }
refuses = { "*" = "BUSY" }
[event.lose]
about = "It is lost."
moves = { starting = "lost", lost = "idle" }
cannot = ["*"]
"""


def started(folder: Path, *claims: str) -> str:
    for name in ("models", "properties"):
        (folder / name).mkdir()
    (folder / "models" / "job.toml").write_text(JOB, encoding="utf-8")
    stated = "".join(
        f'[property.p{number}]\nsays = "P."\nMUST = "here"\n{claim}\n' for number, claim in enumerate(claims)
    )
    path = folder / "properties" / "job.toml"
    path.write_text(f'machine = "job"\n{stated}', encoding="utf-8")
    return str(path)


def test_what_overlap_limits_is_told(tmp_path: Path) -> None:
    path = started(
        tmp_path,
        'never = "lose and starting"',
        'never = "start then idle"',
        'never = "idle then (idle and starting)"',
        'reachable = "idle and lost"',
    )
    for calls, said in (("1", "at most 1 call of an event"), ("2", "at most 2 calls of an event")):
        words = " ".join(fsm("check", path, "--overlap", calls).stdout.split())
        (machine,) = json.loads(fsm("check", path, "--overlap", calls, "--format", "json").stdout)["machines"]
        size = machine["reachable"]

        assert f"p0 (MUST, overlap {calls}): P." in words
        assert "FAILS p1 (MUST): P." in words
        assert f"vacuous p2 (MUST, overlap {calls}): P." in words
        assert f"FAILS p3 (MUST, overlap {calls}): P." in words
        assert (
            f"overlap {calls}: with {said} in progress; runs in which one more call begins were cut off (--overlap)"
            in words
        )
        assert f"{size['states']} states ({size['configurations']} configurations), " in words
        assert size["states"] == 3 < size["configurations"]
        assert [each["overlap"] for each in machine["properties"]] == [int(calls), None, int(calls), int(calls)]


def test_nothing_is_said_of_overlap_where_no_call_takes_time(tmp_path: Path) -> None:
    ran = fsm("check", door(tmp_path, CLAIM), "--profile", "none")

    assert "holds    gone-for-good (SHOULD): " in ran.stdout
    assert "overlap" not in ran.stdout
    assert "configuration" not in ran.stdout


def test_an_end_that_is_not_written_is_named(tmp_path: Path) -> None:
    path = started(tmp_path, 'never = "lost and start replies ok"')
    ran = fsm("check", path)
    (machine,) = json.loads(fsm("check", path, "--format", "json").stdout)["machines"]
    (stated,) = machine["properties"]

    assert ran.returncode == 3
    why = "the verdict depends on how 'start' ends in 'lost', which has no `ends`"
    assert why in " ".join(ran.stdout.split())
    assert " 3 start replies ok  lost\n" in re.sub("  +", "  ", ran.stdout)
    assert (stated["status"], stated["why"], stated["counterexample"]) == ("unknown", why, None)
    assert "overlap" not in ran.stdout
    unwritten = stated["unwritten"]
    assert (unwritten["event"], unwritten["state"], unwritten["copy"]) == ("start", "lost", None)
    assert [each["event"] for each in unwritten["run"]["steps"]] == ["start", "lose", "start"]


WRONG = [
    # The arguments, and a text that the error contains.
    (["check", "cri-pods"], "did you mean 'cri-pod'?"),
    (["check", "no/such.toml"], "no/such.toml: the file cannot be opened"),
    (["check", "container-status", "--profile", "containerd-1.5"], "profiles: none, containerd-1.6"),
    (["check", "container-status", "--property", "stop"], "properties: "),
    (["check", "--limit", "0"], "0 is not in the range"),
    (
        ["check", "node", "--parts", "pod=any", "--overlap", "2"],
        "--overlap can be used with at most 9 copies of a part",
    ),
    (["simulate", "cri-pod", "--overlap", "2"], "No such option"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_input(arguments: list[str], said: str) -> None:
    ran = fsm(*arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_mistake_in_the_file(tmp_path: Path) -> None:
    path = door(tmp_path, 'never = "opne"')
    ran = fsm("check", path)

    assert ran.returncode == 2
    assert f"{path}:7: unknown name 'opne' [FSM303]\n    did you mean 'open'?" in ran.stderr


def test_whatever_is_shipped_is_as_stated() -> None:
    """A few shipped models have only the documented failures under every profile.

    ``test_properties`` checks all shipped models.
    """
    asked = ["cri-container", "cri-pod", "nri-plugin", "plugin-container", "plugin-sync", "pod-sandbox"]
    ran = fsm("check", "--format", "json", *asked)
    document: Any = json.loads(ran.stdout)

    assert ran.returncode == 0, fsm("check", *asked).stdout
    assert list(dict.fromkeys(each["machine"] for each in document["machines"])) == asked
    properties = [one for each in document["machines"] for one in each["properties"]]
    assert {one["status"] for one in properties} == {"holds", "known", "undecided"}
    assert {one["name"] for one in properties if one["status"] == "undecided"} == {"every-end-has-a-reason"}


def test_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    path = door(tmp_path, CLAIM)
    terminal = Terminal("check", path)

    assert terminal.end() == 0
    assert "checking" in terminal.shown
    assert fsm("check", path).stderr == ""
