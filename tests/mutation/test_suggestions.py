"""Each suggested property holds for the model, and kills the mutants that the comment above it lists."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from hypothesis import given, settings
from machines import DOOR, door, job
from random_machines import machines
from thorough import amount

from fsm.checker import check, decide
from fsm.language.build.specification import specify
from fsm.language.library import home, load, names
from fsm.language.read import parse
from fsm.language.vocabularies import Stated
from fsm.machine.evidence import Proved
from fsm.machine.table import tabulate
from fsm.mutation import mutants, suggestions
from fsm.mutation.outcomes import as_stated, mutation_outcomes
from fsm.mutation.suggestions import suggested

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine import Machine
    from fsm.mutation.suggestions import Suggested


def survivors(machine: Machine) -> list[str]:
    """Return the mutants of *machine* that survive without any properties."""
    return [each.mutant.name for each in mutation_outcomes(machine, []) if each.survives]


def lies(machine: Machine, found: Suggested) -> list[str]:
    """Check *found* against a written property file and new mutants, and return its false claims."""
    text = suggestions.written(machine.name, [each.candidate for each in found.suggestions])
    file = parse(text.encode(), Stated, path="suggested.toml")
    stated = {each.name: each for each in specify(file, lambda _: machine).properties}
    made = {each.name: each.machine for each in mutants(machine)}
    wrong = [
        f"{name} does not hold"
        for name, each in stated.items()
        if not isinstance(decide(each, tabulate(machine)).verdict, Proved)
    ]
    return wrong + [
        f"{each.candidate.name} does not kill {name}"
        for each in found.suggestions
        for name in each.kills
        if as_stated(decide(stated[each.candidate.name], tabulate(made[name])))
    ]


def checked(machine: Machine) -> Suggested:
    alive = survivors(machine)
    found = suggested(machine, alive)
    assert [] == lies(machine, found)
    killed = {name for each in found.suggestions for name in each.kills}
    assert {*alive} == killed | {*found.left}
    assert not killed & {*found.left}
    return found


@pytest.mark.parametrize(
    "machine", [door(), job(), pytest.param(load("nri-pod"), marks=pytest.mark.slow)], ids=lambda each: each.name
)
def test_all_survivors_are_killed(machine: Machine) -> None:
    assert checked(machine).left == ()


@settings(max_examples=amount(4, night=300), deadline=None)
@given(machine=machines())
def test_suggestions_for_random_machines_are_true(machine: Machine) -> None:
    """Suggested properties kill at least half of the surviving mutants, and the other survivors are reported."""
    found = checked(machine)

    assert len(found.left) <= len(survivors(machine)) / 2


@pytest.mark.slow
def test_one_that_does_not_hold_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load("cri-pod")
    right = next(each for each in check(machine).checked if isinstance(each.verdict, Proved))
    monkeypatch.setattr(suggestions, "decide", lambda stated, *_, **__: replace(right, of=stated))
    assert any(each.endswith("does not hold") for each in lies(machine, suggested(machine, survivors(machine))))


def test_one_that_kills_less_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "killers", lambda asked, *_: [each.name for each in asked])

    assert any("does not kill" in each for each in lies(door(), suggested(door(), survivors(door()))))


def without_properties(folder: Path, name: str) -> Path:
    (folder / "models").mkdir()
    (folder / "properties").mkdir()
    path = folder / "models" / f"{name}.toml"
    path.write_bytes((home() / "models" / path.name).read_bytes())
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["nri-pod", pytest.param("cri-pod", marks=pytest.mark.slow)])
def test_a_shipped_model_whose_properties_were_lost(name: str, tmp_path: Path) -> None:
    path = without_properties(tmp_path, name)
    stated = tmp_path / "properties" / path.name

    ran = fsm("mutate", str(path), "--suggest", "-o", str(stated))

    assert (0, "", "") == (ran.returncode, ran.stdout, ran.stderr)
    assert fsm("check", str(path)).returncode == 0
    left = fsm("mutate", str(path))
    assert (0, True) == (left.returncode, " 0 survivors\n" in left.stdout), left.stdout
    again = fsm("mutate", str(path), "--suggest")
    assert again.returncode == 0
    assert not [line for line in again.stdout.splitlines() if line and not line.startswith("#")]


@pytest.mark.nightly
def test_what_is_suggested_is_put_behind_what_is_there(tmp_path: Path) -> None:
    path = without_properties(tmp_path, "nri-pod")
    stated = tmp_path / "properties" / path.name
    first = fsm("mutate", str(path), "--suggest").stdout.partition("[property.")[2].partition("]")[0]
    claim = f'[property.{first}]\nsays = "It is."\nMUST = "nobody"\nreachable = "running"\n'
    stated.write_text(f'machine = "nri-pod"\n{claim}', encoding="utf-8")

    ran = fsm("mutate", str(path), "--suggest")

    assert ran.returncode == 0
    assert "machine =" not in ran.stdout
    found: dict[str, Any] = tomllib.loads(ran.stdout)["property"]
    assert first not in found
    assert f"{first}-2" in found
    assert all(each["catches"] for each in found.values())
    assert re.search(r"^# kills \d+ survivors:\n#     run-pod-sandbox in ", ran.stdout, re.MULTILINE)
    with stated.open("a", encoding="utf-8") as file:
        file.write(ran.stdout)
    assert fsm("check", str(path)).returncode == 0


@pytest.mark.parametrize("there", ["", "\n"])
def test_an_empty_file_has_no_properties(there: str, tmp_path: Path) -> None:
    """An empty file is accepted, because the shell creates one when output is redirected to it."""
    path = without_properties(tmp_path, "nri-pod")
    path.write_text(DOOR, encoding="utf-8")
    (tmp_path / "properties" / path.name).write_text(there, encoding="utf-8")

    suggests = fsm("mutate", str(path), "--suggest")
    checks = fsm("check", str(path))

    assert (0, "door") == (suggests.returncode, tomllib.loads(suggests.stdout)["machine"])
    assert (2, True) == (checks.returncode, "has no properties [FSM306]" in checks.stderr)


def test_a_suggestion_says_what_it_claims() -> None:
    told = {name: each.says for name, (each, _) in suggestions.holding(door()).items()}

    assert told["push-acts-in-gone"] == "If the state is gone, push replies NOT_FOUND and changes nothing."


def test_what_nothing_can_kill_is_said(tmp_path: Path) -> None:
    path = without_properties(tmp_path, "nri-pod")
    path.write_text(DOOR, encoding="utf-8")

    ran = fsm("mutate", str(path), "--suggest")

    assert ran.returncode == 0
    assert re.search(
        r"^# \d+ mutants need no property: no observation distinguishes them from the model\.$",
        ran.stdout,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--suggest needs the name of one machine"),
        (("cri-pod", "nri-pod"), "--suggest needs the name of one machine"),
        (("node",), "--suggest can be used only with a machine, but node is a system"),
        (("cri-pod", "--format", "json"), "--suggest writes TOML"),
        (("cri-pod", "--list", "all"), "--suggest writes TOML"),
        (("cri-pud",), "did you mean 'cri-pod'?"),
        (("--recording", "tests/recordings/cri-calls-2.1.9.jsonl"), "--suggest cannot be combined with --recording"),
    ],
)
def test_what_cannot_be_suggested(arguments: tuple[str, ...], said: str) -> None:
    ran = fsm("mutate", *arguments, "--suggest")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert said in ran.stderr


def test_output_is_of_suggestions() -> None:
    ran = fsm("mutate", "nri-pod", "-o", "found.toml")

    assert (2, True) == (ran.returncode, "--output has no meaning without --suggest" in ran.stderr)


@pytest.mark.nightly
def test_every_shipped_machine_has_candidates_that_hold() -> None:
    for name in names():
        assert suggestions.holding(load(name)), name
