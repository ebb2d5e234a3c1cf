"""Tests for the exit codes, text and JSON output of ``fsm mutate``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from commands import Terminal, fsm
from door_project import CLAIM, door
from judged import RECORDINGS
from machines import DOOR, edited

COIN = """\
[machine]
name    = "coin"
title   = "A coin"
about   = "Lies on one side or the other."
source  = "a purse"
initial = "head"
[states]
head = { about = "Head up.", shows = "HEAD" }
tail = { about = "Tail up.", shows = "TAIL" }
[event.turn]
kind  = "call"
about = "Turn it over."
"""
MOVES = 'moves = { head = "tail", tail = "head" }\n'
COIN += MOVES
TURNS = """\
machine = "coin"
[property.turns]
says = "A turn succeeds and shows the other side."
MUST = "a purse"
always = "turn replies ok and moves"
when = "turn"
[property.turned]
says = "It can be turned."
MUST = "a purse"
reachable = ["turn and head", "turn and tail"]
"""


def coin(at: Path, properties: str = TURNS) -> str:
    for folder, text in (("models", COIN), ("properties", properties)):
        (at / folder).mkdir()
        (at / folder / "coin.toml").write_text(text, encoding="utf-8")
    return str(at / "properties" / "coin.toml")


def test_holds_if_no_mutant_survives(tmp_path: Path) -> None:
    ran = fsm("mutate", coin(tmp_path))

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "coin: A coin\n"
        "  holds: 10 mutants, 10 killed, 0 equivalent to the machine, 0 survivors\n"
        "  kills 9  turns\n"
        "  kills 8  turned\n"
    )


STAYS = """
[property.stays]
says = "It never turns."
MUST = "a purse"
never = "tail"
"""
REFINES = """
[property.like-itself]
says = "It does what it may do."
MUST = "a purse"
refines = "coin"
"""


def test_a_property_that_fails_without_a_mutation_kills_nothing(tmp_path: Path) -> None:
    claims = coin(tmp_path, TURNS + STAYS)
    ran, data = fsm("mutate", claims), json.loads(fsm("mutate", claims, "--format", "json").stdout)
    (machine,) = data["machines"]

    assert ran.returncode == 1
    assert "  kills nothing, because even without a mutation its result is not the stated one: stays\n" in ran.stdout
    verdict = "  fails: 10 mutants, 10 killed, 0 equivalent to the machine, 0 survivors\n"
    assert ran.stdout.startswith(f"coin: A coin\n{verdict}")
    assert (data["verdict"], machine["unsound"]) == ("fails", ["stays"])
    assert machine["kills"] == {"turns": 9, "turned": 8, "stays": 0}


def test_a_property_that_was_never_asked_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    both = fsm("mutate", coin(tmp_path / "both", TURNS + REFINES), cwd=tmp_path / "both").stdout
    alone = fsm("mutate", coin(tmp_path, 'machine = "coin"' + REFINES), cwd=tmp_path).stdout

    assert "  not needed  like-itself\n" in both
    assert "kills no" not in both
    assert re.search(r"  kills \d+  like-itself\n", alone)


def test_fails_if_a_mutant_survives(tmp_path: Path) -> None:
    ran = fsm("mutate", door(tmp_path, CLAIM))
    line = next(number for number, each in enumerate(DOOR.splitlines(), 1) if each.startswith('ignores = ["open"]'))

    assert ran.returncode == 1
    assert "  survives  push in open: " in ran.stdout
    assert ran.stdout.count("push in open: ") == 1
    assert f"models/door.toml:{line}: no property breaks" in " ".join(ran.stdout.split())
    assert ran.stdout.splitlines()[1].startswith("  fails: ")
    assert re.search(r" survivors, score \d+\.\d%$", ran.stdout, re.MULTILINE)


def test_the_summary_is_as_wide_as_the_terminal(tmp_path: Path) -> None:
    claims = door(tmp_path, CLAIM)
    narrow, wide = (fsm("mutate", claims, env={"COLUMNS": width}).stdout.splitlines() for width in ("60", "120"))

    assert all(len(line) <= 60 for line in narrow[1:3])
    assert wide[1] == "  " + " ".join(line.strip() for line in narrow[1:3])


def test_tells_what_is_asked_for(tmp_path: Path) -> None:
    path = door(tmp_path, CLAIM)
    everything, alike = (fsm("mutate", path, "--list", each).stdout for each in ("all", "equivalent"))

    assert "  killed    remove in gone: to shut\n" in everything
    assert "by gone-for-good" in " ".join(everything.split())
    assert "killed  " not in alike
    equal = {line for line in alike.splitlines() if "survives" not in line and line.startswith("  equal")}
    assert equal
    assert equal <= set(everything.splitlines())
    assert "  survives  push in open: refused\n" in everything


@pytest.mark.parametrize(("name", "other"), [("cri-pod", "containerd-main"), ("nri-locks", "mended")])
def test_what_is_wrong_with_one_of_several_profiles(name: str, other: str) -> None:
    wrong, conflicting = (fsm("mutate", name, "-p", "containerd-1.7.24", "-p", each) for each in ("old-9.9.9", other))

    assert (wrong.returncode, wrong.stdout) == (conflicting.returncode, conflicting.stdout) == (2, "")
    assert "--profile: 'old-9.9.9': profiles: containerd-1." in wrong.stderr
    assert f"'{other}' and 'containerd-1.7' define '" in conflicting.stderr
    assert (
        "[FSM105]\n    leave out one of the two profiles; 'containerd-1.7' has its definition on line "
        in conflicting.stderr
    )


def test_a_mutant_of_a_version(tmp_path: Path) -> None:
    path = coin(tmp_path)
    profiles = """
[event.turn.clauses.other-side]
says  = "A turn shows the other side."
MUST  = "a purse"
moves = { head = "tail", tail = "head" }
[profile."purse-1"]
about = "An old one."
since = "1.0.0"
until = "2.0.0"
[profile."purse-1".cell.stuck]
event    = "turn"
about    = "It stays."
deviates = "other-side"
until    = "1.2.3"
moves    = { head = { to = "head", reply = "error" } }
[profile.odd]
about = "Of two tails."
"""
    Path(path.replace("properties", "models")).write_text(COIN.removesuffix(MOVES) + profiles, encoding="utf-8")
    ran = {each: fsm("mutate", path, "-p", each) for each in ("purse-1.2.2", "purse-1.2.3", "purse-1.2.3+odd")}

    assert [each.stderr for each in ran.values()] == ["", "", ""]
    assert "10 mutants, 10 killed" in ran["purse-1.2.3"].stdout
    assert ran["purse-1.2.3"].stdout == ran["purse-1.2.3+odd"].stdout
    assert "10 mutants" not in ran["purse-1.2.2"].stdout


def test_by_one_property_only(tmp_path: Path) -> None:
    path = coin(tmp_path)
    ran = fsm("mutate", path, "--property", "turned", "--format", "json")
    document: Any = json.loads(ran.stdout)

    assert {"turned": 8} == document["machines"][0]["kills"]
    assert 2 == document["machines"][0]["survivors"]


def test_under_a_profile(tmp_path: Path) -> None:
    path = door(tmp_path, CLAIM)
    ran = fsm("mutate", path, "--profile", "old", "--list", "all")

    assert "push/lock-jams in shut: dropped" in ran.stdout
    assert "lock-jams" not in fsm("mutate", path, "--list", "all").stdout


def test_what_a_program_reads(tmp_path: Path) -> None:
    ran = fsm("mutate", door(tmp_path, CLAIM), "--format", "json")
    document: Any = json.loads(ran.stdout)
    (machine,) = document["machines"]

    assert ("fails", "door") == (document["verdict"], machine["machine"])
    assert machine["mutants"] == len(machine["outcomes"]) == len({each["mutant"] for each in machine["outcomes"]})
    assert machine["survivors"] == sum(not each["killers"] and not each["equivalent"] for each in machine["outcomes"])
    assert 0 < machine["score"] < 1
    assert machine["equivalent"] == sum(each["equivalent"] for each in machine["outcomes"])
    assert all(each["line"] > 0 for each in machine["outcomes"])


CALLS = str(RECORDINGS / "cri-calls-2.1.9.jsonl")


def test_edits_of_a_recording() -> None:
    ran = fsm("mutate", "--recording", CALLS, "--profile", "containerd-2.1", "--limit", "40", "--seed", "3")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "40 of 734 edits tried" in ran.stdout
    assert "noticed 100.0%; 0 false alarms, 0 surprises" in " ".join(ran.stdout.split())
    assert "missed  kind\n" in ran.stdout
    assert "cri-container: " in ran.stdout
    assert ran.stdout.startswith("verdict: holds\n")


def test_edits_of_a_recording_for_a_program() -> None:
    ran = fsm("mutate", "--recording", CALLS, "--limit", "40", "--format", "json")
    document: Any = json.loads(ran.stdout)
    (recording,) = document["recordings"]

    assert ("holds", 40) == (document["verdict"], recording["tried"])
    assert recording["illegal"] == len(recording["planted"]) == sum(recording["answers"].values())
    assert all(each["line"] > 0 and each["why"] and each["answer"] != "missed" for each in recording["planted"])


def test_a_recording_that_is_accused_fails() -> None:
    """The recording of containerd 1.6 is judged without its profile, so it has violations before any edit."""
    name = str(RECORDINGS / "cri-calls-1.6.20.jsonl")

    assert fsm("mutate", "--recording", name, "--limit", "1").returncode == 1


WRONG = [
    # The arguments, and a text that the error contains.
    (["mutate", "cri-pods"], "did you mean 'cri-pod'?"),
    (["mutate", "no/such.toml"], "no/such.toml: the file cannot be opened"),
    (["mutate", "cri-pod", "--property", "stop"], "properties: "),
    (["mutate", "cri-pod", "--profile", "containerd-1.5"], "profiles: containerd-1.6"),
    (["mutate", "cri-pod", "--list", "none"], "'none' is not one of"),
    (["mutate", "--recording", "no/such.log"], "'no/such.log' does not exist"),
    (["mutate", "cri-pod", "--recording", CALLS], "MODEL cannot be combined with --recording"),
    (["mutate", "cri-pod", "--with", CALLS], "--with has no meaning without --recording"),
    (["mutate", "--recording", CALLS, "--profile", "containerd-1.5"], "no profile 'containerd-1.5'"),
    (["mutate", "--recording", CALLS, "--with", CALLS], "the form of the file is CRI calls"),
    (["mutate", "--recording", str(RECORDINGS / "README.md")], "give containerd log, CRI calls or NRI events"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_input(arguments: list[str], said: str) -> None:
    ran = fsm(*arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "/edited" not in ran.stderr  # the path of the temporary file with edits
    assert "Traceback" not in ran.stderr


def test_a_mistake_in_the_file(tmp_path: Path) -> None:
    path = coin(tmp_path, edited(TURNS, 'when = "turn"', 'when = "trun"'))
    ran = fsm("mutate", path)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{path}:6: unknown name 'trun' [FSM303]\n    did you mean 'turn'?" in ran.stderr


def test_lines_fit(tmp_path: Path) -> None:
    ran = fsm("mutate", door(tmp_path, CLAIM), "--list", "all", env={"COLUMNS": "40"})

    assert all(
        len(line) <= 40 or " " not in line.strip() or "mutants" in line or ": " in line
        for line in ran.stdout.splitlines()
    )


def test_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    path = coin(tmp_path)
    terminal = Terminal("mutate", path)

    assert terminal.end() == 0
    assert "mutating" in terminal.shown


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("cri-pod", "--limit", "3"), "--limit has no meaning without --recording"),
        (("cri-pod", "--restarts", "none"), "--restarts has no meaning without --recording"),
        (("cri-pod", "--with", CALLS), "--with has no meaning without --recording"),
        (("cri-pod", "-r", CALLS), "MODEL cannot be combined with --recording"),
        (("--list", "all", "-r", CALLS), "--list cannot be combined with --recording"),
        (("-r", CALLS, "--seed", "1", "--seed", "2"), "--seed is given 2 times"),
    ],
)
def test_what_would_be_ignored_is_refused(arguments: tuple[str, ...], what: str) -> None:
    """If an option would have no effect, the command prints an error message and does nothing else."""
    ran = fsm("mutate", *arguments)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert what in ran.stderr


def test_false_alarms_without_a_profile() -> None:
    name = str(RECORDINGS / "cri-calls-1.6.20.jsonl")
    ran = fsm("mutate", "-r", name, "--limit", "1", "--seed", "6")

    assert "0 certainly illegal; 28 false alarms" in ran.stdout
    assert "without --profile, known deviations of the recorded version" in " ".join(ran.stdout.split())
    assert "caught" not in ran.stdout
    assert "--profile" not in fsm("mutate", "-r", name, "--limit", "1", "-p", "containerd-1.6").stdout


def test_the_table_is_as_wide_as_the_terminal() -> None:
    ran = fsm("mutate", "-r", CALLS, "--limit", "12", "-p", "containerd-2.1", env={"COLUMNS": "60"})

    assert "cell" in ran.stdout
    assert max(map(len, ran.stdout.splitlines()[2:])) <= 60
